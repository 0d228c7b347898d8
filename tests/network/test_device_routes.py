"""Fixed routes over devices that forward: shortest, and spread over equally good ones."""

from __future__ import annotations

import networkx
import numpy as np
from helpers.examples import examples
from helpers.fabrics import WITH_DIRECT, fabrics
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.network.packet_links import DeviceRoutes


@examples(12)
@given(fabrics(), st.integers(0, 5))
def test_routes_are_paths_with_the_fewest_npus_then_links(topology, turn: int) -> None:
    npus = topology.num_endpoints
    src, dst = (column.ravel() for column in np.divmod(np.arange(npus * npus), npus))
    first, link = DeviceRoutes(topology).find(src, dst, dst + turn)
    relays = DeviceRoutes(topology).relays()
    graph = networkx.DiGraph()
    for one, other in zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True):
        graph.add_edge(one, other, cost=1000 * (one < npus) + 1)
    for pair, (one, other) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        route = link[first[pair] : first[pair + 1]]
        way = [one, *topology.link_dst[route].tolist()]
        assert way[-1] == other and topology.link_src[route].tolist() == way[:-1]
        least = networkx.shortest_path_length(graph, one, other, "cost")
        assert sum(1000 * (device < npus) + 1 for device in way[:-1]) == least
        assert relays[one, other] == max(least // 1000 - 1, 0)


def test_flows_to_different_npus_share_the_spines_evenly() -> None:
    tree = build_topology(make_fabric("leaf-spine", leaves=4, npus=4, spines=4), may_forward=True)
    src, dst = (column.ravel() for column in np.divmod(np.arange(256), 16))
    link = DeviceRoutes(tree).find(src, dst)[1]
    up = np.flatnonzero((tree.link_src >= 16) & (tree.link_dst >= 16))
    assert set(np.bincount(link, minlength=tree.num_links)[up].tolist()) == {12}


def test_an_npu_passes_on_what_no_device_can() -> None:
    assert DeviceRoutes(WITH_DIRECT).relays()[0, 3] == 1
    assert len(DeviceRoutes(WITH_DIRECT).find(np.array([0]), np.array([3]))[1]) == 3
