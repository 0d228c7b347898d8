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

    def disjoint_cycles(self, size: int) -> list[Ints] | None:
        """Walecki's decomposition: zigzags 0, 1, -1, 2, -2, ... over all NPUs but one on a circle, closed by the last NPU."""
        if size == 2:
            return None
        hop = np.arange(size - 1)
        zigzag = np.where(hop % 2, (hop + 1) // 2, -(hop // 2))
        return [np.append((zigzag + first) % (size - 1), size - 1) for first in range((size - 1) // 2)]

    def part(self, size: int, members: Ints) -> str:
        return self.name


FULLY_CONNECTED = _FullyConnected()
