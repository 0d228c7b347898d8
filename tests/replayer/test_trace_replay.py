"""Replay of traces: equal to ASTRA-sim's recorded runs, to a hand calculation, and to a naive twin; errors say what is wrong."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command import read_json
from helpers.damage import refusal
from helpers.examples import examples
from helpers.lint_runs import comp, encode, recv, send, traces_of
from helpers.naive import NaiveHashSet, naive_trace_replay
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig, read_network
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError, ReplayError

AWARE, UNAWARE = BACKENDS
BYTE_PER_NS = 1e9 / 2**30
"""A bandwidth in GiB/s at which a byte takes a nanosecond."""


def network(*dimensions, bandwidth=BYTE_PER_NS, latency=10.0, **rest):
    return NetworkConfig(
        "net.yml", tuple(Dimension(block, int(size), bandwidth, latency) for block, size in map(str.split, dimensions)), **rest
    )


def read_nodes(directory, ranks):
    """Nodes of each rank, written and read back; a rank without any gets a COMP."""
    for rank, nodes in enumerate(traces_of(ranks)):
        (Path(directory) / f"t.{rank}.et").write_bytes(encode(nodes or [comp(0, us=0)]))
    return read_trace(Path(directory) / "t", chunks=False)


# ---- Recorded runs of ASTRA-sim ----


@pytest.mark.golden_cases("*_ag_*", "*_rs_*", "*_ar_*", "direct_*")
def test_equals_astra_sim(golden, golden_case):
    folder = golden / golden_case
    expected = read_json(folder / "expected.json")
    system = read_json(folder / "system.json")
    (prefix,) = next(value for key, value in system.items() if key.endswith("-implementation-custom"))
    backend = expected["backend"].replace("_", "-")
    replay = replay_trace(read_trace(folder / prefix, chunks=False), read_network(folder / "network.yml"), backend)
    assert replay.finish_ns.tolist() == expected["finish_ns"]


def test_equals_astra_sim_on_its_own_inputs(astra_sim_inputs):
    trace = read_trace(astra_sim_inputs / "custom_ring_allreduce_8npus_1MB/custom_allreduce", chunks=False)
    replay = replay_trace(trace, read_network(astra_sim_inputs / "network/Ring_8npus.yml"), AWARE)
    assert replay.finish_ns.tolist() == [90174] * 8


# ---- Order of issue ----

FREE_IDS = (3, 16, 29, 42, 7, 20, 8, 95, 61, 1, 34, 50, 77, 13)


def test_nodes_set_free_together_are_issued_as_in_astra_sim(tmp_path):
    # Finish times are ASTRA-sim's. The ready nodes outgrow 13 buckets, and the second group meets the larger set.
    sends = [send(node_id, 1 + i, [100], 10_000) for i, node_id in enumerate(FREE_IDS)]
    sends += [send(node_id, 15 + i, [200], 10_000) for i, node_id in enumerate((5, 18, 31, 44, 57))]
    ranks = [[comp(100), comp(200, us=50), *sends]] + [[recv(0, 0, size=10_000)] for _ in range(19)]
    replay = replay_trace(read_nodes(tmp_path, ranks), network("Switch 20", bandwidth=10.0, latency=100.0), AWARE)
    first = [12372, 3993, 4924, 5855, 7717, 8648, 10510, 11441, 13303, 14234, 9579, 15165, 3062, 6786]
    assert replay.finish_ns.tolist() == [55786, *first, 52062, 52993, 53924, 54855, 55786]


def test_first_nodes_are_issued_as_in_astra_sim(tmp_path):
    # Finish times are ASTRA-sim's. The first node of the file waits for later ones, and so brings them forward.
    sends = [send(node_id, 1 + i, size=10_000) for i, node_id in enumerate(FREE_IDS)]
    ranks = [[comp(500, [1, 20, 42], us=0), *sends]] + [[recv(0, 0, size=10_000)] for _ in range(14)]
    replay = replay_trace(read_nodes(tmp_path, ranks), network("Switch 15", bandwidth=10.0, latency=100.0), AWARE)
    rest = [13234, 5786, 6717, 4855, 8579, 7648, 11372, 12303, 14165, 9510, 10441, 2062, 2993, 3924]
    assert replay.finish_ns.tolist() == [14165, *rest]


HASH_SETS = [
    (FREE_IDS[:7], (8, 20, 7, 42, 29, 16, 3)),
    (FREE_IDS, (16, 29, 13, 42, 7, 20, 34, 8, 95, 3, 61, 1, 50, 77)),
    ((1, 2, 3, 14, -2, 15, 2, 1), (2, 15, 3, 14, 1)),
    ((2**64 - 1, 2**63, 2), (2**63, 2, 2**64 - 1)),
]


@pytest.mark.parametrize(("steps", "order"), HASH_SETS)
def test_the_twin_keeps_elements_as_libstdcxx_does(steps, order):
    """Orders printed by a program compiled with GCC 12; a negative step removes."""
    elements = NaiveHashSet()
    for step in steps:
        if step < 0:
            elements.remove(-step)
        else:
            elements.insert(step)
    assert tuple(elements.order) == order


# ---- By hand ----


def two_hops_and_a_queue(directory):
    """0 sends 100 bytes to 2, then at once 50 bytes to 1; both receivers work for 1 us; 3 has two COMPs at once."""
    ranks = """send 0 2 size=100; send 1 1 size=50 tag=1 | recv 0 0 size=50 tag=1; comp 1 [0] |
        recv 5 0 size=100; comp 6 [5] | comp 0 us=3; comp 1 us=0; comp 2 [1] us=0"""
    return read_nodes(directory, ranks)


def test_congestion_aware_by_hand(tmp_path):
    replay = replay_trace(two_hops_and_a_queue(tmp_path), network("Ring 4"), AWARE)
    # The 100 bytes reach 1 at 110 and 2 at 220 (a tie goes clockwise); the 50 bytes start at 100 and arrive at 160.
    assert replay.finish_ns.tolist() == [220, 1160, 1220, 3000]
    assert replay.node_issue_ns.tolist() == [0, 0, 0, 160, 0, 220, 0, 0, 1]
    assert replay.node_finish_ns.tolist() == [220, 160, 160, 1160, 220, 1220, 3000, 1, 2]
    used = [(s, d, b, n) for s, d, b, n in link_rows(replay) if b]
    assert used == [(0, 1, 150, 150), (1, 2, 100, 100)]
    assert replay.sent_bytes.tolist() == [150, 0, 0, 0]
    assert replay.collective_time_ns == 3000
    assert not replay.finish_ns.flags.writeable


def link_rows(replay):
    columns = (replay.link_src, replay.link_dst, replay.link_bytes, replay.link_busy_ns)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_congestion_unaware_by_hand(tmp_path):
    replay = replay_trace(two_hops_and_a_queue(tmp_path), network("Ring 4"), UNAWARE)
    assert replay.finish_ns.tolist() == [120, 1060, 1120, 3000]
    assert replay.link_src.size == replay.link_bytes.size == 0


# ---- Several dimensions ----


def test_overrides_and_failures_count(tmp_path):
    trace = read_nodes(tmp_path, "send 0 1 size=100 | |")
    slow = network("Ring 3", link_overrides=(LinkSpec(0, 1, None, 500.0),))
    assert replay_trace(trace, slow, AWARE).finish_ns[0] == 600
    with pytest.raises(ConfigError, match=r"net\.yml: astra_tacos\.link_overrides is beyond the congestion-unaware backend"):
        replay_trace(trace, slow, UNAWARE)
    failed = network("Ring 3", failed_links=((0, 1),))
    assert replay_trace(trace, failed, AWARE).finish_ns[0] == 220  # over rank 2
    assert replay_trace(trace, failed, UNAWARE).finish_ns[0] == 110


def test_a_graph_takes_messages_between_neighbours(tmp_path):
    links = tuple(LinkSpec(src, (src + 1) % 3, BYTE_PER_NS, 10.0) for src in range(3))
    graph = NetworkConfig("net.yml", links=links)
    assert replay_trace(read_nodes(tmp_path, "send 0 1 size=100 | |"), graph, AWARE).finish_ns[0] == 110
    with pytest.raises(ConfigError, match="route from rank 0 to rank 2 needs the link 0 -> 2"):
        replay_trace(read_nodes(tmp_path, "send 0 2 size=100 | |"), graph, AWARE)
    with pytest.raises(ConfigError, match=r"astra_tacos\.links is beyond"):
        replay_trace(read_nodes(tmp_path, "send 0 1 size=100 | |"), graph, UNAWARE)


# ---- Errors ----

STUCK = [
    ("recv 7 1 size=64 tag=3 |", "deadlock: rank 0, node 7 waits for a message from rank 1 (64 bytes, tag 3) that no node sends"),
    (
        "recv 0 1 size=64 tag=3 | send 4 0 size=32 tag=3",
        "waits for a message from rank 1 (64 bytes, tag 3) that no node sends (rank 1, node 4 sends 32 bytes, tag 3)",
    ),
    (
        "recv 0 1 size=64; recv 1 1 [0] size=64 | send 0 0 size=64",
        "rank 0, node 1 waits for a message from rank 1 (64 bytes, tag 0) that is sent too few times",
    ),
    (
        "recv 0 1; send 1 1 [0] | recv 2 0; send 3 0 [2]",
        "deadlock: rank 0, node 0 waits for the message of rank 1, node 3, which waits for rank 1, node 2, "
        "which waits for the message of rank 0, node 1, which waits for rank 0, node 0: a cycle",
    ),
    (
        "comp 1 [2]; comp 2 [1] |",
        "t.0.et node 2: deadlock: waits for itself (2 -> 1 -> 2): no node can start; break the cycle (lint: D02)",
    ),
    (
        "comp 0; comp 1 [9] |",
        "t.0.et node 1: deadlock: depends on a node that does not exist; ids count within a rank's file (lint: D01)",
    ),
]
BAD_INPUT = [
    (
        "COMM_COLL 2 |",
        "t.0.et node 2: COMM_COLL in a custom collective never ends; use COMM_SEND, COMM_RECV",
    ),
    ("INVALID 2 |", "t.0.et node 2: INVALID in a custom collective never ends"),
    ("send 0 1 -comm_size |", "t.0.et node 0: COMM_SEND without comm_size (or of -1); add comm_size (lint: A01)"),
    ("send 0 1 size=0 |", "t.0.et node 0: COMM_SEND of 0 bytes; leave it out (lint: A04)"),
    ("recv 0 1 -comm_tag |", "t.0.et node 0: COMM_RECV without comm_tag (or of -1); add comm_tag (lint: A01)"),
    ("recv 0 1 -comm_src |", "t.0.et node 0: COMM_RECV without comm_src (or of -1); add comm_src (lint: A01)"),
    ("send 0 2 |", "t.0.et node 0: sends to position 2, there are 2; use 0 to 1 (lint: A08)"),
    ("send 0 0 |", "t.0.et node 0: sends to position 0: itself; leave it out (lint: A09)"),
    ("comp 0 us=1<<63 |", "takes 9,223,372,036,854,775,807 us, more than ASTRA-sim's clock counts; durations are microseconds"),
    ("| |", "traces of 3 ranks, but net.yml has 2 NPUs"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("ranks", "message"), STUCK + BAD_INPUT)
def test_errors(tmp_path, ranks, message, backend):
    error = ReplayError if (ranks, message) in STUCK else ConfigError
    said = refusal(replay_trace, read_nodes(tmp_path, ranks), network("FullyConnected 2"), backend, error=error)
    assert said.startswith(str(tmp_path / "t")) and message in said


def test_a_long_chain_of_waits_is_shortened(tmp_path):
    nodes = [comp(i, [i + 1]) for i in range(50)]
    ranks = [[recv(0, 1)], [send(60, 0, [0]), *nodes, recv(50, 0)]]
    with pytest.raises(ReplayError, match=r"rank 0, node 0 waits for .* through 50 more, .* waits for a message") as caught:
        replay_trace(read_nodes(tmp_path, ranks), network("FullyConnected 2"), AWARE)
    assert len(str(caught.value)) < 600


def test_a_replay_of_many_years_is_refused(tmp_path):
    longest_us = (1 << 53) // 1000
    nodes = [[comp(0, us=longest_us), *(comp(i, [i - 1], us=longest_us) for i in range(1, 260))], []]
    with pytest.raises(ConfigError, match=r"beyond 2\*\*61 ns, expected less"):
        replay_trace(read_nodes(tmp_path, nodes), network("FullyConnected 2"), AWARE)


def test_a_send_under_1_ns_at_time_0_stops(tmp_path):
    fast = network("Ring 4", bandwidth=100.0, latency=500.0)
    with pytest.raises(ConfigError, match=r"rank 0, node 0 sends 10 bytes at time 0 in under 1 ns of net"):
        replay_trace(read_nodes(tmp_path, "send 0 1 size=10 | | |"), fast, AWARE)
    late = read_nodes(tmp_path, "comp 0 us=0; send 1 1 [0] size=10 | | |")
    assert replay_trace(late, fast, AWARE).finish_ns[0] == 501


def test_unknown_backend(tmp_path):
    trace = read_nodes(tmp_path, "|")
    with pytest.raises(ConfigError, match="backend: found 'ns3', expected congestion-aware or congestion-unaware"):
        replay_trace(trace, network("Ring 2"), "ns3")


# ---- Against the twin ----

NETWORKS = [
    network("Ring 2"),
    network("Ring 6", bandwidth=0.7, latency=0.0),
    network("Ring 5", bandwidth=3.3, latency=12.3),
    network("Switch 4"),
    network("FullyConnected 4", latency=0.5),
    network("Mesh 5"),
    network("Ring 3", "Switch 2"),
    network("Switch 2", "Ring 4", bandwidth=1.7, latency=7.9),
    network("Mesh 2", "FullyConnected 2", "Ring 3"),
]


def rename(ranks, rng):
    """Shuffle each rank's nodes, give them sparse ids, and name some dependencies a second time."""
    for nodes in ranks:
        new_id = dict(zip((node.id for node in nodes), rng.sample(range(5 * len(nodes)), len(nodes)), strict=True))
        rng.shuffle(nodes)
        for node in nodes:
            deps = [new_id[dep] for dep in node.data_deps]
            del node.data_deps[:]
            node.id = new_id[node.id]
            node.data_deps.extend(deps)
            node.ctrl_deps.extend(deps[: rng.randint(0, 2)])


@st.composite
def cases(draw):
    """Random dependencies on earlier nodes; few sizes and tags, so that events tie and messages share keys."""
    net = draw(st.sampled_from(NETWORKS))
    ranks: list[list[Any]] = [[] for _ in range(net.num_npus)]

    def deps(rank):
        return draw(st.lists(st.sampled_from(range(len(ranks[rank]))), max_size=2, unique=True)) if ranks[rank] else []

    for number in range(draw(st.integers(1, 25))):
        src, dst = draw(st.lists(st.sampled_from(range(net.num_npus)), min_size=2, max_size=2, unique=True))
        size = draw(st.sampled_from([40, 40, 90]))
        tag = draw(st.sampled_from([number, 1000]))
        ranks[src].append(send(len(ranks[src]), dst, deps(src), size, tag))
        if draw(st.integers(0, 5)):
            ranks[dst].append(comp(len(ranks[dst]), deps(dst), draw(st.sampled_from([0, 0, 1]))))
        if draw(st.integers(0, 30)):
            ranks[dst].append(recv(len(ranks[dst]), src, deps(dst), size, tag))
    if draw(st.booleans()):
        rename(ranks, random.Random(draw(st.integers(0, 1000))))
    return net, ranks


@examples(20)
@given(cases(), st.sampled_from(list(BACKENDS)))
def test_equals_the_twin(case, backend):
    net, ranks = case
    with tempfile.TemporaryDirectory() as directory:
        trace = read_nodes(directory, ranks)
    expected = naive_trace_replay(trace, net, backend)
    if min(expected) < 0:
        with pytest.raises(ReplayError, match="deadlock: "):
            replay_trace(trace, net, backend)
    else:
        replay = replay_trace(trace, net, backend)
        assert replay.node_finish_ns.tolist() == expected
        sends = trace.kind == NodeType.COMM_SEND
        assert replay.sent_bytes.sum() == trace.size_bytes[sends].sum()
        assert np.all(replay.link_busy_ns <= replay.collective_time_ns)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("net", [*NETWORKS, network("Ring 8", latency=0.0), network("Switch 6", latency=0.0)])
def test_equals_the_twin_when_crowded(tmp_path, net, wide):
    """Many equal messages and computations: only the order of events at one instant tells who queues first.

    Wide: all wait for the few first nodes of their rank, so that many become ready together.
    """
    rng = random.Random(net.num_npus + wide)
    ranks: list[list[Any]] = [[] for _ in range(net.num_npus)]

    def deps(rank, least):
        earlier = range(min(3, len(ranks[rank])) if wide else len(ranks[rank]))
        return rng.sample(earlier, min(len(earlier), rng.randint(least, 2)))

    for number in range(140):
        src, dst = rng.sample(range(net.num_npus), 2)
        for rank in (src, dst):
            ranks[rank].append(comp(len(ranks[rank]), deps(rank, 0), us=0))
            node_id = len(ranks[rank])
            if rank == src:
                ranks[rank].append(send(node_id, dst, deps(rank, int(wide)), 40, number))
            else:
                ranks[rank].append(recv(node_id, src, deps(rank, 0), 40, number))
    for renamed in (False, True):
        if renamed:
            rename(ranks, rng)
        trace = read_nodes(tmp_path, ranks)
        for backend in BACKENDS:
            assert replay_trace(trace, net, backend).node_finish_ns.tolist() == naive_trace_replay(trace, net, backend)
