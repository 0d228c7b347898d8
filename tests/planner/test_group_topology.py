"""What groups see of a network."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import config
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import build_topology
from astra_tacos.planner.group_topology import REACHES, group_topology

RING = config(("Ring", 16, 50.0, 500.0))
TORUS = config(("Ring", 4, 50.0, 500.0), ("Ring", 4, 25.0, 700.0))
PODS = config(("FullyConnected", 4, 50.0, 500.0), ("Switch", 4, 25.0, 700.0))


def view(network, *members, reach="needed"):
    return group_topology(build_topology(network), network, members, reach)


def links(topology):
    columns = (topology.link_src, topology.link_dst, topology.link_bandwidth_gibps, topology.link_latency_ns)
    return set(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("network", "members", "shape"),
    [
        (RING, (3, 4, 5, 6), "Mesh 4"),
        (TORUS, (4, 5, 6, 7), "Ring 4"),
        (TORUS, (1, 5, 9, 13), "Ring 4"),
        (TORUS, (0, 1, 4, 5), "Mesh 2 x Mesh 2"),
        (PODS, (0, 2, 3), "FullyConnected 3"),
        (PODS, (0, 1, 8, 9), "FullyConnected 2 x Switch 2"),
        (PODS, tuple(range(16)), "FullyConnected 4 x Switch 4"),
    ],
)
def test_a_part_of_every_dimension_is_a_network_of_its_kind(network, members, shape):
    seen = view(network, *members)
    assert seen.topology.describe_shape() == shape
    assert seen.num_routed == 0


def test_members_that_are_not_neighbours_are_linked_by_routes():
    seen = view(RING, 0, 4, 8, 12)
    assert seen.num_routed == 8
    pairs = [(i, (i + step) % 4) for i in range(4) for step in (1, 3)]
    assert links(seen.topology) == {(src, dst, 50.0, 2000.0) for src, dst in pairs}


def test_routes_are_as_slow_as_their_slowest_link():
    seen = view(TORUS, 0, 5)
    assert links(seen.topology) == {(0, 1, 25.0, 1200.0), (1, 0, 25.0, 1200.0)}
    through_a_switch = view(PODS, 0, 5)
    assert links(through_a_switch.topology) == {(0, 1, 25.0, 1900.0), (1, 0, 25.0, 1900.0)}


def test_routes_may_widen_a_group_that_is_connected_without():
    ring = config(("Ring", 8, 50.0, 500.0))
    assert view(ring, *range(7)).num_routed == 0
    wide = view(ring, *range(7), reach="disjoint")
    assert {link for link in links(wide.topology) if link[3] > 500} == {(0, 6, 50.0, 1000.0), (6, 0, 50.0, 1000.0)}


@given(st.data())
@examples(20)
def test_every_group_is_connected_by_links_that_the_network_has(data):
    network = data.draw(st.sampled_from((RING, TORUS, PODS, config(("Switch", 16, 50.0, 500.0)))))
    members = tuple(sorted(data.draw(st.sets(st.integers(0, 15), min_size=2))))
    whole = build_topology(network)
    for reach in REACHES:
        seen = group_topology(whole, network, members, reach)
        topology = seen.topology
        reached = np.linalg.matrix_power(np.eye(len(members)) + _adjacency(topology), len(members)) > 0
        assert reached.all()
        own = topology.channel_of(*np.indices((len(members), len(members))).reshape(2, -1)) >= 0
        there = np.array(members)
        direct = whole.channel_of(*(there[index] for index in np.indices((len(members), len(members))).reshape(2, -1))) >= 0
        assert not (direct & ~own).any()
        assert (own & ~direct).sum() == seen.num_routed


def _adjacency(topology):
    matrix = np.zeros((topology.num_npus, topology.num_npus))
    matrix[topology.channel_src, topology.channel_dst] = 1
    return matrix
