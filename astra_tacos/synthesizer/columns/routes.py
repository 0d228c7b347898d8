"""Cheapest routes between NPUs, or all that hold chunks, over forwarding devices, for prices of links that change.

Columns: what can be done with a share of a collective's data, and the load that this puts on links.

Where a fabric looks the same from other NPUs, a column stands for its images, too: every orbit of links has one load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from astra_tacos.network.rotations import Rotations
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Floats, Ints, Ints32
from astra_tacos.support.graph import Graph

_LEAST = 1e-9
"""Of the dearest link: shortest paths in a sparse graph need lengths above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Cheapest routes for one set of prices.

    `cost`: float64[num_ends, num_ends], of the route from each end to each other, infinite where there is none.
    """

    cost: Floats
    _finder: RouteFinder
    _before: Ints32
    _link: dict[tuple[int, int], int]
    _known: dict[tuple[int, int], Ints]

    def links(self, src: int, dst: int) -> list[int]:
        """The links of the route between two ends by their places among the ends, in order."""
        group = self._finder.group
        if group.order == 1:
            return self._found(src, dst)
        source = np.array(src)
        element = group.element_of(source)
        first, target = int(group.first_of(source)), int(group.back(element, np.array(dst)))
        if (first, target) not in self._known:
            self._known[first, target] = np.array(self._found(first, target), np.int64)
        moved: list[int] = group.move_links(element, self._known[first, target]).tolist()
        return moved

    def _found(self, src: int, dst: int) -> list[int]:
        links, ends = [], self._finder.ends
        row, source = self._before[self._finder.row[src]], int(ends[src])
        node = int(self._finder.sinks[dst])
        while node != source:
            previous = int(row[node])
            links.append(self._link[previous, node])
            node = previous
        return links[::-1]


class RouteFinder:
    """Finds cheapest routes on one topology.

    Parameters
    ----------
    group
        Rotations that leave prices as they are, by default the identity: routes are found from the first NPU of each orbit. Only
        where the ends are the NPUs.
    ends
        int64[num_ends], the devices between which routes lead, which no route passes: by default the NPUs.
    """

    def __init__(
        self,
        topology: Topology,
        group: Rotations | None = None,
        *,
        through_npus: bool = False,
        ends: Ints | None = None,
    ) -> None:
        num_devices = topology.num_devices
        self.ends = np.arange(topology.num_endpoints) if ends is None else ends
        self.group = Rotations((), topology.num_links) if group is None else group
        place = np.arange(len(self.ends))
        self._sources, self._row_of = np.unique(self.group.first_of(place), return_inverse=True)
        is_alone = self.group.order == 1
        self._seen = None if is_alone else self.group.back(self.group.element_of(place)[:, None], place[None])
        src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
        self.row = {source: row for row, source in enumerate(self._sources.tolist())}
        self.sinks, self._size = self.ends, num_devices
        if not through_npus:  # an end is two nodes: links leave the one and come to the other, which nothing leaves
            self.sinks, self._size = num_devices + place, num_devices + len(place)
            sink = np.full(num_devices, -1)
            sink[self.ends] = self.sinks
            dst = np.where(sink[dst] >= 0, sink[dst], dst)
        self._pair, self._which = np.unique(src * self._size + dst, return_inverse=True)

    def find(self, price: Floats) -> Routes:
        """Routes for prices, float64[num_links]."""
        price = np.maximum(price, _LEAST * max(float(price.max()), _LEAST))
        order = np.lexsort((price, self._which))  # of parallel links the cheapest
        link = order[np.searchsorted(self._which[order], np.arange(len(self._pair)))]
        row, column = self._pair // self._size, self._pair % self._size
        cost, before = Graph.of(self._size, row, column, price[link]).ways(self.ends[self._sources])
        of_pair = dict(zip(zip(row.tolist(), column.tolist(), strict=True), link.tolist(), strict=True))
        cost = cost[:, self.sinks]
        cost = cost if self._seen is None else cost[self._row_of[:, None], self._seen]
        return Routes(cost, self, before, of_pair, {})


@dataclass(frozen=True, slots=True)
class Trip:
    """A chunk's way from one NPU to the next: the links, in order, whether it is added there, and for which target it goes.

    `target` is the NPU that the chunk is for, if every target gets another chunk; -1 if all get the same.
    """

    links: tuple[int, ...]
    adds: bool
    target: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A tree of trips for a chunk, or a path of trips to every target.

    Parameters
    ----------
    rows, load
        int64[n] and float64[n]: the rows of the programme that it uses, see `Demands`: orbits of links, and how often each link
        of these is used per byte of a demand; then windows, and the time that a byte takes of each, in ns.
    """

    demand: int
    trips: tuple[Trip, ...]
    rows: Ints
    load: Floats

    def cost(self, price: Floats) -> float:
        """What a byte along it costs, at the prices of all rows."""
        return float(price[self.rows] @ self.load)


def column_of(demand: int, trips: list[Trip], windows: Mapping[int, float] | None = None) -> Column:
    """The column of these trips, and of these windows by number with their times, where every link is an orbit of its own."""
    rows, load = np.unique(np.array([link for trip in trips for link in trip.links], np.int64), return_counts=True)
    if windows:
        rows = np.concatenate((rows, np.array(list(windows), np.int64)))
        load = np.concatenate((load, list(windows.values())))
    return Column(demand, tuple(trips), rows, load.astype(np.float64))
