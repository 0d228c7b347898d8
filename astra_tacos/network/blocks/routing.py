"""Shortest routes in one group of a building block, found by breadth-first search over its links.

A hop leads from one member to another: over a link, or up to a switch and down again, which counts as two links.

Translations: permutations of a group's members that map links onto links, one for every image of member 0.

A block that has them is the Cayley graph of an Abelian group (Akers, Krishnamurthy, "A Group-Theoretic Model for Symmetric
Interconnection Networks", IEEE Transactions on Computers, 1989): it looks the same from every member.

Spreading trees: sends, with their steps, that bring a chunk from one member of a group to all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.graph import Graph

if TYPE_CHECKING:
    from astra_tacos.network.blocks.building_block import BuildingBlock


MOST_ROUTED = 2048
"""Largest group in which routes between all pairs are searched; with translations, routes from member 0 suffice for any size."""


@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """The hops out of every member m, entries `first[m]` to `first[m + 1] - 1`, in the order of the block's links.

    `dst` is the destination of each hop, `links` the number of its links: 1, or 2 through a switch.
    """

    first: Ints
    dst: Ints
    links: Ints

    def out_of(self, member: int) -> tuple[Ints, Ints]:
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
def distances_from(block: BuildingBlock, size: int, source: int) -> Ints:
    """int64[size], number of links on the shortest route from member `source` to each member."""
    hops = hops_of(block, size)
    return Graph(hops.first, hops.dst, hops.links.astype(np.float64)).from_nearest([source]).astype(np.int64)


@lru_cache(maxsize=8)
def distances(block: BuildingBlock, size: int) -> Ints:
    """int64[size, size], number of links on the shortest route from each member (row) to each member (column).

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROUTED` members.
    """
    _check_size(block, size)
    return np.stack([distances_from(block, size, source) for source in range(size)])


@lru_cache(maxsize=16)
def first_hops_from_zero(block: BuildingBlock, size: int) -> Ints:
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
def first_hops(block: BuildingBlock, size: int) -> Ints:
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


Members = Ints


class Translations(Protocol):
    """A group's translations; that `by` member b takes member 0 to member b."""

    def move(self, member: Members, by: Members) -> Members:
        """Where `member[i]` goes in the translation by `by[i]`."""

    def offset(self, src: Members, dst: Members) -> Members:
        """Where `dst[i]` goes in the translation that takes `src[i]` to 0."""


@dataclass(frozen=True, slots=True)
class CyclicTranslations:
    """Addition modulo the number of members."""

    size: int

    def move(self, member: Members, by: Members) -> Members:
        """`(member + by) mod size`."""
        moved: Members = (member + by) % self.size
        return moved

    def offset(self, src: Members, dst: Members) -> Members:
        """`(dst - src) mod size`."""
        moved: Members = (dst - src) % self.size
        return moved


@dataclass(frozen=True, slots=True)
class BitwiseTranslations:
    """Addition of bits without carry: exclusive or."""

    def move(self, member: Members, by: Members) -> Members:
        """`member xor by`."""
        return member ^ by

    def offset(self, src: Members, dst: Members) -> Members:
        """`dst xor src`."""
        return dst ^ src


Spreads = Ints32
"""int32[2, size, 3, size - 1]: variant, owner of the chunk, (source, destination, step), send."""


def binomial_tree(num_npus: int) -> tuple[Ints32, Ints32, Ints32]:
    """Source, destination and step of each send of a binomial tree, int32[num_npus - 1] each; the owner is NPU 0.

    After k steps 2**k NPUs have the chunk, and each of them sends it on in the next step.
    """
    dst = np.arange(1, num_npus, dtype=np.int32)
    step = np.floor(np.log2(dst)).astype(np.int32)
    return dst - (np.int32(1) << step), dst, step


def both_ways_alike(src: NDArray[np.integer], dst: NDArray[np.integer], step: NDArray[np.integer]) -> Spreads:
    """Spreads whose two variants are alike, from arrays that broadcast to [size, size - 1]."""
    one_way = np.stack(np.broadcast_arrays(src, dst, step), axis=1).astype(np.int32)
    return np.stack((one_way, one_way))


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
        of_owner = [_from_member(block, size, distances(block, size)[owner]) for owner in range(size)]
        return np.stack(of_owner, axis=1)
    from_zero = _from_member(block, size, distances_from(block, size, 0))
    everyone = np.arange(size)[None, :, None]
    ends = (translations.move(from_zero[:, None, end].astype(np.int64), everyone) for end in (0, 1))
    step = np.broadcast_to(from_zero[:, None, 2], (2, size, size - 1))
    return np.stack((*ends, step), axis=2).astype(np.int32)


def _from_member(block: BuildingBlock, size: int, distance: Ints) -> Spreads:
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
