"""Predefined algorithms against their closed formulas on networks that they do not congest, and the rings and trees they use."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import graph, topologies, topology
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES
from astra_tacos.network.network_config import Dimension
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.algorithms.over_dimensions import balanced_orders
from astra_tacos.synthesizer.algorithms.predefined import binary_tree, direct
from astra_tacos.synthesizer.parts.rings import find_rings, nested_cycles
from astra_tacos.verifier.schedule_oracle import verify

GIB = 1 << 30
BANDWIDTH = float(bytes_per_ns(50.0))
LATENCY = 500.0
SLOW = 1e6
"""A latency, in ns, next to which a small chunk takes no time."""


def time_ns(network, collective, size, chunks, name, link_model, root=None):
    network = topology(network) if isinstance(network, str) else network
    return schedule(network, collective, size, chunks, root, synthesizer=name, link_model=link_model).collective_time_ns


@pytest.mark.parametrize("link_model", LINK_MODELS)
@pytest.mark.parametrize(
    "dimensions, rings",
    [("Ring 8", 2), ("FullyConnected 8", 2)],
)
def test_ring_takes_two_rounds(dimensions, rings, link_model):
    network = topology(dimensions)
    npus = network.num_npus
    expected = 2 * (npus - 1) * (LATENCY + GIB / npus / rings / BANDWIDTH)
    assert time_ns(network, "all-reduce", GIB, rings, "ring", link_model) == pytest.approx(expected, rel=0.01)
    assert time_ns(network, "reduce-scatter", GIB, rings, "ring", link_model) == pytest.approx(expected / 2, rel=0.01)


def test_ring_through_a_switch_fills_its_ports_one_way():
    expected = 2 * 7 * (2 * LATENCY + GIB / 8 / BANDWIDTH)
    assert time_ns("Switch 8", "all-reduce", GIB, 1, "ring", "blocking") == pytest.approx(expected, rel=0.01)
    assert time_ns("Switch 8", "all-reduce", GIB, 64, "ring", "pipelined") == pytest.approx(2 * 7 / 8 * GIB / BANDWIDTH, rel=0.01)


@pytest.mark.parametrize("name, paths", [("ring", 2), ("double-binary-tree", 2)])
@pytest.mark.parametrize("root", [0, 3])
def test_a_pipelined_broadcast_costs_no_more_than_the_buffer(name, paths, root):
    assert time_ns("Switch 4", "broadcast", GIB, 1024, name, "pipelined", root) == pytest.approx(GIB / BANDWIDTH, rel=0.01)
    for collective in ("broadcast", "reduce"):
        found = time_ns("FullyConnected 8", collective, GIB, 3072, name, "pipelined", root)
        assert found == pytest.approx(GIB / paths / BANDWIDTH, rel=0.02)


def test_direct_through_a_switch_is_limited_by_its_ports():
    expected = 2 * 7 * (2 * LATENCY + GIB / 8 / BANDWIDTH)
    assert time_ns("Switch 8", "all-reduce", GIB, 1, "direct", "blocking") == pytest.approx(expected, rel=0.01)
    star = 4 * (2 * LATENCY + GIB / BANDWIDTH)
    assert time_ns("Switch 5", "broadcast", GIB, 1, "direct", "blocking", 2) == pytest.approx(star, rel=0.01)


@pytest.mark.parametrize(
    "name, npus", [("halving-doubling", 8), ("halving-doubling", 16), ("bruck", 8), ("bruck", 7), ("bruck", 13)]
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_doubling_takes_logarithmically_many_steps(name, npus, collective):
    phases = 2 if collective == "all-reduce" else 1
    shards = npus if collective == "all-gather" else 1
    expected = phases * (npus - 1) / npus * GIB / BANDWIDTH
    assert time_ns(f"Switch {npus}", collective, GIB // shards, 4, name, "blocking") == pytest.approx(expected, rel=0.01)
    steps = math.ceil(math.log2(npus))  # what an NPU sends in a step leaves together, once all of it is there
    for block, links in (("Switch", 2), ("FullyConnected", 1)):
        found = time_ns(f"{block} {npus} 50 {SLOW}", collective, 4096 * npus // shards, 1, name, "pipelined")
        assert found == pytest.approx(phases * steps * links * SLOW, rel=0.01)


@pytest.mark.parametrize("npus, depth", [(4, 2), (7, 3), (8, 3), (16, 4)])
def test_double_binary_tree_goes_up_and_down(npus, depth):
    found = time_ns(f"FullyConnected {npus} 50 {SLOW}", "all-reduce", 8192, 1, "double-binary-tree", "pipelined")
    assert found == pytest.approx(2 * depth * SLOW, rel=0.01)
    # An NPU takes in two halves in the tree where it has children, one from its parent there, and one in the other tree.
    found = time_ns(f"Switch {npus}", "all-reduce", GIB, 256 // npus, "double-binary-tree", "pipelined")
    assert 1 <= found / (2 * GIB / BANDWIDTH) < (1.015 if npus == 4 else 1.2)


CUBOIDS = [
    (("Ring", 4, 50.0), ("Ring", 4, 50.0)),
    (("FullyConnected", 4, 50.0), ("Ring", 8, 50.0)),
    (("Ring", 4, 50.0), ("Mesh", 3, 100.0)),
    (("Ring", 4, 200.0), ("FullyConnected", 4, 100.0), ("Switch", 4, 50.0)),
]


def dimension_times(dimensions, size):
    """How long each dimension is busy with what is left of a buffer."""
    times = []
    for block, members, bandwidth in dimensions:
        links = {"Ring": 2, "FullyConnected": members - 1}.get(block, 1)
        times.append(size * (members - 1) / members / links / float(bytes_per_ns(bandwidth)))
        size /= members
    return times


@pytest.mark.parametrize("dimensions", CUBOIDS)
@pytest.mark.parametrize("name", ["hierarchical", "themis"])
def test_dimension_by_dimension(dimensions, name):
    steps = {
        "FullyConnected": lambda n: 1,
        "Switch": lambda n: 2,  # straight to all others, which takes less than halving and doubling where links are not held
        "Ring": lambda n: n - 1,
        "Mesh": lambda n: n - 1,
    }
    latency = sum(steps[block](members) for block, members, _ in dimensions) * SLOW
    slow = topology(*((*dimension, SLOW) for dimension in dimensions))
    found = time_ns(slow, "all-reduce", 8192 * slow.num_npus, 1, name, "pipelined")
    assert found == pytest.approx(2 * latency, rel=0.01)

    network = topology(*((*dimension, LATENCY) for dimension in dimensions))
    found = time_ns(network, "all-reduce", GIB, 16, name, "pipelined")
    times = dimension_times(dimensions, GIB)
    if name == "hierarchical":
        assert found == pytest.approx(2 * max(times), rel=0.01)
    else:
        assert found < 2 * max(times) * 0.95


@pytest.mark.parametrize("dimensions", CUBOIDS[:3])
def test_themis_balances_loads(dimensions):
    parts = tuple(Dimension(*dimension, LATENCY) for dimension in dimensions)
    load = np.zeros(len(parts))
    for order in balanced_orders(parts, 500).tolist():
        assert sorted(order) == list(range(len(parts)))
        load[order] += dimension_times([dimensions[at] for at in order], 1)
    assert np.ptp(load) < 0.02 * load.max()


def is_hop(dimensions, src, dst):
    sizes = [dimension.size for dimension in dimensions]
    places = [np.unravel_index(npu, sizes, order="F") for npu in (src, dst)]
    apart = [at for at in range(len(sizes)) if places[0][at] != places[1][at]]
    if len(apart) != 1:
        return False
    hops = abs(int(places[0][apart[0]]) - int(places[1][apart[0]]))
    dimension = dimensions[apart[0]]
    return hops == 1 or dimension.block == "FullyConnected" or (dimension.block != "Mesh" and hops == dimension.size - 1)


@pytest.mark.parametrize(
    "outer, inner", [(4, "Ring 6"), (3, "FullyConnected 5"), (5, "Switch 3"), (3, "Ring 3"), (2, "Switch 2")]
)
def test_nested_cycles_step_on_everywhere(outer, inner):
    block, size = inner.split()
    dimensions = (Dimension(block, int(size), 200.0, 0.0), Dimension("Switch", outer, 25.0, 0.0))
    cycles = nested_cycles(dimensions)
    members = int(size)
    assert len(cycles) == members
    steps_on = []
    for cycle in cycles:
        assert sorted(cycle.tolist()) == list(range(members * outer))
        hops = list(zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True))
        on = [(src, dst) for src, dst in hops if src // members != dst // members]
        assert len(on) == outer
        assert all(src % members == dst % members for src, dst in on)
        if block == "Ring":
            assert all(is_hop(dimensions, *hop) for hop in hops)
        steps_on += on
    assert len(set(steps_on)) == len(steps_on)


@examples(20)
@given(network=topologies())
def test_rings_go_through_every_npu(network):
    rings = find_rings(network)
    assert np.array_equal(np.sort(rings, axis=1), np.tile(np.arange(network.num_npus), (len(rings), 1)))


def test_a_ring_with_a_missing_link_is_left_out_unless_most_are():
    assert find_rings(topology("Ring 6 50 0", failed_links=((2, 3),))).tolist() == [[5, 4, 3, 2, 1, 0]]
    mesh = find_rings(topology("Mesh 5 50 0"))
    assert mesh.tolist() == [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]


@given(size=st.integers(2, 300))
def test_binary_trees_are_shallow(size):
    parent = binary_tree(size)
    assert parent[0] == 0
    children = np.bincount(parent[1:], minlength=size)
    assert children[0] == 1
    assert children.max() <= 2
    assert not children[1::2].any()
    place, depth = np.arange(size), 0
    while place.any():
        place, depth = parent[place], depth + 1
    assert depth <= math.ceil(math.log2(size)) + 1


def test_shortest_ways_share_the_links():
    """On a torus all links carry the same, or nearly so."""
    network = topology("Ring 6 50 0, Ring 6 50 0")
    of = schedule(network, "all-gather", 1 << 20, 4, synthesizer="direct")
    assert verify(of) == ()
    load = np.bincount(of.channel, minlength=network.num_channels)
    assert load.max() <= 1.1 * load.mean()


def test_a_relay_takes_the_fast_way_and_keeps_what_it_passes_on():
    """From 0 to 3 over 1 (fast) or 2 (slow); 1 gets no copy of its own."""
    network = graph(
        "0 1 50 5, 0 2 5 5, 1 3 50 5, 2 3 50 5, 3 0 50 5, 2 0 50 5, 1 0 50 5",
    )
    what = COLLECTIVES["broadcast"](4, 1 << 20, 1)
    of = direct(Problem.of(network, what, "blocking"), 0)
    hops = sorted(zip(network.channel_src[of.channel].tolist(), network.channel_dst[of.channel].tolist(), strict=True))
    assert hops == [(0, 1), (0, 2), (1, 3)]
