"""Levels: groups of NPUs that exchange values among one another, and how a value spreads in a group.

Relays: the way of a value between NPUs without a channel leads through others, which keep what they pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from astra_tacos.network.blocks.routing import Spreads, binomial_tree, spread_directly, spread_over_shortest_routes
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.grouping import group_by
from astra_tacos.support.units import bytes_per_ns

SHORTEST, DOUBLING = "shortest", "doubling"
"""Names of ways to spread: over shortest routes (directly, where there are channels), or by doubling who has it."""

_HOP_NS = 1e-3
"""Makes the one of the fewest hops the shortest of paths of one latency."""
_MOST_BALANCED = 1 << 20
"""NPUs times channels; above it, trees take the shortest paths that are found first."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Disjoint groups of NPUs, alike in size: those along a dimension, or all NPUs as one.

    Parameters
    ----------
    groups
        int64[num_groups, size], NPUs by their positions.
    ways
        Out-trees over positions: int32[variants, size, 3, size - 1] each, source, destination and step of the sends that
        spread a value from each position to all others.
    middle
        A position in the middle, near to all others.
    """

    groups: Ints
    ways: Mapping[str, Spreads]
    middle: int

    @property
    def size(self) -> int:
        """NPUs of a group."""
        return int(self.groups.shape[1])


@lru_cache(maxsize=4)
def dimension_levels(topology: Topology) -> tuple[Level, ...]:
    """One level for each dimension."""
    levels = []
    stride = 1
    for dimension in topology.dimensions:
        npus = np.arange(topology.num_npus)
        first = npus[npus // stride % dimension.size == 0]
        groups = first[:, None] + np.arange(dimension.size) * stride
        block, size = dimension.building_block, dimension.size
        shortest = spread_over_shortest_routes(block, size) if block.hops_through_members else spread_directly(size)
        depth = shortest[:, :, 2].max(axis=(0, 2))
        levels.append(Level(groups, _ways(shortest, size), int(np.argmin(depth))))
        stride *= size
    return tuple(levels)


@lru_cache(maxsize=4)
def whole_level(topology: Topology) -> Level:
    """All NPUs as one group."""
    shortest = np.stack([_shortest_trees(topology, turned) for turned in (False, True)])
    middle = int(np.argmin(shortest[0, :, 2].max(axis=1)))
    return Level(np.arange(topology.num_npus)[None], _ways(shortest, topology.num_npus), middle)


def _ways(shortest: Spreads, size: int) -> Mapping[str, Spreads]:
    near, far, step = binomial_tree(size)
    place = np.arange(size)[:, None]
    is_power = size & (size - 1) == 0
    ends = (place ^ end if is_power else (place - end) % size for end in (near, far))
    doubling = np.stack((*ends, np.broadcast_to(step, (size, size - 1))), axis=1).astype(np.int32)[None]
    return MappingProxyType({SHORTEST: shortest, DOUBLING: doubling})


def _shortest_trees(topology: Topology, turned: bool) -> Ints32:
    """int32[num_npus, 3, num_npus - 1], trees of paths of the least latency from all NPUs, the last NPU first if `turned`.

    Of equally short paths, one over the channels that the trees before have used least, by the time that a byte takes.
    """
    num_npus = topology.num_npus
    up, down = topology.channel_link, topology.channel_down_link
    switched = down >= 0
    latency = topology.link_latency_ns[up] + np.where(switched, topology.link_latency_ns[down], 0.0) + _HOP_NS
    distance, before = topology.channel_graph(latency).ways()
    ns_per_byte: list[float] = (1 / bytes_per_ns(topology.link_bandwidth_gibps)).tolist()
    into = group_by(topology.channel_dst, np.arange(topology.num_channels), num_npus)[1]
    src, dst = topology.channel_src[into], topology.channel_dst[into]
    ends: list[tuple[int, int]] = list(zip(up.tolist(), np.where(switched, down, up).tolist(), strict=True))
    load = [0.0] * topology.num_links

    def busy(channel: int) -> float:
        return max(load[link] + ns_per_byte[link] for link in ends[channel])

    trees = np.empty((num_npus, 3, num_npus - 1), np.int32)
    balances = num_npus * topology.num_channels <= _MOST_BALANCED
    for source in reversed(range(num_npus)) if turned else range(num_npus):
        parent = before[source].astype(np.int64)
        order = np.argsort(distance[source], kind="stable")[1:]
        depth = np.zeros(num_npus, np.int64)
        if balances:
            is_shortest = distance[source, src] + latency[into] <= distance[source, dst] + _HOP_NS / 2
            first, choices = group_by(dst[is_shortest], into[is_shortest], num_npus)
            begin, channels = first.tolist(), choices.tolist()
        for npu in order.tolist():
            if balances:
                channel = min(channels[begin[npu] : begin[npu + 1]], key=busy)
                for link in set(ends[channel]):
                    load[link] += ns_per_byte[link]
                parent[npu] = topology.channel_src[channel]
            depth[npu] = depth[parent[npu]] + 1
        order = order[np.argsort(depth[order], kind="stable")]
        trees[source] = parent[order], order, depth[order] - 1
    return trees


def over_channels(topology: Topology, weight_ns: Ints, sends: Ints) -> tuple[Ints, Ints]:
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

    def __init__(self, topology: Topology, weight_ns: Ints) -> None:
        self._graph = topology.channel_graph(weight_ns + 1e-3)
        self._before: dict[int, list[int]] = {}

    def path(self, src: int, dst: int) -> list[int]:
        """The NPUs on the way, both ends included."""
        before = self._before.get(src)
        if before is None:
            before = self._before[src] = self._graph.ways([src])[1][0].tolist()
        path = [dst]
        while path[-1] != src:
            path.append(before[path[-1]])
        return path[::-1]


def _forests(paths: _Paths, moved: Ints) -> tuple[list[tuple[int, int, int, int]], list[int]]:
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
