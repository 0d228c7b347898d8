"""The `BuildingBlock` class: the links of one group of NPUs along one dimension, and every property that the package asks for.

A block has to give three things: its name, its links and the number of channels that they make. Everything else is derived from
the links, or the answer is that there is none, and the caller then refuses or does without. A block overrides what it knows
better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.blocks.routing import distances, distances_from, first_hops, first_hops_from_zero
from astra_tacos.blocks.spreading import Spreads, spread_over_shortest_routes
from astra_tacos.blocks.translations import Translations

NO_MEMBER = -1
"""After the last member of an axis that is a line."""
COMPLETE = "FullyConnected"
"""Name of the block in which every member has a link to every other."""


@dataclass(frozen=True, slots=True)
class BlockLinks:
    """Directed links between the members of one group, members `0 .. size - 1`, its switches after them.

    `src` and `dst` are integer arrays of one length; `num_switches` tells how many switch devices the group has.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    num_switches: int = 0


@dataclass(frozen=True, slots=True)
class Tour:
    """A path over hops through all members, int64[size]; if it `is_closed`, the last member has a hop to the first."""

    order: NDArray[np.int64]
    is_closed: bool


@dataclass(frozen=True, slots=True)
class SharedPart:
    """The links of some members of a group, as a share of a block, if other members like them use the same links.

    `block` is its name; links have `bandwidth` times the bandwidth and `latency` times the latency of the whole block's.
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
    a switch and down again. Methods take sizes that `expected_size` has no objection to; arguments that are arrays broadcast.
    """

    __slots__ = ()

    name: ClassVar[str]
    """As network files have it."""
    is_in_astra_sim: ClassVar[bool] = False
    """Whether ASTRA-sim's analytical backends have a block of this name."""
    hops_through_members: ClassVar[bool] = True
    """Whether a route may lead through other members, which store and forward; if not, every pair is one hop apart."""
    delivers_to_itself: ClassVar[bool] = False
    """Whether ASTRA-sim's congestion-aware backend takes a message from a member to itself."""
    drawing: ClassVar[Drawing] = Drawing.CIRCLE

    def expected_size(self, size: int) -> str | None:
        """The expected sizes (`a power of two`), if the block cannot have this size above 1; None if it can."""
        return None

    @abstractmethod
    def links(self, size: int) -> BlockLinks:
        """The links of one group. Of equally short routes, one over earlier links is preferred."""

    @abstractmethod
    def estimated_channels(self, size: int) -> int:
        """An upper estimate of the number of channels of a group, computed without arrays, which could fill the memory."""

    def num_switches(self, size: int) -> int:
        """Switch devices of a group."""
        return 0

    def num_links(self, size: int) -> int:
        """Links of a group."""
        return len(self.links(size).src)

    def links_per_npu(self, size: int) -> int:
        """Number of links by which a member sends, of the member that has the fewest."""
        src = self.links(size).src
        return int(np.bincount(src[src < size], minlength=size).min())

    # Routes of messages, as ASTRA-sim's backends take them, or would.

    def num_crossed(self, size: int, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, links on the route between two members, 0 from a member to itself."""
        translations = self.translations(size)
        if translations is None:
            return distances(self, size)[src, dst]
        return distances_from(self, size, 0)[translations.offset(src, dst)]

    def next_member(self, size: int, here: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, the next member on the route to a target; at the end of the route, the target itself."""
        translations = self.translations(size)
        if translations is None:
            return first_hops(self, size)[here, target]
        return translations.move(first_hops_from_zero(self, size)[translations.offset(here, target)], here)

    def fewest_crossed(self, size: int) -> int:
        """Links on the shortest of all routes between two members."""
        links = self.links(size)
        return 1 if np.any((links.src < size) & (links.dst < size)) else 2

    # Symmetry.

    def translations(self, size: int) -> Translations | None:
        """Translations that map a group onto itself, if it has them: it then looks the same from every member."""
        return None

    def link_classes(self, size: int) -> NDArray[np.int64] | None:
        """int64[num_links], the class of each link under the translations, None without them.

        A translation takes the links of a class to one another, and a class has one link out of (or into) every member: when
        all members do the same, a class is busy at all of them or at none.
        """
        translations = self.translations(size)
        if translations is None:
            return None
        links = self.links(size)
        up, down = links.dst - size, links.src - size  # a switch that the link leads to or comes from
        between = translations.offset(np.where(down < 0, links.src, 0), np.where(up < 0, links.dst, 0))
        kind = np.where(up >= 0, size + up, np.where(down >= 0, size + links.num_switches + down, between))
        return np.unique(kind, return_inverse=True)[1].ravel().astype(np.int64)

    # What synthesizers ask.

    def spread(self, size: int) -> Spreads:
        """How a chunk spreads from each member to all others.

        int32[2, size, 3, size - 1]: source, destination and step of each send, in two variants between which chunks alternate.
        """
        return spread_over_shortest_routes(self, size)

    def tour(self, size: int) -> Tour | None:
        """A path through all members, closed if possible; None if none is known."""
        return None

    def axes(self, size: int) -> NDArray[np.int64] | None:
        """int64[num_axes, size], the member after each one along some axes, `NO_MEMBER` at the end of a line; None if not known.

        A step goes over a hop that no other axis takes, either way. A step along one axis and one along another lead to the same
        member in either order. An axis is all circles of three or more, or all lines of one length.
        """
        return None

    def disjoint_cycles(self, size: int) -> Sequence[NDArray[np.int64]] | None:
        """Cycles through all members that share no link, either way, int64[size] each, if more are known than from `axes`."""
        return None

    # Parts of a group.

    def part(self, size: int, members: NDArray[np.int64]) -> str | None:
        """Name of the block that the links between some members (ascending, two or more) make, None if there is none.

        Members of the part have the order of those of the whole.
        """
        return None

    def shared_part(self, size: int, members: NDArray[np.int64]) -> SharedPart | None:
        """The share of the links that evenly spaced members have if the other members form groups like theirs; None if unknown.

        `members` are ascending, and two or more.
        """
        if len(members) == size:
            return SharedPart(self.name)
        part = self.part(size, members)
        return None if part is None else SharedPart(part)

    # ASTRA-sim's backends.

    def unaware_stand_in(self, size: int) -> str | None:
        """Name of the ASTRA-sim block that gives hops between neighbours the same time on the congestion-unaware backend."""
        if self.is_in_astra_sim:
            return self.name
        return None if self.num_switches(size) else COMPLETE

    def aware_substitute(self, size: int) -> str | None:
        """Name of the ASTRA-sim block to use instead where the congestion-aware backend aborts on this one, else None."""
        return None

    # Drawing.

    def most_links_between(self, size: int, stretches: int) -> int:
        """At most how many links a group has if it is drawn as so many stretches of members that become one each."""
        return stretches * (stretches - 1 + 2 * self.num_switches(size))
