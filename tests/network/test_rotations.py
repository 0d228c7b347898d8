"""Rotations of fabrics: automorphisms, a group that leaves no NPU in place, and none where links differ."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.fabrics import both_ways, fabric, fabrics
from hypothesis import given

from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.network.rotations import find_rotations

ORDERS = {"leaf-spine": 16, "fat-tree": 8, "rails": 32, "hxmesh": 16, "dgx-a100": 16, "dgx-h100": 16, "nvl72": 72}


def check(topology) -> None:
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
def test_kinds_of_fabrics(kind: str) -> None:
    topology = build_topology(make_fabric(kind), may_forward=True)
    check(topology)
    assert find_rotations(topology).order == ORDERS.get(kind, find_rotations(topology).order)


@examples(15)
@given(fabrics(most_npus=6))
def test_random_graphs(topology) -> None:
    check(topology)


def test_a_slower_link_leaves_fewer() -> None:
    star = [(npu, 4, 50.0, 10.0) for npu in range(4)]
    assert find_rotations(fabric(1, *both_ways(*star))).order == 4
    assert find_rotations(fabric(1, *both_ways(*star[:3], (3, 4, 25.0, 10.0)))).order == 1
    assert find_rotations(fabric(1, *both_ways(star[0], (1, 4, 25.0, 10.0), star[2], (3, 4, 25.0, 10.0)))).order == 2
