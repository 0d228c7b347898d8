"""TACOS: synthesis by matching links with chunks over the time-expanded network.

Source: Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning"
(arXiv 2304.05301), section IV. An All-Gather is matched; a Reduce-Scatter is an All-Gather on the transposed network, reversed
in time; an All-Reduce is both, where a chunk is gathered as soon as it is reduced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.matching_network import matching_network
from astra_tacos.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class _Matching:
    """Sends of one matched All-Gather, by ascending start."""

    chunk: NDArray[np.int32]
    channel: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def tacos(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """One random matching of a collective.

    Parameters
    ----------
    seed
        Breaks ties; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    chunk, channel = np.empty(0, np.int32), np.empty(0, np.int32)
    reduces = np.empty(0, np.bool_)
    link_free = np.zeros(topology.num_links, np.int64)
    chunk_ready = np.zeros(collective.num_chunks, np.int64)
    if collective.reduces:
        backward = _match(topology, collective, timing, seed, link_free, chunk_ready, reverse=True)
        order = np.argsort(-backward.end_ns[::-1], kind="stable")
        chunk, channel = backward.chunk[::-1][order], backward.channel[::-1][order]
        reduces = np.ones(len(chunk), np.bool_)
        scattered = settle(topology, collective, timing, chunk, channel, reduces, "tacos", seed)
        if not collective.gathers:
            return scattered
        chunk, channel = scattered.chunk, scattered.channel
        np.maximum.at(chunk_ready, chunk, scattered.done_ns)
        link_free = _release_ns(scattered)
    forward = _match(topology, collective, timing, seed, link_free, chunk_ready, reverse=False)
    copies = np.zeros(len(forward.chunk), np.bool_)
    if not collective.reduces and _never_idles(topology, timing):
        columns = (forward.chunk, forward.channel, copies, forward.start_ns, forward.end_ns)
        return Schedule(topology, collective, timing, *columns, "tacos", seed)
    reduces = np.concatenate((reduces, copies))
    chunk, channel = np.concatenate((chunk, forward.chunk)), np.concatenate((channel, forward.channel))
    return settle(topology, collective, timing, chunk, channel, reduces, "tacos", seed)


def _never_idles(topology: Topology, timing: Timing) -> bool:
    """Whether the matcher sends as early as can be, so that there is nothing to settle.

    It does unless links differ, where slow ones may be left idle on purpose, or there are switches, whose ports wait for one
    another.
    """
    return not topology.has_switches and bool(np.all(timing.channel_delay_ns == timing.channel_delay_ns[0]))


def _release_ns(schedule: Schedule) -> NDArray[np.int64]:
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


def _match(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    seed: int,
    link_free_ns: NDArray[np.int64],
    chunk_ready_ns: NDArray[np.int64],
    *,
    reverse: bool,
) -> _Matching:
    from astra_tacos.synthesizer._tacos_kernels import COMPLETE, match

    network = matching_network(topology, timing, reverse=reverse)
    num_sends = collective.num_chunks * (topology.num_npus - 1)
    matching = _Matching(
        np.empty(num_sends, np.int32), np.empty(num_sends, np.int32), np.empty(num_sends, np.int64), np.empty(num_sends, np.int64)
    )
    link_free = np.maximum(link_free_ns - network.link_head_start_ns, 0)
    owner = collective.chunk_owner
    late_ns, late_what = _late(chunk_ready_ns, link_free)
    status = match(
        seed,
        owner,
        collective.chunk_class,
        late_ns,
        late_what,
        *network.arrays,
        link_free,
        *network.state(owner, chunk_ready_ns <= 0, late_ns),
        matching.chunk,
        matching.channel,
        matching.start_ns,
        matching.end_ns,
    )
    if status != COMPLETE:
        raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
    return matching


def _late(chunk_ready_ns: NDArray[np.int64], link_free_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What is not ready or free from the start, by time: when, and twice the chunk or twice the link plus 1."""
    late_ns = np.concatenate((chunk_ready_ns, link_free_ns))
    what = np.concatenate((2 * np.arange(len(chunk_ready_ns)), 2 * np.arange(len(link_free_ns)) + 1))
    order = np.argsort(late_ns, kind="stable")[np.count_nonzero(late_ns <= 0) :]
    return late_ns[order], what[order]
