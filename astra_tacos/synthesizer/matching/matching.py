"""One matched All-Gather, on the network or on its transpose: the kernel's arguments and results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.matching.far_chunks import NEVER_NS, far_chunks
from astra_tacos.synthesizer.matching.matching_network import as_words, matching_network

_MATCH = 0.25
"""Sends examined that a matched send counts as."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Sends of one matched All-Gather, by ascending start.

    Parameters
    ----------
    chunk, channel
        int32[num_sends].
    start_ns, end_ns
        int64[num_sends].
    """

    chunk: NDArray[np.int32]
    channel: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def match_all_gather(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    seed: int,
    owner: NDArray[np.int32],
    *,
    reverse: bool,
    link_free_ns: NDArray[np.int64] | None = None,
    chunk_ready_ns: NDArray[np.int64] | None = None,
    deadline_ns: int | None = None,
) -> Matching:
    """Match links with chunks until every NPU has every chunk.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective; only its chunks matter.
    timing
        Delays of chunks on the links of the network.
    seed
        Seed of random choices.
    owner
        int32[num_chunks], where each chunk is at first.
    reverse
        Whether to match on the transposed network.
    link_free_ns, chunk_ready_ns
        int64[num_links] and int64[num_chunks], from when on each link is free and each chunk is ready; 0 by default.
    deadline_ns
        If given, slow links do not take chunks that faster links can bring by then (see `far_chunks`).

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    from astra_tacos.synthesizer.matching._matching_kernels import COMPLETE, match
    from astra_tacos.synthesizer.matching._table_kernels import Chunks, Far, Sends

    network = matching_network(topology, timing, reverse=reverse)
    if chunk_ready_ns is None:
        chunk_ready_ns = np.zeros(len(owner), np.int64)
    link_free = np.zeros(topology.num_links, np.int64)
    if link_free_ns is not None:
        np.maximum(link_free_ns - network.link_head_start_ns, 0, out=link_free)
    num_sends = len(owner) * (topology.num_npus - 1)
    matching = Matching(
        np.empty(num_sends, np.int32), np.empty(num_sends, np.int32), np.empty(num_sends, np.int64), np.empty(num_sends, np.int64)
    )
    slow_ns, is_far = NEVER_NS, np.empty((0, 0), np.bool_)
    if deadline_ns is not None:
        slow_ns, is_far = far_chunks(topology, timing, owner, deadline_ns, reverse=reverse)
    late_ns, late_what = _late(chunk_ready_ns, link_free)
    status = match(
        seed,
        Chunks(owner, collective.chunk_class.astype(np.uint8), late_ns, late_what),
        Far(slow_ns, as_words(is_far)),
        network.tables,
        *network.state(owner, chunk_ready_ns <= 0, late_ns, link_free),
        Sends(matching.chunk, matching.channel, matching.start_ns, matching.end_ns),
    )
    count_work(_MATCH * num_sends)
    if status != COMPLETE:
        raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
    return matching


def _late(chunk_ready_ns: NDArray[np.int64], link_free_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chunks and links that are not available from the start, by time: the time, and twice the chunk or twice the link plus 1."""
    late_ns = np.concatenate((chunk_ready_ns, link_free_ns))
    what = np.concatenate((2 * np.arange(len(chunk_ready_ns)), 2 * np.arange(len(link_free_ns)) + 1))
    order = np.argsort(late_ns, kind="stable")[np.count_nonzero(late_ns <= 0) :]
    return late_ns[order], what[order]
