"""What messages and link-serialised schedules take on the packet level: the formula against replays of every packet."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import config
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig, read_network
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.schedule.packet_time import message_ns, packet_time_ns, packet_view
from astra_tacos.schedule.settle import settled_on
from astra_tacos.verifier.schedule_oracle import verify

VARIABLE = "ASTRA_TACOS_NS3_RUNS"
RECORDED = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "golden_ns3")
with_records = pytest.mark.skipif(
    not RECORDED.is_dir(), reason=f"NOT TESTED against recorded runs of ns-3: set {VARIABLE} to a directory of them"
)
WITHIN = 1.01
OF_ANY = 1.03
THROUGH_SWITCHES = 1.03
SERIALISED = {
    "ring8_tacos_1_blocking_1MiB": WITHIN,
    "torus4x4_tacos_1_blocking_1MiB": WITHIN,
    "torus3x3x3_all-reduce_tacos_2_blocking_16MiB": WITHIN,
    "fc8_all-reduce_tacos_2_blocking_16MiB": WITHIN,
    "switch8_tacos_1_blocking_16MiB": THROUGH_SWITCHES,
    "h16_all-reduce_tacos_2_blocking_16MiB": THROUGH_SWITCHES,
}
"""Recorded runs of link-serialised traces, and how near to them predictions are."""
MEETING = "sw8x2_all-reduce_tacos_2_blocking_16MiB"
"""A recorded run of a link-serialised trace whose messages meet in ports, which no prediction without queues knows."""
DIRECT = ("Ring", "FullyConnected")
"""Meshes carry messages one way at a time in parts, and come within 2%."""


def configured(network, **settings):
    return replace(network, ns3=Ns3Config(**settings))


def replayed_ns(made, network):
    return replay_trace(schedule_trace(made, "x"), network, "packet").collective_time_ns


@with_records
@pytest.mark.parametrize("name, within", SERIALISED.items())
def test_recorded_runs_take_what_messages_take_on_the_view(name, within):
    """Its links, held for each message, on the model without queues: about what ns-3 printed."""
    assert 1 / within < share_of_recorded(name) < within


@with_records
def test_messages_that_meet_in_ports_take_longer_than_on_the_view():
    """The prediction is a bound there; replays of every packet are exact."""
    assert share_of_recorded(MEETING) < 1 / THROUGH_SWITCHES


def share_of_recorded(name):
    """What a recorded run takes on the view, by what ns-3 printed."""
    folder = RECORDED / name
    workload = next(folder.glob("workload/*.0.et")).with_suffix("").with_suffix("")
    run = read_run(RunInputs(workload, folder / "system.json", folder / "network.yml", directory=folder))
    view = packet_view(build_topology(run.network), read_network(folder / "network.yml").ns3)
    as_view = replace(run, network=replace(run.network, dimensions=view.dimensions))
    recorded: int = max(json.loads((folder / "expected.json").read_text())["finish_ns"])
    return replay_run(as_view, "congestion-unaware").end_ns / recorded


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


def test_a_schedule_of_the_view_is_one_of_the_network():
    network = config("Ring 4, Switch 2 25 700")
    topology = build_topology(network)
    view = packet_view(topology, network.ns3)
    assert [each.block for each in view.dimensions] == ["Ring", "Switch"] and view.is_regular
    assert (view.link_bandwidth_gibps < topology.link_bandwidth_gibps).all()
    assert (view.link_latency_ns > topology.link_latency_ns).all()
    of_view = schedule(view, link_model="blocking")
    made = settled_on(topology, of_view.collective, of_view, of_view.sends)
    assert made.timing.is_blocking and not verify(made)


def test_links_of_their_own_have_views_of_their_own():
    links = (Dimension("Ring", 4, 50.0, 500.0),)
    network = NetworkConfig("own.yml", links, failed_links=((0, 1), (1, 0)))
    view = packet_view(build_topology(network), network.ns3)
    assert isinstance(view, Topology) and view.num_links == 6 and view.is_uniform
