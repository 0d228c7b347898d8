"""The roots of trees, and groups of chunks that share a tree."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

_NEAR_THE_MIDDLE = 1.34


def share_trees(root: NDArray[np.integer], num_npus: int, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assignment of chunks with given roots to about `most` trees in all: equally many per root, used by its chunks in turn.

    Returns
    -------
    tree_of, tree_root
        int64[num_chunks], the tree of each chunk; int64[num_trees], where each begins.
    """
    root = root.astype(np.int64)
    chunk = np.arange(len(root))
    count = np.bincount(root, minlength=num_npus)
    order = np.argsort(root, kind="stable")
    within = np.empty_like(chunk)
    within[order] = chunk - np.repeat(np.cumsum(count) - count, count)
    per_root = max(1, most // int(np.count_nonzero(count)))
    key, tree_of = np.unique(root * per_root + within % per_root, return_inverse=True)
    return tree_of, key // per_root


def spread_evenly(root: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order in which trees of every root follow one another at even distances.

    Parameters
    ----------
    root
        int64[num_trees], the root of each.

    Returns
    -------
    order
        int64[num_trees], numbers of trees.
    """
    count = np.bincount(root)
    order = np.argsort(root, kind="stable")
    within = np.empty(len(root), np.int64)
    within[order] = np.arange(len(root)) - np.repeat(np.cumsum(count) - count, count)
    return np.argsort((within + 0.5) / count[root], kind="stable")


def middle_npus(topology: Topology, timing: Timing, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """The central members: those with the smallest distance, or nearly so, from and to all other members."""
    return _middle_npus(topology, timing, tuple(members.tolist()))


@lru_cache(maxsize=16)
def _middle_npus(topology: Topology, timing: Timing, member_npus: tuple[int, ...]) -> NDArray[np.int64]:
    from scipy.sparse.csgraph import dijkstra

    members = np.array(member_npus, np.int64)
    graph = topology.channel_graph(timing.channel_delay_ns[:, -1].astype(np.float64))
    distance = dijkstra(graph, indices=members)[:, members]
    farthest = distance.max(axis=0) + distance.max(axis=1)
    middle: NDArray[np.int64] = members[farthest <= farthest.min() * _NEAR_THE_MIDDLE]
    return middle
