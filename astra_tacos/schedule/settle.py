"""Settling: the earliest times of sends whose order on every link is given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.dependencies import awaited_results
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.messages import MessageSizes, Sends
from astra_tacos.schedule.partial_sums import Additions, Places, addition_ends, addition_ns, stop_keys
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing, adding_time, untruncated
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by

UNITS_PER_NS = 1 << 10
"""Units of exact times in a nanosecond."""
_ROUND = 0.15
"""Cost of sorting one message and timing it again, in the unit of `count_work`."""
LONG_NS = 1 << 48
"""Longer times count in whole nanoseconds, so that they fit into 64 bits."""

if TYPE_CHECKING:
    from astra_tacos.schedule._settle_kernels import Additions as AwaitedParts
    from astra_tacos.schedule._settle_kernels import Links


def settle(problem: Problem, sends: Sends, synthesizer: str = "", seed: int = 0) -> Schedule:
    """The schedule in which every link takes the given messages in order, each as early as possible.

    Rows must be in an order that every link keeps and in which a chunk reaches an NPU before it leaves it. A switch's
    down-link is the exception under `pipelined`: it is first come, first served, as in ASTRA-sim (at one instant, the message
    that started earlier goes first, then the lower link number). There messages are sorted by arrival and timed again until
    nothing moves. Each round puts at least the earliest misplaced message in its place, so this ends.

    Raises
    ------
    SynthesisError
        If the down-links' order does not settle, which would be a fault of this package.
    """
    topology, collective, timing = problem
    first_come = topology.has_switches and not timing.is_blocking
    sizes = sends.sizes(topology, collective, timing)
    additions = sends.additions(topology, collective)
    awaited = _awaited_parts(topology, sends, additions, addition_ns(additions.size_bytes, timing.reduce_bandwidth_gbps))
    for _ in range(sends.num_messages + 1):
        start, end, at_switch = _earliest_times(topology, collective, sends, sizes, *awaited)
        if not first_come:
            break
        order = np.lexsort((topology.channel_link[sends.channel[sends.first[:-1]]], start, at_switch))
        if np.array_equal(order, np.arange(len(order))):
            break
        sends = sends.in_order(order)
        sizes = replace(sizes, size_class=sizes.size_class[order])
        count_work(_ROUND * sends.num_messages)
    else:
        raise SynthesisError(f"{topology.name}: the order of sends through switches does not settle")
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        sends, start, end = sends.in_order(order), start[order], end[order]
    if sends.message_first is not None:
        rows = np.diff(sends.message_first)
        start, end = np.repeat(start, rows), np.repeat(end, rows)
    columns = sends.chunk, sends.channel, sends.reduces, start, end
    of_messages = sends.message_first, sends.sums, sends.value, sends.trip
    return Schedule(topology, collective, timing, *columns, synthesizer, seed, *of_messages)


def settled_on(topology: Topology, collective: Collective, schedule: Schedule, sends: Sends) -> Schedule:
    """What becomes of a schedule's sends on another topology, under the same timing model."""
    return settle(
        Problem(topology, collective, schedule.timing.of(topology, collective)), sends, schedule.synthesizer, schedule.seed
    )


def exact_time_ns(schedule: Schedule) -> float:
    """The collective time of a schedule's messages, in their order, in arithmetic that truncates nothing.

    ASTRA-sim truncates every delay to whole nanoseconds, and rounds reductions to whole microseconds. Where messages are short,
    its times are shorter than bytes over bandwidth, so candidates are compared by this time. It is exact to 2**-10 ns per
    message, and the down-links of switches keep the order of the schedule.
    """
    if not schedule.num_sends:
        return 0.0
    unit = UNITS_PER_NS if schedule.collective_time_ns < LONG_NS else 1
    timing = schedule.timing
    delays = untruncated(schedule.topology, class_sizes(schedule), timing.link_model, timing.reduce_bandwidth_gbps, unit)
    duration = adding_time(schedule.additions.size_bytes, timing.reduce_bandwidth_gbps, unit)
    return time_by(schedule, delays, duration) / unit


def class_sizes(schedule: Schedule) -> Ints:
    """int64[classes], bytes of a schedule's messages by class of size; 0 for classes that it does not send."""
    sizes = schedule.sizes
    distinct = np.zeros(len(sizes.timing.reduction_ns), np.int64)
    distinct[sizes.size_class] = schedule.message_bytes
    return distinct


def time_by(schedule: Schedule, delays: Timing, adding: Ints) -> int:
    """The collective time of a schedule's messages, in their order, with other delays; 0 without messages.

    Parameters
    ----------
    delays
        Delays by the classes of `class_sizes`.
    adding
        int64[num_additions], how long each addition takes.
    """
    if not schedule.num_sends:
        return 0
    sends, additions, sizes = schedule.sends, schedule.additions, schedule.sizes
    awaited = _awaited_parts(schedule.topology, sends, additions, adding)
    _, end, _ = _earliest_times(schedule.topology, schedule.collective, sends, replace(sizes, timing=delays), *awaited)
    row = schedule.message_row
    adding_ns = delays.reduction_at(schedule.dst[row], sizes.size_class)
    done = int((end + np.where(schedule.reduces[row], adding_ns, 0)).max())
    if schedule.sums is not None and len(additions):
        arrivals = schedule.item, schedule.dst, end[schedule.message_of]
        done = max(done, int(addition_ends(schedule.sums, additions, arrivals, adding).max()))
    return done


def _places_of_trips(topology: Topology, collective: Collective, sends: Sends, trip: Ints32) -> tuple[int, Ints, Ints]:
    """Number of places, and those that rows come from and go to: a chunk at an NPU, or a trip at a forwarding device."""
    into, out_of = stop_keys(topology, sends.channel, trip)
    stop, number = np.unique(np.concatenate((into, out_of)), return_inverse=True)
    chunk, num_chunks = sends.chunk.astype(np.int64), collective.num_chunks
    before = (topology.num_npus if topology.reducing else topology.num_endpoints) * num_chunks
    at_src, at_dst = (ends[sends.channel] * num_chunks + chunk for ends in (topology.channel_src, topology.channel_dst))
    to_place = np.where(into >= 0, before + number[: len(chunk)], at_dst)
    return before + len(stop), np.where(out_of >= 0, before + number[len(chunk) :], at_src), to_place


def _earliest_times(
    topology: Topology,
    collective: Collective,
    sends: Sends,
    sizes: MessageSizes,
    additions: AwaitedParts,
    places: Places | None,
) -> tuple[Ints, Ints, Ints]:
    """int64[num_messages] each: start, end, and arrival at the switch."""
    from astra_tacos.schedule import _settle_kernels as kernels

    num_hands = 1 if collective.is_personalised else topology.num_npus
    num_places = num_hands * collective.num_chunks
    from_place = to_place = also_place = np.empty(0, np.int64)
    if places is not None:
        num_places = len(places) + 1  # the last one is of what is an NPU's own
        from_place, to_place = (places.find(holder, sends.item) for holder in sends.holders(topology))
    elif sends.trip is not None:
        num_hands = topology.num_npus
        num_places, from_place, to_place = _places_of_trips(topology, collective, sends, sends.trip)
        awaited = awaited_results(topology, collective, sends)
        if awaited is not None:
            at_src = topology.channel_src[sends.channel].astype(np.int64) * collective.num_chunks
            also_place = np.where(awaited >= 0, at_src + awaited, -1)
    times = kernels.Times(*(np.empty(sends.num_messages, np.int64) for _ in range(3)))
    kernels.earliest_times(
        kernels.Sends(sends.item, sends.channel, sends.reduces, from_place, to_place, also_place),
        kernels.Messages(sends.first, np.ascontiguousarray(sizes.size_class, np.int64)),
        links_of(topology, sizes.timing),
        additions,
        num_hands,
        num_places,
        times,
    )
    return times.start_ns, times.end_ns, times.at_switch_ns


def links_of(topology: Topology, timing: Timing) -> Links:
    """A topology's channels under a timing model, as kernels take them."""
    from astra_tacos.schedule._settle_kernels import Links

    return Links(
        topology.channel_src,
        topology.channel_dst,
        topology.channel_link,
        topology.channel_down_link,
        timing.link_hold_ns,
        timing.link_delay_ns,
        timing.channel_delay_ns,
        timing.reduction_ns,
        timing.device_reduction_ns,
        timing.is_blocking,
    )


def _awaited_parts(topology: Topology, sends: Sends, additions: Additions, duration: Ints) -> tuple[AwaitedParts, Places | None]:
    """The sums that NPUs make, how long each takes, and which arrivals they wait for, by place; and these places.

    Places are where values come to or are made, stops of trips among them. None if there are no values, as chunks may come to any
    NPU.
    """
    from astra_tacos.schedule._settle_kernels import Additions as AwaitedParts

    if sends.sums is None:
        none = np.empty(0, np.int64)
        return AwaitedParts(none, none, none, none, none), None
    arrivals = sends.holders(topology)[1], sends.item
    places = Places.of(sends.sums.num_values, arrivals, (additions.npu, additions.value))
    addition, part = sends.sums.awaited_parts(additions)
    first, waiting = group_by(places.find(additions.npu[addition], part), addition, len(places) + 1)
    lacking = np.bincount(addition, minlength=len(additions))
    return AwaitedParts(first, waiting, lacking, places.find(additions.npu, additions.value), duration), places


def renumbered(schedule: Schedule, topology: Topology, collective: Collective, npu: Ints) -> Schedule | None:
    """The same sends between the NPUs that take the places of the schedule's, at the same times if chunks are of equal sizes.

    Chunks go along with their owners and targets. None if the schedule has partial sums, or links or chunks have no counterparts.

    Parameters
    ----------
    npu
        int64[num_npus], which NPU of the other topology each one is.
    """
    old_collective = schedule.collective
    channel = topology.channel_of(npu[schedule.src], npu[schedule.dst])
    if (
        schedule.sums is not None
        or schedule.trip is not None
        or old_collective.num_chunks != collective.num_chunks
        or (channel < 0).any()
    ):
        return None
    chunk = _chunks(old_collective, collective, npu)
    if chunk is None:
        return None
    chunks = chunk[schedule.chunk].astype(np.int32)
    channels = channel.astype(np.int32)
    if np.array_equal(collective.chunk_size_bytes[chunk], old_collective.chunk_size_bytes):
        timing = schedule.timing.of(topology, collective)
        return replace(schedule, topology=topology, collective=collective, timing=timing, chunk=chunks, channel=channels)
    # Chunks of a byte more are others now.
    return settled_on(topology, collective, schedule, replace(schedule.sends, chunk=chunks, channel=channels))


def _chunks(old_collective: Collective, new_collective: Collective, npu: Ints) -> Ints | None:
    """int64[num_chunks], the k-th chunk of each owner and target is the k-th of those that take their places."""
    if old_collective.reduces and old_collective.gathers:
        return np.arange(old_collective.num_chunks)  # owners are hints
    keys = []
    for collective, place in ((old_collective, npu), (new_collective, np.arange(len(npu)))):
        target = np.zeros(collective.num_chunks, np.int64)
        if collective.chunk_target is not None:
            target = place[collective.chunk_target]
        keys.append((target, place[collective.chunk_owner]))
    first, second = (np.lexsort(key) for key in keys)
    if not all(np.array_equal(left[first], two[second]) for left, two in zip(*keys, strict=True)):
        return None
    chunk = np.empty(old_collective.num_chunks, np.int64)
    chunk[first] = second
    return chunk


def moved_to(schedule: Schedule, topology: Topology, link: Ints) -> Schedule:
    """The same sends, in the same order on every link, on a topology that has all links of the schedule's and more.

    Parameters
    ----------
    link
        int64[links of the schedule's topology], which link each of them is there.
    """
    old_topology = schedule.topology
    ups = link[old_topology.channel_link]
    downs = np.where(old_topology.channel_down_link == NO_LINK, NO_LINK, link[old_topology.channel_down_link])
    keys = topology.channel_link.astype(np.int64) * (topology.num_links + 1) + topology.channel_down_link
    order = np.argsort(keys)
    channel = order[np.searchsorted(keys[order], ups * (topology.num_links + 1) + downs)].astype(np.int32)
    sends = replace(schedule.sends, channel=channel[schedule.channel])
    return settled_on(topology, schedule.collective, schedule, sends)
