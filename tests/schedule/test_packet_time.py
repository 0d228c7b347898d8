"""What messages and link-serialised schedules take on the packet level: the formula against replays of every packet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import config
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.composition import build_topology
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.schedule.packet_time import message_ns, packet_time_ns

OF_ANY = 1.03
DIRECT = ("Ring", "FullyConnected")
"""Meshes carry messages one way at a time in parts, and come within 2%."""


def configured(network, **settings):
    return replace(network, ns3=Ns3Config(**settings))


def replayed_ns(made, network):
    return replay_trace(schedule_trace(made, "x"), network, "packet").collective_time_ns


@examples(12)
@given(
    blocks=st.lists(st.tuples(st.sampled_from(DIRECT), st.integers(3, 4)), min_size=1, max_size=2),
    bandwidth=st.sampled_from((12.5, 25.0, 50.0)),
    latency=st.sampled_from((100.0, 500.0, 1000.0)),
    payload=st.sampled_from((500, 1000, 4096)),
    collective=st.sampled_from(("all-reduce", "all-gather", "all-to-all")),
    size=st.sampled_from((1 << 20, 3_000_001)),
)
def test_direct_networks_take_what_is_predicted(blocks, bandwidth, latency, payload, collective, size):
    network = configured(config(*((block, count, bandwidth, latency) for block, count in blocks)), payload_bytes=payload)
    made = schedule(build_topology(network), collective, size, link_model="blocking")
    predicted, taken = packet_time_ns(made, network.ns3), replayed_ns(made, network)
    assert 1 / OF_ANY < predicted / taken < OF_ANY


@pytest.mark.parametrize("block", ["FullyConnected", "Switch"])
@pytest.mark.parametrize("has_window", [0, 1])
@pytest.mark.parametrize("size", [1, 1000, 40_001, 1 << 20])
def test_a_message_alone_takes_exactly_what_is_predicted(block, has_window, size):
    network = configured(config((block, 2, 50.0, 500.0)), has_window=has_window)
    topology = build_topology(network)
    made = schedule(topology, "broadcast", size, root=0, link_model="blocking", synthesizer="tacos")
    (channel,) = made.channel.tolist()
    alone = message_ns(PacketLinks("test", topology, network.ns3), np.array([size]), np.zeros(topology.num_channels))[channel, 0]
    assert alone == replayed_ns(made, network) == packet_time_ns(made, network.ns3)


def test_a_small_window_waits_for_acknowledgements():
    """Of 4,096 bytes in flight and a long way there, every round trip brings few packets."""
    network = configured(config("FullyConnected 2 400 1000"), payload_bytes=4096)
    made = schedule(build_topology(network), "broadcast", 1 << 20, root=0, link_model="blocking")
    assert packet_time_ns(made, network.ns3) == pytest.approx(replayed_ns(made, network), rel=0.01)


def test_rounds_through_switches_take_what_is_predicted():
    """Where every NPU receives from one other at a time, within 3%."""
    network = config("Switch 6, Switch 2 25")
    made = schedule(build_topology(network), size=1 << 20, link_model="blocking", synthesizer="symmetric")
    assert packet_time_ns(made, network.ns3) == pytest.approx(replayed_ns(made, network), rel=0.03)
