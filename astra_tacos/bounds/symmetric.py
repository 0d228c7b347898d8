"""Lower bounds for networks that look the same from every NPU, from their dimensions, without an array of NPUs.

For a set S of dimensions, the NPUs that differ only in the other dimensions are a *part*; there are m parts, m the product of
the sizes in S. What has to cross between parts uses the links of S, of which every NPU has as many. So the proof of
`astra_tacos.bounds.partition` (All-Gather, Reduce-Scatter, All-Reduce) needs, per NPU, m - 1 chunks per phase and chunk of an
NPU, since N chunks of all NPUs cross m - 1 times each over the links of N NPUs.

What is personalised has to cross every dimension as often as its shortest path does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from astra_tacos.bounds.any_algorithm.carrying import smallest_times_ns, whole_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.rotations import Shape, table_of_shape
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.units import bytes_per_ns

MOST_DIMENSIONS = 10
"""Of more dimensions, not all sets are tried."""


def symmetric_bounds(task: SymmetricTask) -> tuple[Bound, ...]:
    """Bounds on every algorithm and every chunking, in the sense of `lower_bound`."""
    return _bounds(task.dimensions, task.collective, task.size_bytes)


@lru_cache(maxsize=32)
def _bounds(dimensions: tuple[Dimension, ...], collective: str, size_bytes: int) -> tuple[Bound, ...]:
    task = SymmetricTask("", dimensions, collective, size_bytes, 1, "blocking")
    floors = np.floor(np.array([d.latency_ns for d in dimensions]))
    latency = floors * np.where(task.table.is_switched, 2, 1)
    rate = bytes_per_ns(np.array([d.bandwidth_gibps for d in dimensions]))
    loads = _loads(task)
    on = task.table.dimension[np.concatenate([load.used for load in loads])]
    group = np.repeat(np.arange(len(loads)), [len(load.used) for load in loads])
    chunk_bytes = size_bytes / (1 if collective == "all-gather" else task.num_npus)
    amounts = np.array([load.amount * chunk_bytes for load in loads])
    times = smallest_times_ns(group, rate[on], latency[on], amounts)
    bounds = [Bound(load.name, whole_ns(time), load.where) for load, time in zip(loads, times.tolist(), strict=True)]
    bounds.append(_by_distance(task, floors, float(rate[task.table.dimension].sum())))
    return _worst_of_each(bounds)


def _by_distance(task: SymmetricTask, latency_ns: Floats, rate: float) -> Bound:
    """What comes from NPUs at some latency or more has to come into an NPU after that: `ingress` of networks that look alike.

    Different bytes add up; sums of all NPUs' values, in an All-Reduce, do not. A Reduce-Scatter is the mirror image of an
    All-Gather, with links out of an NPU.

    Parameters
    ----------
    latency_ns
        float64[num_dimensions], of a link, in whole nanoseconds.
    rate
        Bytes per ns of all links into an NPU.
    """
    distance, count = _distances(task.table.shape, tuple(latency_ns.tolist()))
    if task.num_phases == 2:
        amount = np.full(len(distance), float(task.size_bytes))
    else:
        share = task.size_bytes if task.collective == "all-gather" else task.size_bytes / task.num_npus
        amount = share * np.cumsum(count[::-1])[::-1]
    reached = distance + amount / rate
    at = int(reached.argmax())
    inward = task.collective != "reduce-scatter"
    name, way, goes = ("ingress", "into", "comes") if inward else ("egress", "out of", "goes")
    return Bound(name, whole_ns(float(reached[at])), f"links {way} an NPU, for what {goes} {distance[at]:g} ns or farther")


def chunked_symmetric_bound(task: SymmetricTask) -> Bound:
    """The largest bound for schedules that send these chunks one at a time, with truncated delays, as `chunked_lower_bound`."""
    bounds, delay_ns, hold_ns = [], task.delay_ns, task.hold_ns
    for load in _loads(task):
        time = whole_messages_ns(delay_ns[load.used], hold_ns[load.used], load.amount * task.chunks_per_npu)
        bounds.append(Bound(load.name, time + (task.reduction_ns if task.reduces and not task.gathers else 0), load.where))
    return max(bounds, key=lambda bound: bound.time_ns)


def whole_messages_ns(delay_ns: Ints, hold_ns: Ints, messages: int) -> int:
    """The least time by which ports bring so many messages: each takes `hold_ns` of its port, the last arrives `delay_ns` later.

    Parameters
    ----------
    delay_ns, hold_ns
        int64[num_ports], the delay at least as long as the hold, which is 1 or more.
    messages
        0 or more.
    """
    kinds: dict[tuple[int, int], int] = {}
    for delay, hold in zip(delay_ns.tolist(), hold_ns.tolist(), strict=True):
        kinds[delay - hold, hold] = kinds.get((delay - hold, hold), 0) + 1
    if len(kinds) == 1:
        ((lag, hold), count) = kinds.popitem()
        return lag + hold * -(-messages // count) if messages else 0
    high = min(lag + hold * messages for lag, hold in kinds) if messages else 0
    # No port brings more than its rate says.
    low = min(int(messages / sum(count / hold for (_, hold), count in kinds.items()) * (1 - 1e-9)), high)
    while low < high:
        middle = (low + high) // 2
        if sum([count * (max(middle - lag, 0) // hold) for (lag, hold), count in kinds.items()]) >= messages:
            high = middle
        else:
            low = middle + 1
    return low


def critical_dimensions(sizes: Sequence[int], rates: Sequence[float]) -> tuple[int, ...]:
    """The set of dimensions whose links need longest to bring a first copy into every part; of equal ones the largest set.

    Parameters
    ----------
    rates
        Chunks per time that all links of an NPU in this dimension carry.
    """
    best: tuple[float, tuple[int, ...]] = (-1.0, ())
    for chosen in dimension_sets(len(sizes)):
        time = (float(math.prod(sizes[at] for at in chosen)) - 1) / sum(rates[at] for at in chosen)
        if (time * (1 + 1e-9), len(chosen)) > (best[0], len(best[1])):
            best = time, chosen
    return best[1]


def dimension_sets(count: int) -> Iterator[tuple[int, ...]]:
    """Sets of dimensions: all, if they are few; else those of one dimension, of all, and of ranges of neighbours."""
    if count <= MOST_DIMENSIONS:
        for number in range(1, count + 1):
            yield from combinations(range(count), number)
        return
    yield from (tuple(range(first, last)) for first in range(count) for last in range(first + 1, count + 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """What has to be carried: name of the bound, int64[:] classes that carry it, chunks per NPU that they carry, and where."""

    name: str
    used: Ints
    amount: int
    where: str


def _loads(task: SymmetricTask) -> tuple[_Load, ...]:
    return _loads_of(task.table.shape, 0 if task.collective == "all-to-all" else task.num_phases)


@lru_cache(maxsize=128)
def _loads_of(shape: Shape, num_phases: int) -> tuple[_Load, ...]:
    """Loads of a collective of so many phases, which bring every NPU every chunk; 0 for chunks that have one target each."""
    table = table_of_shape(shape)
    sizes = [size for _, size in shape]
    npus, loads = math.prod(sizes), []
    if num_phases:
        for chosen in dimension_sets(len(sizes)):
            parts = math.prod(sizes[at] for at in chosen)
            where = f"{parts} parts without " + " and ".join(f"dimension {at}" for at in chosen)
            used = np.flatnonzero(np.isin(table.dimension, chosen))
            loads.append(_Load("partition", used, num_phases * (parts - 1), where))
        return tuple(loads)
    for index, (block, size) in enumerate(shape):
        hops = _crossed(block, size)[1] // (2 if table.is_switched[index] else 1) * (npus // size)
        used = np.flatnonzero(table.dimension == index)
        loads.append(_Load("volume", used, hops, f"dimension {index}, over shortest paths"))
    return tuple(loads)


@lru_cache(maxsize=1024)
def _crossed(block: BuildingBlock, size: int) -> tuple[int, int]:
    """Number of links from member 0 of a group to the farthest member, and to all of them together."""
    members = np.arange(size)
    distance = block.num_crossed(size, np.zeros_like(members), members)
    return int(distance.max()), int(distance.sum())


@lru_cache(maxsize=128)
def _distances(shape: Shape, latency_ns: tuple[float, ...]) -> tuple[Floats, Ints]:
    """Distinct latencies from an NPU to the others, the least first, and how many are so far away."""
    distance, count = np.zeros(1), np.ones(1, np.int64)
    for (block, size), latency in zip(shape, latency_ns, strict=True):
        hops, members = _hops(block, size)
        distance, which = np.unique((distance[:, None] + hops * latency).ravel(), return_inverse=True)
        count = np.bincount(which.ravel(), (count[:, None] * members).ravel(), len(distance)).astype(np.int64)
    count[0] -= 1  # an NPU itself
    return distance[count > 0], count[count > 0]


@lru_cache(maxsize=1024)
def _hops(block: BuildingBlock, size: int) -> tuple[Ints, Ints]:
    """Distinct numbers of links from member 0 of a group to its members, and how many members are so far away."""
    members = np.arange(size)
    hops, count = np.unique(block.num_crossed(size, np.zeros_like(members), members), return_counts=True)
    return hops, count


def farthest_ns(task: SymmetricTask, gap_ns: int = 0) -> int:
    """How long a chunk takes to the NPU that is farthest away, over the fewest hops, if it waits `gap_ns` between them."""
    delay: dict[int, int] = dict(zip(task.table.dimension.tolist(), task.delay_ns.tolist(), strict=True))
    links = [_crossed(block, size)[0] for block, size in task.table.shape]
    hops = [count // (2 if switched else 1) for count, switched in zip(links, task.table.is_switched, strict=True)]
    return sum(count * delay[at] for at, count in enumerate(hops)) + gap_ns * (sum(hops) - 1)


def _worst_of_each(bounds: Sequence[Bound]) -> tuple[Bound, ...]:
    worst: dict[str, Bound] = {}
    for bound in bounds:
        if bound.name not in worst or bound.time_ns > worst[bound.name].time_ns:
            worst[bound.name] = bound
    return tuple(worst.values())


def class_busy_ns(schedule: SymmetricSchedule) -> Ints:
    """int64[num_classes], how long each link of a class is held in all."""
    task = schedule.task
    return np.bincount(schedule.link_class, minlength=len(task.classes)) * task.hold_ns


def link_busy_ns(schedule: SymmetricSchedule, network: Topology) -> Ints:
    """int64[num_links], how long each link is held in all: as long as its class, a port into an NPU as long as one out of it."""
    task, busy = schedule.task, class_busy_ns(schedule)
    held = np.zeros(network.num_links, np.int64)
    is_direct = (network.link_src < network.num_npus) & (network.link_dst < network.num_npus)
    ends = network.link_src[is_direct].astype(np.int64), network.link_dst[is_direct].astype(np.int64)
    held[is_direct] = busy[task.table.class_of_offset[task.group.offset(*ends)]]
    for at, link_class in enumerate(task.classes):
        if link_class.through_switch:
            held[~is_direct & (network.link_dimension == link_class.dimension)] = busy[at]
    return held


def describe_class(task: SymmetricTask, at: int) -> str:
    """A class of links, by number, in words."""
    link_class = task.classes[at]
    dimension = task.dimensions[link_class.dimension]
    if link_class.through_switch:
        return f"every NPU's port of dimension {link_class.dimension} ({dimension.block} {dimension.size})"
    end = int(link_class.moves[0]) * task.group.strides[link_class.dimension]
    return f"0 -> {end} and the same link at every other NPU"
