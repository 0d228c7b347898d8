"""Ring: every NPU has a link to each of its two neighbours; two NPUs have one link each way."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.blocks.building_block import COMPLETE, BlockLinks, BuildingBlock, Drawing, SharedPart, Tour
from astra_tacos.network.blocks.mesh import MESH
from astra_tacos.network.blocks.routing import CyclicTranslations, Spreads
from astra_tacos.support.arrays import Ints


class CyclicBlock(BuildingBlock):
    """A block that looks the same after its members have turned by any number, with a hop from each to the next."""

    __slots__ = ()

    def translations(self, size: int) -> CyclicTranslations:
        """Turns by each number of members."""
        return CyclicTranslations(size)

    def tour(self, size: int) -> Tour:
        """The members in their order."""
        return Tour(np.arange(size), is_closed=True)


class _Ring(CyclicBlock):
    """A bidirectional ring (`astra-network-analytical`, `Ring.cpp`)."""

    __slots__ = ()

    name = "Ring"
    is_in_astra_sim = True
    drawing = Drawing.RING

    def links(self, size: int) -> BlockLinks:
        npus = np.arange(size)
        following = (npus + 1) % size
        if size == 2:
            return BlockLinks(npus, following)
        return BlockLinks(np.concatenate((npus, following)), np.concatenate((following, npus)))

    def estimated_channels(self, size: int) -> int:
        return 2 * size

    def links_per_npu(self, size: int) -> int:
        return min(2, size - 1)

    def num_crossed(self, size: int, src: Ints, dst: Ints) -> Ints:
        up = (dst - src) % size
        crossed: Ints = np.minimum(up, size - up)
        return crossed

    def next_member(self, size: int, here: Ints, target: Ints) -> Ints:
        """The next member in the shorter direction; the next higher one if both are equally short (`Ring.cpp`)."""
        up = (target - here) % size
        following: Ints = (here + np.where(size - up < up, -1, np.minimum(up, 1))) % size
        return following

    def spread(self, size: int) -> Spreads:
        """Around the ring: one variant upwards, the other downwards."""
        place, hop = np.arange(size)[:, None], np.arange(1, size)[None]
        ways = [np.stack(((place + way * (hop - 1)) % size, (place + way * hop) % size, hop - 1 + 0 * place)) for way in (1, -1)]
        return np.stack(ways).transpose(0, 2, 1, 3).astype(np.int32)

    def part(self, size: int, members: Ints) -> str | None:
        return self.name if len(members) == size else MESH.part(size, members)

    def shared_part(self, size: int, members: Ints) -> SharedPart:
        """A line, or a ring if the members are spread over the whole ring, with a share of the links between them."""
        apart = int(members[1] - members[0])
        if len(members) * apart != size:
            return MESH.shared_part(size, members)
        # A ring of two has one link each way, but both halves of the whole ring connect these two members.
        both_ways = 2 if apart > 1 and len(members) == 2 else 1
        return SharedPart(self.name, both_ways / apart, apart)

    def aware_substitute(self, size: int) -> str | None:
        """FullyConnected for two NPUs: a Ring makes their link twice, at which ASTRA-sim aborts (`Device.cpp`, `connect`)."""
        return COMPLETE if size == 2 else None

    def most_links_between(self, size: int, stretches: int) -> int:
        return 2 * stretches


RING = _Ring()
