"""Traces that are exported: their dependencies, their chunks, and the time that they take when ASTRA-sim's models replay them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pytest
from helpers.examples import examples
from helpers.naive_schedule import naive_dependencies
from helpers.naive_trace import assert_equal, naive_messages
from helpers.networks import ALL, config, topology
from helpers.schedules import schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.collective.all_to_allv import all_to_allv
from astra_tacos.export.astra_sim_network import astra_sim_network
from astra_tacos.export.chakra import export_chakra, schedule_trace
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.trace.reader import read_names, read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import LINK_ORDERS
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.packets import packet_level
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.algorithms.over_dimensions import balanced_orders
from astra_tacos.synthesizer.parts.dimension_order import Ways, send_graph_over_dimensions
from astra_tacos.synthesizer.parts.dispatch import dispatch


@examples(20)
@given(schedules())
def test_nodes_say_what_the_schedule_says(tmp_path_factory, of):
    prefix = tmp_path_factory.mktemp("et") / "x"
    export_chakra(of, prefix, first_tag=1000)
    trace = read_trace(prefix)
    sends = np.flatnonzero(trace.kind == NodeType.COMM_SEND)
    row = trace.tag[sends] - 1000
    assert sorted(row.tolist()) == list(range(of.num_sends))
    assert np.array_equal(trace.rank[sends], of.src[row])
    assert np.array_equal(trace.peer[sends], of.dst[row])
    assert np.array_equal(trace.size_bytes[sends], of.size_bytes[row])
    assert np.array_equal(trace.chunks.chunk[sends], of.chunk[row])
    receives = np.flatnonzero(trace.kind == NodeType.COMM_RECV)
    assert np.array_equal(trace.chunks.reduces[receives], of.reduces[trace.tag[receives] - 1000])
    reduction_us = of.timing.reduction_us[of.collective.chunk_class[of.chunk]]
    assert trace.duration_us.sum() == reduction_us[of.reduces].sum()
    assert (trace.dep >= 0).all()


@examples(20)
@given(schedules(), st.sampled_from([None, *LINK_ORDERS]), st.integers(0, 1000))
def test_the_trace_in_memory_is_what_is_read_of_the_files(tmp_path_factory, of, order, tag):
    prefix = tmp_path_factory.mktemp("et") / "x"
    export_chakra(of, prefix, order, tag)
    found = schedule_trace(of, str(prefix), order, tag)
    assert found.prefix == str(prefix)
    assert_equal(found, read_trace(prefix))


def test_a_trace_is_of_the_schedule_that_is_given_now():
    """Traces are kept for the judges of one schedule, not for another one with some of its arrays."""
    of = schedule(topology("ring8"), "all-gather")
    first = schedule_trace(of, "x")
    added = schedule_trace(replace(of, reduces=~of.reduces), "x")
    assert added.num_nodes == first.num_nodes + of.num_messages
    assert_equal(schedule_trace(replace(of, synthesizer="other", link_order="tokens"), "x"), schedule_trace(of, "x", "tokens"))


@pytest.mark.parametrize("synthesizer", ["bruck", "double-binary-tree", "direct", "dimension-wise"])
def test_messages_name_their_chunks_for_later_versions_of_astra_sim(tmp_path, synthesizer):
    """Neighbouring chunks by three attributes, lists and places with -1 for two of them, as protobuf's parser reads them."""
    collective = {"bruck": "all-to-all", "direct": "all-to-all"}.get(synthesizer, "all-reduce")
    made = schedule(topology("Switch 5"), collective, 1 << 16, synthesizer=synthesizer)
    export_chakra(made, tmp_path / "x")
    for npu in range(5):
        for _, node in naive_messages((tmp_path / f"x.{npu}.et").read_bytes()):
            if node.type not in (NodeType.COMM_SEND, NodeType.COMM_RECV):
                continue
            found = {entry.name: entry.int32_val for entry in node.attr if entry.HasField("int32_val")}
            count, first = found["msg_chunk_cnt"], found["msg_chunk_idx"]
            assert found["total_chunk_cnt"] == made.collective.num_chunks
            lists = [entry for entry in node.attr if entry.name in ("msg_chunk_list", "place_list")]
            assert (count, first) == (-1, -1) if lists else (count > 0 and first >= 0)


def test_npus_without_a_part_in_the_collective_have_a_node(tmp_path):
    """ASTRA-sim throws at a trace without nodes; the one in memory is that of the files, and each judge replays it."""
    parts = np.array([[0, 9000, 0, 800], [700, 0, 0, 600], [0, 0, 0, 0], [500, 6000, 0, 0]])
    graph = topology("FullyConnected 4")
    made = synthesize(graph, all_to_allv(parts), synthesizer="direct")
    export_chakra(made, tmp_path / "x", first_tag=7)
    found = schedule_trace(made, str(tmp_path / "x"), first_tag=7)
    assert_equal(found, read_trace(tmp_path / "x"))
    assert np.diff(found.rank_first).min() == 1
    network = config("FullyConnected 4")
    assert replay_trace(found, network, "congestion-aware").collective_time_ns == made.collective_time_ns
    assert replay_trace(found, network, "packet").finish_ns[2] == 1
    assert packet_level(made, network).time_ns > 0


@pytest.mark.parametrize("link_order", LINK_ORDERS)
@pytest.mark.parametrize(
    "dimensions", [(("Ring", 5, 50.0, 500.0),), (("Ring", 2, 200.0, 50.0), ("Switch", 3, 50.0, 500.0))], ids=["ring", "switch"]
)
def test_a_send_waits_for_its_chunk_and_its_link(tmp_path, dimensions, link_order):
    of = schedule(topology(*dimensions), "all-reduce", 1 << 18, 4, link_model="pipelined")
    export_chakra(of, tmp_path / "x", link_order)
    trace = read_trace(tmp_path / "x")
    names = read_names(trace, range(trace.num_nodes))
    row_of = {name: row for row, name in enumerate(names)}

    def needs(name):
        row = row_of[name]
        return {names[other] for other in trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]]}

    links = of.topology.channel_link[of.channel].tolist()
    before: dict[int, list[int]] = defaultdict(list)
    bound: dict[int, list[int] | None] = {}
    chained = set()
    expected_of = []
    for row, awaited in enumerate(naive_dependencies(of)):
        expected = {f"reduce_{other}" if of.reduces[other] else f"recv_{other}" for other in awaited}
        earlier = before[links[row]]
        here = list(takewhile(lambda other, now=of.start_ns[row]: of.end_ns[other] <= now, earlier))
        bound[row] = {"serial": earlier, "tokens": [], "window": here, "none": []}[link_order][-1:] or None
        if earlier and link_order != "none" and bound[row] != earlier[-1:]:
            expected.add(f"token_{earlier[-1]}")
            chained.add(earlier[-1])
        if bound[row] and (bound[row] == earlier[-1:] or bound[row] != bound[earlier[-1]]):
            expected.add(f"send_{bound[row][0]}")
        expected_of.append(expected)
        earlier.append(row)
    assert bool(chained) is (link_order in ("tokens", "window"))
    for row, expected in enumerate(expected_of):
        assert needs(f"send_{row}") == expected
        is_chained = row in chained
        assert (f"token_{row}" in row_of) == is_chained
        if is_chained:
            assert needs(f"token_{row}") == expected
            assert trace.kind[row_of[f"token_{row}"]] == NodeType.COMP
        if of.reduces[row]:
            assert needs(f"reduce_{row}") == {f"recv_{row}"}
        assert needs(f"recv_{row}") == set()


def test_so_many_in_flight():
    """One at a time is serial; any number are tokens; by default what the schedule has, which costs nothing where links queue."""
    of = schedule(topology("Ring 5"), "all-reduce", 16 << 20, 8, link_model="pipelined")
    assert_equal(schedule_trace(of, "x", in_flight=1), schedule_trace(of, "x", "serial"))
    assert_equal(schedule_trace(of, "x", in_flight=of.num_sends), schedule_trace(of, "x", "tokens"))
    network = config("Ring 5")
    times = {order: replay_trace(schedule_trace(of, "x", order), network).finish_ns.tolist() for order in LINK_ORDERS}
    assert times["window"] == times["tokens"]
    assert max(times["serial"]) > of.collective_time_ns
    packets = {order: replay_trace(schedule_trace(of, "x", order), network, "packet").collective_time_ns for order in LINK_ORDERS}
    assert packets["window"] < packets["serial"] < packets["tokens"]
    assert packets["window"] <= 1.3 * of.collective_time_ns


@pytest.mark.parametrize("link_order", ["serial", "tokens", None])
def test_refuses_a_window_of_another_order(link_order):
    of = schedule(topology("Ring 5"))
    with pytest.raises(ConfigError, match="in flight: found 0 with link order"):
        schedule_trace(of, "x", link_order, in_flight=0)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("link_model", ["blocking", "pipelined"])
@pytest.mark.parametrize("name", ALL)
def test_replayed_on_astra_sims_models(name, link_model, collective):
    """The trace, on the network that stands for the topology, takes the predicted time wherever that is said to be exact."""
    network = config(name)
    of = schedule(topology(name), collective, 1 << 20, 2, link_model=link_model)
    stand_in = astra_sim_network(of.topology, of.timing.link_model)
    replayed = replay_trace(schedule_trace(of, "x"), NetworkConfig(network.source, stand_in.dimensions), stand_in.backend)
    if not stand_in.is_exact:
        if link_model == "blocking":
            assert np.all(replayed.finish_ns <= of.npu_finish_ns)
        elif stand_in.backend is CONGESTION_AWARE:
            assert replayed.finish_ns.max() == pytest.approx(of.collective_time_ns, rel=0.05)
    elif link_model == "blocking":
        assert replayed.finish_ns.tolist() == of.npu_finish_ns.tolist()
    else:
        late = replayed.finish_ns - of.npu_finish_ns
        assert late.min() >= 0
        assert late.max() <= 0.001 * of.collective_time_ns


def test_chunks_that_reach_a_switch_port_together_may_pass_in_another_order():
    """ASTRA-sim itself ends this one at 32,777 ns; so a switch is not said to be exact, though many schedules are equal."""
    network = (("Switch", 4, 50.0, 500.0),)
    built = topology(*network)
    whole = make_collective("all-reduce", built.num_npus, 1_000_003, 8)
    timing = compute_timing(built, whole, "pipelined")
    orders = balanced_orders(built.dimensions, whole.num_chunks)
    ways = Ways((built.dimensions[0].building_block.spread(4),), (False,))
    by_powers_of_two = replace(send_graph_over_dimensions(Problem(built, whole, timing), orders, ways), message=None)
    of = dispatch(Problem(built, whole, timing), by_powers_of_two, "themis", 0)
    assert of.collective_time_ns == 31_520
    stand_in = astra_sim_network(of.topology, "pipelined")
    assert (stand_in.backend, stand_in.dimensions) == (CONGESTION_AWARE, of.topology.dimensions)
    assert not stand_in.is_exact
    assert "in another order than predicted" in stand_in.note
    assert replay_trace(schedule_trace(of, "x", "tokens"), config(*network), stand_in.backend).finish_ns.max() == 32_777


def test_tags_that_astra_sim_cannot_tell_apart(tmp_path):
    with pytest.raises(ConfigError, match="500,000,"):
        export_chakra(schedule(topology("ring8")), tmp_path / "x", first_tag=499_999_999)
    with pytest.raises(ConfigError, match="500,000,"):
        schedule_trace(schedule(topology("ring8")), "x", first_tag=499_999_999)
    assert list(tmp_path.iterdir()) == []
