"""Schedules for analytical models that keep their promise on the packet level: what they may lose, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import refused
from helpers.networks import config
from helpers.schedules import schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces, schedule_trace, timed_orders
from astra_tacos.network.composition import build_topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.schedule.packet_time import packet_time_ns
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.solver import judgement
from astra_tacos.solver import judges as level_module
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.judges import packet_level
from astra_tacos.solver.robust import MOST_LONGER, MOST_LOSS, robust, robust_order
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import EFFORTS, SearchOptions

OPTIONS = SearchOptions(chunks_per_npu="auto", trials=1, threads=1, budget=50_000)


@settings(max_examples=8)
@given(
    blocks=st.lists(st.tuples(st.sampled_from(("Ring", "FullyConnected", "Switch")), st.integers(3, 4)), min_size=1, max_size=2),
    collective=st.sampled_from(("all-reduce", "all-gather", "all-to-all")),
    size=st.sampled_from((65_537, 1_000_003)),
    link_model=st.sampled_from(("blocking", "pipelined")),
    effort=st.sampled_from(tuple(EFFORTS)),
)
def test_what_is_chosen_is_slower_by_five_percent_at_most_and_says_what_it_takes(blocks, collective, size, link_model, effort):
    network = config(", ".join(f"{block} {count}" for block, count in blocks))
    topology = build_topology(network)
    what = make_collective(collective, topology.num_npus, size, 1)
    given_one = schedule(topology, collective, size, 3, link_model=link_model)
    found = SearchResult(given_one, exact_time_ns(given_one), 1, 1, 0, False, False, {})
    chosen = robust(network, topology, what, replace(OPTIONS, effort=effort), None, found)
    made = chosen.found.schedule
    before = judge_schedule(found.schedule, network).times_ns
    after = judge_schedule(made, network, link_order=chosen.link_order).times_ns
    assert all(after[figure] <= MOST_LOSS * time_ns for figure, time_ns in before.items() if time_ns)
    if effort != "thorough":  # orders are compared by larger packets, and not at all where there is one order
        assert (chosen.level is None) == (link_model == "blocking")
        return
    taken = replay_trace(schedule_trace(made, "x", chosen.link_order), network, "packet").collective_time_ns
    assert (chosen.level.time_ns, chosen.level.predicted_ns) == (taken, packet_time_ns(made, network.ns3))
    told = judge_schedule(made, network, link_order=chosen.link_order, beside=True)
    assert judge_schedule(made, network, link_order=chosen.link_order, beside=True, level=chosen.level) == told
    plain = replay_trace(schedule_trace(found.schedule, "x"), network, "packet").collective_time_ns
    assert taken <= plain
    is_kept = chosen.level.ratio <= MOST_LONGER
    assert is_kept == ("no schedule or order of sends was found" not in chosen.note)
    if made is found.schedule and chosen.link_order in (None, *timed_orders(made)) and is_kept:
        assert chosen.note == ""


def test_tokens_and_windows_take_the_same_where_links_queue():
    for block in ("Ring", "Switch", "Mesh"):
        network = config(f"{block} 5")
        made = schedule(build_topology(network), "all-reduce", 300_001, 4, link_model="pipelined")
        times = {replay_trace(schedule_trace(made, "x", order), network).collective_time_ns for order in timed_orders(made)}
        assert times == {made.collective_time_ns}


def test_the_order_follows_the_packet_level():
    """Through a switch, a window waits for acknowledgements that come late; tokens take what is predicted."""
    network = config("Switch 8")
    made = search(build_topology(network), make_collective("all-gather", 8, 1 << 17, 32), SearchOptions("symmetric")).schedule
    order, level = robust_order(made, network)
    assert order == "tokens" and order_of_traces(made) == ("window", None) and level is not None
    assert level.ratio < 1.05 < 1.3 < packet_level(made, network).ratio


@pytest.mark.parametrize("block", ["Ring", "Switch"])
def test_fewer_larger_packets_take_about_as_long(block):
    network = config(f"{block} 4")
    made = schedule(build_topology(network), "all-reduce", 4 << 20, 2, link_model="pipelined", synthesizer="tacos")
    exact = packet_level(made, network)
    assert exact.coarse == 1 and "each for" not in exact.describe()
    coarse = packet_level(made, network, most_packets=exact.num_packets // 8)
    assert coarse.coarse in (8, 9) and coarse.num_packets <= exact.num_packets // 8
    assert coarse.time_ns == pytest.approx(exact.time_ns, rel=0.1)
    assert coarse.describe().startswith("about ") and f"each for {coarse.coarse} of ns-3" in coarse.describe()


def test_approximate_times_are_not_given_as_those_of_ns3(monkeypatch):
    network = config("Ring 4")
    made = schedule(build_topology(network), "all-reduce", 1 << 20, link_model="pipelined")
    monkeypatch.setattr(judgement, "MOST_PACKETS_BESIDE", 100)
    figures = judge_schedule(made, network, beside=True).to_json()
    assert figures["packets_are_exact"] is False and figures["packets_ns"] > figures["congested_ns"]
    monkeypatch.setattr(level_module, "MOST_COARSE", 2)
    with refused("packets are more than 200"):
        packet_level(made, network, most_packets=100)
    (row,) = judge_schedule(made, network, beside=True).rows()[-1:]
    assert row[0] == "packet level" and row[1].startswith("- (not replayed: about ")
    assert judge_schedule(made, network).rows() == []


def test_what_the_packet_level_cannot_have_keeps_its_order():
    links = replace(config("Ring 4"), failed_links=((0, 1),))
    topology = build_topology(links)
    what = make_collective("all-gather", 4, 65_536, 1)
    found = search(topology, what, replace(OPTIONS, synthesizer="tacos", chunks_per_npu=1))
    chosen = robust(links, topology, what, OPTIONS, None, found)
    assert (chosen.found, chosen.link_order, chosen.level, chosen.note) == (found, None, None, "")
    assert "has no reverse" in judge_schedule(found.schedule, links, beside=True).rows()[-1][1]
