"""Hypercube: 2**k NPUs, with a link each way between NPUs whose ids differ in one bit.

Source: Saad, Schultz, "Topological Properties of Hypercubes", IEEE Transactions on Computers 37 (1988).
"""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock, Tour
from astra_tacos.network.blocks.routing import BitwiseTranslations, Spreads, binomial_tree
from astra_tacos.support.arrays import Ints, Ints32


class _Hypercube(BuildingBlock):
    """A binary cube of k dimensions. Routes correct the lowest differing bit first (e-cube)."""

    __slots__ = ()

    name = "Hypercube"

    def expected_size(self, size: int) -> str | None:
        return "a power of two" if size & (size - 1) else None

    def links(self, size: int) -> BlockLinks:
        npus = np.arange(size)
        return BlockLinks(np.tile(npus, _bits(size)), np.concatenate([npus ^ (1 << bit) for bit in range(_bits(size))]))

    def estimated_channels(self, size: int) -> int:
        return size * _bits(size)

    def translations(self, size: int) -> BitwiseTranslations:
        return BitwiseTranslations()

    def spread(self, size: int) -> Spreads:
        """Recursive doubling: one variant from the lowest bit to the highest, the other from the highest to the lowest."""
        place = np.arange(size)[:, None]
        near, far, step = binomial_tree(size)
        ways = []
        for reverses in (False, True):
            ends = (_reversed_bits(end, size) if reverses else end for end in (near, far))
            ways.append(np.stack((*(place ^ end for end in ends), np.broadcast_to(step, (size, size - 1))), axis=1))
        return np.stack(ways).astype(np.int32)

    def tour(self, size: int) -> Tour:
        """The order of the reflected Gray code."""
        npus = np.arange(size)
        return Tour(npus ^ (npus >> 1), is_closed=True)

    def part(self, size: int, members: Ints) -> str | None:
        """A smaller hypercube if the members are all combinations of some bits, with the other bits fixed."""
        count = len(members)
        bits = int(np.bitwise_or.reduce(members ^ members[0]))
        return self.name if count == 1 << bits.bit_count() else None


def _bits(size: int) -> int:
    return size.bit_length() - 1


def _reversed_bits(npus: Ints32, size: int) -> Ints32:
    turned = np.zeros_like(npus)
    for bit in range(_bits(size)):
        turned |= (npus >> bit & 1) << (_bits(size) - 1 - bit)
    return turned


HYPERCUBE = _Hypercube()
