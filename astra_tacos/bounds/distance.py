"""Latency bound: a chunk of one NPU has to travel to the NPU that is farthest from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

_ALL_SOURCES_UP_TO = 512
_SWEEPS = 16
UNREACHED = 1 << 60
"""More ns than any chunk takes, for devices that none reaches."""


def diameter(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The largest time, over pairs of NPUs, of the smallest chunk on the fastest path from one to the other.

    With a root, one of the pair is the root. Else, past 512 NPUs not every source is tried: each sweep starts where the last one
    found the farthest NPU. Whatever pair that finds still bounds the time from below. An All-Reduce takes this long once, not
    twice: its two phases need not follow one another (each NPU may send what it has to all others).
    """
    from scipy.sparse.csgraph import dijkstra

    if collective.root is not None:
        distance = root_distance_ns(topology, collective, timing)
        members = collective.member_npus
        far = int(members[distance[members].argmax()])
        ends = (collective.root, far) if collective.root_owns and not collective.reduces else (far, collective.root)
        return Bound("diameter", int(distance[far]), f"NPU {ends[0]} to NPU {ends[1]}", ends)
    members = collective.member_npus
    graph = _graph(topology, collective, timing)
    if collective.part_bytes is not None:
        return _farthest_pair(collective, dijkstra, graph)
    every = len(members) <= _ALL_SOURCES_UP_TO
    best, pair = 0.0, (0, 0)
    sources = members if every else members[:1]
    for _ in range(1 if every else _SWEEPS):
        distance = dijkstra(graph, indices=sources)[:, members]
        row, column = np.unravel_index(int(distance.argmax()), distance.shape)
        if distance[row, column] <= best:
            break
        best, pair = float(distance[row, column]), (int(sources[row]), int(members[column]))
        sources = members[[column]]
    time = int(best)
    if collective.num_phases == 2:
        time += timing.least_reduction_ns  # what arrives there has been added to something at least once
    return Bound("diameter", time, f"NPU {pair[0]} to NPU {pair[1]}", pair)


def _farthest_pair(collective: Collective, dijkstra: Callable[..., NDArray[np.float64]], graph: Any) -> Bound:
    """The largest time over pairs of which one has something for the other, which need not be all."""
    assert collective.chunk_target is not None
    sources = np.unique(collective.chunk_owner)[:_ALL_SOURCES_UP_TO]
    of_these = np.flatnonzero(collective.chunk_owner <= sources[-1])
    row = np.searchsorted(sources, collective.chunk_owner[of_these])
    time = dijkstra(graph, indices=sources)[row, collective.chunk_target[of_these]]
    far = int(time.argmax())
    pair = int(collective.chunk_owner[of_these[far]]), int(collective.chunk_target[of_these[far]])
    return Bound("diameter", int(time[far]), f"NPU {pair[0]} to NPU {pair[1]}", pair)


@lru_cache(maxsize=2)
def root_distance_ns(topology: Topology, collective: Collective, timing: Timing) -> NDArray[np.int64]:
    """int64[num_npus], time of the smallest chunk from the root; or to the root, including reductions if it reduces.

    Devices that have no way there, such as a switch without links, are `UNREACHED`.
    """
    from scipy.sparse.csgraph import dijkstra

    graph = _graph(topology, collective, timing)
    spreads = collective.root_owns and not collective.reduces
    distance: NDArray[np.float64] = dijkstra(graph if spreads else graph.T, indices=collective.root)
    return np.where(np.isfinite(distance), distance, UNREACHED).astype(np.int64)


def _graph(topology: Topology, collective: Collective, timing: Timing) -> Any:
    hop = timing.channel_delay_ns[:, 0].astype(np.float64)
    if collective.only_reduces and not topology.forwarding:
        hop = hop + float(timing.reduction_ns[0])  # every partial sum is added where it arrives
    return topology.channel_graph(hop)
