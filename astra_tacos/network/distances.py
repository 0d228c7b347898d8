"""Numbers of links between NPUs."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.topology import Topology


def hops_between_npus(topology: Topology) -> int:
    """The most links on a path with the fewest links from one NPU to another; paths pass switches and NPUs."""
    from scipy.sparse.csgraph import dijkstra

    graph = topology.link_graph(np.ones(topology.num_links))
    npus = topology.num_endpoints
    return int(max(dijkstra(graph, indices=npu, unweighted=True)[:npus].max() for npu in range(npus)))
