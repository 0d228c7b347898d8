"""Double binary tree: two trees used by alternate chunks; an inner node of one tree is a leaf of the other.

Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); NCCL's `Tree`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def double_binary_tree(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Send chunks up and down two trees alternately; both trees hang from the root, if the collective has one.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """
    num_npus, num_chunks = topology.num_npus, collective.num_chunks
    parent = binary_tree(num_npus)
    place = np.stack(_places(num_npus, collective.root))
    slot = _slots(parent, place)
    chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus - 1)
    src, dst, step = (
        np.tile(of, (-(-num_chunks // 2), 1))[:num_chunks].ravel() for of in (place[:, parent[1:]], place[:, 1:], slot)
    )
    sends = make_send_graph(topology, collective, timing, lambda turned: Spread(chunk, src, dst, step))
    # Each chunk of a tree starts one slot after the chunk before it, so chunks go one by one, although they share a tree.
    sends = replace(sends, rank=sends.rank + sends.chunk // 2, message=None)
    return dispatch(topology, collective, timing, sends, "double-binary-tree", seed)


def binary_tree(size: int) -> NDArray[np.int32]:
    """int32[size], the parent of each place: 0 is its own and has one child, all others up to two, and odd places none.

    An in-order tree: the places on a level are the odd multiples of one power of two, and the parent of a place is the
    neighbour on the next level, unless that lies past the end: then, the nearest place before it on a higher level.
    """
    place = np.arange(size, dtype=np.int32)
    bit = place & -place
    above = np.where(place & (2 * bit), place - bit, place + bit)
    return np.where(above < size, above, place - bit).astype(np.int32)


def _slots(parent: NDArray[np.int32], place: NDArray[np.int32]) -> NDArray[np.int32]:
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


def _depth(parent: NDArray[np.int32], place: int) -> int:
    return 0 if place == 0 else 1 + _depth(parent, int(parent[place]))


def _places(num_npus: int, root: int | None) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The NPU at each place of both trees: NPUs at odd places of one tree are at even places of the other, where possible."""
    place = np.arange(num_npus, dtype=np.int32)
    if root is None:
        other = place[::-1] if num_npus % 2 == 0 else np.roll(place, -1)
        return place, other
    other = place.copy()
    other[1:] = np.roll(place[1:], -1) if num_npus % 2 == 0 else place[:0:-1]
    return (place + root) % np.int32(num_npus), (other + root) % np.int32(num_npus)
