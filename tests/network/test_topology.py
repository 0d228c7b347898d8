"""Topologies: links, channels and switches of every building block and their composition."""

from __future__ import annotations

import itertools
import re

import networkx
import numpy as np
import pytest
from helpers.examples import refused
from helpers.networks import ALL, ends_of, graph, topologies, topology
from hypothesis import example, given

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock
from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import NO_LINK


def test_dimension_0_varies_fastest():
    torus = topology("Mesh 3 1 10, Mesh 2 2 20")
    expected = {(a, b) for a, b in itertools.product(range(6), repeat=2) if abs(a % 3 - b % 3) + abs(a // 3 - b // 3) == 1}
    assert set(ends_of(torus)) == expected
    across = np.abs(torus.link_src - torus.link_dst) == 3
    assert np.all(torus.link_bandwidth_gibps == np.where(across, 2.0, 1.0))
    assert np.all(torus.link_latency_ns == np.where(across, 20.0, 10.0))
    assert np.all(torus.link_dimension == across)


def test_switch_ports_are_shared():
    network = topology("Switch 3 1 0, Switch 2 1 0")
    assert (network.num_npus, network.num_switches, network.num_links) == (6, 2 + 3, 2 * 6 + 2 * 6)
    assert network.num_channels == 2 * 6 + 3 * 2
    out_of_0 = network.channel_link[network.channel_src == 0]
    assert len(set(out_of_0.tolist())) == 2  # one port per dimension, however many it talks to


@given(topologies())
def test_channels_are_links_and_pairs_of_switch_ports(network):
    assert network.num_channels == len({*zip(network.channel_src.tolist(), network.channel_dst.tolist(), strict=True)})
    assert np.all(np.diff(network.channel_src.astype(np.int64) * network.num_npus + network.channel_dst) > 0)
    direct = network.channel_down_link == NO_LINK
    assert np.all(network.link_src[network.channel_link] == network.channel_src)
    up, down = network.channel_link[~direct], network.channel_down_link[~direct]
    assert np.all(network.link_dst[up] == network.link_src[down]) and np.all(network.link_src[down] >= network.num_npus)
    last = np.where(direct, network.channel_link, network.channel_down_link)
    assert np.all(network.link_dst[last] == network.channel_dst)
    found = network.channel_of(network.channel_src, network.channel_dst)
    assert np.array_equal(found, np.arange(network.num_channels))
    assert network.channel_of(np.array([0]), np.array([0]))[0] == -1


def test_failures_and_overrides():
    network = topology(
        "Ring 4",
        failed_links=((0, 1),),
        link_overrides=(LinkSpec(1, 2, 25.0, None), LinkSpec(2, 1, None, 7.0)),
    )
    assert (0, 1) not in ends_of(network)
    assert (1, 0) in ends_of(network)
    assert not network.is_regular
    channel = network.channel_of(np.array([1, 2]), np.array([2, 1]))
    links = network.channel_link[channel]
    assert network.link_bandwidth_gibps[links].tolist() == [25.0, 50.0]
    assert network.link_latency_ns[links].tolist() == [500.0, 7.0]


def test_too_many_channels_is_an_error_not_a_crash():
    with refused(r"FullyConnected 100000 among 100,000 NPUs makes .* channels"):
        topology("FullyConnected 100000 1 0")


def test_networkx_view():
    network = graph("0 1 50 5, 1 2 25 6, 2 0 12.5 7")
    view = network.to_networkx()
    assert view.edges[1, 2]["bandwidth_gibps"] == 25.0
    assert networkx.is_strongly_connected(view)
    assert topology(*ALL["switch"]).to_networkx().nodes[7]["switch"]


FABRIC = NetworkConfig(
    "fabric",
    links=tuple(LinkSpec(a, b, 12.5, 300.0 + a) for one in range(3) for a, b in ((one, 3), (3, one))),
    forwarding=(ForwardingDevice("nic", "mlx5_0"),),
)


@given(topologies())
@example(build_topology(FABRIC, may_forward=True))
def test_a_graph_of_networkx_is_the_same_network_again(network):
    if network.has_switches:
        return
    again = build_topology(NetworkConfig.from_networkx(network.to_networkx(), network.name), may_forward=True)
    assert again.forwarding == network.forwarding
    links = [
        sorted(zip(ends_of(each), each.link_bandwidth_gibps.tolist(), each.link_latency_ns.tolist(), strict=True))
        for each in (network, again)
    ]
    assert links[0] == links[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: networkx.relabel_nodes(graph, {0: "a"}), "found the node 'a', expected 0 to 3"),
        (lambda graph: graph.edges[0, 1].clear() or graph, "the edge 0 -> 1 has no bandwidth_gibps"),
        (lambda graph: graph.nodes[0].update(switch=True) or graph, "found the NPU 3 after the switch 0"),
        (lambda graph: graph.edges[0, 1].update(bandwidth_gibps=-1.0) or graph, "bandwidth is -1.0"),
        (lambda graph: networkx.empty_graph(4), "found no edges"),
    ],
)
def test_a_graph_that_is_no_network_is_refused(change, message):
    graph = networkx.cycle_graph(4)
    networkx.set_edge_attributes(graph, 50.0, "bandwidth_gibps")
    networkx.set_edge_attributes(graph, 500.0, "latency_ns")
    with refused(re.escape(message)):
        NetworkConfig.from_networkx(change(graph))


class Tree(BuildingBlock):
    """Two leaf switches under one: its links lead from switch to switch."""

    name = "Tree"

    def links(self, size):
        npus, leaf = np.arange(size), size + np.arange(size) % 2
        up, down = (np.array([size, size + 1]), np.array([size + 2, size + 2]))
        return BlockLinks(np.concatenate((npus, leaf, up, down)), np.concatenate((leaf, npus, down, up)), 3)

    def estimated_channels(self, size):
        return size * size

    def num_switches(self, size):
        return 3


class Rails(BuildingBlock):
    """Two switches, and a port of every NPU at each."""

    name = "Rails"

    def links(self, size):
        npus, switch = np.tile(np.arange(size), 2), np.repeat([size, size + 1], size)
        return BlockLinks(np.concatenate((npus, switch)), np.concatenate((switch, npus)), 2)

    def estimated_channels(self, size):
        return 2 * size * size

    def num_switches(self, size):
        return 2


@pytest.mark.parametrize(
    "block, message",
    [
        (Tree(), r"test\.yml: switch 4 -> switch 6 is a link, expected an NPU at one end of every link"),
        (Rails(), r"test\.yml: two ways lead from NPU 0 to NPU 1 without others between, expected one"),
    ],
)
def test_what_channels_cannot_be_made_of_is_refused(block, message, monkeypatch):
    monkeypatch.setitem(BUILDING_BLOCKS, block.name, block)
    with refused(message):
        topology((block.name, 4, 1.0, 0.0))


RING = Dimension("Ring", 4, 50.0, 500.0)
BAD = float("nan"), float("inf"), -1.0


@pytest.mark.parametrize(
    "network",
    [
        *(NetworkConfig("made", (Dimension("Ring", 4, value, 500.0),)) for value in (*BAD, 0.0)),
        *(NetworkConfig("made", (Dimension("Ring", 4, 50.0, value),)) for value in BAD),
        *(NetworkConfig("made", (Dimension(block, 0, 50.0, 500.0),)) for block in BUILDING_BLOCKS),
        *(NetworkConfig("made", (), (LinkSpec(0, 1, value, 5.0), LinkSpec(1, 0, 5.0, 5.0))) for value in (*BAD, 0.0, None)),
        *(NetworkConfig("made", (), (LinkSpec(0, 1, 5.0, value), LinkSpec(1, 0, 5.0, 5.0))) for value in (*BAD, None)),
        NetworkConfig("made", (), (LinkSpec(0, -1, 5.0, 5.0), LinkSpec(-1, 0, 5.0, 5.0))),
        NetworkConfig("made", (), (LinkSpec(0, 0, 5.0, 5.0), LinkSpec(0, 1, 5.0, 5.0), LinkSpec(1, 0, 5.0, 5.0))),
        *(NetworkConfig("made", (RING,), (), (), (LinkSpec(0, 1, value, None),)) for value in (*BAD, 0.0)),
        *(NetworkConfig("made", (RING,), (), (), (LinkSpec(0, 1, None, value),)) for value in BAD),
    ],
    ids=str,
)
def test_values_that_a_file_may_not_have_are_refused_from_programs_too(network):
    with refused(r"^made: .*, expected "):
        build_topology(network)
