"""An All-Reduce whose two phases share the links at all times, for networks where some NPUs have fewer links than others.

Reduce-Scatter followed by All-Gather leaves most links idle while the NPUs with the fewest links catch up, once in each phase.
Here each phase is matched with its share of every link's bandwidth (`link_shares`), which gives an in-tree and an out-tree per
chunk that together load all links evenly. The sends of both are then list-scheduled, chunk after chunk.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.matching.matching import match_all_gather
from astra_tacos.synthesizer.overlap.link_shares import LinkShares, link_shares

_STEPS = 64
_HOP_WEIGHT = 2.0


def overlap_phases(topology: Topology, collective: Collective, timing: Timing, synthesizer: str, seed: int) -> Schedule | None:
    """An All-Reduce with overlapping phases on a network without switches; None if links' time cannot be divided.

    The due times of chunks are evenly spread, in random order. A send is more urgent if its chunk is due earlier, and if the
    chunk has a longer way to go.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    synthesizer
        Name of the synthesizer, which the schedule records.
    seed
        Seed of random choices.
    """
    from astra_tacos.synthesizer.overlap._overlap_kernels import Hops, hops_to_come

    phases = _phases(topology, timing)
    if phases is None:
        return None
    shares, slowed = phases
    random = np.random.default_rng(seed)
    root = _roots(shares, collective.num_chunks, random)
    sums = match_all_gather(topology, collective, slowed[0], seed, root, reverse=True)
    copies = match_all_gather(topology, collective, slowed[1], seed, root, reverse=False)

    src, dst = topology.channel_src, topology.channel_dst
    sum_hops, copy_hops = np.empty(len(sums.chunk), np.int32), np.empty(len(copies.chunk), np.int32)
    hops_to_come(
        root,
        Hops(sums.chunk, src[sums.channel], dst[sums.channel], sum_hops),
        Hops(copies.chunk, src[copies.channel], dst[copies.channel], copy_hops),
        topology.num_npus,
    )
    chunk = np.concatenate((sums.chunk, copies.chunk))
    channel = np.concatenate((sums.channel, copies.channel))
    busiest = np.bincount(topology.channel_link[channel]).max()
    due = random.permutation(collective.num_chunks) * (busiest / collective.num_chunks)
    urgency = due[chunk] - _HOP_WEIGHT * np.concatenate((sum_hops, copy_hops))
    rank = np.floor((urgency - urgency.min()) * 16).astype(np.int32)
    reduces = np.repeat((True, False), (len(sums.chunk), len(copies.chunk)))
    return dispatch(topology, collective, timing, SendGraph(chunk, channel, reduces, rank), synthesizer, seed)


@lru_cache(maxsize=4)
def _phases(topology: Topology, timing: Timing) -> tuple[LinkShares, tuple[Timing, Timing]] | None:
    """The division of the time of links, and the resulting delays of each phase: the same for all seeds."""
    shares = link_shares(topology, timing)
    if shares is None:
        return None
    return shares, (_slowed(topology, timing, shares.reducing), _slowed(topology, timing, 1 - shares.reducing))


def _roots(shares: LinkShares, num_chunks: int, random: np.random.Generator) -> NDArray[np.int32]:
    """int32[num_chunks], the NPU where each chunk is reduced, in random order; shares are rounded by largest remainders."""
    wanted = shares.root * num_chunks
    count = np.floor(wanted).astype(np.int64)
    order = np.argsort(count - wanted, kind="stable")
    count[order[: num_chunks - count.sum()]] += 1
    return random.permutation(np.repeat(np.arange(len(count), dtype=np.int32), count))


def _slowed(topology: Topology, timing: Timing, share: NDArray[np.float64]) -> Timing:
    """Delays of links that have only their shares of bandwidth, in steps of at least one."""
    share = np.maximum(np.round(share * _STEPS), 1)[:, None] / _STEPS
    return replace(
        timing,
        link_hold_ns=np.ceil(timing.link_hold_ns / share).astype(np.int64),
        link_delay_ns=np.ceil(timing.link_delay_ns / share).astype(np.int64),
        channel_delay_ns=np.ceil(timing.channel_delay_ns / share[topology.channel_link]).astype(np.int64),
    )
