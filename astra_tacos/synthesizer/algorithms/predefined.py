"""Algorithms whose pattern is known beforehand: direct, rings, halving and doubling, Bruck's, double binary trees.

Halving and doubling: log2 N steps, in which partners exchange half of the remaining data, or all that they have.

Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), sections 4.1 and 4.3;
ASTRA-sim's `halvingDoubling`.

Bruck's algorithm: ceil(log2 N) steps for any number N of NPUs, which stand on a circle.

Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
Systems" (1997), section 4 (concatenation) and, for personalised chunks, section 3 (index).

Direct: every NPU sends what it owns straight to every other NPU; pairs without a channel use shortest paths.

Source: ASTRA-sim's `direct` (`astra-sim/system/collective/AllToAll.cc` as it uses it for other collectives): one step, all
pairs at once.

Ring: chunks travel round rings through all NPUs, several rings at once, as in NCCL.

Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009); NCCL's `Ring`.

Double binary tree: two trees used by alternate chunks; an inner node of one tree is a leaf of the other.

Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); NCCL's `Tree`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.routing import binomial_tree
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints32
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import Make
from astra_tacos.synthesizer.parts.rings import find_rings
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def _along(spread: Callable[[Topology, Collective, bool], Spread], name: str) -> Make:
    """A synthesizer that sends chunks as `spread` says, of a network, a collective and whether it is turned round to add up."""

    def make(problem: Problem, seed: int) -> Schedule:
        topology, collective = problem.topology, problem.collective
        sends = make_send_graph(problem, partial(spread, topology, collective))
        return dispatch(problem, sends, name, seed)

    return make


def _halving_doubling(topology: Topology, collective: Collective, turned: bool) -> Spread:
    """Exchange data between partners, over log2 N steps.

    In step k of a gathering, NPUs whose ids differ only in bit k exchange all that they have. Reductions run backwards in time.
    """
    # Relative to the owner: every NPU that differs from it only below bit k sends to its partner in step k.
    return _by_doubling(topology, collective, np.bitwise_xor)


def _by_doubling(topology: Topology, collective: Collective, npu_at: Callable[[Ints32, Ints32], Ints32]) -> Spread:
    """Whoever has a chunk doubles in every step; `npu_at` tells the NPU at each place of the tree, as seen from the owner."""
    num_chunks = collective.num_chunks
    src, dst, step = binomial_tree(topology.num_npus)
    chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), len(dst))
    first, second = (npu_at(collective.chunk_owner[chunk], np.tile(end, num_chunks)) for end in (src, dst))
    return Spread(chunk, first, second, np.tile(step, num_chunks))


halving_doubling = _along(_halving_doubling, "halving-doubling")


def refuse_other_than_powers_of_two(topology: Topology, collective: Collective) -> str | None:
    """NPUs pair up in every step only if their number is a power of two."""
    if topology.num_npus & (topology.num_npus - 1):
        return f"has {topology.num_npus} NPUs, expected a power of two"
    return None


def _bruck(topology: Topology, collective: Collective, turned: bool) -> Spread:
    """Synthesize with Bruck's algorithm.

    In step k of a gathering, NPU v sends to NPU v - 2**k everything that v has and the other lacks. Reductions run backwards in
    time. In step k of an All-to-All, NPU v sends to NPU v + 2**k all chunks for NPUs whose distance from the owner has bit k.
    """
    num_npus = np.int32(topology.num_npus)
    if collective.chunk_target is not None:
        owner = collective.chunk_owner
        distance = (collective.chunk_target - owner) % num_npus
        step, chunk = np.nonzero(distance >> np.arange(int(num_npus).bit_length())[:, None] & 1)
        src = (owner[chunk] + distance[chunk] % (1 << step)) % num_npus
        columns = (chunk, src, (src + (1 << step)) % num_npus, step)
        return Spread(*(column.astype(np.int32) for column in columns))
    # As seen from the owner: after k steps the 2**k NPUs before it have the chunk.
    return _by_doubling(topology, collective, lambda owner, place: (owner - place) % num_npus)


bruck = _along(_bruck, "bruck")


def _direct(topology: Topology, collective: Collective, turned: bool) -> Spread:
    """Send each chunk straight from its owner to every other NPU (or to its target), to the next higher NPU first."""
    num_npus = topology.num_npus
    if collective.chunk_target is not None:
        chunk = np.arange(collective.num_chunks, dtype=np.int32)
        distance = (collective.chunk_target - collective.chunk_owner) % np.int32(num_npus)
    else:
        distance = np.tile(np.arange(1, num_npus, dtype=np.int32), collective.num_chunks)
        chunk = np.repeat(np.arange(collective.num_chunks, dtype=np.int32), num_npus - 1)
    src = collective.chunk_owner[chunk]
    dst = (src + (-distance if turned else distance)) % np.int32(num_npus)
    ends = (dst, src) if turned else (src, dst)
    # A send with a channel of its own uses it, even if there is a faster path, and goes before relayed sends.
    passed_on = topology.channel_of(*ends) < 0
    return Spread(chunk, src, dst, distance - 1 + passed_on * np.int32(num_npus))


direct = _along(_direct, "direct")


def _round(rings: Ints32, topology: Topology, collective: Collective, turned: bool) -> Spread:
    num_npus, num_chunks = topology.num_npus, collective.num_chunks
    place = np.empty_like(rings)
    np.put_along_axis(place, rings, np.arange(num_npus, dtype=np.int32)[None], axis=1)
    chunk = np.arange(num_chunks, dtype=np.int32)
    on = chunk % len(rings)
    step = np.arange(num_npus - 1, dtype=np.int32)
    start = place[on, collective.chunk_owner][:, None]
    direction = np.int32(-1 if turned else 1)
    src, dst = (rings[on[:, None], (start + direction * hops) % num_npus].ravel() for hops in (step, step + 1))
    return Spread(np.repeat(chunk, num_npus - 1), src, dst, np.tile(step, num_chunks))


def ring(problem: Problem, seed: int) -> Schedule:
    """Send every chunk all the way round one of several rings, which chunks use in turn; reductions go in the same direction."""
    return _along(partial(_round, find_rings(problem.topology)), "ring")(problem, seed)


def double_binary_tree(problem: Problem, seed: int) -> Schedule:
    """Send chunks up and down two trees alternately; both trees hang from the root, if the collective has one.

    Parameters
    ----------
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """
    topology, collective = problem.topology, problem.collective
    num_npus, num_chunks = topology.num_npus, collective.num_chunks
    parent = binary_tree(num_npus)
    place = np.stack(_places(num_npus, collective.root))
    slot = _slots(parent, place)
    chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus - 1)
    src, dst, step = (
        np.tile(of, (-(-num_chunks // 2), 1))[:num_chunks].ravel() for of in (place[:, parent[1:]], place[:, 1:], slot)
    )
    sends = make_send_graph(problem, lambda turned: Spread(chunk, src, dst, step))
    # Each chunk of a tree starts one slot after the chunk before it, so chunks go one by one, although they share a tree.
    sends = replace(sends, rank=sends.rank + sends.chunk // 2, message=None)
    return dispatch(problem, sends, "double-binary-tree", seed)


def binary_tree(size: int) -> Ints32:
    """int32[size], the parent of each place: 0 is its own and has one child, all others up to two, and odd places none.

    An in-order tree: the places on a level are the odd multiples of one power of two, and the parent of a place is the
    neighbour on the next level, unless that lies past the end: then, the nearest place before it on a higher level.
    """
    place = np.arange(size, dtype=np.int32)
    bit = place & -place
    above = np.where(place & (2 * bit), place - bit, place + bit)
    return np.where(above < size, above, place - bit).astype(np.int32)


def _slots(parent: Ints32, place: Ints32) -> Ints32:
    """int32[2, num_npus - 1], the slot in which each place receives the first chunk of its tree.

    An NPU takes from its two parents in odd and even slots by turns, and so it sends: Sanders et al. colour the trees' edges.
    """
    num_npus = len(parent)
    sends, takes = place[:, parent[1:]].ravel().tolist(), place[:, 1:].ravel().tolist()
    odd = _two_colours(sends, takes, num_npus)
    slot = np.zeros((2, num_npus), np.int32)
    by_depth = sorted(range(1, num_npus), key=lambda at: _depth(parent, at))
    for tree in range(2):
        for at in by_depth:
            after = slot[tree, parent[at]] + 1 if parent[at] else 0
            slot[tree, at] = after + (after % 2 != odd[tree * (num_npus - 1) + at - 1])
    return slot[:, 1:]


def _two_colours(sends: list[int], takes: list[int], num_npus: int) -> list[int]:
    """0 or 1 for each edge, so that no NPU sends, or receives, over two edges of one colour: colours alternate along paths."""
    edges: list[list[int]] = [[] for _ in range(2 * num_npus)]
    ends = [(src, num_npus + dst) for src, dst in zip(sends, takes, strict=True)]
    for edge, (src, dst) in enumerate(ends):
        edges[src].append(edge)
        edges[dst].append(edge)
    colour = [-1] * len(ends)
    # Paths first, from their beginnings. The rest are cycles, of even length because senders and receivers alternate.
    starts = [(of[0], end) for end, of in enumerate(edges) if len(of) == 1] + [(edge, ends[edge][0]) for edge in range(len(ends))]
    for edge, end in starts:
        following: int | None = edge
        now = 0
        while following is not None and colour[following] < 0:
            edge = following
            colour[edge], now = now, 1 - now
            end = sum(ends[edge]) - end
            following = next((other for other in edges[end] if other != edge), None)
    return colour


def _depth(parent: Ints32, place: int) -> int:
    return 0 if place == 0 else 1 + _depth(parent, int(parent[place]))


def _places(num_npus: int, root: int | None) -> tuple[Ints32, Ints32]:
    """The NPU at each place of both trees: NPUs at odd places of one tree are at even places of the other, where possible."""
    place = np.arange(num_npus, dtype=np.int32)
    if root is None:
        other = place[::-1] if num_npus % 2 == 0 else np.roll(place, -1)
        return place, other
    other = place.copy()
    other[1:] = np.roll(place[1:], -1) if num_npus % 2 == 0 else place[:0:-1]
    return (place + root) % np.int32(num_npus), (other + root) % np.int32(num_npus)
