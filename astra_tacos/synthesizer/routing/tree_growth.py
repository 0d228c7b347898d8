"""Trees of chunks that several members need or contribute to; they may pass through other NPUs, and load links evenly.

Prices are those of `paths`. A tree grows from its root: in each step it joins the member that is cheapest to reach from any NPU
of the tree. The delay from the root is part of the price, which limits the depth of trees.

The trees of an All-Reduce may have any NPU as their root, where that is asked for. Growth alone would never
take an idle one that shares a switch with the members, as one hop is cheaper than two; but then each member sends and receives
its data once and not nearly twice (a parameter server: Jiang et al., "A Unified Architecture for Accelerating Distributed DNN
Training in Heterogeneous GPU/CPU Clusters", OSDI 2020). So every round offers another root to every chunk.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Floats, Ints, Ints32
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by
from astra_tacos.synthesizer.parts.trees import Branches, Packing, measure, middle_npus, share_trees, spread_evenly
from astra_tacos.synthesizer.routing.paths import channels_by_source, link_graph

_LOOKS_A_ROUND = 1 << 24
"""Trees times links, and where there are switches times members: what a round looks at."""
_LOOK, _LOOK_AGAIN = 0.1, 0.035
"""Sends examined that a look at a link counts as, and at a device, where a tree starts looking again for every member."""
_DOUBLINGS = (0, 1, 2, 3, 4, 4, 5, 5, 5, 5)
_DELAY_SHARES = (1.0, 0.3, 0.3, 0.1, 0.1, 0.1, 0.03, 0.03, 0.01, 0.01)
_PATIENCE = 4
_FEW_OF_ONE_ROOT = 8
"""Delays count for less in proportion where one root has more chunks: all of them load its links, but the delays overlap."""


def may_choose_roots(topology: Topology, collective: Collective) -> bool:
    """Whether trees of an All-Reduce may gain from other roots than central members.

    NPUs that are no members can serve. And where links do not come in pairs of one speed, the rate of summing up and spreading
    at once depends on the roots.
    """
    return collective.num_phases == 2 and (len(collective.member_npus) < collective.num_npus or not _is_paired(topology))


@lru_cache(maxsize=16)
def _is_paired(topology: Topology) -> bool:
    """Whether every channel has one of the same speed in the opposite direction."""
    back = topology.channel_of(topology.channel_dst, topology.channel_src)
    switched = topology.channel_down_link != NO_LINK
    out = topology.link_bandwidth_gibps[topology.channel_link]
    into = np.where(switched, topology.link_bandwidth_gibps[topology.channel_down_link], out)
    return bool(np.all(back >= 0) and np.all(out == into[back]) and np.all(switched == switched[back]))


def grow_trees(
    problem: Problem,
    seed: int,
    others_ns: Floats | None = None,
    *,
    free_roots: bool = False,
) -> Packing:
    """Trees for all chunks.

    An All-Reduce has one into and one out of each root, other collectives one out of it. Many chunks of one root share trees.

    Parameters
    ----------
    seed
        In which order chunks choose, and which roots are first; and if the collective has a root, how much delays count.
    others_ns
        float64[num_links], for how long others hold each link; they are counted in the result.

    Raises
    ------
    SynthesisError
        If some member cannot be reached.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.routing._tree_kernels import Trees, grow

    random = np.random.default_rng(seed)
    tree_of, root = _assign(problem, seed)
    inward = np.array([True, False] if collective.num_phases == 2 else [False])
    is_member = np.zeros(topology.num_npus, np.bool_)
    is_member[collective.member_npus] = True
    trees = Trees(inward, root, np.full(len(root), -1), np.bincount(tree_of).astype(np.float64), is_member)
    channel = np.full((len(inward), len(root), topology.num_npus), -1, np.int32)
    load = np.zeros(topology.num_links) if others_ns is None else others_ns.copy()
    graph, channels = link_graph(topology, timing), channels_by_source(topology, timing)
    into_first, entering = group_by(topology.link_dst, np.arange(topology.num_links), topology.num_devices)
    # Where chunks are few, flat trees are sometimes faster, nevertheless: odd seeds make them.
    is_long = collective.root is not None and seed % 2 == 0
    weight_of_delays = min(1.0, _FEW_OF_ONE_ROOT / collective.num_chunks) if is_long else 1.0
    best, best_score, since = None, np.inf, 0
    measured: Ints32 | None = None
    branches: tuple[Branches, ...] = ()
    away_ns = 0.0
    for doublings, share in zip(_DOUBLINGS, _DELAY_SHARES, strict=True):
        norm = max(load.max() + (0.0 if best is not None else collective.num_chunks * graph.hold.max()), 1.0)
        order = random.permutation(len(root))
        if free_roots and best is not None:
            trees = trees._replace(offer=random.integers(topology.num_npus, size=len(root)))
        base = graph.base * (share * weight_of_delays)
        out_of = graph._replace(base=base, norm=norm, doublings=doublings)
        into = out_of._replace(out_first=into_first, out_link=entering, src=graph.dst, dst=graph.src)
        unreached = grow(order, trees, into, out_of, channels, channel, load)
        grown = len(inward) * (len(order) + np.count_nonzero(trees.offer >= 0))
        count_work(_LOOK * grown * topology.num_links)
        if topology.has_switches:
            count_work(_LOOK_AGAIN * grown * collective.num_members * topology.num_devices)
        if unreached >= 0:
            raise SynthesisError(f"{topology.name}: some NPU cannot be reached, expected a connected network")
        if measured is None or not np.array_equal(measured, channel):
            measured = channel.copy()
            branches = tuple(measure(topology, timing, *kind) for kind in zip(measured, inward.tolist(), strict=True))
            away_ns = sum(float(np.mean(kind.away_ns.max(axis=1))) for kind in branches)
        score = load.max() + away_ns
        since += 1
        if score < best_score * (1 - 1e-9):
            best = Packing(inward, root.copy(), channel.copy(), branches, load.copy(), tree_of)
            best_score, since = score, 0
        if since == _PATIENCE:
            break
    assert best is not None  # there is a round
    return replace(best, tree_of=tree_of[spread_evenly(best.root[tree_of])]) if free_roots else best


def _assign(problem: Problem, seed: int) -> tuple[Ints, Ints]:
    """The tree of each chunk, and the roots of trees: the owners of chunks, or central members."""
    topology, collective, timing = problem
    looks = topology.num_links * (collective.num_members if topology.has_switches else 1) * collective.num_phases
    most = max(1, _LOOKS_A_ROUND // looks)
    root: NDArray[np.integer] = collective.chunk_owner
    if collective.num_phases == 2:
        middle = np.roll(middle_npus(topology, timing, tuple(collective.member_npus.tolist())), seed % topology.num_npus)
        root = middle[np.arange(collective.num_chunks) % len(middle)]
    return share_trees(root, most)
