"""Settling: the earliest times of sends whose order on every link is given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.csr import group_by, members_of
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.messages import MessageSizes, message_sizes
from astra_tacos.schedule.partial_sums import find_additions, needed_totals
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.sends import Sends
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology

if TYPE_CHECKING:
    from astra_tacos.schedule._settle_kernels import Additions, Links


def settle(
    topology: Topology, collective: Collective, timing: Timing, sends: Sends, synthesizer: str = "", seed: int = 0
) -> Schedule:
    """The schedule in which every link takes the given messages in order, each as early as possible.

    Rows must be in an order that every link keeps and in which a chunk reaches an NPU before it leaves it. A switch's
    down-link is the exception under `pipelined`: it is first come, first served, as in ASTRA-sim (at one instant, the message
    that started earlier goes first, then the lower link number). There messages are sorted by arrival and timed again until
    nothing moves. Each round puts at least the earliest misplaced message in its place, so this ends.

    Parameters
    ----------
    topology, collective, timing
        What the sends refer to.
    sends
        The sends in order.
    synthesizer, seed
        Where they come from, which the schedule records.

    Raises
    ------
    SynthesisError
        If the down-links' order does not settle, which would be a fault of this package.
    """
    first_come = topology.has_switches and not timing.is_blocking
    sizes = message_sizes(topology, collective, timing, sends.chunk, sends.message_first)
    for _ in range(sends.num_messages + 1):
        start, end, at_switch = _earliest_times(topology, collective, timing, sends, sizes)
        if not first_come:
            break
        order = np.lexsort((topology.channel_link[sends.channel[sends.first[:-1]]], start, at_switch))
        if np.array_equal(order, np.arange(len(order))):
            break
        sends = sends.in_order(order)
        sizes = replace(sizes, size_class=sizes.size_class[order])
    else:
        raise SynthesisError(f"{topology.name}: the order of sends through switches does not settle")
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        sends, start, end = sends.in_order(order), start[order], end[order]
    if sends.message_first is not None:
        rows = np.diff(sends.message_first)
        start, end = np.repeat(start, rows), np.repeat(end, rows)
    columns = sends.chunk, sends.channel, sends.reduces, start, end
    of_messages = sends.message_first, sends.sums, sends.value
    return Schedule(topology, collective, timing, *columns, synthesizer, seed, *of_messages)


def _earliest_times(
    topology: Topology, collective: Collective, timing: Timing, sends: Sends, sizes: MessageSizes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_messages] each: start, end, and arrival at the switch."""
    from astra_tacos.schedule import _settle_kernels as kernels

    num_places = 1 if collective.is_personalised else topology.num_npus
    num_items = collective.num_chunks if sends.sums is None else sends.sums.num_values
    times = kernels.Times(*(np.empty(sends.num_messages, np.int64) for _ in range(3)))
    kernels.earliest_times(
        kernels.Sends(sends.item, sends.channel, sends.reduces),
        kernels.Messages(sends.first, np.ascontiguousarray(sizes.size_class, np.int64)),
        _links(topology, sizes.timing),
        _additions(topology, collective, timing, sends),
        num_places,
        num_items,
        times,
    )
    return times.start_ns, times.end_ns, times.at_switch_ns


def _links(topology: Topology, timing: Timing) -> Links:
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
        timing.is_blocking,
    )


def _additions(topology: Topology, collective: Collective, timing: Timing, sends: Sends) -> Additions:
    """The sums that NPUs make, and which arrivals they wait for, by NPU and value."""
    from astra_tacos.schedule._settle_kernels import Additions

    none = np.empty(0, np.int64)
    if sends.sums is None or sends.value is None:
        return Additions(none, none, none, none, none)
    sums = sends.sums
    sent = sends.value, topology.channel_src[sends.channel], topology.channel_dst[sends.channel]
    made = find_additions(sums, sent, needed_totals(sums, collective), collective.chunk_size_bytes)
    begin, at = members_of(sums.part_first, made.value)
    addition, part = np.repeat(np.arange(len(made)), np.diff(begin)), sums.part[at]
    awaited = sums.npu[part] != made.npu[addition]
    addition, part = addition[awaited], part[awaited]
    place = made.npu.astype(np.int64) * sums.num_values
    first, waiting = group_by(place[addition] + part, addition, topology.num_npus * sums.num_values)
    lacking = np.bincount(addition, minlength=len(made))
    return Additions(first, waiting, lacking, place + made.value, made.duration_ns(timing.reduce_bandwidth_gbps))
