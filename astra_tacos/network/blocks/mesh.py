"""Mesh: an open line of NPUs, with a link each way between neighbours."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock, Drawing, SharedPart, Tour
from astra_tacos.network.blocks.routing import Spreads, both_ways_alike
from astra_tacos.support.arrays import Ints


class _Mesh(BuildingBlock):
    """A line of NPUs. A dimension with this block is one axis of a k-dimensional mesh. ASTRA-sim has no such block."""

    __slots__ = ()

    name = "Mesh"
    drawing = Drawing.LINE

    def links(self, size: int) -> BlockLinks:
        left = np.arange(size - 1)
        return BlockLinks(np.concatenate((left, left + 1)), np.concatenate((left + 1, left)))

    def estimated_channels(self, size: int) -> int:
        return 2 * size

    def links_per_npu(self, size: int) -> int:
        """1, as the NPUs at the ends have one link."""
        return 1

    def num_crossed(self, size: int, src: Ints, dst: Ints) -> Ints:
        crossed: Ints = np.abs(dst - src)
        return crossed

    def next_member(self, size: int, here: Ints, target: Ints) -> Ints:
        following: Ints = here + np.sign(target - here)
        return following

    def spread(self, size: int) -> Spreads:
        """From the owner along the line to both ends."""
        place = np.arange(size)[:, None]
        dst = np.array([np.delete(np.arange(size), at) for at in range(size)])
        return both_ways_alike(dst - np.sign(dst - place), dst, np.abs(dst - place) - 1)

    def tour(self, size: int) -> Tour:
        return Tour(np.arange(size), is_closed=False)

    def part(self, size: int, members: Ints) -> str | None:
        """A line if the members are consecutive."""
        return self.name if members[-1] - members[0] == len(members) - 1 else None

    def shared_part(self, size: int, members: Ints) -> SharedPart:
        """A line with a share of the links between the members if these are not consecutive."""
        apart = int(members[1] - members[0])
        return SharedPart(self.name, 1 / apart, apart)

    def unaware_substitute(self, size: int) -> str:
        """A Ring, in which hops between neighbours take the same time."""
        return "Ring"

    def most_links_between(self, size: int, stretches: int) -> int:
        return 2 * stretches


MESH = _Mesh()
