"""Schedules and orders of sends for the packet level, and what their replays take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import refused
from helpers.networks import config
from helpers.schedules import schedule

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces, schedule_trace, timed_orders
from astra_tacos.network.composition import build_topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import CONGESTION_AWARE, PACKET
from astra_tacos.solver import packets
from astra_tacos.solver.packet_search import order_for_packets, search_and_replay
from astra_tacos.solver.packets import packet_level
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

OPTIONS = SearchOptions(chunks_per_npu="auto", trials=1, threads=1, budget=50_000)


def test_tokens_and_windows_take_the_same_where_links_queue():
    for block in ("Ring", "Switch", "Mesh"):
        network = config(f"{block} 5")
        made = schedule(build_topology(network), "all-reduce", 300_001, 4, link_model="pipelined")
        times = {replay_trace(schedule_trace(made, "x", order), network).collective_time_ns for order in timed_orders(made)}
        assert times == {made.collective_time_ns}


def test_short_messages_go_by_tokens():
    """Through a switch, a window waits for acknowledgements that come late; tokens take what is predicted."""
    network = config("Switch 8")
    made = search(build_topology(network), make_collective("all-gather", 8, 1 << 17, 32), SearchOptions("symmetric")).schedule
    order = order_for_packets(made)
    assert order == "tokens" and order_of_traces(made) == ("window", None)
    assert packet_level(made, network, order).ratio < 1.05 < 1.3 < packet_level(made, network).ratio


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


def test_too_many_packets_are_not_replayed(monkeypatch):
    made = schedule(build_topology(config("Ring 4")), "all-reduce", 1 << 20, link_model="pipelined")
    monkeypatch.setattr(packets, "MOST_COARSE", 2)
    with refused("packets are more than 200"):
        packet_level(made, config("Ring 4"), most_packets=100)


def test_replays_decide_on_the_packet_level_alone():
    network = config("Switch 4")
    net, what = build_topology(network), make_collective("all-to-all", 4, 1 << 16, 1)
    queued = replace(OPTIONS, link_model="pipelined")
    assert search_and_replay(CONGESTION_AWARE, network, net, what, queued)[1] is None
    found, order = search_and_replay(PACKET, network, net, what, replace(OPTIONS, link_model="fastest"))
    held = search_and_replay(PACKET, network, net, what, replace(OPTIONS, link_model="blocking"))
    assert packet_level(found.schedule, network, order).time_ns <= packet_level(held[0].schedule, network, held[1]).time_ns
