"""One matched All-Gather, on the network or on its transpose: the kernel's arguments and results.

The chunks that slow links are reserved for, where faster links alone already connect all NPUs.

By a deadline for the whole collective the fast links into an NPU can bring a certain number of chunks, and the slow links must
bring the rest. The rest should be the chunks from farthest away: chunks from nearby arrive in time over fast links, and a slow
link that takes one of those is busy when a chunk from far away comes along.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Bools, Floats, Ints, Ints32
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.graph import Graph
from astra_tacos.synthesizer.matching.matching_network import as_words, matching_network

if TYPE_CHECKING:
    from astra_tacos.synthesizer.matching._table_kernels import Sends

NEVER_NS = int(np.iinfo(np.int64).max)
_MOST_NPUS = 256
# Typical excess of the real time over the bound, because of latencies.
_LENIENCE = 1 / 16


def far_chunks(topology: Topology, timing: Timing, owner: Ints32, deadline_ns: int, *, reverse: bool) -> tuple[int, Bools]:
    """The delay from which a link counts as slow, and the chunks that slow links into each NPU may bring.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    owner
        int32[num_chunks], where each chunk comes from.
    deadline_ns
        When all chunks should be everywhere.
    reverse
        Whether on the transposed network.

    Returns
    -------
    slow_ns, is_far
        int and bool[num_npus, num_chunks]; `NEVER_NS` and an empty array where waiting does not pay: if links are alike, if
        there are switches, if only all links together connect all NPUs, or past 256 NPUs.
    """
    slow_ns, distance = _over_fast_links(topology, timing, reverse)
    if slow_ns == NEVER_NS:
        return slow_ns, np.empty((0, 0), np.bool_)
    num_npus = topology.num_npus
    into = topology.channel_src if reverse else topology.channel_dst
    first_ns = _hop_ns(timing, reverse)
    period_ns = timing.channel_delay_ns[:, 0] if timing.is_blocking else timing.link_hold_ns[topology.channel_link, 0]
    in_time = (first_ns < slow_ns) & (first_ns <= deadline_ns)
    brought = np.zeros(num_npus, np.int64)
    np.add.at(brought, into[in_time], 1 + (deadline_ns - first_ns[in_time]) // period_ns[in_time])
    missing = len(owner) - np.bincount(owner, minlength=num_npus)
    left = np.maximum(missing - brought, 0)

    away_ns = distance[:, owner]
    descending = -np.sort(-away_ns, axis=1)
    nearest_ns = descending[np.arange(num_npus), np.maximum(left - 1, 0)]
    too_late_ns = deadline_ns * (1 + _LENIENCE)
    return slow_ns, (away_ns > too_late_ns) | ((away_ns >= nearest_ns[:, None]) & (left > 0)[:, None])


@lru_cache(maxsize=4)
def _over_fast_links(topology: Topology, timing: Timing, reverse: bool) -> tuple[int, Floats]:
    """The least delay of slow links, and float64[num_npus, num_npus], the delay over fast links from the second NPU."""
    num_npus = topology.num_npus
    ns = _hop_ns(timing, reverse)
    if not topology.has_switches and num_npus <= _MOST_NPUS:
        ends = topology.channel_dst, topology.channel_src
        for slow_ns in np.unique(ns)[1:].tolist():
            fast = ns < slow_ns
            src, dst = (end[fast] for end in (ends[::-1] if reverse else ends))
            graph = Graph.of(num_npus, src, dst, ns[fast])
            if graph.strong_groups()[0] == 1:
                return slow_ns, graph.distances()
    return NEVER_NS, np.empty((0, 0))


def _hop_ns(timing: Timing, reverse: bool) -> Ints:
    """int64[num_channels], when the smallest chunk can go on: on the transposed network, once it would have been reduced."""
    return timing.channel_delay_ns[:, 0] + (timing.reduction_ns[0] if reverse else 0)


_MATCH = 0.25
"""Sends examined that a matched send counts as."""


def match_all_gather(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    seed: int,
    *,
    reverse: bool,
    after: Schedule | None = None,
    deadline_ns: int | None = None,
) -> Sends:
    """The sends by which every NPU gets every chunk, as links are matched with chunks; by ascending start.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective; only its chunks and where they are at first matter.
    timing
        Delays of chunks on the links of the network.
    seed
        Seed of random choices.
    reverse
        Whether to match on the transposed network.
    after
        If given, a schedule that comes first. A link is free after the last send over it there. A chunk is ready after the
        last `done_ns` of its sends there.
    deadline_ns
        If given, slow links do not take chunks that faster links can bring by then (see `far_chunks`).

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    from astra_tacos.synthesizer.matching._matching_kernels import match
    from astra_tacos.synthesizer.matching._table_kernels import Chunks, Far, Sends

    network, owner = matching_network(topology, timing, reverse=reverse), collective.chunk_owner
    chunk_ready, link_free = np.zeros(len(owner), np.int64), np.zeros(topology.num_links, np.int64)
    if after is not None:
        np.maximum.at(chunk_ready, after.chunk, after.done_ns)
        np.maximum(_release_ns(after) - network.link_head_start_ns, 0, out=link_free)
    num_sends = len(owner) * (topology.num_npus - 1)
    sends = Sends(*np.empty((2, num_sends), np.int32), *np.empty((2, num_sends), np.int64))
    slow_ns, is_far = NEVER_NS, np.empty((0, 0), np.bool_)
    if deadline_ns is not None:
        slow_ns, is_far = far_chunks(topology, timing, owner, deadline_ns, reverse=reverse)
    late_ns, late_what = _late(chunk_ready, link_free)
    is_complete = match(
        seed,
        Chunks(owner, collective.chunk_class.astype(np.uint8), late_ns, late_what),
        Far(slow_ns, as_words(is_far)),
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
    what = np.concatenate((2 * np.arange(len(chunk_ready_ns)), 2 * np.arange(len(link_free_ns)) + 1))
    order = np.argsort(late_ns, kind="stable")[np.count_nonzero(late_ns <= 0) :]
    return late_ns[order], what[order]


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
