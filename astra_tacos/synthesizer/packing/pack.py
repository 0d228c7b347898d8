"""Packing of one spanning tree per chunk into the links of a network, with the least load on the busiest link.

The best rates of packing are known exactly: of arborescences, the rate at which every cut lets data in (Edmonds, "Edge-disjoint
branchings", 1973); of spanning trees, the rate that every partition allows (Nash-Williams and Tutte, 1961). Here whole chunks are
packed, not fractions. Each chunk picks its cheapest tree given all others, where a link of load x costs exp(eta * x): the
multiplicative weights of fractional packing (Plotkin, Shmoys and Tardos 1995; Garg and Koenemann 1998), played as a congestion
game of best responses (Rosenthal 1973), in which no single response increases the sum over links. Rounds become steeper (eta
grows), so that the largest load counts more and more. Some rounds take a few trees out at a time and put them back, to leave
optima that no single tree can improve. The best packing of all rounds, by load and depth, is kept. In the first rounds links far
from the root cost more, which gives shallow trees that cross busy links early. A channel through a switch costs what its up-link
and its down-link cost, so trees account for ports and need no splitting-off (unlike ForestColl, arXiv 2402.06787); only NPUs
relay.

Where links do not come in pairs of one speed, the rate of summing up and spreading at once depends on the roots: then each round
offers every chunk another root.

The lengths of the branches of trees, in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by

if TYPE_CHECKING:
    from astra_tacos.synthesizer.packing._packing_kernels import Channels, Space


@dataclass(frozen=True, slots=True)
class Branches:
    """Times of a chunk along trees without congestion; in trees that lead into their roots, against the links' direction.

    Parameters
    ----------
    away_ns
        int64[num_trees, num_npus], from the root to the NPU.
    ahead_ns
        int64[num_trees, num_npus], from the NPU to the last one behind it.
    entry_ns
        int64[num_trees, num_npus], over the channel that joins the NPU to the tree; 0 for the root.
    """

    away_ns: NDArray[np.int64]
    ahead_ns: NDArray[np.int64]
    entry_ns: NDArray[np.int64]


def measure(topology: Topology, timing: Timing, channel: NDArray[np.int32], inward: bool) -> Branches:
    """Measure trees.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    inward
        Whether trees lead into their roots.
    """
    from astra_tacos.synthesizer.packing._packing_kernels import Branches as Results
    from astra_tacos.synthesizer.packing._packing_kernels import walk

    channel_ns = timing.channel_delay_ns[:, -1] + (timing.reduction_ns[-1] if inward else 0)
    away_ns, ahead_ns = np.empty((2, *channel.shape), np.int64)
    walk(channel, inward, topology.channel_src, topology.channel_dst, channel_ns, Results(away_ns, ahead_ns))
    return Branches(away_ns, ahead_ns, np.where(channel >= 0, channel_ns[channel], 0))


_LEAST_STEEP, _MOST_STEEP = 2.0, 300.0
_STEEP_PER_CHUNK = 8.0
"""One more chunk on a link raises its price by at most a factor exp of this; with more, rounding would lose cheap channels."""
_CLOSE, _LESS_CLOSE = 5.0, 0.05
_TASTE = 0.01
"""Ties between channels are broken by random price differences up to this share."""
_BATCHES = (1, 4, 1, 16)
_ROUNDS = 16
_STALE_ROUNDS = 5
_MOST_PRICES = 1 << 25
"""Rounds times trees times channels."""
_PRICE = 0.1
"""Sends examined that the price of a channel counts as."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees, and the loads that they put on links.

    Parameters
    ----------
    inward
        bool[num_kinds]: of each kind of tree, whether it leads into its root (to sum up) rather than out of it.
    root
        int64[num_trees], of the trees of every kind.
    channel
        int32[num_kinds, num_trees, num_npus], the channel that joins each NPU to the tree, from its root's side; -1 for the root.
    branches
        How long the trees of each kind are.
    link_ns
        float64[num_links], how long each link is busy with all chunks.
    """

    inward: NDArray[np.bool_]
    root: NDArray[np.int64]
    channel: NDArray[np.int32]
    branches: tuple[Branches, ...]
    link_ns: NDArray[np.float64]


def pack(
    topology: Topology,
    timing: Timing,
    inward: NDArray[np.bool_],
    root: NDArray[np.int64],
    copies: NDArray[np.float64],
    seed: int = 0,
) -> Packing:
    """Pack trees such that the busiest link has little load.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    inward
        See `Packing`.
    root
        int64[num_trees]. With trees of two kinds the packing chooses roots itself, and starts with these.
    copies
        float64[num_trees], how many chunks go along each tree.
    seed
        In which order trees respond, and to which proposals.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    from astra_tacos.synthesizer.packing._packing_kernels import Pricing, Trees, respond

    up_ns, down_ns = _busy_ns(topology, timing)
    moves = len(inward) > 1 and not _is_paired(topology, up_ns, down_ns)
    bound_ns = _port_bound_ns(topology, inward, root, copies, up_ns, down_ns)
    prices = len(inward) * len(root) * topology.num_channels * (1 + moves)
    rounds = int(np.clip(_MOST_PRICES // prices, 1, _ROUNDS))
    channels, space = _channels(topology, up_ns, down_ns), _space(topology, len(inward))
    random = np.random.default_rng(seed)

    root, link_ns = root.copy(), space.link_ns
    channel = np.full((len(inward), len(root), topology.num_npus), -1, np.int32)
    best, best_ns, best_score, stale, steepest = None, bound_ns, np.inf, 0, _LEAST_STEEP
    for index in range(rounds):
        steepness, closeness = _prices_of_round(index / rounds, steepest)
        order, batch = random.permutation(len(root)), _BATCHES[index % len(_BATCHES)]
        proposal = random.integers(topology.num_npus, size=len(root)) if moves else np.full(len(root), -1)
        taste = 1 + _TASTE * random.random(topology.num_channels)
        pricing = Pricing(steepness / best_ns, best_ns, closeness, taste)
        reached = respond(order, batch, Trees(root, proposal, copies, inward, channel), pricing, channels, space)
        count_work(_PRICE * prices)
        if reached < len(root):
            raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
        now_ns = float(link_ns.max())
        branches = tuple(measure(topology, timing, trees, bool(kind)) for trees, kind in zip(channel, inward, strict=True))
        score = now_ns + sum(float(np.mean(kind.away_ns.max(axis=1))) for kind in branches)
        stale += 1
        if score < best_score * (1 - 1e-9):
            best, best_score, stale = Packing(inward, root.copy(), channel.copy(), branches, link_ns.copy()), score, 0
        if index == 0:
            best_ns, steepest = now_ns, _steepest(bound_ns, channel[channel >= 0], copies, up_ns, down_ns)
        best_ns = min(best_ns, now_ns)
        if stale == _STALE_ROUNDS or best_ns <= bound_ns * (1 + 1e-9):
            break
    assert best is not None  # there is a round
    return best


def _steepest(
    bound_ns: float,
    used: NDArray[np.int32],
    copies: NDArray[np.float64],
    up_ns: NDArray[np.float64],
    down_ns: NDArray[np.float64],
) -> float:
    """The steepest prices allowed, from what a tree adds to the slowest of the links in use."""
    slowest = float(np.maximum(up_ns[used], down_ns[used]).max() * copies.max())
    return float(np.clip(_STEEP_PER_CHUNK * bound_ns / slowest, _LEAST_STEEP, _MOST_STEEP))


def _prices_of_round(done: float, steepest: float) -> tuple[float, float]:
    """Steepness and weight of closeness: the first rises in the first half of the rounds, the second falls in the second."""
    steeper, farther = min(2 * done, 1.0), max(2 * done - 1, 0.0)
    return _LEAST_STEEP * (steepest / _LEAST_STEEP) ** steeper, _CLOSE * (_LESS_CLOSE / _CLOSE) ** farther


def _busy_ns(topology: Topology, timing: Timing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64[num_channels] each: time that the largest chunk holds a channel's link or up-link, and its down-link if any."""
    if timing.is_blocking:
        delay_ns = timing.channel_delay_ns[:, -1].astype(np.float64)
        return delay_ns, delay_ns
    hold_ns = timing.link_hold_ns[:, -1].astype(np.float64)
    down = topology.channel_down_link
    return hold_ns[topology.channel_link], np.where(down == NO_LINK, 0.0, hold_ns[down])


def _is_paired(topology: Topology, up_ns: NDArray[np.float64], down_ns: NDArray[np.float64]) -> bool:
    """Whether every channel has one of the same speed in the opposite direction."""
    back = topology.channel_of(topology.channel_dst, topology.channel_src)
    switched = topology.channel_down_link != NO_LINK
    into_ns = np.where(switched, down_ns, up_ns)
    return bool(np.all(back >= 0) and np.all(up_ns == into_ns[back]) and np.all(switched == switched[back]))


def _channels(topology: Topology, up_ns: NDArray[np.float64], down_ns: NDArray[np.float64]) -> Channels:
    """Channels in the kernel's layout."""
    from astra_tacos.synthesizer.packing._packing_kernels import Channels

    src, dst, channels = topology.channel_src, topology.channel_dst, np.arange(topology.num_channels)
    leaving, entering = group_by(src, channels, topology.num_npus), group_by(dst, channels, topology.num_npus)
    return Channels(src, dst, *leaving, *entering, topology.channel_link, topology.channel_down_link, up_ns, down_ns)


def _space(topology: Topology, num_kinds: int) -> Space:
    """Work space of the kernel."""
    from astra_tacos.synthesizer.packing._packing_kernels import HEAP_ROWS, KEY_ROWS, NODE_ROWS, PRICE_ROWS, Space

    num_npus, num_channels = topology.num_npus, topology.num_channels
    return Space(
        np.zeros(topology.num_links),
        np.empty((NODE_ROWS, 2 * num_npus), np.int64),
        np.empty((HEAP_ROWS, num_channels), np.int64),
        np.empty((KEY_ROWS, num_channels)),
        np.empty((PRICE_ROWS, num_channels)),
        np.empty(num_npus, np.int64),
        np.empty(num_npus, np.int64),
        np.empty(topology.num_links),
        np.empty((num_kinds, num_npus), np.int32),
    )


def _port_bound_ns(
    topology: Topology,
    inward: NDArray[np.bool_],
    root: NDArray[np.int64],
    copies: NDArray[np.float64],
    up_ns: NDArray[np.float64],
    down_ns: NDArray[np.float64],
) -> float:
    """Least time of the links into or out of one NPU, all of them busy: every tree leaves or enters every NPU once."""
    down = topology.channel_down_link
    into, into_ns = np.where(down == NO_LINK, topology.channel_link, down), np.where(down == NO_LINK, up_ns, down_ns)
    fixed = np.bincount(root, copies, topology.num_npus) if len(inward) == 1 else 0
    worst = 1.0
    for link, ns, npu, is_sum in (
        (topology.channel_link, up_ns, topology.channel_src, True),
        (into, into_ns, topology.channel_dst, False),
    ):
        if is_sum not in inward:
            continue
        fastest, of_npu = np.full(topology.num_links, np.inf), np.zeros(topology.num_links, np.int64)
        np.minimum.at(fastest, link, ns)
        of_npu[link] = npu
        rate = np.bincount(of_npu, 1 / fastest, topology.num_npus)
        worst = max(worst, float(np.max((copies.sum() - fixed) / rate)))
    return worst
