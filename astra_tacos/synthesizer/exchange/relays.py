"""Relays: the way of a value between NPUs without a channel leads through others, which keep what they pass on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology


def over_channels(
    topology: Topology, weight_ns: NDArray[np.int64], sends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sends of values over channels.

    Parameters
    ----------
    topology
        The network.
    weight_ns
        int64[num_channels], the delay of each channel, for shortest paths.
    sends
        int64[num_sends, 4], values, sources, destinations and steps.

    Returns
    -------
    sends, hop
        int64[..., 5], values, sources, destinations, steps and channels; and int64[...], how many channels of the same way and
        step come before. No NPU gets a value twice.
    """
    channel = topology.channel_of(sends[:, 1], sends[:, 2])
    direct = np.column_stack((sends, channel))
    if np.all(channel >= 0):
        return direct, np.zeros(len(sends), np.int64)
    relayed = np.unique(sends[channel < 0, 0])
    affected = np.isin(sends[:, 0], relayed)
    kept, moved = direct[~affected], direct[affected]
    moved = moved[np.lexsort((moved[:, 4] < 0, moved[:, 3], moved[:, 0]))]
    rows, hops = _forests(_Paths(topology, weight_ns), moved)
    hop = np.concatenate((np.zeros(len(kept), np.int64), np.array(hops, np.int64)))
    moved = np.array(rows, np.int64).reshape(-1, 4)
    moved = np.column_stack((moved, topology.channel_of(moved[:, 1], moved[:, 2])))
    return np.concatenate((kept, moved)), hop


class _Paths:
    """Shortest paths over channels, those from one NPU found when they are first asked for."""

    def __init__(self, topology: Topology, weight_ns: NDArray[np.int64]) -> None:
        self._graph = topology.channel_graph(weight_ns + 1e-3)
        self._before: dict[int, list[int]] = {}

    def path(self, src: int, dst: int) -> list[int]:
        """The NPUs on the way, both ends included."""
        from scipy.sparse.csgraph import dijkstra

        before = self._before.get(src)
        if before is None:
            before = self._before[src] = dijkstra(self._graph, indices=src, return_predecessors=True)[1].tolist()
        path = [dst]
        while path[-1] != src:
            path.append(before[path[-1]])
        return path[::-1]


def _forests(paths: _Paths, moved: NDArray[np.int64]) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Sends (value, source, destination, step), and the hop of each, of values that need relays; sorted by value and step."""
    rows: list[tuple[int, int, int, int]] = []
    hops: list[int] = []
    bounds = np.flatnonzero(np.diff(moved[:, 0], prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(bounds):
        table = moved[begin:end].tolist()
        arrived: dict[int, tuple[int, int]] = {}
        makers = {row[1] for row in table} - {row[2] for row in table}
        for value, src, dst, step, channel in table:
            if dst in arrived or dst in makers:
                continue
            path = paths.path(src, dst) if channel < 0 else [src, dst]
            last = max(at for at, npu in enumerate(path) if npu in arrived or npu in makers)
            when, after = arrived.get(path[last], (-1, -1))
            hop = after + 1 if when == step else 0
            for near, far in pairwise(path[last:]):
                rows.append((value, near, far, step))
                hops.append(hop)
                arrived[far] = step, hop
                hop += 1
    return rows, hops
