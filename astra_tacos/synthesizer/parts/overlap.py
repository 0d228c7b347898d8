"""Division of every link's time between the two overlapping phases of an All-Reduce, and how much each NPU reduces.

In an All-Reduce of C chunks in time T, every set A of one NPU or of two neighbours must send a partial sum of each chunk that is
reduced elsewhere, and must receive a copy of it. With r(e) the share of link e's time that partial sums get, R(v) the chunks
reduced at v, and t(e) the time of a send:

    sum over links e out of A of r(e) T / t(e) >= C - R(A)      and     sum over links e into A of (1 - r(e)) T / t(e) >= C - R(A)

What is reduced at v must also come in, and go out again: the links into v carry at least R(v) partial sums, those out of v at
least R(v) copies. The smallest T is a linear programme. Of the solutions that are at most 1% slower, the one is taken whose
shares differ least from one half and whose R are most equal.

An All-Reduce whose two phases share the links at all times, for networks where some NPUs have fewer links than others.

Reduce-Scatter followed by All-Gather leaves most links idle while the NPUs with the fewest links catch up, once in each phase.
Here each phase is matched with its share of every link's bandwidth (`link_shares`), which gives an in-tree and an out-tree per
chunk that together load all links evenly. The sends of both are then list-scheduled, chunk after chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Floats, Ints32
from astra_tacos.support.grouping import distinct
from astra_tacos.synthesizer.matching.matching import match_all_gather
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph

_SLACK = 0.01


@dataclass(frozen=True, slots=True)
class LinkShares:
    """A division of the time of links between two phases.

    Parameters
    ----------
    reducing
        float64[num_links], 0 to 1: the share of a link's time that is for partial sums.
    root
        float64[num_npus], the share of chunks that are reduced at each NPU; adds up to 1.
    """

    reducing: Floats
    root: Floats


def link_shares(topology: Topology, timing: Timing) -> LinkShares | None:
    """Solve the linear programme for a network without switches; None if the solver gives up."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array, eye_array

    num_npus, num_links = topology.num_npus, topology.num_links
    period = np.empty(num_links)
    period[topology.channel_link] = timing.channel_delay_ns[:, 0]
    if not timing.is_blocking:
        period = timing.link_hold_ns[:, 0].astype(np.float64)
    rate = period.min() / period
    member, out, into = _node_sets(topology, rate)
    num_sets = member.shape[0]
    alone_out, alone_into = out[:num_npus], into[:num_npus]

    # Unknowns: r, R, and R's total, which is C over T in units of the fastest link.
    every = np.ones((num_sets, 1))
    same = eye_array(num_npus)
    needs = [[-out, -member, every], [into, -member, every], [-alone_into, same, None], [alone_out, same, None]]
    limits = np.concatenate((np.zeros(num_sets), into.sum(axis=1), np.zeros(num_npus), alone_out.sum(axis=1)))
    total = block_array([[coo_array((1, num_links)), np.ones((1, num_npus)), -np.ones((1, 1))]], format="csr")
    objective = np.zeros(num_links + num_npus + 1)
    objective[-1] = -1
    bounds: list[Any] = [(0, 1)] * num_links + [(0, None)] * (num_npus + 1)
    best = linprog(objective, block_array(needs, format="csr"), limits, total, [0], bounds, method="highs")
    if best.x is None:
        return None

    # Unknowns: r, R, and how far r is from 1/2 and R from its mean.
    rate_of_all = best.x[-1] * (1 - _SLACK)
    limits[: 2 * num_sets] -= rate_of_all
    half, mean = np.full(num_links, 0.5), np.full(num_npus, rate_of_all / num_npus)
    links = eye_array(num_links)
    needs = [[of_links, of_roots, None, None] for of_links, of_roots, _ in needs]
    needs += [[links, None, -links, None], [-links, None, -links, None]]
    needs += [[None, same, None, -same], [None, -same, None, -same]]
    limits = np.concatenate((limits, half, -half, mean, -mean))
    width = num_links + num_npus
    total = block_array([[coo_array((1, num_links)), np.ones((1, num_npus)), coo_array((1, width))]], format="csr")
    objective = np.concatenate((np.zeros(width), np.ones(width)))
    bounds = [(0, 1)] * num_links + [(0, None)] * (num_npus + width)
    even = linprog(objective, block_array(needs, format="csr"), limits, total, [rate_of_all], bounds, method="highs")
    if even.x is None:
        return None
    root = np.maximum(even.x[num_links:width], 0)
    return LinkShares(np.clip(even.x[:num_links], 0, 1), root / root.sum())


def _node_sets(topology: Topology, rate: Floats) -> tuple[Any, Any, Any]:
    """All sets of one NPU or two neighbours: their members, and the rates of the links out of and into each (sparse, by link)."""
    from scipy.sparse import coo_array, csr_array

    num_npus, num_links = topology.num_npus, topology.num_links
    src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    pairs = distinct(np.minimum(src, dst) * num_npus + np.maximum(src, dst))
    ends = np.concatenate((pairs // num_npus, pairs % num_npus))
    first_pair = np.tile(np.arange(num_npus, num_npus + len(pairs)), 2)
    npus, links = np.arange(num_npus), np.arange(num_links)
    sets = np.concatenate((npus, first_pair))
    shape = (num_npus + len(pairs), num_npus)
    member = csr_array(coo_array((np.ones(len(sets)), (sets, np.concatenate((npus, ends)))), shape=shape))
    leaves = member @ csr_array(coo_array((np.ones(num_links), (src, links)), shape=(num_npus, num_links)))
    enters = member @ csr_array(coo_array((np.ones(num_links), (dst, links)), shape=(num_npus, num_links)))
    inside = leaves.multiply(enters)
    scale = csr_array(coo_array((rate, (links, links)), shape=(num_links, num_links)))
    return member, csr_array((leaves - inside) @ scale), csr_array((enters - inside) @ scale)


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
    from astra_tacos.synthesizer.parts._tree_kernels import Hops, hops_to_come

    phases = _phases(topology, timing)
    if phases is None:
        return None
    shares, slowed = phases
    random = np.random.default_rng(seed)
    root = _roots(shares, collective.num_chunks, random)
    rooted = replace(collective, chunk_owner=root)
    sums = match_all_gather(topology, rooted, slowed[0], seed, reverse=True)
    copies = match_all_gather(topology, rooted, slowed[1], seed, reverse=False)

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


def _roots(shares: LinkShares, num_chunks: int, random: np.random.Generator) -> Ints32:
    """int32[num_chunks], the NPU where each chunk is reduced, in random order; shares are rounded by largest remainders."""
    wanted = shares.root * num_chunks
    count = np.floor(wanted).astype(np.int64)
    order = np.argsort(count - wanted, kind="stable")
    count[order[: num_chunks - count.sum()]] += 1
    return random.permutation(np.repeat(np.arange(len(count), dtype=np.int32), count))


def _slowed(topology: Topology, timing: Timing, share: Floats) -> Timing:
    """Delays of links that have only their shares of bandwidth, in steps of at least one."""
    share = np.maximum(np.round(share * _STEPS), 1)[:, None] / _STEPS
    return replace(
        timing,
        link_hold_ns=np.ceil(timing.link_hold_ns / share).astype(np.int64),
        link_delay_ns=np.ceil(timing.link_delay_ns / share).astype(np.int64),
        channel_delay_ns=np.ceil(timing.channel_delay_ns / share[topology.channel_link]).astype(np.int64),
    )
