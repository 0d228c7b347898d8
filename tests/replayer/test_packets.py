"""The packet level: equal to recorded runs of ASTRA-sim's ns-3 backend and to a naive twin; refuses what it does not time."""

from __future__ import annotations

import json
import os
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.examples import examples
from helpers.fabrics import ONE_WAY, PARALLEL, TWO_LEVELS, adding, both_ways, tree_networks
from helpers.lint_runs import coll, comp, recv, send
from helpers.naive_packets import over_switches
from helpers.naive_run import naive_replay_run
from helpers.runs import Dimensions, Tastes, make_run, random_run
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.network_config import LinkSpec, configured
from astra_tacos.network.ns3 import Ns3Config, read_ns3_config
from astra_tacos.network.packet_links import PacketLinks
from astra_tacos.replayer import packet_network
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.support.errors import ConfigError, ReplayError

VARIABLE = "ASTRA_TACOS_NS3_RUNS"
_BESIDE = Path(__file__).resolve().parents[3] / "shared/golden_ns3"
RECORDED = Path(os.environ.get(VARIABLE) or _BESIDE)
NAMES = sorted(path.parent.name for path in RECORDED.glob("*/expected.json"))
GBPS_400 = 4e11 / 8 / 2**30
"""In GiB/s."""
FULLY_CONNECTED: Dimensions = (("FullyConnected", 4, GBPS_400, 500.0),)
SWITCH: Dimensions = (("Switch", 4, GBPS_400, 500.0),)
NETWORKS: tuple[Dimensions, ...] = (
    FULLY_CONNECTED,
    SWITCH,
    (("Ring", 3, 93.1, 20.0),),
    (("FullyConnected", 5, 3.3, 1000.0),),
    (("Switch", 3, 186.26, 3.0),),
    (("Switch", 6, 11.7, 250.0),),
)
CALM = Tastes(lost=0, ordered=1, empty=0, instant=0, invalid=0, roofline=0, unsorted_group=0, replay_only=0, memory=0)


def recorded_run(name):
    folder = RECORDED / name
    workload = next(folder.glob("workload/*.0.et")).with_suffix("").with_suffix("")
    run = read_run(RunInputs(workload, folder / "system.json", folder / "network.yml", directory=folder))
    return replace(run, network=configured(run.network, folder / "ns3_config.txt"))


@pytest.mark.skipif(not NAMES, reason=f"NOT TESTED against recorded runs of ns-3: set {VARIABLE} to a directory of them")
@pytest.mark.parametrize("name", NAMES)
def test_equals_the_recorded_run(name):
    """To the nanosecond on every rank: link-serialised, windowed and collapsed ones, on direct networks and through switches."""
    expected = json.loads((RECORDED / name / "expected.json").read_text())
    assert replay_run(recorded_run(name), "packet").finish_ns.tolist() == expected["finish_ns"]


@pytest.mark.parametrize("dimensions", [FULLY_CONNECTED, SWITCH])
def test_what_ends_at_time_0_ends(dimensions, tmp_path):
    """ns-3's event queue takes events at time 0; those of the analytical backends abort."""
    roofline = {"roofline-enabled": 1, "peak-perf": 1, "local-mem-bw": 1000}
    nothing = comp(0, num_ops=1, tensor_size=1)
    ranks = [[nothing, send(1, (rank + 1) % 4, [0], size=9000), recv(2, (rank + 3) % 4, size=9000)] for rank in range(4)]
    run = make_run(tmp_path, ranks, *dimensions, system=roofline)
    outcome, twin = replay_run(run, "packet"), naive_replay_run(run, "packet")
    assert outcome.finish_ns.tolist() == twin.finish_ns and outcome.node_finish_ns.tolist() == twin.node_finish_ns
    assert outcome.node_finish_ns[0] == 0
    with pytest.raises(ConfigError, match="computes for 0 ns at time 0, where ASTRA-sim stops"):
        replay_run(run, "congestion-aware")


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halvingDoubling"])
def test_an_endpoint_delay_of_0_is_a_delay(algorithm, tmp_path):
    ends = []
    for delay in (0, 1):
        system = {"all-reduce-implementation": [algorithm], "endpoint-delay": delay}
        folder = tmp_path / str(delay)
        folder.mkdir()
        ends.append(replay_run(make_run(folder, [[coll(0, size=1 << 16)]] * 4, *SWITCH, system=system), "packet").end_ns)
    assert 0 < ends[1] - ends[0] <= 10


def with_ns3(run, **settings):
    return replace(run, network=replace(run.network, ns3=replace(run.network.ns3, **settings)))


@examples(20)
@given(
    seed=st.integers(0, 2**32 - 1),
    dimensions=st.sampled_from(NETWORKS),
    num_operations=st.integers(1, 14),
    payload_bytes=st.sampled_from([100, 333, 1000, 4096]),
    has_window=st.integers(0, 1),
)
def test_equals_the_twin(seed, dimensions, num_operations, payload_bytes, has_window):
    with tempfile.TemporaryDirectory() as folder:
        run = random_run(random.Random(seed), dimensions, num_operations, CALM).write(Path(folder))
        run = with_ns3(run, payload_bytes=payload_bytes, has_window=has_window)
        try:
            outcome = replay_run(run, "packet")
        except ReplayError:
            assert naive_replay_run(run, "packet").stalled
        else:
            twin = naive_replay_run(run, "packet")
            assert outcome.finish_ns.tolist() == twin.finish_ns
            assert outcome.node_finish_ns.tolist() == twin.node_finish_ns
            assert outcome.sent_bytes.tolist() == twin.sent_bytes


@examples(30)
@given(network=tree_networks(), data=st.data(), payload_bytes=st.sampled_from([333, 1000, 4096]), window=st.integers(0, 2))
def test_switches_below_switches_equal_the_twin(network, data, payload_bytes, window):
    """Hosts with several ports, unequal rates and any number of switches on the way; window 2 is that of all pairs."""
    npus = network.num_npus
    pairs = [(src, dst) for src in range(npus) for dst in range(npus) if src != dst]
    size = st.integers(1, 30_000)
    sends = data.draw(st.lists(st.tuples(st.sampled_from(pairs), size), min_size=1, max_size=12))
    ranks = [
        [comp(5000)]
        + [send(number, dst, size=size, tag=number) for number, ((src, dst), size) in enumerate(sends) if src == rank]
        + [recv(1000 + number, src, size=size, tag=number) for number, ((src, dst), size) in enumerate(sends) if dst == rank]
        for rank in range(npus)
    ]
    ns3 = Ns3Config(payload_bytes=payload_bytes, has_window=min(window, 1), global_window=window // 2)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), ranks, ("FullyConnected", npus, 50.0, 500.0))
        run = replace(run, network=replace(network, ns3=ns3))
        outcome, twin = replay_run(run, "packet"), naive_replay_run(run, "packet")
    assert outcome.finish_ns.tolist() == twin.finish_ns
    assert outcome.sent_bytes.tolist() == twin.sent_bytes


@examples(60)
@given(tree_networks(), st.data())
def test_ways_have_the_fewest_links_and_pass_no_npu(network, data):
    """Also where another switch, linked to all, makes several ways equally short."""
    top = network.num_npus + len(network.forwarding)
    more = both_ways(*((device, top, 50.0, 1.0) for device in range(network.num_npus, top)))
    links = (*network.links, *(LinkSpec(*link) for link in more))
    network = replace(network, links=links, forwarding=(*network.forwarding, ForwardingDevice()))
    topology = build_topology(network, may_forward=True)
    ends = np.array([(src, dst) for src in range(topology.num_endpoints) for dst in range(topology.num_endpoints) if src != dst])
    first, link = PacketLinks("x", topology, Ns3Config()).routes(ends[:, 0], ends[:, 1])
    for pair, (src, dst) in enumerate(ends.tolist()):
        way = link[first[pair] : first[pair + 1]]
        assert len(way) == len(over_switches(network, src, dst))
        visited = [src, *topology.link_dst[way].tolist()]
        assert visited[:-1] == topology.link_src[way].tolist()
        assert visited[-1] == dst
        assert min(visited[1:-1], default=top) >= topology.num_endpoints


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (PARALLEL, "0 -> switch 3 are parallel links, expected one, of the summed bandwidth"),
        (ONE_WAY, "has no reverse of its bandwidth and latency"),
        (adding(TWO_LEVELS), "found devices that add"),
    ],
)
def test_what_ns3_cannot_have_of_a_graph_is_refused(topology, message):
    with pytest.raises(ConfigError, match=message):
        PacketLinks("fabric", topology, Ns3Config())


def crowd(folder, dimensions, size, each=1):
    """Every NPU sends to every other at once."""
    count = dimensions[0][1]
    pairs = [(src, dst, which) for src in range(count) for dst in range(count) if src != dst for which in range(each)]
    ranks = [
        [send(number, dst, size=size, tag=which) for number, (src, dst, which) in enumerate(pairs) if src == rank]
        + [recv(1000 + number, src, size=size, tag=which) for number, (src, dst, which) in enumerate(pairs) if dst == rank]
        for rank in range(count)
    ]
    return make_run(folder, ranks, *dimensions)


@pytest.mark.parametrize("dimensions", [FULLY_CONNECTED, SWITCH, (("FullyConnected", 4, 0.001, 500.0),)])
def test_messages_that_meet_equal_the_twin(tmp_path, dimensions, monkeypatch):
    """Also when the room for packets and queue pairs has to grow."""
    monkeypatch.setattr(packet_network, "_ROOM", 8)
    monkeypatch.setattr(packet_network, "_FLOWS_OF_PORT", 1)
    run = crowd(tmp_path, dimensions, 70_001, each=3)
    assert replay_run(run, "packet").finish_ns.tolist() == naive_replay_run(run, "packet").finish_ns


@pytest.mark.parametrize("size", [1, 1000, 1001, 40_000, 1 << 20])
def test_one_message_takes_its_packets_and_a_round_trip(tmp_path, size):
    """At 50 bytes/ns, 1,036 bytes take 21 ns, and the last acknowledgement 1 ns; both cross 500 ns."""
    run = make_run(tmp_path, [[send(0, 1, size=size)], [recv(0, 0, size=size)]], ("FullyConnected", 2, GBPS_400, 500.0))
    full, rest = divmod(size, 1000)
    last = round((rest + 36) / 50) if rest else 0
    assert replay_run(run, "packet").finish_ns.tolist() == [21 * full + last + 500 + 1 + 500] * 2


def test_what_links_carry(tmp_path):
    run = make_run(tmp_path, "send 0 1 size=2000 | recv 0 0 size=2000", ("FullyConnected", 2, GBPS_400, 500.0))
    outcome = replay_run(run, "packet")
    assert dict(zip(outcome.link_src.tolist(), outcome.link_bytes.tolist(), strict=True)) == {0: 2000, 1: 0}
    assert dict(zip(outcome.link_src.tolist(), outcome.link_busy_ns.tolist(), strict=True)) == {0: 42, 1: 2}


REFUSALS = [
    ({"cc_mode": 3}, SWITCH, r"CC_MODE 3 \(HPCC\) with the switches of .* changes rates"),
    ({"cc_mode": 7}, FULLY_CONNECTED, r"CC_MODE 7 \(TIMELY\) changes rates"),
    ({"ack_interval": 4}, FULLY_CONNECTED, "L2_ACK_INTERVAL is 4"),
    ({"error_rate": 0.1}, FULLY_CONNECTED, "ERROR_RATE_PER_LINK is 0.1"),
    ({"link_down_us": 5}, FULLY_CONNECTED, "LINK_DOWN takes a link down"),
    ({"nic_pauses": 1}, FULLY_CONNECTED, "NIC_TOTAL_PAUSE_TIME is 1"),
]


@pytest.mark.parametrize(("changed", "dimensions", "message"), REFUSALS)
def test_refuses_configurations_that_it_does_not_time(tmp_path, changed, dimensions, message):
    run = with_ns3(crowd(tmp_path, dimensions, 1000), **changed)
    wanted = f"ns-3's default configuration: {message}.*, which the packet backend does not time"
    with pytest.raises(ConfigError, match=wanted) as caught:
        replay_run(run, "packet")
    assert "\n" not in str(caught.value)


def test_congestion_control_of_switches_does_nothing_without_switches(tmp_path):
    """HPCC's headers are longer: 78 bytes of headers, and 76 of an acknowledgement."""
    run = make_run(tmp_path, "send 0 1 size=1000 | recv 0 0 size=1000", ("FullyConnected", 2, GBPS_400, 500.0))
    assert replay_run(with_ns3(run, cc_mode=3), "packet").finish_ns.tolist() == [22 + 500 + 2 + 500] * 2


def test_refuses_a_message_that_npus_would_relay(tmp_path):
    run = make_run(tmp_path, "send 0 2 size=8 | comp 0 | recv 0 0 size=8 | comp 0", ("Ring", 4, GBPS_400, 500.0))
    with pytest.raises(ConfigError, match="rank 0 sends to rank 2, which is no neighbour of it and shares no switch with it"):
        replay_run(run, "packet")


def test_refuses_links_that_are_too_slow_for_packets(tmp_path):
    """Before it makes room for all instants that a packet takes."""
    run = make_run(tmp_path, "send 0 1 | recv 0 0", ("Ring", 2, 1e-6, 500.0))
    with pytest.raises(ConfigError, match=r"a packet of 1,036 bytes takes [\d,]+ ns of the link 0 -> 1, expected at most"):
        replay_run(run, "packet")


def test_refuses_a_message_that_ns3_cannot_count(tmp_path):
    run = make_run(tmp_path, "send 0 1 size=1<<31 | recv 0 0 size=1<<31")
    with pytest.raises(ConfigError, match="a message of 2,147,483,648 bytes, expected at most 2,147,483,647"):
        replay_run(run, "packet")


def test_refuses_a_buffer_that_fills_up(tmp_path):
    """Many messages at once: a switch's port may hold an eighth of 1 MiB."""
    run = with_ns3(crowd(tmp_path, SWITCH, 1 << 20, each=8), buffer_mib=1)
    with pytest.raises(ReplayError, match=r": 0 -> switch 4: the switch's buffer fills up|: \d -> switch 4: the switch's buffer"):
        replay_run(run, "packet")


def test_records_no_transmissions(tmp_path):
    with pytest.raises(ConfigError, match="transmissions cannot be recorded on the packet backend"):
        replay_run(crowd(tmp_path, FULLY_CONNECTED, 8), "packet", record_transmissions=True)


# ---- Configuration ----


def test_reads_a_configuration(tmp_path):
    path = tmp_path / "config.txt"
    path.write_text("CC_MODE 3\nPACKET_PAYLOAD_SIZE 4000\nKMAX_MAP 1 400000000000 3200\nHAS_WIN 0 LINK_DOWN 7 0 1\nSOMETHING 5\n")
    read = read_ns3_config(path)
    assert read == Ns3Config(source=str(path), cc_mode=3, payload_bytes=4000, has_window=0, link_down_us=7)
    assert (read.header_bytes, read.ack_bytes) == (78, 76)
    assert (Ns3Config().header_bytes, Ns3Config().ack_bytes) == (36, 48)


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "": "no key of a configuration of the ns-3 backend",
        "PACKET_PAYLOAD_SIZE 0": "PACKET_PAYLOAD_SIZE is '0', expected a whole number from 1 to 9,000",
        "BUFFER_SIZE 1.5": "BUFFER_SIZE is '1.5', expected a whole number from 1 to 2,047",
        "ERROR_RATE_PER_LINK x": "ERROR_RATE_PER_LINK is 'x', expected a number from 0",
    }.items(),
)
def test_a_wrong_configuration_is_one_line(tmp_path, text, message):
    path = tmp_path / "config.txt"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_ns3_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
