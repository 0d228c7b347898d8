"""Switch: one switch device, with an up-link and a down-link per NPU. All messages of an NPU share its port."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks, Drawing
from astra_tacos.network.blocks.ring import CyclicBlock
from astra_tacos.network.blocks.routing import Spreads, binomial_tree, both_ways_alike, spread_directly
from astra_tacos.support.arrays import Ints


class _Switch(CyclicBlock):
    """A switch, the device of index `size` (`astra-network-analytical`, `Switch.cpp`)."""

    __slots__ = ()

    name = "Switch"
    is_in_astra_sim = True
    hops_through_members = False
    delivers_to_itself = True
    drawing = Drawing.STAR

    def links(self, size: int) -> BlockLinks:
        npus = np.arange(size)
        device = np.full(size, size)
        return BlockLinks(np.concatenate((npus, device)), np.concatenate((device, npus)), num_switches=1)

    def estimated_channels(self, size: int) -> int:
        return size * (size - 1)

    def num_switches(self, size: int) -> int:
        return 1

    def links_per_npu(self, size: int) -> int:
        return 1

    def num_crossed(self, size: int, src: Ints, dst: Ints) -> Ints:
        crossed: Ints = 2 * (src != dst).astype(np.int64)
        return crossed

    def next_member(self, size: int, here: Ints, target: Ints) -> Ints:
        return target

    def spread(self, size: int) -> Spreads:
        """A binomial tree (halving and doubling) if the size is a power of two, else sends from the owner to all others."""
        if size & (size - 1):
            return spread_directly(size)
        near, far, when = binomial_tree(size)
        place = np.arange(size)[:, None]
        return both_ways_alike(place ^ near, place ^ far, when)

    def part(self, size: int, members: Ints) -> str:
        return self.name

    def most_links_between(self, size: int, stretches: int) -> int:
        return 2 * stretches


SWITCH = _Switch()
