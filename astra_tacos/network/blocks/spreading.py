"""Spreading trees: sends, with their steps, that bring a chunk from one member of a group to all others."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.routing import distances, distances_from, hops_of

if TYPE_CHECKING:
    from astra_tacos.network.blocks.building_block import BuildingBlock

Spreads = NDArray[np.int32]
"""int32[2, size, 3, size - 1]: variant, owner of the chunk, (source, destination, step), send."""


def binomial_tree(num_npus: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Source, destination and step of each send of a binomial tree, int32[num_npus - 1] each; the owner is NPU 0.

    After k steps 2**k NPUs have the chunk, and each of them sends it on in the next step.
    """
    dst = np.arange(1, num_npus, dtype=np.int32)
    step = np.floor(np.log2(dst)).astype(np.int32)
    return dst - (np.int32(1) << step), dst, step


def both_ways_alike(src: NDArray[np.integer], dst: NDArray[np.integer], step: NDArray[np.integer]) -> Spreads:
    """Spreads whose two variants are alike, from arrays that broadcast to [size, size - 1]."""
    one = np.stack(np.broadcast_arrays(src, dst, step), axis=1).astype(np.int32)
    return np.stack((one, one))


def spread_directly(size: int) -> Spreads:
    """The owner sends to all other members, one per step, the next higher one first."""
    place, hop = np.arange(size)[:, None], np.arange(1, size)[None]
    return both_ways_alike(place, (place + hop) % size, hop - 1)


@lru_cache(maxsize=16)
def spread_over_shortest_routes(block: BuildingBlock, size: int) -> Spreads:
    """Shortest-path trees: a member receives the chunk from a neighbour that is nearer to the owner.

    Of several such neighbours one variant uses the first, the other variant the last, in the order of the block's links.

    Raises
    ------
    ConfigError
        If the block has no translations and more than `MOST_ROUTED` members.
    """
    translations = block.translations(size)
    if translations is None:
        each = [_from_member(block, size, distances(block, size)[owner], owner) for owner in range(size)]
        return np.stack(each, axis=1)
    from_zero = _from_member(block, size, distances_from(block, size, 0), 0)
    everyone = np.arange(size)[None, :, None]
    ends = (translations.move(from_zero[:, None, end].astype(np.int64), everyone) for end in (0, 1))
    step = np.broadcast_to(from_zero[:, None, 2], (2, size, size - 1))
    return np.stack((*ends, step), axis=2).astype(np.int32)


def _from_member(block: BuildingBlock, size: int, distance: NDArray[np.int64], owner: int) -> Spreads:
    """int32[2, 3, size - 1], the sends of the owner's chunk, sorted by distance (int64[size], links from the owner)."""
    hops = hops_of(block, size)
    src = np.repeat(np.arange(size), np.diff(hops.first))
    leads_on = np.flatnonzero(distance[src] + hops.links == distance[hops.dst])
    leads_on = leads_on[np.argsort(hops.dst[leads_on], kind="stable")]
    reached, first = np.unique(hops.dst[leads_on], return_index=True)
    last = np.append(first[1:], len(leads_on)) - 1
    order = np.argsort(distance[reached], kind="stable")
    step = np.unique(distance[reached], return_inverse=True)[1].ravel()
    ways = [np.stack((src[leads_on[chosen]], reached, step))[:, order] for chosen in (first, last)]
    return np.stack(ways).astype(np.int32)
