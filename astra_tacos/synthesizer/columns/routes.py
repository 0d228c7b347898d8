"""Cheapest routes between NPUs, or all that hold chunks, over forwarding devices, for prices of links that change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.rotations import Rotations
from astra_tacos.network.topology import Topology

_LEAST = 1e-9
"""Of the dearest link: shortest paths in a sparse graph need lengths above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Cheapest routes for one set of prices.

    `cost`: float64[num_ends, num_ends], of the route from each end to each other, infinite where there is none.
    """

    cost: NDArray[np.float64]
    _group: Rotations
    _row: dict[int, int]
    _before: NDArray[np.int32]
    _link: dict[tuple[int, int], int]
    _ends: NDArray[np.int64]
    _first_sink: int | None
    _known: dict[tuple[int, int], NDArray[np.int64]]

    def links(self, src: int, dst: int) -> list[int]:
        """The links of the route between two ends by their places among the ends, in order."""
        if self._group.order == 1:
            return self._found(src, dst)
        source = np.array(src)
        element = self._group.element_of(source)
        first, target = int(self._group.first_of(source)), int(self._group.back(element, np.array(dst)))
        if (first, target) not in self._known:
            self._known[first, target] = np.array(self._found(first, target), np.int64)
        moved: list[int] = self._group.move_links(element, self._known[first, target]).tolist()
        return moved

    def _found(self, src: int, dst: int) -> list[int]:
        found = []
        row, source = self._before[self._row[src]], int(self._ends[src])
        node = int(self._ends[dst]) if self._first_sink is None else self._first_sink + dst
        while node != source:
            previous = int(row[node])
            found.append(self._link[previous, node])
            node = previous
        return found[::-1]


class RouteFinder:
    """Finds cheapest routes on one topology.

    Parameters
    ----------
    topology
        The network.
    group
        Rotations that leave prices as they are, by default the identity: routes are found from the first NPU of each orbit. Only
        where the ends are the NPUs.
    through_npus
        Whether routes may pass NPUs on the way.
    ends
        int64[num_ends], the devices between which routes lead, which no route passes: by default the NPUs.
    """

    def __init__(
        self,
        topology: Topology,
        group: Rotations | None = None,
        *,
        through_npus: bool = False,
        ends: NDArray[np.int64] | None = None,
    ) -> None:
        num_devices = topology.num_devices
        self._ends = np.arange(topology.num_endpoints) if ends is None else ends
        self._group = Rotations((), topology.num_links) if group is None else group
        place = np.arange(len(self._ends))
        self._sources, self._row_of = np.unique(self._group.first_of(place), return_inverse=True)
        is_alone = self._group.order == 1
        self._seen = None if is_alone else self._group.back(self._group.element_of(place)[:, None], place[None])
        src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
        if through_npus:
            self._first_sink: int | None = None
            self._size = num_devices
        else:  # an end is two nodes: links leave the one and come to the other, which nothing leaves
            self._first_sink, self._size = num_devices, num_devices + len(self._ends)
            sink = np.full(num_devices, -1)
            sink[self._ends] = num_devices + np.arange(len(self._ends))
            dst = np.where(sink[dst] >= 0, sink[dst], dst)
        self._pair, self._which = np.unique(src * self._size + dst, return_inverse=True)

    def find(self, price: NDArray[np.float64]) -> Routes:
        """Routes for prices, float64[num_links]."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        price = np.maximum(price, _LEAST * max(float(price.max()), _LEAST))
        order = np.lexsort((price, self._which))  # of parallel links the cheapest
        link = order[np.searchsorted(self._which[order], np.arange(len(self._pair)))]
        row, column = self._pair // self._size, self._pair % self._size
        graph = csr_array((price[link], (row, column)), shape=(self._size, self._size))
        cost, before = dijkstra(graph, indices=self._ends[self._sources], return_predecessors=True)
        of_pair = dict(zip(zip(row.tolist(), column.tolist(), strict=True), link.tolist(), strict=True))
        sinks = self._ends if self._first_sink is None else self._first_sink + np.arange(len(self._ends))
        cost = cost[:, sinks] if self._seen is None else cost[:, sinks][self._row_of[:, None], self._seen]
        row_of = {source: row for row, source in enumerate(self._sources.tolist())}
        return Routes(cost, self._group, row_of, before, of_pair, self._ends, self._first_sink, {})
