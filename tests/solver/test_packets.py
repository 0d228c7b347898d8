"""Orders of sends in traces, and what replays of packets take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import refused
from helpers.networks import config
from helpers.schedules import schedule

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces, schedule_trace, timed_orders
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import CONGESTION_AWARE, PACKET
from astra_tacos.solver import clock, packets
from astra_tacos.solver.packets import packet_level
from astra_tacos.solver.solution import Request
from astra_tacos.solver.solve import solve
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

OPTIONS = SearchOptions(chunks_per_npu="auto", trials=1, threads=1, budget=50_000)


def test_tokens_and_windows_take_the_same_where_links_queue():
    for block in ("Ring", "Switch", "Mesh"):
        network = config(f"{block} 5")
        made = schedule(build_topology(network), "all-reduce", 300_001, 4, link_model="pipelined")
        times = {replay_trace(schedule_trace(made, "x", order), network).collective_time_ns for order in timed_orders(made)}
        assert times == {made.collective_time_ns}


@pytest.mark.parametrize(
    ("blocks", "chunks", "order"),
    [
        ("Switch 8", 1, "tokens"),  # through a switch, a window waits for acknowledgements that come late
        ("Switch 8", 32, "tokens"),
        ("Ring 8", 32, "tokens"),
        ("Ring 8", 1, "window"),
        ("Mesh 8", 32, "window"),  # NPUs send unequally many
    ],
)
@pytest.mark.parametrize("backend", [CONGESTION_AWARE, PACKET])
def test_the_kind_of_links_and_the_time_of_a_chunk_set_the_order_for_every_backend(blocks, chunks, order, backend):
    options = SearchOptions("tacos", chunks_per_npu=chunks, trials=1)
    solution = solve(Request(config(blocks), "all-gather", 1 << 17, options=options, backend=backend))
    assert solution.to_json()["link_order"] == order
    assert order_of_traces(replace(solution.schedule, link_order="none")) == ("none", None)
    links = tuple(LinkSpec(npu, (npu + step) % 8, 50.0, 500.0) for npu in range(8) for step in (1, 7))
    graph = build_topology(NetworkConfig("g.yml", (), links))
    on_graph = schedule(graph, "all-gather", 1 << 17, chunks, link_model="pipelined")
    assert order_of_traces(on_graph) == ("window", None)


def test_tokens_through_a_switch_take_what_is_predicted():
    network = config("Switch 8")
    made = search(build_topology(network), make_collective("all-gather", 8, 1 << 17, 32), SearchOptions("symmetric")).schedule
    assert packet_level(made, network).ratio < 1.05 < 1.3 < packet_level(replace(made, link_order="window"), network).ratio


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


def test_a_search_replays_no_packets(monkeypatch):
    """`--backend packet` times the schedule that is made for links with queues, once."""
    replayed = []
    monkeypatch.setattr(clock, "packet_level", lambda *asked: replayed.append(asked[0]) or packet_level(*asked))
    asked = Request(config("Ring 4"), "all-to-all", 1 << 16, options=OPTIONS)
    queued, packets_of = solve(asked), solve(replace(asked, backend=PACKET))
    for column in ("chunk", "channel", "start_ns", "end_ns"):
        assert getattr(packets_of.schedule, column).tolist() == getattr(queued.schedule, column).tolist()
    assert replayed == [packets_of.schedule]
    level = packets_of.timed.level
    assert level is not None and packets_of.timed.time_ns == level.time_ns != queued.timed.time_ns
