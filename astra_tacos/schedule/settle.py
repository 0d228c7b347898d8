"""Settling: the earliest times of sends whose order on every link is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology


def settle(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    chunk: NDArray[np.int32],
    channel: NDArray[np.int32],
    reduces: NDArray[np.bool_],
    synthesizer: str = "",
    seed: int = 0,
) -> Schedule:
    """The schedule in which every link takes the given rows in order, each as early as possible.

    Rows must be in an order that every link keeps and in which a chunk reaches an NPU before it leaves it. A switch's
    down-link is the exception under `pipelined`: it is first come, first served, as in ASTRA-sim (at one instant, the send
    that started earlier goes first, then the lower link number). There rows are sorted by arrival and timed again until
    nothing moves. Each round puts at least the earliest misplaced row in its place, so this ends.

    Raises
    ------
    SynthesisError
        If the down-links' order does not settle, which would be a fault of this package.
    """
    from astra_tacos.schedule._settle_kernels import Links, Sends, Times, earliest_times

    first_come = topology.has_switches and not timing.is_blocking
    links = Links(
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
    num_places = 1 if collective.is_personalised else topology.num_npus
    times = Times(*(np.empty(len(chunk), np.int64) for _ in range(3)))
    for _ in range(len(chunk) + 1):
        earliest_times(Sends(chunk, channel, reduces), collective.chunk_class, links, num_places, times)
        start, end, at_switch = times
        if not first_come:
            break
        order = np.lexsort((topology.channel_link[channel], start, at_switch))
        if np.array_equal(order, np.arange(len(order))):
            break
        chunk, channel, reduces = chunk[order], channel[order], reduces[order]
    else:
        raise SynthesisError(f"{topology.name}: the order of sends through switches does not settle")
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        chunk, channel, reduces, start, end = chunk[order], channel[order], reduces[order], start[order], end[order]
    return Schedule(topology, collective, timing, chunk, channel, reduces, start, end, synthesizer, seed)
