"""FullyConnected: one link for every ordered pair of NPUs."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import COMPLETE, BlockLinks
from astra_tacos.network.blocks.ring import CyclicBlock
from astra_tacos.network.blocks.routing import Spreads, spread_directly
from astra_tacos.support.arrays import Ints


class _FullyConnected(CyclicBlock):
    """A complete graph (`astra-network-analytical`, `FullyConnected.cpp`)."""

    __slots__ = ()

    name = COMPLETE
    is_in_astra_sim = True
    hops_through_members = False

    def links(self, size: int) -> BlockLinks:
        src, dst = np.nonzero(~np.eye(size, dtype=bool))
        return BlockLinks(src, dst)

    def estimated_channels(self, size: int) -> int:
        return size * (size - 1)

    def num_links(self, size: int) -> int:
        return size * (size - 1)

    def links_per_npu(self, size: int) -> int:
        return size - 1

    def num_crossed(self, size: int, src: Ints, dst: Ints) -> Ints:
        crossed: Ints = (src != dst).astype(np.int64)
        return crossed

    def next_member(self, size: int, here: Ints, target: Ints) -> Ints:
        return target

    def fewest_crossed(self, size: int) -> int:
        return 1

    def spread(self, size: int) -> Spreads:
        return spread_directly(size)

    def part(self, size: int, members: Ints) -> str:
        return self.name


FULLY_CONNECTED = _FullyConnected()
