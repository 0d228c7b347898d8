"""Cheapest routes between NPUs, or all that hold chunks, over forwarding devices, for prices of links that change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.topology.topology import Topology

_LEAST = 1e-9
"""Of the dearest link: shortest paths in a sparse graph need lengths above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Cheapest routes for one set of prices.

    `cost`: float64[num_ends, num_ends], of the route from each end to each other, infinite where there is none.
    """

    cost: NDArray[np.float64]
    _before: NDArray[np.int32]
    _link: dict[tuple[int, int], int]
    _ends: NDArray[np.int64]
    _first_sink: int | None

    def links(self, src: int, dst: int) -> list[int]:
        """The links of the route between two ends by their places among the ends, in order."""
        found = []
        source = int(self._ends[src])
        node = int(self._ends[dst]) if self._first_sink is None else self._first_sink + dst
        while node != source:
            previous = int(self._before[src, node])
            found.append(self._link[previous, node])
            node = previous
        return found[::-1]


class RouteFinder:
    """Finds cheapest routes on one topology.

    Parameters
    ----------
    topology
        The network.
    through_npus
        Whether routes may pass NPUs on the way.
    ends
        int64[num_ends], the devices between which routes lead, which no route passes: by default the NPUs.
    """

    def __init__(self, topology: Topology, *, through_npus: bool = False, ends: NDArray[np.int64] | None = None) -> None:
        num_devices = topology.num_devices
        self._ends = np.arange(topology.num_endpoints) if ends is None else ends
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
        cost, before = dijkstra(graph, indices=self._ends, return_predecessors=True)
        of_pair = dict(zip(zip(row.tolist(), column.tolist(), strict=True), link.tolist(), strict=True))
        sinks = self._ends if self._first_sink is None else self._first_sink + np.arange(len(self._ends))
        return Routes(cost[:, sinks], before, of_pair, self._ends, self._first_sink)
