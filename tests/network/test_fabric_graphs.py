"""Rotations of fabrics: automorphisms, a group that leaves no NPU in place, and none where links differ."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from helpers.examples import examples
from helpers.fabrics import WITH_DIRECT, both_ways, fabric, fabrics
from helpers.networks import ends_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.rotations import find_rotations

ORDERS = {"leaf-spine": 16, "fat-tree": 8, "rails": 32, "hxmesh": 16, "dgx-a100": 16, "dgx-h100": 16, "nvl72": 72}


def check(topology):
    group = find_rotations(topology)
    npus, links = np.arange(topology.num_endpoints), np.arange(topology.num_links)
    assert topology.num_endpoints % group.order == 0
    assert np.array_equal(group.move(group.element_of(npus), group.first_of(npus)), npus)
    orbit, size = group.link_orbits()
    assert np.array_equal(np.bincount(orbit), size)
    for element in range(min(group.order, 8)):
        moved, to = group.move(np.int64(element), npus), group.move_links(np.int64(element), links)
        assert np.array_equal(group.back(np.int64(element), moved), npus)
        assert sorted(moved.tolist()) == npus.tolist() and sorted(to.tolist()) == links.tolist()
        assert element == 0 or not np.any(moved == npus)
        assert np.array_equal(orbit[to], orbit)
        for of in (topology.link_bandwidth_gibps, topology.link_latency_ns):
            assert np.array_equal(of[to], of)
        # Ends of links go where their NPUs go, and devices that forward go to devices.
        where: dict[int, int] = dict(zip(npus.tolist(), moved.tolist(), strict=True))
        for ends in (topology.link_src, topology.link_dst):
            for old, new in zip(ends.tolist(), ends[to].tolist(), strict=True):
                assert where.setdefault(old, new) == new


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_fabrics(kind):
    topology = build_topology(make_fabric(kind), may_forward=True)
    check(topology)
    assert find_rotations(topology).order == ORDERS.get(kind, find_rotations(topology).order)


@given(fabrics(most_npus=6))
def test_random_graphs(topology):
    check(topology)


def test_a_slower_link_leaves_fewer():
    star = [(npu, 4, 50.0, 10.0) for npu in range(4)]
    assert find_rotations(fabric(1, *both_ways(*star))).order == 4
    assert find_rotations(fabric(1, *both_ways(*star[:3], (3, 4, 25.0, 10.0)))).order == 1
    assert find_rotations(fabric(1, *both_ways(star[0], (1, 4, 25.0, 10.0), star[2], (3, 4, 25.0, 10.0)))).order == 2


@examples(12)
@given(fabrics(), st.integers(0, 5))
def test_routes_are_paths_with_the_fewest_npus_then_links(topology, turn):
    npus = topology.num_endpoints
    src, dst = (column.ravel() for column in np.divmod(np.arange(npus * npus), npus))
    first, link = DeviceRoutes(topology).find(src, dst, dst + turn)
    relays = DeviceRoutes(topology).relays()
    graph = networkx.DiGraph()
    for one, other in ends_of(topology):
        graph.add_edge(one, other, cost=1000 * (one < npus) + 1)
    for pair, (one, other) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        route = link[first[pair] : first[pair + 1]]
        way = [one, *topology.link_dst[route].tolist()]
        assert way[-1] == other and topology.link_src[route].tolist() == way[:-1]
        least = networkx.shortest_path_length(graph, one, other, "cost")
        assert sum(1000 * (device < npus) + 1 for device in way[:-1]) == least
        assert relays[one, other] == max(least // 1000 - 1, 0)


def test_flows_to_different_npus_share_the_spines_evenly():
    tree = build_topology(make_fabric("leaf-spine", leaves=4, npus=4, spines=4), may_forward=True)
    src, dst = (column.ravel() for column in np.divmod(np.arange(256), 16))
    link = DeviceRoutes(tree).find(src, dst)[1]
    up = np.flatnonzero((tree.link_src >= 16) & (tree.link_dst >= 16))
    assert set(np.bincount(link, minlength=tree.num_links)[up].tolist()) == {12}


def test_an_npu_passes_on_what_no_device_can():
    assert DeviceRoutes(WITH_DIRECT).relays()[0, 3] == 1
    assert len(DeviceRoutes(WITH_DIRECT).find(np.array([0]), np.array([3]))[1]) == 3
