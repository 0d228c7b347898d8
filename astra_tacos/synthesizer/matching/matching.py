"""One matched All-Gather, on the network or on its transpose: the kernel's arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.matching.matching_network import matching_network

if TYPE_CHECKING:
    from astra_tacos.synthesizer.matching._table_kernels import Sends

_MATCH = 0.25
"""Sends examined that a matched send counts as."""


def match_all_gather(
    problem: Problem,
    seed: int,
    *,
    reverse: bool,
    after: Schedule | None = None,
) -> Sends:
    """The sends by which every NPU gets every chunk, as links are matched with chunks; by ascending start.

    Parameters
    ----------
    problem
        The collective; only its chunks and where they are at first matter.
    after
        If given, a schedule that comes first. A link is free after the last send over it there. A chunk is ready after the
        last `done_ns` of its sends there.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.matching._matching_kernels import match
    from astra_tacos.synthesizer.matching._table_kernels import Chunks, Sends

    network, owner = matching_network(topology, timing, reverse=reverse), collective.chunk_owner
    chunk_ready, link_free = np.zeros(len(owner), np.int64), np.zeros(topology.num_links, np.int64)
    if after is not None:
        np.maximum.at(chunk_ready, after.chunk, after.done_ns)
        np.maximum(_release_ns(after) - network.link_head_start_ns, 0, out=link_free)
    num_sends = len(owner) * (topology.num_npus - 1)
    sends = Sends(*np.empty((2, num_sends), np.int32), *np.empty((2, num_sends), np.int64))
    late_ns, late_what = _late(chunk_ready, link_free)
    is_complete = match(
        seed,
        Chunks(owner, collective.chunk_class.astype(np.uint8), late_ns, late_what),
        network.tables,
        *network.state(owner, chunk_ready <= 0, late_ns, link_free),
        sends,
    )
    count_work(_MATCH * num_sends)
    if not is_complete:
        raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
    return sends


def _late(chunk_ready_ns: Ints, link_free_ns: Ints) -> tuple[Ints, Ints]:
    """Chunks and links that are not available from the start, by time: the time, and twice the chunk or twice the link plus 1."""
    late_ns = np.concatenate((chunk_ready_ns, link_free_ns))
    late = np.concatenate((2 * np.arange(len(chunk_ready_ns)), 2 * np.arange(len(link_free_ns)) + 1))
    order = np.argsort(late_ns, kind="stable")[np.count_nonzero(late_ns <= 0) :]
    return late_ns[order], late[order]


def _release_ns(schedule: Schedule) -> Ints:
    """int64[num_links], when each link is free after its last send."""
    topology, timing = schedule.topology, schedule.timing
    size_class = schedule.collective.chunk_class[schedule.chunk]
    release = np.zeros(topology.num_links, np.int64)
    up, down = topology.channel_link[schedule.channel], topology.channel_down_link[schedule.channel]
    switched = down >= 0
    if timing.is_blocking:
        np.maximum.at(release, up, schedule.end_ns)
        np.maximum.at(release, down[switched], schedule.end_ns[switched])
        return release
    np.maximum.at(release, up, schedule.start_ns + timing.link_hold_ns[up, size_class])
    down, size_class, end = down[switched], size_class[switched], schedule.end_ns[switched]
    np.maximum.at(release, down, end - timing.link_delay_ns[down, size_class] + timing.link_hold_ns[down, size_class])
    return release
