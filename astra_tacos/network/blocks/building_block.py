"""The `BuildingBlock` class: the links of one group of NPUs along one dimension, and every property that the package asks for.

A block has to define three things: its name, its links and an estimate of its number of channels. The other methods derive their
results from the links, or return None, in which case the caller refuses or does without. A block overrides a method if it has a
better answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from astra_tacos.network.blocks.routing import (
    Spreads,
    Translations,
    distances,
    distances_from,
    first_hops,
    first_hops_from_zero,
    spread_over_shortest_routes,
)
from astra_tacos.support.arrays import Ints

COMPLETE = "FullyConnected"
"""Name of the block in which every member has a link to every other member."""


@dataclass(frozen=True, slots=True)
class BlockLinks:
    """The directed links of one group. Devices are its members `0 .. size - 1`, then its switches.

    `src` and `dst` are int64[num_links]; `num_switches` is the number of switch devices of the group.

    Examples
    --------
    >>> import numpy as np
    >>> from astra_tacos import BlockLinks
    >>> one_way = BlockLinks(np.arange(4), (np.arange(4) + 1) % 4)
    >>> one_way.dst.tolist()
    [1, 2, 3, 0]
    """

    src: Ints
    dst: Ints
    num_switches: int = 0


@dataclass(frozen=True, slots=True)
class Tour:
    """A path over hops through all members, int64[size]. If it `is_closed`, the last member has a hop to the first one."""

    order: Ints
    is_closed: bool


@dataclass(frozen=True, slots=True)
class SharedPart:
    """The share that some members of a group have of its links, if the other members form groups like theirs.

    The members are connected as in the block of name `block`, by links with `bandwidth` times the bandwidth and `latency` times
    the latency of the links of the whole group.
    """

    block: str
    bandwidth: float = 1.0
    latency: float = 1.0


class Drawing(Enum):
    """The way in which the members of a group are placed in a drawing."""

    LINE = "side by side; with others of its kind or with rings as a grid"
    RING = "around a circle; with others of its kind or with lines as a grid, whose rows close over an arc"
    CIRCLE = "around a circle"
    STAR = "around a circle, the switch in the middle"


class BuildingBlock(ABC):
    """A kind of network that one dimension can be.

    Members of a group are numbered `0 .. size - 1`. A *hop* leads from a member to the next one on a route: over a link, or up to
    a switch and down again. Methods require a size for which `expected_size` returns None. Array arguments broadcast.

    Examples
    --------
    >>> from astra_tacos import BUILDING_BLOCKS
    >>> len(BUILDING_BLOCKS["Ring"].links(4).src)
    8
    """

    __slots__ = ()

    name: ClassVar[str]
    """The name in network files."""
    is_in_astra_sim: ClassVar[bool] = False
    """Whether ASTRA-sim's analytical backends have a block of this name."""
    hops_through_members: ClassVar[bool] = True
    """Whether a route may lead through other members, which store and forward; if not, every pair is one hop apart."""
    delivers_to_itself: ClassVar[bool] = False
    """Whether ASTRA-sim's congestion-aware backend takes a message from a member to itself."""
    drawing: ClassVar[Drawing] = Drawing.CIRCLE

    def expected_size(self, size: int) -> str | None:
        """None if the block can have this size, 2 or more; else the sizes that it can have, in words (`a power of two`)."""
        return None

    @abstractmethod
    def links(self, size: int) -> BlockLinks:
        """The links of one group. Their order matters: of equally short routes, the one over earlier links is chosen."""

    @abstractmethod
    def estimated_channels(self, size: int) -> int:
        """An upper bound on the number of channels of a group, computed without arrays, as the size may be huge."""

    def num_switches(self, size: int) -> int:
        """Number of switch devices of a group."""
        return 0

    def num_links(self, size: int) -> int:
        """Number of links of a group."""
        return len(self.links(size).src)

    def links_per_npu(self, size: int) -> int:
        """Number of links out of a member, the fewest of all members."""
        src = self.links(size).src
        return int(np.bincount(src[src < size], minlength=size).min())

    # Routes of messages: those of ASTRA-sim's backends for blocks that ASTRA-sim has.

    def num_crossed(self, size: int, src: Ints, dst: Ints) -> Ints:
        """int64, number of links on the routes from members `src` to members `dst`, 0 from a member to itself."""
        translations = self.translations(size)
        if translations is None:
            return distances(self, size)[src, dst]
        return distances_from(self, size, 0)[translations.offset(src, dst)]

    def next_member(self, size: int, here: Ints, target: Ints) -> Ints:
        """int64, the members after `here` on the routes to `target`; at the end of a route, the target itself."""
        translations = self.translations(size)
        if translations is None:
            return first_hops(self, size)[here, target]
        return translations.move(first_hops_from_zero(self, size)[translations.offset(here, target)], here)

    def fewest_crossed(self, size: int) -> int:
        """Number of links on the shortest of all routes between two different members."""
        links = self.links(size)
        return 1 if np.any((links.src < size) & (links.dst < size)) else 2

    # Symmetry.

    def translations(self, size: int) -> Translations | None:
        """Translations that map the links onto themselves and every member to every other one, None if there are none."""
        return None

    def link_classes(self, size: int) -> Ints | None:
        """int64[num_links], the class of each link under the translations; None without translations.

        A translation maps links to links of the same class, and a class has one link out of (or into) every member. If all
        members send alike, either all links of a class are busy or none.
        """
        translations = self.translations(size)
        if translations is None:
            return None
        links = self.links(size)
        up, down = links.dst - size, links.src - size  # number of the switch at the end, or at the begin, of a link
        between = translations.offset(np.where(down < 0, links.src, 0), np.where(up < 0, links.dst, 0))
        kind = np.where(up >= 0, size + up, np.where(down >= 0, size + links.num_switches + down, between))
        return np.unique(kind, return_inverse=True)[1].ravel().astype(np.int64)

    # Structures for synthesizers.

    def spread(self, size: int) -> Spreads:
        """Sends that spread a chunk from each member to all others.

        int32[2, size, 3, size - 1]: variant, owner, (source, destination, step), send. Chunks alternate between the variants.
        """
        return spread_over_shortest_routes(self, size)

    def tour(self, size: int) -> Tour | None:
        """A Hamiltonian path over hops, closed if possible; None if none is known."""
        return None

    # Parts of a group.

    def part(self, size: int, members: Ints) -> str | None:
        """Name of the block that some members form with the links between them, None if they form none.

        `members` are two or more, ascending; the members of the part have the same order.
        """
        return None

    def shared_part(self, size: int, members: Ints) -> SharedPart | None:
        """The share of the links that evenly spaced members have if the other members form groups like theirs; None if unknown.

        `members` are two or more, ascending.
        """
        if len(members) == size:
            return SharedPart(self.name)
        part = self.part(size, members)
        return None if part is None else SharedPart(part)

    # Substitutes on ASTRA-sim's backends.

    def unaware_substitute(self, size: int) -> str | None:
        """Name of the ASTRA-sim block to use for this one on the congestion-unaware backend, None if there is none.

        It gives hops between neighbours the same time. A block of ASTRA-sim is its own substitute.
        """
        if self.is_in_astra_sim:
            return self.name
        return None if self.num_switches(size) else COMPLETE

    def aware_substitute(self, size: int) -> str | None:
        """Name of the ASTRA-sim block to use instead if the congestion-aware backend aborts on this one, else None."""
        return None

    # Drawing.

    def most_links_between(self, size: int, stretches: int) -> int:
        """Upper bound on the number of links of a group that is drawn with its members merged into `stretches` ranges."""
        return stretches * (stretches - 1 + 2 * self.num_switches(size))
