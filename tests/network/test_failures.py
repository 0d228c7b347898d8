"""Links that fail at random: the right number of them, the same for the same seed, and the network stays connected."""

from __future__ import annotations

from dataclasses import replace

import networkx
import networkx as nx
import numpy as np
import pytest
from helpers import networks
from helpers.examples import examples, refused
from helpers.networks import ends_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.failures import draw_failures, find_renumbering
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.support.errors import ConfigError

TORUS_8X8 = networks.topology("Ring 8, Ring 8")


def links(topology):
    return set(ends_of(topology))


def pairs(topology):
    there = links(topology)
    return {(src, dst) for src, dst in there if src < dst and (dst, src) in there}


def naive_failures(topology, count, seed):
    """One pair after the other in the order of the seed, if all devices can still reach one another without it."""
    graph = networkx.DiGraph(sorted(links(topology)))
    ordered = sorted(pairs(topology))
    words = np.random.PCG64(seed).random_raw(len(ordered)).tolist()
    failed: set[tuple[int, int]] = set()
    for _, (src, dst) in sorted(zip(words, ordered, strict=True)):
        if len(failed) == 2 * count:
            break
        graph.remove_edges_from([(src, dst), (dst, src)])
        if networkx.is_strongly_connected(graph):
            failed |= {(src, dst), (dst, src)}
        else:
            graph.add_edges_from([(src, dst), (dst, src)])
    return failed if len(failed) == 2 * count else None


@st.composite
def one_way_graphs(draw):
    """A ring of one direction, connected whatever fails, and more links."""
    size = draw(st.integers(4, 8))
    ends = st.sampled_from([(src, dst) for src in range(size) for dst in range(size) if src != dst])
    links = {(npu, (npu + 1) % size) for npu in range(size)} | draw(st.sets(ends, max_size=12))
    return networks.graph(*((src, dst, 50.0, 500.0) for src, dst in sorted(links)))


@given(networks.topologies() | one_way_graphs(), st.floats(0, 1), st.integers(0, 1 << 40))
def test_they_are_those_of_one_after_the_other(topology, fraction, seed):
    wanted = int(fraction * len(pairs(topology)) + 0.5)
    expected = naive_failures(topology, wanted, seed)
    try:
        failed = draw_failures(topology, fraction, seed)
    except ConfigError as error:
        assert "falls apart" in str(error)
        assert expected is None
        return
    assert set(failed) == expected
    assert list(failed) == sorted(set(failed))


@given(st.integers(0, 1 << 62), st.floats(0, 0.45), st.floats(0, 0.45))
def test_a_smaller_fraction_is_a_part_of_a_larger_one(seed, one, other):
    less, more = (set(draw_failures(TORUS_8X8, fraction, seed)) for fraction in sorted((one, other)))
    assert less <= more


def test_other_seeds_give_other_links():
    assert len({draw_failures(TORUS_8X8, 0.1, seed) for seed in range(20)}) == 20
    assert draw_failures(TORUS_8X8, 0.05, 1) == draw_failures(TORUS_8X8, 0.05, 1)
    assert len(draw_failures(TORUS_8X8, 0.05, 1)) == 2 * 6  # 6.4 of 128


def test_the_draw_is_what_it_was():
    # Rows of a sweep name a fraction and a seed: another draw in a later version would be another network.
    ring = networks.topology("Ring 4, Ring 4")
    assert draw_failures(ring, 0.1, 3) == ((0, 1), (1, 0), (8, 9), (9, 8), (12, 13), (13, 12))


def test_bandwidths_do_not_matter():
    slower = networks.topology("Ring 8 1 7, Ring 8 2 9")
    assert draw_failures(slower, 0.2, 9) == draw_failures(TORUS_8X8, 0.2, 9)


@pytest.mark.parametrize(
    "fraction, seed, message",
    [
        (1.5, 0, "failed links: found the fraction 1.5, expected 0 to 1"),
        (float("nan"), 0, "failed links: found the fraction nan, expected 0 to 1"),
        (0.1, -1, "failed links: found the seed -1, expected 0 or more"),
        (
            0.6,
            0,
            "failed links: found the fraction 0.6, 77 of 128 pairs of links, expected at most 65: "
            "with more the network falls apart",
        ),
    ],
)
def test_what_cannot_be_is_refused(fraction, seed, message):
    with pytest.raises(ConfigError) as caught:
        draw_failures(TORUS_8X8, fraction, seed)
    assert str(caught.value) == message


def test_a_single_switch_has_no_link_to_spare():
    with refused("expected at most 0"):
        draw_failures(networks.topology(*networks.SWITCH), 0.2, 0)


SHAPES = [
    networks.config("Ring 6"),
    networks.config("FullyConnected 5"),
    networks.config("Ring 4, Switch 2 25 300"),
    networks.config("Mesh 3, Mesh 3"),
    networks.config("Ring 4, Ring 3", failed_links=((0, 1), (1, 0), (5, 9))),
]


def shuffled(topology, npu, order):
    """The same links between other NPUs, in another order."""
    device = np.concatenate((npu, np.arange(topology.num_npus, topology.num_devices)))
    links = [
        LinkSpec(int(device[topology.link_src[at]]), int(device[topology.link_dst[at]]), *figures)
        for at in order
        for figures in [(float(topology.link_bandwidth_gibps[at]), float(topology.link_latency_ns[at]))]
    ]
    assert topology.num_switches == 0
    return build_topology(NetworkConfig("shuffled", links=tuple(links)))


@examples(30)
@given(shape=st.sampled_from([shape for shape in SHAPES if not build_topology(shape).num_switches]), seed=st.integers(0, 1 << 20))
def test_what_was_shuffled_is_found_again(shape, seed):
    random = np.random.default_rng(seed)
    topology = build_topology(shape)
    npu = random.permutation(topology.num_npus)
    other = shuffled(topology, npu, random.permutation(topology.num_links))
    found = find_renumbering([topology], [other])
    ends = {(int(found[a]), int(found[b])) for a, b in zip(topology.link_src, topology.link_dst, strict=True)}
    assert ends == set(ends_of(other))
    mark = int(random.integers(topology.num_npus))
    found = find_renumbering([topology], [other], (mark, int(npu[mark])))
    assert found[mark] == npu[mark]
    slower = replace(other, link_latency_ns=other.link_latency_ns + (np.arange(other.num_links) == 0))
    assert find_renumbering([topology], [slower]) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_network_is_itself_also_with_switches_and_several_views(shape):
    topology = build_topology(shape)
    found = find_renumbering([topology, topology], [topology, topology], (1, 1))
    assert sorted(found.tolist()) == list(range(topology.num_npus)) and found[1] == 1


@st.composite
def two_graphs(draw):
    """Two graphs of few links, which are often alike."""
    graphs = []
    for _ in range(2):
        ring = [(at, (at + 1) % 6) for at in range(6)]
        chords = draw(st.lists(st.sampled_from([(0, 2), (1, 3), (3, 5), (0, 3), (2, 5), (4, 1)]), unique=True, max_size=2))
        graphs.append(nx.DiGraph([*ring, *((b, a) for a, b in ring), *chords]))
    return graphs[0], graphs[1]


@examples(40)
@given(pair=two_graphs())
def test_it_agrees_with_networkx(pair):
    built = [
        build_topology(NetworkConfig("t", links=tuple(LinkSpec(a, b, 50.0, 500.0) for a, b in sorted(graph.edges))))
        for graph in pair
    ]
    assert (find_renumbering([built[0]], [built[1]]) is not None) == nx.is_isomorphic(*pair)
