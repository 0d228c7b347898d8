"""Networks of NPUs that stand for a graph with devices that forward: what synthesizers for networks of NPUs run on.

The network of pairs has a link for each pair of NPUs between which devices only forward. The network of levels has a dimension
for each level of the graph: NPUs whose routes have less latency or more bandwidth than those to all others make a part, and the
NPUs at one place of all parts make a group of the next level. Pairs share links of the graph, so each gets a fair share of the
slowest link on its fixed route: the bandwidth that a pair has while all pairs send, or all pairs of its level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from astra_tacos.network.blocks.fully_connected import FULLY_CONNECTED
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.partitions import nested_partitions
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.support.arrays import Floats, Ints

_DIGITS = 6
"""Of latencies in ns: sums that differ by less are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class NpuNetwork:
    """A network of NPUs that stands for a graph.

    Parameters
    ----------
    npu
        int64[num_npus], which NPU of the graph each NPU of the network is.
    """

    topology: Topology
    npu: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Routes:
    """The fixed routes of some pairs of NPUs: float64[num_pairs] each, latency in ns and a fair share of GiB/s if all send."""

    latency_ns: Floats
    share_gibps: Floats


def _routes_of(topology: Topology, src: Ints, dst: Ints, *, alone: bool = False) -> _Routes:
    """Routes of pairs, each `alone` on its links if told so."""
    first, link = DeviceRoutes(topology).find(src, dst)
    users = 1 if alone else np.bincount(link, minlength=topology.num_links)[link]
    share = topology.link_bandwidth_gibps[link] / users
    begin = first[:-1]
    return _Routes(np.add.reduceat(topology.link_latency_ns[link], begin), np.minimum.reduceat(share, begin))


@lru_cache(maxsize=4)
def network_of_pairs(topology: Topology) -> NpuNetwork:
    """NPUs with a link for each pair that a route joins which passes no other NPU."""
    count = topology.num_endpoints
    src, dst = np.nonzero((DeviceRoutes(topology).relays() == 0) & ~np.eye(count, dtype=np.bool_))
    routes = _routes_of(topology, src, dst)
    pairs = Topology(
        f"pairs of {topology.name}",
        count,
        0,
        src.astype(np.int32),
        dst.astype(np.int32),
        routes.share_gibps,
        routes.latency_ns,
        np.full(len(src), NO_DIMENSION, np.int16),
    )
    return NpuNetwork(pairs, np.arange(count))


@lru_cache(maxsize=4)
def network_of_levels(topology: Topology) -> NpuNetwork | None:
    """NPUs in two dimensions or more, the innermost level first; None if the graph has no such levels.

    Parts of a level are of one size. In a dimension, NPUs have links to one another of the median latency and share of their
    routes, which pass no other NPU.
    """
    count = topology.num_endpoints
    src, dst = np.nonzero(~np.eye(count, dtype=np.bool_))
    of_pairs = _routes_of(topology, src, dst, alone=True)
    measures = np.zeros((2, count, count))
    measures[0, src, dst] = np.round(of_pairs.latency_ns, _DIGITS)
    measures[1, src, dst] = 1 / of_pairs.share_gibps
    levels = [part for part in nested_partitions(measures) if len(set(np.bincount(part).tolist())) == 1]
    if len(levels) < 2:
        return None
    npu = np.lexsort((np.arange(count), *levels))
    relays = DeviceRoutes(topology).relays()
    dimensions, inside = [], 1
    for part in levels:
        size = count // (int(part.max()) + 1) // inside
        groups = npu.reshape(-1, size, inside)
        here, there = np.nonzero(~np.eye(size, dtype=np.bool_))
        src, dst = groups[:, here].ravel(), groups[:, there].ravel()
        if np.any(relays[src, dst]):
            return None
        routes = _routes_of(topology, src, dst)
        share, latency_ns = float(np.median(routes.share_gibps)), float(np.median(routes.latency_ns))
        dimensions.append(Dimension(FULLY_CONNECTED.name, size, share, latency_ns))
        inside *= size
    return NpuNetwork(build_topology(NetworkConfig(f"levels of {topology.name}", tuple(dimensions))), npu)


def levels_or_pairs(topology: Topology) -> NpuNetwork:
    """The network of levels of a graph, or that of pairs if the graph has no levels."""
    return network_of_levels(topology) or network_of_pairs(topology)
