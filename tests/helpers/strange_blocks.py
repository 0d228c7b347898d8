"""Building blocks that say no more than they have to, as a stranger's first ones would."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock


class OneWay(BuildingBlock):
    """A ring with links one way only."""

    name = "OneWay"

    def links(self, size: int) -> BlockLinks:
        npus = np.arange(size)
        return BlockLinks(npus, (npus + 1) % size)

    def estimated_channels(self, size: int) -> int:
        return size


class HalfStar(BuildingBlock):
    """A line of which every other member has a port at a switch, too."""

    name = "HalfStar"

    def expected_size(self, size: int) -> str | None:
        return "3 or more" if size < 3 else None

    def links(self, size: int) -> BlockLinks:
        left, even = np.arange(size - 1), np.arange(0, size, 2)
        hub = np.full(len(even), size)
        return BlockLinks(np.concatenate((left, left + 1, even, hub)), np.concatenate((left + 1, left, hub, even)), 1)

    def estimated_channels(self, size: int) -> int:
        return 2 * size + size * size

    def num_switches(self, size: int) -> int:
        return 1


STRANGERS: dict[str, BuildingBlock] = {block.name: block for block in (OneWay(), HalfStar())}
