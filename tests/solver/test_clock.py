"""The clock of an answer: times by a naive twin of the models, one bound a case, figures as quotients of what is printed."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from helpers.command import run
from helpers.examples import examples, refused
from helpers.naive import naive_trace_replay
from helpers.networks import ALL, config, some_dimensions, topology
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import Request, SearchOptions, solve
from astra_tacos.bounds import largest
from astra_tacos.collective import make_collective
from astra_tacos.export.astra_sim_network import astra_sim_network
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.export.run_directory import write_run_directory
from astra_tacos.network.network_config import write_network
from astra_tacos.pages.prints import prints_text
from astra_tacos.pages.table import Certificate, no_bound_text
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, CONGESTION_UNAWARE, PACKET, binaries_for, choose_backend
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.link_use import busiest_link_ns
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver.clock import bounds_on, time_on, timed_for
from astra_tacos.support.options import without_useless
from astra_tacos.support.rows import Importance
from astra_tacos.support.units import agreed_text, format_time, ratio_text, share_text, shown

HIERARCHY = "FullyConnected 4 100 300, Switch 2 25 1000"
PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
TIME = re.compile(r"([\d,.]+) (ns|us|ms|s)\b")
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def read_time(text):
    found = TIME.search(text)
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def check_quotient(text, numerator_ns, denominator_ns, factor=1.0):
    digits = len(text.partition(".")[2])
    assert text == f"{factor * numerator_ns / denominator_ns:,.{digits}f}"


# ---- Times ----


@examples(20)
@given(
    dimensions=some_dimensions(3),
    collective=st.sampled_from(PATTERNS),
    size=st.sampled_from((65_537, 100_003)),
    link_model=st.sampled_from(LINK_MODELS),
    clock=st.sampled_from(list(BACKENDS.values())),
)
def test_a_time_is_that_of_the_twin_but_for_truncation(dimensions, collective, size, link_model, clock):
    network, net = config(*dimensions), topology(*dimensions)
    made = schedule(net, collective, size, 2, link_model=link_model)
    timed = time_on(made, network, clock)
    trace = schedule_trace(made, "x")
    on = network if clock.models_congestion else astra_sim_network(net, link_model, clock).to_config()
    truncated = max(naive_trace_replay(trace, on, clock.name))
    assert truncated - 1 <= timed.time_ns <= truncated + 4 * made.num_sends
    assert timed.time_ns == pytest.approx(truncated, rel=0.02)
    own = astra_sim_network(net, link_model, clock).to_config()
    assert [each.binary for each in timed.prints] == list(binaries_for(own))
    for each in timed.prints:
        assert each.time_ns == max(naive_trace_replay(trace, own, each.binary.backend.name))


def test_the_default_clock_has_queues_in_any_number_of_dimensions():
    assert choose_backend(None) == CONGESTION_AWARE == choose_backend("congestion-aware")
    with refused("backend: found 'x', expected congestion-aware or congestion-unaware or packet"):
        choose_backend("x")


def test_a_clock_brings_its_link_model():
    net = topology(*ALL["hetero-torus"])
    options, models, reason = timed_for(SearchOptions(), net, CONGESTION_AWARE)
    assert (options.link_model,) == models == (
        "pipelined",
    ) and reason == "schedules for the congestion-aware backend are timed so"
    options, models, reason = timed_for(SearchOptions(), net, CONGESTION_UNAWARE)
    assert (options.link_model, models) == ("fastest", LINK_MODELS) and "both models are tried" in reason
    assert timed_for(SearchOptions(link_model="blocking"), net, CONGESTION_AWARE)[1:] == (("blocking",), "")
    assert timed_for(SearchOptions(), net, PACKET)[1] == ("pipelined",)


@pytest.mark.parametrize("dimensions", ["Ring 4 900", "Switch 4 900", HIERARCHY])
def test_schedules_at_whose_messages_queues_stop_are_refused_there(dimensions, tmp_path):
    """ASTRA-sim's congestion-aware backend aborts at a message that takes less than 1 ns of a link at time 0."""
    made = schedule(topology(dimensions), size=3 * topology(dimensions).num_npus, synthesizer="ring", link_model="blocking")
    assert stops_queues(made)
    with refused(r"hold a link for less than 1 ns.*--backend congestion-unaware"):
        write_run_directory(made, tmp_path / "asked", backend=CONGESTION_AWARE)
    assert not list(tmp_path.iterdir())


@examples(20)
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


# ---- Bounds ----


@examples(5)
@given(
    dimensions=some_dimensions(3),
    collective=st.sampled_from(PATTERNS),
    size=st.sampled_from((5_000, 65_537, 1_000_003)),
    clock=st.sampled_from(list(BACKENDS.values())),
    seed=st.integers(0, 3),
)
def test_no_time_is_below_the_bound_and_all_algorithms_have_one(dimensions, collective, size, clock, seed):
    network, net = config(*dimensions), topology(*dimensions)
    bounds = set()
    for synthesizer in ("auto", "direct", "routed"):
        asked = SearchOptions(synthesizer, chunks_per_npu="auto", trials=1, seed=seed, budget=20_000, max_sends=20_000)
        result = solve(Request(network, collective, size, options=without_useless(asked), backend=clock)).to_json()
        bounds.add(result["bound_ns"])
        assert result["backend"] == clock.name
        least = result["bound_ns"] or 0
        assert result["time_ns"] >= least and (result["best_native_ns"] or math.inf) >= least
        check_screen(result)
    assert len(bounds) == 1
    assert (bounds == {None}) == (not clock.models_congestion)
    what = make_collective(collective, net.num_npus, size, 1)
    assert clock == CONGESTION_UNAWARE or bounds == {largest(bounds_on(net, what, clock)).time_ns}


def answer_of(result):
    return [row for row in Certificate(result).rows() if row.importance is Importance.ANSWER]


def check_screen(result):
    """The rows of an answer agree with its JSON, and figures are quotients of what they print."""
    rows = {row.name: (row.figure, row.note) for row in answer_of(result)}
    assert rows["time"][0] == format_time(result["time_ns"])
    time_ns = read_time(rows["time"][0])
    if result["bound_ns"] is None:
        assert result["efficiency"] is None and not result["optimal"]
        assert rows["at least"] == (
            "-",
            no_bound_text(result["backend"]),
        )
    else:
        bound_ns = read_time(rows["at least"][0])
        assert bound_ns <= time_ns and rows["at least"][0] == format_time(result["bound_ns"])
        share = re.match(r"([\d.]+)% of the bound", rows["time"][1])
        assert share or rows["time"][1].startswith("optimal")
        if share:
            check_quotient(share[1], bound_ns, time_ns, 100)
    if result["best_native_ns"] is not None:
        assert rows["best native"][0] == format_time(result["best_native_ns"])
        ratio = re.match(r"([\d.]+) times as long: ", rows["best native"][1])
        check_quotient(ratio[1], read_time(rows["best native"][0]), time_ns)
        assert result["speed_up_over_native"] == result["best_native_ns"] / result["time_ns"]
    printed = prints_text(result["prints"], result["backend"])
    assert rows.get("prints", ("", ""))[1] == printed


# ---- What ASTRA-sim prints ----


def entry(backend, time_ns, native_ns, source="stock ASTRA-sim"):
    return {"from": source, "backend": backend, "time_ns": time_ns, "best_native_ns": native_ns}


def test_prints_are_told_where_no_stock_program_has_the_clock():
    branch = entry("congestion-aware", 100, 200, "ASTRA-sim's branch will/congestion-multidim")
    stock = entry("congestion-unaware", 1_000, 2_000)
    why = "its messages do not queue in several dimensions"
    text = f"stock ASTRA-sim prints 1,000 ns for this and 2,000 ns for the native run: {why}"
    assert prints_text([stock, branch], "congestion-aware") == text
    assert prints_text([stock, entry("congestion-aware", 1, 2)], "congestion-aware") == ""
    assert prints_text([branch], "congestion-aware") == prints_text([], "congestion-aware") == ""
    assert "does not run this" in prints_text([entry("congestion-unaware", None, None)], "congestion-aware")


def test_the_command_prints_what_it_writes(tmp_path):
    write_network(config(HIERARCHY), tmp_path / "n.yml")
    asked = "synthesize --network n.yml --size 1MiB --budget 20000 --trials 1 --output made"
    done = run(f"{asked} --json", cwd=tmp_path)
    result = json.loads(done.stdout)
    check_screen(result)
    stored = json.loads((tmp_path / "made" / "result.json").read_text())
    for name in ("time_ns", "bound_ns", "efficiency", "best_native_ns", "prints", "backend"):
        assert stored[name] == result[name]
    text = " ".join(run(asked, cwd=tmp_path).stdout.split())
    for row in answer_of(result):
        assert row.figure in text and row.note in text
    assert result["deprecated"]["predicted_ns"] == "time_ns"
    verified = run("verify made", cwd=tmp_path).stdout
    assert f"time {format_time(result['time_ns'])}, " in verified


# ---- Figures as text ----


@given(st.floats(1, 1e12), st.floats(1, 1e12), st.integers(0, 3))
def test_ratios_are_quotients_of_what_is_printed(first, second, digits):
    for time_ns in (first, second):
        assert format_time(time_ns) == format_time(shown(time_ns)) or shown(time_ns) in (1e4, 1e7, 1e10)
        assert read_time(format_time(time_ns)) == pytest.approx(shown(time_ns), rel=1e-12)
    text = ratio_text(first, second, digits)
    check_quotient(text.replace(",", ""), shown(first), shown(second)) if "," not in text else None
    assert len(text.partition(".")[2]) <= digits
    assert share_text(first, second, digits).endswith("%")


def test_digits_on_which_both_disagree_are_left_out():
    assert agreed_text(1.2345, 1.2349, 3) == "1.23"
    assert agreed_text(1.2345, 1.2345, 3) == "1.234"
    assert agreed_text(0.4999, 0.5001, 2) == "0.50"
    assert agreed_text(1.51, 1.49, 1) == "1.5"
    assert agreed_text(2.5001, 2.4999, 0) == "2"  # no number of digits agrees: of what is printed
