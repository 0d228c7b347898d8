"""Shortest routes in one group of a building block, found by breadth-first search over its links.

A hop leads from one member to another: over a link, or up to a switch and down again, which counts as two links.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.network.blocks.building_block import BuildingBlock

MOST_ROUTED = 2048
"""Largest group in which routes between all pairs are searched; with translations, routes from member 0 suffice for any size."""


@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """The hops out of every member m, entries `first[m]` to `first[m + 1] - 1`, in the order of the block's links.

    `dst` is the destination of each hop, `links` the number of its links: 1, or 2 through a switch.
    """

    first: NDArray[np.int64]
    dst: NDArray[np.int64]
    links: NDArray[np.int64]

    def out_of(self, member: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Destinations of the hops out of a member, and their numbers of links."""
        chosen = slice(self.first[member], self.first[member + 1])
        return self.dst[chosen], self.links[chosen]


@lru_cache(maxsize=16)
def hops_of(block: BuildingBlock, size: int) -> Hops:
    """The hops of one group of a block."""
    links = block.links(size)
    direct = (links.src < size) & (links.dst < size)
    src, dst = [links.src[direct]], [links.dst[direct]]
    count = [np.ones(len(src[0]), np.int64)]
    for switch in range(size, size + links.num_switches):
        ups, downs = links.src[links.dst == switch], links.dst[links.src == switch]
        up, down = (grid.ravel() for grid in np.meshgrid(ups, downs, indexing="ij"))
        src.append(up[up != down])
        dst.append(down[up != down])
        count.append(np.full(len(src[-1]), 2, np.int64))
    columns = [np.concatenate(column).astype(np.int64) for column in (src, dst, count)]
    order = np.argsort(columns[0], kind="stable")
    first = np.searchsorted(columns[0][order], np.arange(size + 1)).astype(np.int64)
    return Hops(first, columns[1][order], columns[2][order])


@lru_cache(maxsize=64)
def distances_from(block: BuildingBlock, size: int, source: int) -> NDArray[np.int64]:
    """int64[size], number of links on the shortest route from member `source` to each member."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    hops = hops_of(block, size)
    graph = csr_array((hops.links.astype(np.float64), hops.dst, hops.first), shape=(size, size))
    found: NDArray[np.int64] = dijkstra(graph, indices=source).astype(np.int64)
    return found


@lru_cache(maxsize=8)
def distances(block: BuildingBlock, size: int) -> NDArray[np.int64]:
    """int64[size, size], number of links on the shortest route from each member (row) to each member (column).

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROUTED` members.
    """
    _check_size(block, size)
    return np.stack([distances_from(block, size, source) for source in range(size)])


@lru_cache(maxsize=16)
def first_hops_from_zero(block: BuildingBlock, size: int) -> NDArray[np.int64]:
    """int64[size], the first member after 0 on the route to each member (0 for itself).

    Of equally short routes it is the one whose first link comes earlier in the block's order.
    """
    translations = block.translations(size)
    assert translations is not None
    distance = distances_from(block, size, 0)
    everyone = np.arange(size)
    after = np.zeros(size, np.int64)
    is_open = everyone != 0
    for dst, links in zip(*(column.tolist() for column in hops_of(block, size).out_of(0)), strict=True):
        left = distance[translations.offset(np.full(size, dst), everyone)]
        fits = is_open & (left + links == distance)
        after[fits] = dst
        is_open &= ~fits
    return after


@lru_cache(maxsize=8)
def first_hops(block: BuildingBlock, size: int) -> NDArray[np.int64]:
    """int64[size, size], the first member after each member (row) on the route to each member (column).

    Of equally short routes it is the one whose first link comes earlier in the block's order.

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROUTED` members.
    """
    distance, hops = distances(block, size), hops_of(block, size)
    after = np.empty((size, size), np.int64)
    for member in range(size):
        dst, links = hops.out_of(member)
        fits = links[:, None] + distance[dst] == distance[member]
        after[member] = dst[np.argmax(fits, axis=0)]
        after[member, member] = member
    return after


def _check_size(block: BuildingBlock, size: int) -> None:
    if size > MOST_ROUTED:
        raise ConfigError(f"{block.name} {size:,}: its routes are found one by one, expected at most {MOST_ROUTED:,} members")
