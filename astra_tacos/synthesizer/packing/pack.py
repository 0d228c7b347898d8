"""Packing of spanning trees into the links of a network: as many chunks' trees as there are, the busiest link as idle as can be.

How fast arborescences can be packed is known exactly: as fast as every cut lets data in (Edmonds, "Edge-disjoint branchings",
1973), spanning trees as fast as every partition lets (Nash-Williams and Tutte, 1961). Here whole chunks are packed, not
fractions. Each chunk picks the tree that is cheapest beside all others' when a link of load x costs exp(eta * x): the
multiplicative weights of fractional packing (Plotkin, Shmoys and Tardos 1995; Garg and Koenemann 1998), played as a congestion
game of best responses (Rosenthal 1973), in which no round makes the sum over links larger. Rounds become steeper, so that the
largest load counts more and more; some take a few trees out at a time and put them back, to get out of where no single tree
could do better; the best packing of all rounds is kept. In the first rounds links far from the root are dearer, for shallow
trees that cross busy links early. A channel through a switch costs what its up-link
and its down-link cost, so trees mind ports and need no splitting-off (unlike ForestColl, arXiv 2402.06787); NPUs alone relay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.csr import group_by
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import NO_LINK, Topology

_LEAST_STEEP, _MOST_STEEP = 2.0, 300.0
_STEEP_PER_CHUNK = 8.0
"""A chunk more on a link makes it dearer by at most exp of this: beyond, cheap channels are lost in rounding."""
_CLOSE, _LESS_CLOSE = 5.0, 0.05
_BATCHES = (1, 4, 1, 16)
_ROUNDS = 16
_STALE_ROUNDS = 5
_MOST_PRICES = 1 << 25
"""Rounds times trees times channels."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees, and what they load the links with.

    Parameters
    ----------
    root
        int64[num_trees].
    inward
        bool[num_trees], whether a tree leads into its root (to sum up) rather than out of it.
    copies
        float64[num_trees], how many chunks go along each tree.
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, from its root's side; -1 for the root.
    link_ns
        float64[num_links], how long each link is busy with all chunks.
    """

    root: NDArray[np.int64]
    inward: NDArray[np.bool_]
    copies: NDArray[np.float64]
    channel: NDArray[np.int32]
    link_ns: NDArray[np.float64]


def pack(
    topology: Topology,
    timing: Timing,
    root: NDArray[np.int64],
    inward: NDArray[np.bool_],
    copies: NDArray[np.float64],
    seed: int = 0,
) -> Packing:
    """Trees from or into the given roots that load the busiest link little.

    Parameters
    ----------
    root, inward, copies
        See `Packing`.
    seed
        In which order trees respond.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    from astra_tacos.synthesizer.packing._packing_kernels import HEAP_ROWS, KEY_ROWS, NODE_ROWS, PRICE_ROWS, respond

    num_npus, num_channels = topology.num_npus, topology.num_channels
    up_ns, down_ns = channel_loads(topology, timing)
    channels = np.arange(num_channels)
    graph = (
        topology.channel_src,
        topology.channel_dst,
        *group_by(topology.channel_src, channels, num_npus),
        *group_by(topology.channel_dst, channels, num_npus),
        topology.channel_link,
        topology.channel_down_link,
        up_ns,
        down_ns,
    )
    space = (
        np.empty((NODE_ROWS, 2 * num_npus), np.int64),
        np.empty((HEAP_ROWS, num_channels), np.int64),
        np.empty((KEY_ROWS, num_channels)),
        np.empty((PRICE_ROWS, num_channels)),
        *np.empty((2, num_npus), np.int64),
        np.empty(topology.num_links),
    )
    link_ns = np.zeros(topology.num_links)
    channel = np.full((len(root), num_npus), -1, np.int32)
    bound_ns = _port_bound_ns(topology, root, inward, copies, up_ns, down_ns)
    best, best_ns, stale = None, bound_ns, 0
    steepest = _STEEP_PER_CHUNK * bound_ns / float(max(up_ns.max(), down_ns.max()) * copies.max())
    rounds = int(np.clip(_MOST_PRICES // (len(root) * num_channels), 1, _ROUNDS))
    random = np.random.default_rng(seed)
    for index in range(rounds):
        done = index / max(rounds - 1, 1)
        steepness = _LEAST_STEEP * float(np.clip(steepest / _LEAST_STEEP, 1, _MOST_STEEP / _LEAST_STEEP)) ** done / best_ns
        closeness = _CLOSE * (_LESS_CLOSE / _CLOSE) ** done
        order, batch = random.permutation(len(root)), _BATCHES[index % len(_BATCHES)]
        reached = respond(order, batch, root, copies, inward, steepness, best_ns, closeness, *graph, link_ns, channel, *space)
        if reached < len(root):
            raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
        stale += 1
        if best is None or link_ns.max() < best_ns * (1 - 1e-9):
            best, best_ns, stale = Packing(root, inward, copies, channel.copy(), link_ns.copy()), float(link_ns.max()), 0
        if stale == _STALE_ROUNDS or best_ns <= bound_ns * (1 + 1e-9):
            break
    assert best is not None  # there is a round
    return best


def channel_loads(topology: Topology, timing: Timing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64[num_channels] each: how long the largest chunk keeps a channel's link or up-link busy, and its down-link."""
    if timing.is_blocking:
        delay_ns = timing.channel_delay_ns[:, -1].astype(np.float64)
        return delay_ns, delay_ns
    hold_ns = timing.link_hold_ns[:, -1].astype(np.float64)
    return hold_ns[topology.channel_link], hold_ns[topology.channel_down_link]


def _port_bound_ns(
    topology: Topology,
    root: NDArray[np.int64],
    inward: NDArray[np.bool_],
    copies: NDArray[np.float64],
    up_ns: NDArray[np.float64],
    down_ns: NDArray[np.float64],
) -> float:
    """What the links into or out of one NPU need at least, all of them busy: every tree enters or leaves it once."""
    down = topology.channel_down_link
    into, into_ns = np.where(down == NO_LINK, topology.channel_link, down), np.where(down == NO_LINK, up_ns, down_ns)
    worst = 1.0
    for link, ns, npu, is_sum in (
        (topology.channel_link, up_ns, topology.channel_src, True),
        (into, into_ns, topology.channel_dst, False),
    ):
        fastest, of_npu = np.full(topology.num_links, np.inf), np.zeros(topology.num_links, np.int64)
        np.minimum.at(fastest, link, ns)
        of_npu[link] = npu
        rate = np.bincount(of_npu, 1 / fastest, topology.num_npus)
        trees = inward == is_sum
        chunks = copies[trees].sum() - np.bincount(root[trees], copies[trees], topology.num_npus)
        worst = max(worst, float((chunks / rate).max()))
    return worst
