"""Layouts: every device has a place of its own, networks look like what they are called."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import networks
from helpers.examples import some_of
from helpers.fabrics import fabrics
from hypothesis import given

from astra_tacos import build_topology
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.pages.topology_layout import layout

B = (50.0, 500.0)
LARGE = {
    "torus": (("Ring", 128, *B), ("Ring", 128, *B)),
    "hierarchy": (("Ring", 8, *B), ("FullyConnected", 16, *B), ("Switch", 128, *B)),
    "switch": (("Switch", 2048, *B),),
    "mesh": (("Mesh", 16384, *B),),
}


FABRIC_KINDS = sorted(KINDS)


def curves(topology, drawn):
    return drawn.curves(topology.link_src, topology.link_dst)


def is_straight(lines):
    """bool[num_links]: whether the points of both halves lie on the line between the ends, one after another."""
    points = lines.reshape(len(lines), -1, 2)
    way = points[:, -1:] - points[:, :1]
    along = ((points - points[:, :1]) * way).sum(axis=2) / (way**2).sum(axis=2)
    is_beside = np.abs(points - points[:, :1] - along[..., None] * way).max(axis=(1, 2)) > 1e-9
    return ~is_beside & (np.diff(along) > -1e-9).all(axis=1)


def check(topology):
    drawn = layout(topology)
    assert drawn.positions.shape == (topology.num_devices, 2)
    assert drawn.sender_half.shape == drawn.receiver_half.shape == (topology.num_links, 4)
    assert drawn.positions.min() >= 0 and drawn.positions.max() <= 1
    lines = curves(topology, drawn)
    assert lines.min() >= 0 and lines.max() <= 1
    assert np.allclose(lines[:, 0, 0], drawn.positions[topology.link_src])
    assert np.allclose(lines[:, 1, -1], drawn.positions[topology.link_dst])
    assert len(np.unique(np.round(drawn.positions, 7), axis=0)) == topology.num_devices
    assert drawn.spacing > 0
    again = layout(topology)
    assert again.positions.tobytes() == drawn.positions.tobytes()
    assert again.sender_half.tobytes() == drawn.sender_half.tobytes()
    assert again.receiver_half.tobytes() == drawn.receiver_half.tobytes()


@given(networks.topologies())
def test_every_device_has_a_place_of_its_own(topology):
    check(topology)


@pytest.mark.parametrize("name", some_of([*LARGE], 2))
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


def test_a_torus_is_a_grid_with_half_arcs_at_its_borders():
    topology = networks.topology(("Ring", 8, *B), ("Ring", 6, *B))
    drawn = layout(topology)
    x, y = (np.unique(np.round(drawn.positions[:, axis], 9)) for axis in (0, 1))
    assert (len(x), len(y)) == (8, 6)
    assert np.allclose(np.diff(x), drawn.spacing) and np.allclose(np.diff(y), drawn.spacing)
    lines = curves(topology, drawn)
    is_around = (
        np.linalg.norm(np.subtract(*drawn.positions[[topology.link_src, topology.link_dst]]), axis=1) > 1.5 * drawn.spacing
    )
    assert is_around.sum() == 2 * (8 + 6)
    assert np.array_equal(is_straight(lines), ~is_around)
    halves = lines[is_around]
    low, high = (np.array([f(x), f(y)]) for f in (np.min, np.max))
    outside = np.maximum(low - halves, halves - high).max(axis=-1)
    assert (outside > -1e-9).all() and (outside < drawn.spacing).all()  # never across the grid
    assert (outside[:, 0, -1] > 0.2 * drawn.spacing).all() and (outside[:, 1, 0] > 0.2 * drawn.spacing).all()
    assert np.allclose(np.linalg.norm(np.diff(halves, axis=2), axis=3).sum(axis=2), drawn.spacing * 0.64, rtol=0.2)


def test_no_straight_link_of_a_grid_runs_through_a_device():
    for dimensions in (networks.TORUS, networks.MESH, (("Ring", 5, *B),) * 3):
        topology = networks.topology(*dimensions)
        drawn = layout(topology)
        lines = drawn.curves(topology.link_src, topology.link_dst, 32)
        inner = np.concatenate((lines[:, 0, 8:], lines[:, 1, :-8]), axis=1)
        away = np.hypot(*(inner[:, :, None, :] - drawn.positions[None, None, :, :]).transpose(3, 0, 1, 2))
        assert away.min() > 0.02 * drawn.spacing


NESTED = {
    "switch": (("Switch", 6, *B),),
    "switches": (("Switch", 8, *B), ("Switch", 4, *B)),
    "three": (("Switch", 4, *B), ("Switch", 3, *B), ("Switch", 2, *B)),
    "hierarchy": networks.HIERARCHY,
    "rings": (("Ring", 4, *B), ("Switch", 6, *B)),
    "full": (("FullyConnected", 4, *B), ("Switch", 5, *B)),
}


@pytest.mark.parametrize("name", NESTED)
def test_switches_have_layers_of_their_own_and_straight_spokes(name):
    topology = networks.topology(*NESTED[name])
    drawn = layout(topology)
    npus, switches = drawn.positions[: topology.num_npus], drawn.positions[topology.num_npus :]
    layers = []
    for index, dimension in enumerate(topology.dimensions):
        spokes = topology.link_dimension == index
        own = np.unique(topology.link_dst[spokes & (topology.link_dst >= topology.num_npus)]) - topology.num_npus
        if dimension.block == "Switch":
            assert is_straight(curves(topology, drawn))[spokes].all()
            assert np.ptp(switches[own, 1]) < 1e-9
            layers.append(switches[own[0], 1])
    assert layers[-1] > npus[:, 1].max()
    assert len(np.unique(np.round(layers, 9))) == len(layers)
    assert all(y > npus[:, 1].max() or y < npus[:, 1].min() for y in layers)


def test_the_members_of_a_switch_stand_side_by_side():
    topology = networks.topology(*networks.HIERARCHY)
    clusters = layout(topology).positions[:64].reshape(8, 8, 2)
    edges = np.stack((clusters[..., 0].min(axis=1), clusters[..., 0].max(axis=1)))
    assert (edges[0, 1:] > edges[1, :-1]).all()
    assert np.ptp(clusters.mean(axis=1)[:, 1]) < 1e-9


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
def test_fabrics_are_drawn_in_layers(kind):
    topology = build_topology(make_fabric(kind), may_forward=True)
    check(topology)
    drawn = layout(topology)
    heights = np.round(drawn.positions[:, 1], 9)
    assert np.ptp(heights[: topology.num_endpoints]) == 0
    assert heights[0] not in heights[topology.num_endpoints :]
    assert len(np.unique(heights)) <= 4
    apart = np.abs(heights[topology.link_src] - heights[topology.link_dst]).round(6)
    assert len(np.unique(apart[apart > 0])) == 1  # every other link leads to the next layer
    assert np.array_equal(is_straight(curves(topology, drawn)), apart > 0)


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
