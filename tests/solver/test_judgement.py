"""Judges: what stock ASTRA-sim prints and what the same traces take under congestion, against a naive twin of both backends."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.command import run
from helpers.examples import refused
from helpers.naive import naive_trace_replay
from helpers.networks import ALL, config, graph, some_dimensions, topology
from helpers.schedules import schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.export.astra_sim_network import astra_sim_network, stock_network
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.export.run_directory import write_run_directory
from astra_tacos.network.network_config import read_network, write_network
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, CONGESTION_UNAWARE, PACKET, STOCK
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.link_use import busiest_link_ns
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver import judgement
from astra_tacos.solver.judgement import judge_schedule, with_other_choices
from astra_tacos.solver.judges import (
    FIGURES,
    STOCK_FIGURE,
    backend_in_use,
    backend_that_runs,
    differ,
    judges_of_collective,
    judges_of_run,
    timed_for,
)
from astra_tacos.solver.native import native_times
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.units import format_time
from astra_tacos.synthesizer.search.search_options import SearchOptions

HIERARCHY = "FullyConnected 4 100 300, Switch 2 25 1000"
OPTIONS = SearchOptions(synthesizer="tacos", chunks_per_npu="auto", trials=1, threads=1, budget=400_000)
ANALYTICAL = tuple(figure for figure in FIGURES if figure != PACKET.figure)
"""The packet level is a judge where it is asked for."""


# ---- Times ----


@settings(max_examples=20)
@given(
    dimensions=some_dimensions(3),
    collective=st.sampled_from(("all-reduce", "all-gather", "all-to-all")),
    size=st.sampled_from((65_537, 100_003)),
    backend=st.sampled_from([None, *BACKENDS.values()]),
)
def test_times_are_those_of_the_twin(dimensions, collective, size, backend):
    network = config(*dimensions)
    net = topology(*dimensions)
    chosen = backend or CONGESTION_UNAWARE
    model = chosen.link_model
    made = schedule(net, collective, size, 2, link_model=model)
    judged = judge_schedule(made, network, backend)
    assert judged.backend == chosen
    trace = schedule_trace(made, "x")
    stock = stock_network(net, model, chosen)
    assert judged.times_ns == {
        "stock_ns": max(naive_trace_replay(trace, stock.to_config(), stock.backend.name)),
        "congested_ns": max(naive_trace_replay(trace, network, "congestion-aware")),
    }
    assert tuple(judged.times_ns) == ANALYTICAL
    written = astra_sim_network(net, model, chosen)
    assert stock.needs is None
    if written.is_exact:
        assert max(naive_trace_replay(trace, written.to_config(), written.backend.name)) == made.collective_time_ns


def test_where_the_prediction_speaks_for_all_nothing_is_replayed(monkeypatch):
    monkeypatch.setattr(judgement, "replay_trace", lambda *_: pytest.fail("replayed"))
    made = schedule(topology(*ALL["torus"]), link_model="pipelined")
    judged = judge_schedule(made, config(*ALL["torus"]))
    assert judged.times_ns == dict.fromkeys(ANALYTICAL, made.collective_time_ns)
    assert judged.rows() == [] and judged.notes == ()


def test_schedules_that_take_long_to_replay_are_not_judged(monkeypatch):
    monkeypatch.setattr(judgement, "MOST_SENDS", 3)
    made = schedule(topology(HIERARCHY))
    judged = with_other_choices(judge_schedule(made, config(HIERARCHY)), made, config(HIERARCHY), OPTIONS)
    assert judged.times_ns == dict.fromkeys(ANALYTICAL)
    assert judged.notes == (f"not judged by replay: {made.num_sends:,} sends are more than 3",)


def test_another_link_order_is_replayed():
    ring = "Ring 4"
    made = schedule(topology(ring), link_model="pipelined", chunks=4)
    times = judge_schedule(made, config(ring), link_order="serial").times_ns
    assert times["stock_ns"] == times["congested_ns"]
    assert times["stock_ns"] == replay_trace(schedule_trace(made, "x", "serial"), config(ring)).collective_time_ns
    assert times["stock_ns"] > made.collective_time_ns


# ---- What is possible, and what is faster ----


@settings(max_examples=20)
@given(name=st.sampled_from(sorted(ALL)), collective=st.sampled_from(("all-reduce", "all-to-all")), chunks=st.integers(1, 3))
def test_the_busiest_link(name, collective, chunks):
    net = topology(*ALL[name])
    made = schedule(net, collective, 100_003, chunks)
    sizes = made.collective.class_size_bytes[made.collective.chunk_class]
    needed = np.zeros(net.num_links)
    for chunk, channel in zip(made.chunk.tolist(), made.channel.tolist(), strict=True):
        for link in (int(net.channel_link[channel]), int(net.channel_down_link[channel])):
            if link >= 0:
                needed[link] += int(sizes[chunk]) / (float(net.link_bandwidth_gibps[link]) * 2**30 / 1e9)
    assert busiest_link_ns(made) == pytest.approx(float(needed.max()), rel=1e-12)
    assert made.collective_time_ns >= 0.99 * busiest_link_ns(made)


def test_a_time_that_links_cannot_carry_is_told():
    made = schedule(topology(HIERARCHY), chunks=16, link_model="pipelined")
    judged = judge_schedule(made, config(HIERARCHY), link_order="tokens")
    stock_ns = judged.times_ns["stock_ns"]
    assert stock_ns is not None and stock_ns < busiest_link_ns(made) <= made.collective_time_ns
    assert judged.notes == (
        "stock ASTRA-sim (congestion-unaware backend) prints less than the busiest link needs, "
        f"{format_time(int(busiest_link_ns(made)))}: it lets sends overlap on a link",
    )


def test_the_other_backend_is_named_where_it_is_faster():
    network, net = config(HIERARCHY), topology(HIERARCHY)
    made = schedule(net, chunks=2, link_model="blocking")
    judged = with_other_choices(judge_schedule(made, network), made, network, OPTIONS)
    ours = judged.times_ns["congested_ns"]
    assert ours is not None
    asked = replace(OPTIONS, link_model="pipelined", budget=OPTIONS.budget // 4, max_sends=100_000)
    other = judgement.search(net, made.collective, asked).schedule
    theirs = judge_schedule(other, network).times_ns["congested_ns"]
    assert theirs is not None and theirs < ours
    assert judged.notes == (
        "on congestion-aware (ASTRA-sim's branch will/congestion-multidim) a pipelined schedule takes "
        f"{format_time(theirs)} instead of {format_time(ours)}: --backend congestion-aware makes such",
    )


# ---- Which judges ----


def test_judges():
    def of(name, model, backend=None):
        judges = judges_of_collective(topology(*ALL[name]), config(*ALL[name]), model, backend)
        return [(judge.backend.name, judge.program) for judge in judges]

    branch = "ASTRA-sim's branch will/congestion-multidim"
    both = [("congestion-unaware", "congestion-unaware backend"), ("congestion-aware", branch)]
    assert of("mixed", "blocking") == of("mixed", "pipelined") == of("mixed", "pipelined", CONGESTION_UNAWARE) == both
    assert of("switches", "pipelined") == both
    assert of("switch", "pipelined") == [("congestion-aware", "congestion-aware backend"), ("congestion-aware", STOCK)]
    assert of("switch", "blocking")[0] == both[0]
    for name in ALL:
        judges = judges_of_collective(topology(*ALL[name]), config(*ALL[name]), "pipelined")
        assert [judge.figure for judge in judges] == list(ANALYTICAL)
        assert judges[0].is_stock and not judges[1].is_stock
    (only,) = judges_of_run(config("Mesh 3 50 5"))
    assert (only.figure, only.backend) == ("congested_ns", CONGESTION_AWARE)
    assert differ(judges_of_run(config(*ALL["torus"]))) and not differ(judges_of_run(config(*ALL["ring8"])))
    assert judges_of_run(config(*ALL["ring8"]), CONGESTION_UNAWARE)[0].backend == CONGESTION_UNAWARE


def test_a_backend_brings_its_link_model():
    net = topology(HIERARCHY)
    for backend in BACKENDS.values():
        options, models, reason = timed_for(SearchOptions(), topology(*ALL["hetero-torus"]), backend)
        if backend.models_congestion:
            assert (options.link_model,) == models == (backend.link_model,)
            assert reason == f"schedules for the {backend} backend are timed so"
        else:
            assert (options.link_model, models) == ("fastest", LINK_MODELS) and "both models are tried" in reason
    assert timed_for(SearchOptions(link_model="blocking"), net, CONGESTION_AWARE)[1:] == (("blocking",), "")


@pytest.mark.parametrize("size", [1 << 20, 1 << 26])
def test_queues_have_to_gain_where_held_links_are_replayed_exactly(size):
    """Medium sizes gain from sends that follow one another; where next to nothing is gained, stock ASTRA-sim's times are kept."""
    net = topology("FullyConnected 4 64 300, FullyConnected 2 50 1000")
    what = make_collective("all-reduce", 8, size, 1)
    options = timed_for(replace(OPTIONS, chunks_per_npu="auto"), net, None)[0]
    found = judgement.search(net, what, options)
    alone = [judgement.search(net, what, replace(options, link_model=model)).exact_ns for model in LINK_MODELS]
    held, queued = alone
    model = found.schedule.timing.link_model
    assert model == ("pipelined" if held > 1.005 * queued else "blocking")
    assert found.exact_ns <= 1.006 * min(alone)
    assert size > 1 << 20 or model == "pipelined"


@pytest.mark.parametrize("backend", [None, CONGESTION_UNAWARE])
def test_through_switches_the_faster_link_model_wins(backend):
    """Stock ASTRA-sim has no queues there: neither a send that holds its links nor one that waits takes what it prints."""
    net, network = topology(HIERARCHY), config(HIERARCHY)
    what = make_collective("all-reduce", 8, 1 << 20, 1)
    options, models, reason = timed_for(OPTIONS, net, backend)
    assert (options.link_model, models) == ("fastest", LINK_MODELS) and "the faster of both" in reason
    found = judgement.search(net, what, options)
    alone = [judgement.search(net, what, replace(OPTIONS, link_model=model)) for model in LINK_MODELS]
    assert found.exact_ns <= 1.001 * min(each.exact_ns for each in alone) < max(each.exact_ns for each in alone)
    assert backend_in_use(network, models, backend) == CONGESTION_UNAWARE
    judged = judge_schedule(found.schedule, network, CONGESTION_UNAWARE)
    assert found.schedule.timing.link_model == "pipelined" and judged.own_time_ns is not None
    assert judged.own_time_ns < 0.995 * found.exact_ns <= 0.995 * judged.possible_ns
    graph_of_unequal = graph("0 1 50 500, 1 0 25 500")
    assert timed_for(OPTIONS, graph_of_unequal, None)[1] == LINK_MODELS


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all"])
@pytest.mark.parametrize("name", ["switch", "hetero-torus", "mixed"])
def test_messages_of_less_than_a_nanosecond_are_longer_on_the_wire(name, collective, tmp_path):
    """ASTRA-sim's queues would stop at shorter ones at time 0; the prediction is what they take."""
    net, network = topology(*ALL[name]), config(*ALL[name])
    what = make_collective(collective, net.num_npus, 3 if collective == "all-gather" else 3 * net.num_npus, 1)
    asked = SearchOptions(trials=1, budget=100_000)
    options, models, _ = timed_for(asked, net, CONGESTION_AWARE)
    assert models == ("pipelined",)
    made = judgement.search(net, what, options).schedule
    check_schedule(made)
    judged = judge_schedule(made, network, CONGESTION_AWARE)
    latency = sum(dimension.latency_ns for dimension in network.dimensions)
    assert judged.times_ns["congested_ns"] == pytest.approx(made.collective_time_ns, rel=0.01)
    assert latency < made.collective_time_ns
    trace = schedule_trace(made, collective)
    sent = trace.size_bytes[trace.kind == NodeType.COMM_SEND]
    rates = {dimension.bandwidth_gibps * 2**30 / 1e9 for dimension in network.dimensions}
    assert set(sent.tolist()) - set(made.message_bytes.tolist()) <= {math.ceil(rate) for rate in rates}
    assert sent.min() >= min(rates)


@pytest.mark.parametrize(
    "dimensions",
    ["Ring 4 900", "Switch 4 900", HIERARCHY],
)
def test_schedules_at_whose_messages_queues_stop_run_without_queues(dimensions, tmp_path):
    """ASTRA-sim's congestion-aware backend aborts at a message that takes less than 1 ns of a link at time 0."""
    net, network = topology(dimensions), config(dimensions)
    made = schedule(net, size=3 * net.num_npus, synthesizer="ring", link_model="blocking")
    assert stops_queues(made)
    judged = judge_schedule(made, network, CONGESTION_AWARE)
    assert judged.times_ns[CONGESTION_AWARE.figure] is None
    assert any("where ASTRA-sim stops" in note for note in judged.notes)
    with refused(r"hold a link for less than 1 ns.*--backend congestion-unaware"):
        write_run_directory(made, tmp_path / "asked", backend=CONGESTION_AWARE)
    assert not list(tmp_path.iterdir())

    in_use = backend_in_use(network, LINK_MODELS, None)
    assert backend_that_runs(made, in_use, None) in (None, CONGESTION_UNAWARE)
    assert backend_that_runs(made, CONGESTION_AWARE, CONGESTION_AWARE) == CONGESTION_AWARE
    larger = schedule(net, size=1 << 20, synthesizer="ring", link_model="blocking")
    assert backend_that_runs(larger, in_use, None) == in_use
    options = f"--size {3 * net.num_npus} --synthesizer ring --link-model fastest --json --output run"
    result = json.loads(made_by_command(tmp_path, dimensions, options))
    own = BACKENDS[result["astra_sim_backend"]]
    files = (tmp_path / "run" / "collective" / "all_reduce", read_network(tmp_path / "run" / "network.yml"))
    replayed = replay_trace(read_trace(files[0]), files[1], own).collective_time_ns
    assert replayed == (result["stock_ns"] if own == CONGESTION_UNAWARE else result["congested_ns"])


@pytest.mark.parametrize(
    "dimensions, size, backend",
    [
        ("Switch 8", 256, CONGESTION_AWARE),
        ("Switch 8", 65_536, CONGESTION_UNAWARE),
        ("Switch 8 450 300, Switch 4 50 1000", 4096, CONGESTION_AWARE),
        ("Switch 8 450 300, Switch 4 50 1000", 65_536, CONGESTION_UNAWARE),
    ],
)
def test_no_slower_than_native_algorithms(dimensions, size, backend):
    net, network = topology(dimensions), config(dimensions)
    what = make_collective("all-reduce", net.num_npus, size, 1)
    asked = SearchOptions(chunks_per_npu="auto", trials=1, budget=100_000)
    found = judgement.search(net, what, timed_for(asked, net, backend)[0])
    ours = judge_schedule(found.schedule, network, backend).possible_ns
    native = native_times(network, what, backend).fastest_possible
    assert ours is not None and ours <= 1.005 * native.possible_ns


def test_a_third_backend_is_a_third_judge(monkeypatch):
    """A backend is one object: judges, notes and figures take it from the list."""
    packet_level = replace(CONGESTION_AWARE, name="packet-level", time="", branch=None)
    monkeypatch.setitem(BACKENDS, packet_level.name, packet_level)
    monkeypatch.setitem(NETWORK_MODELS, packet_level, NETWORK_MODELS[CONGESTION_AWARE])
    made = schedule(topology(HIERARCHY), chunks=2, link_model="blocking")
    judged = judge_schedule(made, config(HIERARCHY))
    assert list(judged.times_ns) == [*ANALYTICAL, "packet_level_ns"]
    assert judged.times_ns["packet_level_ns"] == judged.times_ns["congested_ns"]
    assert [label for label, _ in judged.rows()] == ["stock ASTRA-sim", "congestion-aware", "packet-level"]
    notes = with_other_choices(judged, made, config(HIERARCHY), OPTIONS).notes
    assert any("on packet-level (embedded replay alone) a pipelined schedule" in note for note in notes)


# ---- Run directories ----


def test_a_run_directory_names_what_runs_it(tmp_path):
    made = schedule(topology(*ALL["hetero-torus"]), link_model="pipelined")
    whole = write_run_directory(made, tmp_path / "run")
    needs = "branch will/congestion-multidim of https://github.com/astra-sim/astra-network-analytical"
    assert whole.figures == {"astra_sim_backend": "congestion-aware", "astra_sim_exact": True, "astra_sim_needs": needs}
    assert whole.notes[0] == f"stock ASTRA-sim has no congestion-aware model of this network: it runs on {needs}"
    script = (whole.path / "run_astra_sim.sh").read_text()
    assert f"AstraSim_Analytical_Congestion_Aware, built with {needs}" in script
    assert [d.block for d in whole.network.dimensions] == ["Ring", "Ring"]
    unaware = write_run_directory(made, tmp_path / "other", backend="congestion-unaware")
    assert unaware.figures == {"astra_sim_backend": "congestion-unaware", "astra_sim_exact": False, "astra_sim_needs": None}
    assert "has no queues" in unaware.notes[0]
    mixed = astra_sim_network(topology(*ALL["mixed"]), "pipelined")
    assert [d.block for d in mixed.dimensions] == ["Ring", "FullyConnected", "Switch"]
    assert not mixed.is_exact and "in another order" in mixed.note
    mesh = astra_sim_network(topology(*ALL["mesh"]), "pipelined")
    assert ([d.block for d in mesh.dimensions], mesh.is_exact) == (["FullyConnected", "FullyConnected"], True)


# ---- Commands ----


def made_by_command(tmp_path, dimensions, options):
    write_network(config(dimensions), tmp_path / "n.yml")
    done = run(f"synthesize {options} --network n.yml --budget 1 --trials 1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_synthesize_prints_both_judges(tmp_path):
    thorough = "--size 1MiB --synthesizer tacos --link-model blocking --effort thorough"
    text = made_by_command(tmp_path, HIERARCHY, f"{thorough} --verbose")
    made = json.loads(made_by_command(tmp_path, HIERARCHY, f"{thorough} --json"))
    assert made["backend"] == "congestion-unaware"
    lines = " ".join(text.split())
    assert f"stock ASTRA-sim {format_time(made[STOCK_FIGURE])} (congestion-unaware backend)" in lines
    assert f"congestion-aware {format_time(made['congested_ns'])} (ASTRA-sim's branch will/congestion-multidim)" in lines
    assert made["congested_ns"] > made["stock_ns"]
    note, native = made["notes"]
    assert "--backend congestion-aware makes such" in note and note in text
    assert "ASTRA-sim's own algorithm is faster" in native and native in text
    options = "--size 1MiB --synthesizer tacos --json --backend congestion-aware --output r"
    other = json.loads(made_by_command(tmp_path, HIERARCHY, options))
    assert (other["backend"], other["link_model"]) == ("congestion-aware", "pipelined")
    assert other["congested_ns"] < made["congested_ns"]
    assert other["astra_sim_needs"].startswith("branch will/congestion-multidim of ")
    stored = json.loads((tmp_path / "r" / "result.json").read_text())
    assert all(stored[figure] == other[figure] for figure in FIGURES)
