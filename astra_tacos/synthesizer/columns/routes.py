"""Cheapest routes between NPUs over forwarding devices, for prices of links that change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.topology.rotations import Rotations
from astra_tacos.topology.topology import Topology

_LEAST = 1e-9
"""Of the dearest link: shortest paths in a sparse graph need lengths above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Cheapest routes for one set of prices.

    `cost`: float64[num_npus, num_npus], of the route from each NPU to each other, infinite where there is none.
    """

    cost: NDArray[np.float64]
    _group: Rotations
    _row: dict[int, int]
    _before: NDArray[np.int32]
    _link: dict[tuple[int, int], int]
    _first_sink: int
    _known: dict[tuple[int, int], NDArray[np.int64]]

    def links(self, src: int, dst: int) -> list[int]:
        """The links of the route, in order."""
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
        row, node = self._before[self._row[src]], self._first_sink + dst
        while node != src:
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
        Rotations that leave prices as they are: routes are found from the first NPU of each orbit.
    through_npus
        Whether routes may pass NPUs on the way.
    """

    def __init__(self, topology: Topology, group: Rotations, *, through_npus: bool) -> None:
        self.num_npus, num_devices = topology.num_endpoints, topology.num_npus
        npus = np.arange(self.num_npus)
        self._group, first = group, group.first_of(npus)
        self._sources, self._row_of = np.unique(first, return_inverse=True)
        self._seen = None if group.order == 1 else group.back(group.element_of(npus)[:, None], npus[None])
        src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
        if through_npus:
            self._first_sink, self._size = 0, num_devices
        else:  # an NPU is two nodes: links leave the one and come to the other, which nothing leaves
            self._first_sink, self._size = num_devices, num_devices + self.num_npus
            dst = np.where(dst < self.num_npus, num_devices + dst, dst)
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
        cost, before = dijkstra(graph, indices=self._sources, return_predecessors=True)
        of_pair = dict(zip(zip(row.tolist(), column.tolist(), strict=True), link.tolist(), strict=True))
        sinks = slice(self._first_sink, self._first_sink + self.num_npus)
        cost = cost[:, sinks] if self._seen is None else cost[:, sinks][self._row_of[:, None], self._seen]
        row_of = {source: row for row, source in enumerate(self._sources.tolist())}
        return Routes(cost, self._group, row_of, before, of_pair, self._first_sink, {})
