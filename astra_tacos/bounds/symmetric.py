"""Lower bounds for networks that look the same from every NPU, from their dimensions alone, without an array of NPUs.

For a set S of dimensions, the NPUs that differ only in the other dimensions are a *part*; there are m parts, m the product of
the sizes in S. What has to cross between parts uses the links of S, of which every NPU has as many. So the proofs of
`astra_tacos.bounds.partition` (All-Gather, Reduce-Scatter, All-Reduce) and `astra_tacos.bounds.cut` (All-to-All) need, per NPU,

- m - 1 chunks per phase and chunk of an NPU, since N chunks of all NPUs cross m - 1 times each over the links of N NPUs;
- N - N / m chunks of personalised data.

What is personalised also has to cross every dimension as often as its shortest path does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.any_algorithm.carrying import smallest_time_ns, whole_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.units import bytes_per_ns

MOST_DIMENSIONS = 10
"""Of more dimensions, not all sets are tried."""


def symmetric_bounds(task: SymmetricTask) -> tuple[Bound, ...]:
    """Bounds on every algorithm and every chunking, in the sense of `lower_bound`."""
    latency = np.floor(np.array([d.latency_ns for d in task.dimensions])) * _links_per_hop(task)
    rate = bytes_per_ns(np.array([d.bandwidth_gibps for d in task.dimensions]))
    of_class = np.array([each.dimension for each in task.classes])

    def time_ns(used: NDArray[np.bool_], amount: float) -> int:
        on = of_class[used]
        return whole_ns(smallest_time_ns(rate[on], latency[on], amount))

    chunk_bytes = task.size_bytes / (1 if task.collective == "all-gather" else task.num_npus)
    bounds = [Bound(name, time_ns(used, amount * chunk_bytes), where) for name, used, amount, where in _loads(task)]
    farthest = sum(float(_distance(task, index).max()) * float(np.floor(d.latency_ns)) for index, d in enumerate(task.dimensions))
    bounds.append(Bound("diameter", int(farthest), "from an NPU to the farthest one"))
    return _worst_of_each(bounds)


def chunked_symmetric_bound(task: SymmetricTask) -> Bound:
    """The largest bound for schedules that send these chunks one at a time, with truncated delays, as `chunked_lower_bound`."""
    bounds = []
    for name, used, amount, where in _loads(task):
        time = whole_messages_ns(task.delay_ns[used], task.hold_ns[used], amount * task.chunks_per_npu)
        bounds.append(Bound(name, time + (task.reduction_ns if task.reduces and not task.gathers else 0), where))
    return max(bounds, key=lambda bound: bound.time_ns)


def whole_messages_ns(delay_ns: NDArray[np.int64], hold_ns: NDArray[np.int64], messages: int) -> int:
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
    high = min(lag + hold * messages for lag, hold in kinds)
    # No port brings more than its rate says.
    low = min(int(messages / sum(count / hold for (_, hold), count in kinds.items()) * (1 - 1e-9)), high)
    while low < high:
        middle = (low + high) // 2
        if sum(count * (max(middle - lag, 0) // hold) for (lag, hold), count in kinds.items()) >= messages:
            high = middle
        else:
            low = middle + 1
    return low


def critical_dimensions(sizes: Sequence[int], rates: Sequence[float]) -> tuple[int, ...]:
    """The set of dimensions whose links need longest to bring a first copy into every part; of equal ones the largest set.

    Parameters
    ----------
    sizes
        Number of members of each dimension.
    rates
        Chunks per time that all links of an NPU in this dimension carry.
    """
    best: tuple[float, tuple[int, ...]] = (-1.0, ())
    for chosen in _sets(len(sizes)):
        time = (float(np.prod([sizes[at] for at in chosen])) - 1) / sum(rates[at] for at in chosen)
        if (time * (1 + 1e-9), len(chosen)) > (best[0], len(best[1])):
            best = time, chosen
    return best[1]


def _sets(count: int) -> Iterator[tuple[int, ...]]:
    """Sets of dimensions: all, if they are few; else those of one dimension, of all, and of ranges of neighbours."""
    if count <= MOST_DIMENSIONS:
        for number in range(1, count + 1):
            yield from combinations(range(count), number)
        return
    yield from (tuple(range(first, last)) for first in range(count) for last in range(first + 1, count + 1))


def _loads(task: SymmetricTask) -> Iterator[tuple[str, NDArray[np.bool_], int, str]]:
    """Name of the bound, bool[num_classes] for the classes that carry it, chunks per NPU that they carry, and where."""
    of_class = np.array([each.dimension for each in task.classes])
    personalised = task.collective == "all-to-all"
    for chosen in _sets(len(task.dimensions)):
        parts = int(np.prod([task.dimensions[at].size for at in chosen]))
        amount = task.num_npus - task.num_npus // parts if personalised else task.num_phases * (parts - 1)
        where = f"{parts} parts without " + " and ".join(f"dimension {at}" for at in chosen)
        yield "cut" if personalised else "partition", np.isin(of_class, chosen), amount, where
    if personalised:
        for index, dimension in enumerate(task.dimensions):
            hops = int((_distance(task, index) // _links_per_hop(task)[index]).sum()) * (task.num_npus // dimension.size)
            yield "volume", of_class == index, hops, f"dimension {index}, over shortest paths"


def _links_per_hop(task: SymmetricTask) -> NDArray[np.int64]:
    """int64[num_dimensions], 2 through a switch."""
    through = {each.dimension for each in task.classes if each.through_switch}
    return np.array([2 if index in through else 1 for index in range(len(task.dimensions))])


def _distance(task: SymmetricTask, index: int) -> NDArray[np.int64]:
    """int64[size], number of links from member 0 of a dimension to each member."""
    dimension = task.dimensions[index]
    members = np.arange(dimension.size)
    return dimension.building_block.num_crossed(dimension.size, np.zeros_like(members), members)


def farthest_ns(task: SymmetricTask, gap_ns: int = 0) -> int:
    """How long a chunk takes to the NPU that is farthest away, over the fewest hops, if it waits `gap_ns` between them."""
    classes = {each.dimension: at for at, each in enumerate(task.classes)}
    hops = [int((_distance(task, at) // _links_per_hop(task)[at]).max()) for at in range(len(task.dimensions))]
    return sum(count * int(task.delay_ns[classes[at]]) for at, count in enumerate(hops)) + gap_ns * (sum(hops) - 1)


def _worst_of_each(bounds: Sequence[Bound]) -> tuple[Bound, ...]:
    worst: dict[str, Bound] = {}
    for bound in bounds:
        if bound.name not in worst or bound.time_ns > worst[bound.name].time_ns:
            worst[bound.name] = bound
    return tuple(worst.values())
