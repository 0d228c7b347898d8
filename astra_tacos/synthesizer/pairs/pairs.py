"""The pairs of NPUs of a fabric between which devices only forward, as a network of NPUs.

Algorithms for NPUs see it in place of the fabric. Pairs share links of the fabric, so each gets a fair share of the slowest link
on its fixed route: what it has while all pairs send.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, Topology


@lru_cache(maxsize=4)
def network_of_pairs(topology: Topology) -> Topology:
    """NPUs with a link for each pair that a route joins which passes no other NPU.

    Parameters
    ----------
    topology
        A graph with devices that forward.
    """
    src, dst = np.nonzero((DeviceRoutes(topology).relays() == 0) & ~np.eye(topology.num_endpoints, dtype=np.bool_))
    first, link = DeviceRoutes(topology).find(src, dst)
    users = np.bincount(link, minlength=topology.num_links)
    share = topology.link_bandwidth_gibps[link] / users[link]
    count = topology.num_endpoints
    return Topology(
        f"pairs of {topology.name}",
        count,
        0,
        src.astype(np.int32),
        dst.astype(np.int32),
        np.minimum.reduceat(share, first[:-1]),
        np.add.reduceat(topology.link_latency_ns[link], first[:-1]),
        np.full(len(src), NO_DIMENSION, np.int16),
    )


def num_pairs(topology: Topology) -> int:
    """How many pairs there are at most."""
    return topology.num_endpoints * (topology.num_endpoints - 1)


def hops_of(topology: Topology) -> NDArray[np.int64]:
    """int64[num_links of the network of pairs], the links of the fabric on the route of each pair."""
    pairs = network_of_pairs(topology)
    return np.diff(DeviceRoutes(topology).find(pairs.link_src, pairs.link_dst)[0])
