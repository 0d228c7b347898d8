"""Cheap trees that may branch at reducing devices: Steiner arborescences, by adding the nearest terminal again and again.

Takahashi and Matsuyama, "An approximate solution for the Steiner problem in graphs" (1980): in undirected graphs a tree costs
less than twice the cheapest. A linear programme that weighs many of them makes up for single ones that are not the cheapest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class NearestPaths:
    """Cheapest paths between holders over other holders.

    Parameters
    ----------
    cost
        float64[n, n], of the edge from each holder to each other, without holders between them; infinite where there is none.
    """

    def __init__(self, cost: NDArray[np.float64]) -> None:
        from scipy.sparse.csgraph import csgraph_from_dense, dijkstra

        graph = csgraph_from_dense(np.where(np.eye(len(cost), dtype=np.bool_), np.inf, cost), null_value=np.inf)
        self.cost, self._before = dijkstra(graph, return_predecessors=True)

    def path(self, src: int, dst: int) -> list[int]:
        """The holders from `src` to `dst`, both included."""
        found = [dst]
        while found[-1] != src:
            found.append(int(self._before[src, found[-1]]))
        return found[::-1]


def steiner_tree(paths: NearestPaths, root: int, terminals: NDArray[np.int64]) -> dict[int, int] | None:
    """The parent of every holder but the root in a tree out of it that reaches all terminals, each after its parent.

    None if a terminal cannot be reached.

    Parameters
    ----------
    paths
        Cheapest paths between holders.
    root
        A holder.
    terminals
        int64[m], holders that the tree has to reach.
    """
    waiting = np.zeros(len(paths.cost), np.bool_)
    waiting[terminals] = True
    waiting[root] = False
    nearest, origin = paths.cost[root].copy(), np.full(len(waiting), root)
    parent: dict[int, int] = {}
    while waiting.any():
        candidates = np.flatnonzero(waiting)
        target = int(candidates[nearest[candidates].argmin()])
        if not np.isfinite(nearest[target]):
            return None
        path = paths.path(int(origin[target]), target)
        known = max(at for at, holder in enumerate(path) if holder == root or holder in parent)
        for above, holder in zip(path[known:], path[known + 1 :], strict=False):
            parent[holder] = above
            waiting[holder] = False
            closer = paths.cost[holder] < nearest
            nearest = np.where(closer, paths.cost[holder], nearest)
            origin = np.where(closer, holder, origin)
    return parent
