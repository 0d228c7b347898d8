"""Branchings: a Broadcast along edge-disjoint arborescences, each chunk along one of a few; a Reduce is the mirror image.

On a hierarchy of switches this is what is known as rail-aware: the root gives every chunk once to a peer in its node, who sends
it along its rail, from node to node, and in each node the NPUs of the rails pass chunks on to all others.
As few trees repeat, the sends of a switch repeat, too, and its ports are paired in the same way in every period. Chunks follow
one another in their order.

As many arborescences out of a root share the links, within whole capacities, as units can go from the root to every NPU (Edmonds,
"Edge-disjoint branchings", 1973). Each grows by channels that leave the others possible (Lovasz, "On two minimax theorems in
graph theory", 1976), which is a question of a few maximum flows per channel. A switch takes in as much as it gives out, so
channels through it can be split off without loss (Mader; Frank; for collectives: Zhao et al., "ForestColl", arXiv 2402.06787).
A period is the time in which every tree gets one chunk; a link's capacity is how many chunks it carries in a period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import MAX_CHUNKS, Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, Timing, compute_timing
from astra_tacos.support.arrays import Ints32
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.grouping import group_by
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import backwards, mirror
from astra_tacos.synthesizer.parts.trees import Branches, Packing, lengths, measure, send_graph_along_trees
from astra_tacos.synthesizer.routing.paths import channels_by_source, link_graph

if TYPE_CHECKING:
    from astra_tacos.synthesizer.algorithms._branching_kernels import Arcs


_HANDING_ON = 0.01
"""Share of the whole time that chunks may take from one end of a tree to the other."""
_MOST_TREES = 64
_MANY = 240
"""Trees whose period tells the rate of any number of trees: a multiple of all small numbers."""
_LOSSES = (1.003, 1.01, 1.03, 1.1, 1.3, 2.0)
_SLACKS = (1.0, 1.1, 1.3, 2.0, 4.0)
_CLOSE = 1e-4
_AS_GOOD = 1.02
"""Trees twice as many have to gain more: their sends pair the ports of switches in more ways."""
_FLOW, _GROWTH = 0.005, 0.03
"""Work, in units of `count_work`: of a link in a flow to one NPU; of a channel, times the square of the number of trees."""


@dataclass(frozen=True, slots=True, eq=False)
class Branchings:
    """Arborescences out of one root.

    `channel`: int32[num_trees, num_npus], the channel into each NPU, -1 for the root. `period_ns`: the time in which the busiest
    link carries a chunk of every tree that uses it. `branches`: how long they are.
    """

    channel: Ints32
    period_ns: float
    branches: Branches

    def estimate_ns(self, num_chunks: int) -> float:
        """The time that so many chunks take if links never wait."""
        trees, depth_ns = len(self.channel), self.branches.away_ns.max(axis=1)
        return num_chunks / trees * self.period_ns + float(depth_ns.mean())


class _Network:
    """Links of a topology with the time for which a chunk holds each, as the kernels take them."""

    def __init__(self, topology: Topology, timing: Timing, root: int) -> None:
        from astra_tacos.synthesizer.algorithms._branching_kernels import Channels

        self.topology, self.root = topology, root
        self.hold_ns = link_graph(topology, timing).hold
        token = topology.num_devices
        npus = np.arange(topology.num_npus)
        tail = np.concatenate((topology.link_src, np.full(len(npus), token), [token + 1])).astype(np.int64)
        head = np.concatenate((topology.link_dst, npus, [token])).astype(np.int64)
        self.head = np.stack((head, tail), 1).ravel()
        self.first, self.arc = group_by(np.stack((tail, head), 1).ravel(), np.arange(2 * len(tail)), token + 2)
        self.channels = Channels(*channels_by_source(topology, timing)[1:])

    def arcs(self, period_ns: float, most: int) -> Arcs:
        """Capacities: the chunks that each link carries in a period, no more than there are trees."""
        from astra_tacos.synthesizer.algorithms._branching_kernels import Arcs

        cap = np.zeros(len(self.head), np.int64)
        num_links = self.topology.num_links
        cap[: 2 * num_links : 2] = np.minimum(period_ns * (1 + 1e-9) / self.hold_ns, most)
        cap[-2] = 1
        return Arcs(self.first, self.arc, self.head, cap)

    def carries(self, period_ns: float, trees: int) -> bool:
        """Whether as many trees fit into a period."""
        from astra_tacos.synthesizer.algorithms._branching_kernels import reaches_all

        count_work(_FLOW * self.topology.num_npus * self.topology.num_links)
        return bool(reaches_all(self.root, trees, self.topology.num_npus, self.arcs(period_ns, trees)))

    def shortest_period(self, trees: int) -> float:
        """The shortest period for so many trees."""
        low, high = 0.0, float(self.hold_ns.max()) * trees
        if not self.carries(high, trees):
            raise SynthesisError(f"{self.topology.name}: some NPU cannot be reached, expected a connected network")
        while high - low > _CLOSE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.carries(middle, trees) else (middle, high)
        return high

    def pack(self, trees: int, period_ns: float) -> Ints32 | None:
        """So many trees in such a period; in a longer one, where switches take in more or less than they give out."""
        from astra_tacos.synthesizer.algorithms._branching_kernels import pack

        for slack in _SLACKS:
            channel = np.full((trees, self.topology.num_npus), -1, np.int32)
            packed = pack(self.root, self.topology.num_npus, self.arcs(period_ns * slack, trees), self.channels, channel)
            count_work(_GROWTH * trees * trees * self.topology.num_channels)
            if packed == trees:
                return channel
        return None

    def busiest_ns(self, trees: Ints32) -> float:
        """The time for which the trees hold the busiest link."""
        used = trees[trees >= 0]
        down = self.topology.channel_down_link[used]
        links = np.concatenate((self.topology.channel_link[used], down[down != NO_LINK]))
        return float((np.bincount(links, minlength=self.topology.num_links) * self.hold_ns).max())


def pack_branchings(topology: Topology, timing: Timing, root: int, most: int) -> Iterator[Branchings]:
    """Packings of the least number of arborescences that is about as fast as any, then of its multiples by powers of two.

    More trees are shallower, as each of them need not use every link.

    Parameters
    ----------
    most
        Trees at most.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    network = _Network(topology, timing, root)
    each_ns = network.shortest_period(_MANY) / _MANY
    most = min(most, _MOST_TREES)
    counts = (count for loss in _LOSSES for count in range(1, most + 1) if network.carries(count * each_ns * loss, count))
    trees = next(counts, 1)
    period_ns = network.shortest_period(trees)
    while trees <= most:
        channel = network.pack(trees, period_ns)
        if channel is not None:
            yield Branchings(channel, network.busiest_ns(channel), measure(topology, timing, channel, inward=False))
        trees, period_ns = 2 * trees, 2 * period_ns


def choose_branchings(topology: Topology, timing: Timing, root: int, num_chunks: int) -> Branchings:
    """The fewest trees that bring so many chunks to all NPUs in about the shortest time, by load and depth.

    Parameters
    ----------
    topology, timing, root
        See `pack_branchings`.
    num_chunks
        At least 1.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached, or no packing is found; there is one where switches take in as much as they give out.
    """
    packings: list[Branchings] = []
    for packing in pack_branchings(topology, timing, root, num_chunks):
        packings.append(packing)
        if packing.estimate_ns(num_chunks) <= _AS_GOOD * num_chunks / len(packing.channel) * packing.period_ns:
            break  # no others could gain enough
    if not packings:
        raise SynthesisError(f"{topology.name}: no arborescences fit, expected switches that take in as much as they give out")
    times = [packing.estimate_ns(num_chunks) for packing in packings]
    return next(packing for packing, time in zip(packings, times, strict=True) if time <= min(times) * _AS_GOOD)


_OF_LATENCY = 0.25
"""A chunk that holds links for this share of the latency is short."""
_FEW_TREES = 16
_MOST_LOOKS = 1 << 24
_MOST_SENDS = 1 << 24


def refuse_too_many_flows(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network or a collective is too large; None if it is not."""
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    looks = topology.num_npus * topology.num_channels
    return None if looks <= _MOST_LOOKS else f"packs at most {_MOST_LOOKS:,} NPUs times channels, these are {looks:,}"


def advise_chunks(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks with which `branchings` should come close to its best: a multiple of the number of trees.

    A chunk of transmission time t takes h hops of t + alpha to get everywhere, while the busiest links work for W. Where links
    are held for alpha with every chunk, W grows by alpha / t, and W alpha / t + h t is smallest at t = sqrt(W alpha / h). Where
    they are not, t is small enough when h t is a hundredth of W, or when t is short beside alpha.

    Parameters
    ----------
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.

    Raises
    ------
    ConfigError, SynthesisError
        If not even one chunk can be.
    """
    uncut = COLLECTIVES[name](topology.num_npus, size_bytes, 1)
    timing = compute_timing(topology, uncut, "pipelined")
    if not uncut.gathers:
        image = mirror(topology, timing)
        topology, timing = image.topology, image.timing
    assert uncut.root is not None
    branchings = choose_branchings(topology, timing, uncut.root, _FEW_TREES)
    trees, used = len(branchings.channel), np.unique(branchings.channel[branchings.channel >= 0])
    busy_ns = branchings.period_ns / trees
    down = topology.channel_down_link[used]
    links = np.unique(np.concatenate((topology.channel_link[used], down[down != NO_LINK])))
    slowest_ns = float(timing.link_hold_ns[links, 0].max())
    latency = topology.link_latency_ns
    latency_ns = latency[topology.channel_link[used]] + np.where(down == NO_LINK, 0.0, latency[down])
    alpha_ns, hops = float(latency_ns.max()), _hops(topology, branchings.channel)
    wanted_ns = max(_HANDING_ON * busy_ns / hops, _OF_LATENCY * alpha_ns)
    if link_model == "blocking":
        wanted_ns = float(np.sqrt(busy_ns * alpha_ns / hops))
    most = min(slowest_ns / max(wanted_ns, 1.0), max_sends / uncut.least_sends, MAX_CHUNKS)
    periods = max(int(most / trees), 1)
    while True:
        try:
            compute_timing(topology, COLLECTIVES[name](topology.num_npus, size_bytes, periods * trees), link_model)
        except (ConfigError, SynthesisError):
            if periods == 1:
                return 1
            periods //= 2
            continue
        return periods * trees


def _hops(topology: Topology, trees: Ints32) -> int:
    """The most channels from the root to an NPU."""
    return int(lengths(trees, topology.channel_src, np.ones(topology.num_channels, np.int64))[0].max())


def branchings(problem: Problem, seed: int) -> Schedule:
    """Pack arborescences out of the root and schedule the sends of chunks along them.

    Parameters
    ----------
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached, or switches take in more or less than they give out.
    """
    collective = problem.collective
    if collective.gathers:
        return _spread(problem, seed)
    return backwards(_spread, problem, seed)


def _spread(problem: Problem, seed: int) -> Schedule:
    topology, collective, timing = problem
    assert collective.root is not None
    branchings = choose_branchings(topology, timing, collective.root, collective.num_chunks)
    trees = len(branchings.channel)
    periods = np.array([collective.num_chunks / trees * branchings.period_ns])
    roots, tree_of = np.full(trees, collective.root), np.arange(collective.num_chunks) % trees
    packing = Packing(np.zeros(1, np.bool_), roots, branchings.channel[None], (branchings.branches,), periods, tree_of)
    sends = send_graph_along_trees(collective, packing, stagger=1.0)
    return dispatch(problem, sends, "branchings", seed)
