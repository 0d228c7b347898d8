"""The bandwidth between two halves of a network: what the least of some halvings can carry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology

_SWEEPS = 8


def bisection_gibps(topology: Topology) -> float:
    """Bandwidth from one half of the NPUs to the other, GiB/s, for the least of the halvings that are tried.

    For given halves it is exact, a maximum flow. Which halves are the worst is hard to find (graph bisection is NP-hard), so it
    is at least the true bisection. Tried are halves in the order of ids, of even and odd ids, and of distance from some NPUs.
    """
    from scipy.sparse.csgraph import dijkstra

    npus = np.arange(topology.num_endpoints)
    half = (len(npus) + 1) // 2
    keys = [npus, npus % 2 * len(npus) + npus]
    near = topology.link_graph(1.0 / topology.link_bandwidth_gibps)
    for npu in np.unique(np.linspace(0, len(npus) - 1, _SWEEPS).astype(int)).tolist():
        keys.append(dijkstra(near, indices=npu)[: len(npus)])
    found = {np.argsort(key, kind="stable")[:half].tobytes() for key in keys}
    sides = [np.isin(npus, np.frombuffer(side, np.int64)) for side in sorted(found)]
    return min(min(_flow(topology, side), _flow(topology, ~side)) for side in sides)


def _flow(topology: Topology, side: NDArray[np.bool_]) -> float:
    """GiB/s from the NPUs of a side to the others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    size, most = topology.num_devices + 2, float(topology.link_bandwidth_gibps.max())
    capacity = np.rint(topology.link_bandwidth_gibps / most * (1 << 16)).astype(np.int64)
    unlimited = np.full(len(side), 1 << 30)
    src = np.concatenate((topology.link_src, np.where(side, size - 2, np.arange(len(side)))))
    dst = np.concatenate((topology.link_dst, np.where(side, np.arange(len(side)), size - 1)))
    graph = coo_array((np.concatenate((capacity, unlimited)), (src, dst)), shape=(size, size)).tocsr()
    flow = maximum_flow(graph.astype(np.int32), size - 2, size - 1).flow_value
    return float(flow) / (1 << 16) * most
