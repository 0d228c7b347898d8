"""Paths of single chunks from their owners to their targets, with the largest link load close to its minimum.

The price of a link is the time that a chunk holds it, times a power of the link's load relative to the busiest link. Chunks take
turns to give up their paths and take the cheapest ones. This never increases the sum over links of (load to a power), so it ends
at a minimum of that sum, which is near the minimum of the largest load if the power is high (maximum concurrent flow by
exponential costs: Shahrokhi and Matula 1990; Awerbuch and Leighton 1993; routing games as convex programs: Beckmann 1956). A
small part of the price is the delay, so that paths are short where load does not matter.

The sends of personalised chunks along their paths, and which of them are more urgent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Floats, Ints, Ints32
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import count_before, group_by
from astra_tacos.synthesizer.parts.send_graph import SendGraph

if TYPE_CHECKING:
    from astra_tacos.synthesizer.routing._path_kernels import Channels, Links

_LINKS_A_ROUND = 1 << 24
"""Bundles times links: what a round looks at."""
_LOOK = 0.03
"""Sends examined that a look at a link counts as."""
_DOUBLINGS = (0, 1, 2, 3, 4, 4, 5, 5, 5, 5)
"""Of every round: the power of its prices, as how many times it is squared."""
_DELAY_SHARE = 0.02
_PATIENCE, _STEEP = 2, 3
"""So many rounds that gain nothing are enough, once prices are steep."""
_GOOD_ENOUGH = 1.01
"""What the busiest link may carry more than all do on average."""


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Paths of chunks, in bundles of chunks of one owner whose paths form a tree.

    `bundle`: int32[num_chunks]. `last`: int32[num_bundles, num_devices], the link into each device on the way. `link_ns`:
    float64[num_links], for how long all chunks hold each link.
    """

    bundle: Ints32
    last: Ints32
    link_ns: Floats


@lru_cache(maxsize=16)
def link_graph(topology: Topology, timing: Timing) -> Links:
    """The links out of each device, for how long a chunk of the larger size holds each, and what it adds to a chunk's way."""
    from astra_tacos.synthesizer.routing._path_kernels import Links

    links = np.arange(topology.num_links)
    first, out = group_by(topology.link_src, links, topology.num_devices)
    hold, delay = timing.link_hold_ns[:, -1], timing.link_delay_ns[:, -1]
    if timing.is_blocking:
        # A link is held as long as its channel is, so the fastest channel through a link gives a lower bound.
        hold = np.full(topology.num_links, np.iinfo(np.int64).max)
        through = topology.channel_down_link != NO_LINK
        np.minimum.at(hold, topology.channel_link, timing.channel_delay_ns[:, -1])
        np.minimum.at(hold, topology.channel_down_link[through], timing.channel_delay_ns[through, -1])
        hold = np.where(hold == np.iinfo(np.int64).max, delay, hold)
    ends = topology.link_src, topology.link_dst
    return Links(first, out, *ends, hold.astype(np.float64), delay.astype(np.float64), norm=1.0, doublings=0)


def channels_by_source(topology: Topology, timing: Timing) -> Channels:
    """The channels of a topology, with what they take for a chunk of the larger size."""
    from astra_tacos.synthesizer.routing._path_kernels import Channels

    first = np.searchsorted(topology.channel_src, np.arange(topology.num_npus + 1))
    ends, links = (topology.channel_src, topology.channel_dst), (topology.channel_link, topology.channel_down_link)
    return Channels(first, *ends, *links, timing.channel_delay_ns[:, -1])


def find_paths(problem: Problem, seed: int, others_ns: Floats | None = None) -> Paths:
    """Paths for all chunks of a personalised collective.

    Parameters
    ----------
    others_ns
        float64[num_links], for how long others hold each link; they are counted in the result.

    Raises
    ------
    SynthesisError
        If some target cannot be reached.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.routing._path_kernels import Bundles, route

    assert collective.chunk_target is not None
    random = np.random.default_rng(seed)
    graph = link_graph(topology, timing)
    bundle, source, first, chunk = _bundle(topology, collective, random)
    targets = collective.chunk_target[chunk].astype(np.int64)
    # Sizes that differ by a byte count as one.
    size = np.ones(len(chunk)) if collective.part_bytes is None else collective.chunk_size_bytes[chunk].astype(np.float64)
    weight = size / size.max()
    last = np.full((len(source), topology.num_devices), -1, np.int32)
    load = np.zeros(topology.num_links) if others_ns is None else others_ns.copy()
    best, since = Paths(bundle, last, load), 0
    for doublings in _DOUBLINGS:
        is_new = best.last is last
        # The first round takes shortest paths, and of equally short ones the one with the least load so far.
        share, norm = (1.0, weight.sum() * graph.hold.max() + load.max()) if is_new else (_DELAY_SHARE, load.max())
        unreached = route(
            random.permutation(len(source)),
            Bundles(source, first, targets, weight),
            graph._replace(base=graph.base * share, norm=norm, doublings=doublings),
            is_new,
            last,
            load,
        )
        count_work(_LOOK * len(source) * topology.num_links)
        if unreached >= 0:
            raise SynthesisError(f"{topology.name}: NPU {source[unreached]} cannot reach every other NPU")
        since += 1
        if is_new or load.max() < best.link_ns.max():
            best, since = Paths(bundle, last.copy(), load.copy()), 0
        if (since >= _PATIENCE and doublings >= _STEEP) or load.max() <= load.mean() * _GOOD_ENOUGH:
            break
    return best


def _bundle(topology: Topology, collective: Collective, random: np.random.Generator) -> tuple[Ints32, Ints, Ints, Ints]:
    """The bundle of each chunk; of each bundle its source and its chunks (CSR). With many chunks, bundles are few and large."""
    num_chunks = collective.num_chunks
    per_bundle = max(1, -(-num_chunks * topology.num_links // _LINKS_A_ROUND))
    shuffled = random.permutation(num_chunks)
    chunk = shuffled[np.argsort(collective.chunk_owner[shuffled], kind="stable")]
    owner = collective.chunk_owner[chunk]
    is_first = count_before(owner) % per_bundle == 0
    begins = np.flatnonzero(is_first)
    bundle = np.empty(num_chunks, np.int32)
    bundle[chunk] = np.cumsum(is_first) - 1
    return bundle, owner[begins].astype(np.int64), np.append(begins, num_chunks), chunk


def send_graph_along_paths(problem: Problem, paths: Paths) -> SendGraph:
    """Sends along the paths; those with the longest way ahead have priority.

    Parameters
    ----------
    paths
        As `find_paths` finds them.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.routing._path_kernels import Hops, sends_of_paths

    assert collective.chunk_target is not None
    channels = channels_by_source(topology, timing)
    tables = paths.bundle, collective.chunk_owner, collective.chunk_target, paths.last
    room = 0
    while True:
        chunk, channel, ahead_ns = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
        count = sends_of_paths(*tables, topology.link_src, channels, Hops(chunk, channel, ahead_ns))
        if count <= room:
            break
        room = count
    way = np.unique(-ahead_ns, return_inverse=True)[1]
    turn = _turns(collective)
    rank = way * (turn.max() + 1) + turn[chunk]
    if rank.max() > np.iinfo(np.int32).max:
        rank = np.unique(rank, return_inverse=True)[1]
    return SendGraph(chunk, channel, np.zeros(count, np.bool_), rank.astype(np.int32))


def _turns(collective: Collective) -> Ints:
    """int64[num_chunks], order among equally urgent chunks: one chunk of every pair, the next higher NPU first.

    Otherwise all NPUs would send their chunks for NPU 0 first, and these would queue there.
    """
    assert collective.chunk_target is not None
    owner, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    return count_before(owner, target) * collective.num_npus + (target - owner) % collective.num_npus
