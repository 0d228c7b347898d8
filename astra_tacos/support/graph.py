"""A directed graph whose edges have lengths. SciPy has the same algorithms, but loading it takes longer than most answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from astra_tacos.support.arrays import Floats, Ints, Ints32
from astra_tacos.support.grouping import group_by

Ways = tuple[Floats, Ints32]

NONE_BEFORE = -1
"""The vertex before a source, and before what no way leads to."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Edges by their tail; several may lead from one vertex to another.

    Parameters
    ----------
    first
        int64[num_vertices + 1], where the edges out of each vertex begin.
    head
        int64[num_edges], the vertex that each edge leads to.
    length
        float64[num_edges], 0 or more.
    """

    first: Ints
    head: Ints
    length: Floats

    @classmethod
    def of(cls, num_vertices: int, tail: NDArray[np.integer], head: NDArray[np.integer], length: ArrayLike = 1.0) -> Graph:
        """The graph of edges in any order; one length may stand for all."""
        first, order = group_by(tail, np.arange(len(tail)), num_vertices)
        lengths = np.broadcast_to(np.asarray(length, np.float64), len(tail))
        return cls(first, head[order].astype(np.int64), lengths[order])

    @property
    def size(self) -> int:
        """Number of vertices."""
        return len(self.first) - 1

    @property
    def turned(self) -> Graph:
        """The graph with every edge the other way round."""
        tail = np.repeat(np.arange(self.size), np.diff(self.first))
        return Graph.of(self.size, self.head, tail, self.length)

    def distances(self, sources: ArrayLike | None = None, limit: float = math.inf) -> Floats:
        """float64[num_sources, num_vertices], the lengths of shortest ways; infinity where there is none up to the limit.

        Parameters
        ----------
        sources
            Vertices, None for all.
        limit
            Longer ways do not count.
        """
        of = np.arange(self.size) if sources is None else np.asarray(sources, np.int64)
        return self._ways(np.arange(len(of) + 1), of, limit, False)[0]

    def from_nearest(self, sources: ArrayLike) -> Floats:
        """float64[num_vertices], the length of the shortest way from any of the sources; infinity where there is none."""
        of = np.asarray(sources, np.int64)
        distance: Floats = self._ways(np.array([0, len(of)]), of, math.inf, False)[0][0]
        return distance

    def ways(self, sources: ArrayLike | None = None) -> Ways:
        """As `distances`, and int32[num_sources, num_vertices], the vertex before each on its way, or `NONE_BEFORE`."""
        of = np.arange(self.size) if sources is None else np.asarray(sources, np.int64)
        return self._ways(np.arange(len(of) + 1), of, math.inf, True)

    def _ways(self, first: Ints, sources: Ints, limit: float, tells_before: bool) -> Ways:
        from astra_tacos.support._graph_kernels import Edges, shortest_ways

        shape = len(first) - 1, self.size
        distance = np.full(shape, np.inf)
        before = np.full(shape if tells_before else (0, 0), NONE_BEFORE, np.int32)
        shortest_ways(Edges(self.first, self.head, self.length), first, sources, limit, distance, before)
        return distance, before

    def strong_groups(self) -> tuple[int, Ints]:
        """How many groups of vertices reach one another, and int64[num_vertices], the group of each.

        Groups count by their first members.
        """
        from astra_tacos.support._graph_kernels import strong_groups

        group = np.full(self.size, -1, np.int64)
        return strong_groups(self.first, self.head, group), group

    def weak_groups(self) -> tuple[int, Ints]:
        """The same for the graph whose edges lead both ways."""
        tail = np.repeat(np.arange(self.size), np.diff(self.first))
        ends = np.concatenate((tail, self.head)), np.concatenate((self.head, tail))
        return Graph.of(self.size, *ends).strong_groups()
