"""Layouts: every device has a place of its own, networks look like what they are called."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import networks
from helpers.fabrics import fabrics
from hypothesis import given

from astra_tacos import build_topology
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.report.topology_layout import layout

B = (50.0, 500.0)
LARGE = {
    "torus": (("Ring", 128, *B), ("Ring", 128, *B)),
    "hierarchy": (("Ring", 8, *B), ("FullyConnected", 16, *B), ("Switch", 128, *B)),
    "switch": (("Switch", 2048, *B),),
    "mesh": (("Mesh", 16384, *B),),
}


FLAT = ("dragonfly", "hxmesh", "mi250")
"""Kinds with links between devices of one layer, which are drawn by distance."""
FABRIC_KINDS = sorted(KINDS)


def check(topology):
    drawn = layout(topology)
    assert drawn.positions.shape == (topology.num_devices, 2)
    assert drawn.controls.shape == (topology.num_links, 2)
    assert drawn.positions.min() >= 0 and drawn.positions.max() <= 1
    lines = drawn.curves(topology, np.arange(topology.num_links))
    assert lines.min() >= 0 and lines.max() <= 1
    assert np.allclose(lines[:, 0], drawn.positions[topology.link_src])
    assert np.allclose(lines[:, -1], drawn.positions[topology.link_dst])
    assert len(np.unique(np.round(drawn.positions, 7), axis=0)) == topology.num_devices
    assert drawn.spacing > 0
    again = layout(topology)
    assert again.positions.tobytes() == drawn.positions.tobytes()
    assert again.controls.tobytes() == drawn.controls.tobytes()


@given(networks.topologies())
def test_every_device_has_a_place_of_its_own(topology):
    check(topology)


@pytest.mark.parametrize("name", LARGE)
def test_large_networks(name):
    check(networks.topology(*LARGE[name]))


@pytest.mark.parametrize("size", [3, 6, 8, 11])
def test_graphs(size):
    check(networks.hypercube(size))


def test_a_graph_whose_devices_are_all_alike():
    hubs, leaves = range(2), range(2, 700)  # equal distances to everything: only moving them apart tells leaves apart
    check(networks.graph(*((a, b, *B) for hub in hubs for leaf in leaves for a, b in ((hub, leaf), (leaf, hub)))))


def test_a_ring_is_a_circle():
    drawn = layout(networks.topology(*networks.RING8))
    radius = np.hypot(*(drawn.positions - 0.5).T)
    assert np.allclose(radius, radius[0])
    turns = np.diff(np.unwrap(np.arctan2(*(drawn.positions - 0.5).T)))
    assert np.allclose(turns, 2 * np.pi / 8)


def test_a_torus_is_a_grid_with_arcs():
    topology = networks.topology(("Ring", 8, *B), ("Ring", 6, *B))
    drawn = layout(topology)
    x, y = (np.unique(np.round(drawn.positions[:, axis], 9)) for axis in (0, 1))
    assert (len(x), len(y)) == (8, 6)
    assert np.allclose(np.diff(x), drawn.spacing) and np.allclose(np.diff(y), drawn.spacing)
    ends = drawn.positions[topology.link_src], drawn.positions[topology.link_dst]
    is_long = np.hypot(*(ends[0] - ends[1]).T) > 1.5 * drawn.spacing
    is_bent = np.hypot(*(drawn.controls - (ends[0] + ends[1]) / 2).T) > 1e-6
    assert np.array_equal(is_long, is_bent)
    assert is_long.sum() == 2 * (8 + 6)


def test_no_straight_link_of_a_grid_runs_through_a_device():
    for dimensions in (networks.TORUS, networks.MESH, (("Ring", 5, *B),) * 3):
        topology = networks.topology(*dimensions)
        drawn = layout(topology)
        inner = drawn.curves(topology, np.arange(topology.num_links), 64)[:, 8:-8]
        away = np.hypot(*(inner[:, :, None, :] - drawn.positions[None, None, :, :]).transpose(3, 0, 1, 2))
        assert away.min() > 0.02 * drawn.spacing


def test_clusters_stand_around_their_switches():
    topology = networks.topology(*networks.HIERARCHY)
    drawn = layout(topology)
    clusters = drawn.positions[:64].reshape(8, 8, 2)
    within = np.hypot(*(clusters - clusters.mean(axis=1, keepdims=True)).transpose(2, 0, 1)).max()
    centres = clusters.mean(axis=1)
    between = np.hypot(*(centres[:, None] - centres[None]).transpose(2, 0, 1))
    assert between[~np.eye(8, dtype=bool)].min() > 2 * within
    switches = drawn.positions[64:]
    assert len(switches) == 8
    assert np.hypot(*(switches - 0.5).T).max() < np.hypot(*(drawn.positions[:64] - 0.5).T).min()


def test_neighbours_in_a_graph_are_near_one_another():
    topology = networks.dgx1()
    positions = layout(topology).positions
    distance = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    linked = np.zeros((8, 8), bool)
    linked[topology.link_src, topology.link_dst] = True
    apart = ~linked & ~np.eye(8, dtype=bool)
    assert distance[linked].mean() < distance[apart].mean()


@given(fabrics())
def test_devices_of_fabrics_have_places_of_their_own(topology):
    check(topology)


@pytest.mark.parametrize("kind", FABRIC_KINDS)
def test_fabrics_without_links_inside_layers_are_drawn_in_layers(kind):
    topology = build_topology(make_fabric(kind), may_forward=True)
    check(topology)
    heights = np.round(layout(topology).positions[:, 1], 9)
    ends = heights[topology.link_src], heights[topology.link_dst]
    if kind in FLAT:
        assert len(np.unique(heights)) > 6
    else:
        assert np.ptp(heights[: topology.num_endpoints]) == 0
        assert len(np.unique(heights)) <= 4
        assert len(np.unique(np.abs(ends[0] - ends[1]).round(6))) == 1  # every link leads to the next layer


def test_the_switches_of_nodes_are_below_and_what_joins_nodes_above():
    topology = build_topology(make_fabric("rails", nodes=4, npus=4), may_forward=True)
    drawn = layout(topology).positions
    row = drawn[0, 1]
    for device in range(topology.num_endpoints, topology.num_npus):
        served = topology.link_src[topology.link_dst == device]
        is_node = bool(np.ptp(served) == len(served) - 1)
        assert (drawn[device, 1] < row) == is_node
        if is_node:
            assert np.isclose(drawn[device, 0], drawn[served, 0].mean())
    gaps = np.diff(np.sort(drawn[: topology.num_endpoints, 0]))
    assert gaps[3::4].min() > gaps.min() * 1.5  # there is room between nodes
