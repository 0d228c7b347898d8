"""Double binary tree: two trees in which no NPU passes chunks on twice, each for every other chunk, chunk after chunk.

Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009); NCCL's `Tree`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch import dispatch
from astra_tacos.synthesizer.routing import Spread, make_plan
from astra_tacos.topology.topology import Topology


def double_binary_tree(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Chunks go up and down the two trees by turns; both trees hang from the root, if the collective has one."""

    def spread_out(turned: bool) -> Spread:
        num_npus, num_chunks = topology.num_npus, collective.num_chunks
        parent = binary_tree(num_npus)
        child = np.arange(1, num_npus, dtype=np.int32)
        step = _depths(parent)[child] - 1
        places = _places(num_npus, collective.root)
        chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus - 1)
        ends = (np.tile(places[:, of], (-(-num_chunks // 2), 1))[:num_chunks].ravel() for of in (parent[child], child))
        return Spread(chunk, *ends, np.tile(step, num_chunks))

    plan = make_plan(topology, collective, timing, spread_out)
    plan = replace(plan, rank=plan.rank + plan.chunk // 2)  # a tree's chunks set out one after another
    return dispatch(topology, collective, timing, plan, "double-binary-tree", seed)


def binary_tree(size: int) -> NDArray[np.int32]:
    """int32[size], the parent of each place: 0 is its own and has one child, all others up to two, and odd places none.

    An in-order tree: the places on a level are the odd multiples of one power of two, and the parent of a place is the
    neighbour on the next level, unless that lies past the end: then, the nearest place before it on a higher level.
    """
    place = np.arange(size, dtype=np.int32)
    bit = place & -place
    above = np.where(place & (2 * bit), place - bit, place + bit)
    return np.where(above < size, above, place - bit).astype(np.int32)


def _depths(parent: NDArray[np.int32]) -> NDArray[np.int32]:
    depth = np.zeros(len(parent), np.int32)
    place = parent.copy()
    depth[1:] = 1
    while place.any():
        depth += place != 0
        place = parent[place]
    return depth


def _places(num_npus: int, root: int | None) -> NDArray[np.int32]:
    """int32[2, num_npus], the NPU at each place of either tree: places change from odd to even where that can be."""
    place = np.arange(num_npus, dtype=np.int32)
    if root is None:
        other = place[::-1] if num_npus % 2 == 0 else np.roll(place, -1)
        return np.stack((place, other))
    other = place.copy()
    other[1:] = np.roll(place[1:], -1) if num_npus % 2 == 0 else place[:0:-1]
    return (np.stack((place, other)) + np.int32(root)) % np.int32(num_npus)
