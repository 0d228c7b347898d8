"""Networks that are one under other numbers are found to be, and no others."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from helpers import networks
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.failures import find_renumbering
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology

SHAPES = [
    networks.config("Ring 6"),
    networks.config("FullyConnected 5"),
    networks.config("Ring 4, Switch 2 25 300"),
    networks.config("Mesh 3, Mesh 3"),
    networks.config("Ring 4, Ring 3", failed_links=((0, 1), (1, 0), (5, 9))),
]


def shuffled(topology: Topology, npu: np.ndarray, order: np.ndarray) -> Topology:
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
def test_what_was_shuffled_is_found_again(shape: NetworkConfig, seed: int) -> None:
    random = np.random.default_rng(seed)
    topology = build_topology(shape)
    npu = random.permutation(topology.num_npus)
    other = shuffled(topology, npu, random.permutation(topology.num_links))
    found = find_renumbering([topology], [other])
    assert found is not None
    ends = {(int(found[a]), int(found[b])) for a, b in zip(topology.link_src, topology.link_dst, strict=True)}
    assert ends == set(zip(other.link_src.tolist(), other.link_dst.tolist(), strict=True))
    mark = int(random.integers(topology.num_npus))
    found = find_renumbering([topology], [other], (mark, int(npu[mark])))
    assert found is not None and found[mark] == npu[mark]
    slower = replace(other, link_latency_ns=other.link_latency_ns + (np.arange(other.num_links) == 0))
    assert find_renumbering([topology], [slower]) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_a_network_is_itself_also_with_switches_and_several_views(shape: NetworkConfig) -> None:
    topology = build_topology(shape)
    found = find_renumbering([topology, topology], [topology, topology], (1, 1))
    assert found is not None and sorted(found.tolist()) == list(range(topology.num_npus)) and found[1] == 1


@st.composite
def pairs(draw: st.DrawFn) -> tuple[nx.DiGraph, nx.DiGraph]:
    """Two graphs of few links, which are often alike."""
    graphs = []
    for _ in range(2):
        ring = [(at, (at + 1) % 6) for at in range(6)]
        chords = draw(st.lists(st.sampled_from([(0, 2), (1, 3), (3, 5), (0, 3), (2, 5), (4, 1)]), unique=True, max_size=2))
        graphs.append(nx.DiGraph([*ring, *((b, a) for a, b in ring), *chords]))
    return graphs[0], graphs[1]


@examples(40)
@given(pair=pairs())
def test_it_agrees_with_networkx(pair: tuple[nx.DiGraph, nx.DiGraph]) -> None:
    built = [
        build_topology(NetworkConfig("t", links=tuple(LinkSpec(a, b, 50.0, 500.0) for a, b in sorted(graph.edges))))
        for graph in pair
    ]
    assert (find_renumbering([built[0]], [built[1]]) is not None) == nx.is_isomorphic(*pair)
