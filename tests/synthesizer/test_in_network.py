"""Reduction and multicast in devices: formulas for stars and trees, windows, and random fabrics against the oracle and bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import examples
from helpers.fabrics import TWO_LEVELS, adding, adding_fabrics, racks, star
from helpers.schedules import bound_of, check, made_by
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, make_collective
from astra_tacos.export.stand_in import stand_in_of
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.solver.solve import synthesize
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.verifier.schedule_oracle import verify

MIB = 1 << 20
NAMES = sorted(COLLECTIVES.keys() - PERSONALISED)


def made(topology, chunks, size=64 * MIB, model="pipelined", by="in-network", name="all-reduce"):
    """`chunks` per NPU."""
    what = make_collective(name, topology.num_npus, size, chunks, members=topology.endpoints)
    return made_by(by, topology, what, model)


def formula_ns(chunks, hops, model="pipelined"):
    """64 MiB on links of 100 GiB/s and 500 ns, `hops` links from a host to the root and back, 1 ns a reduction."""
    one = 625_000 / chunks
    if model == "blocking":
        return (chunks + hops - 1) * (one + 500) + hops / 2
    return chunks * one + (hops - 1) * one + hops * 500 + hops / 2


@pytest.mark.parametrize(
    "topology, chunks_per_npu, hops, model",
    [
        (star(8), 8, 2, "pipelined"),
        (star(8), 64, 2, "pipelined"),
        (star(8), 8, 2, "blocking"),
        (racks(4, 4), 8, 4, "pipelined"),
        (racks(4, 4), 32, 4, "pipelined"),
    ],
)
def test_trees_take_what_the_formula_says(topology, chunks_per_npu, hops, model):
    of = made(topology, chunks_per_npu, model=model)
    check(of)
    chunks = of.collective.num_chunks
    # Every hop of every chunk is truncated to whole ns.
    assert formula_ns(chunks, hops, model) - chunks - hops <= of.collective_time_ns <= formula_ns(chunks, hops, model)


@pytest.mark.parametrize("npus, gain", [(2, 1.0), (4, 1.5), (8, 1.75), (16, 1.875), (64, 1.969)])
def test_hosts_lose_what_theory_says(npus, gain):
    """Bounds of the same star with and without a switch that adds; the first is reached, by the test before."""
    with_adding = star(npus, latency_ns=0.0)
    what = make_collective("all-reduce", npus + 1, 1 << 40, 1, members=with_adding.endpoints)
    host, network = (bound_of(topology, what).time_ns for topology in (replace(with_adding, reducing=()), with_adding))
    assert network == pytest.approx((1 << 40) / (100 * (1 << 30)) * 1e9, rel=1e-9)
    assert host / network == pytest.approx(gain, abs=1e-3)


def test_a_window_limits_the_rate():
    """Blocked out for NPUs (their way to one another is as good), so only the window counts: W bytes a round trip."""
    window, chunks = 64 << 10, 512
    of = made(star(2, window_bytes=window), chunks, 32 * MIB)  # of 32 KiB: 2 under way
    check(of)
    hold = (32 << 10) / (100 * (1 << 30)) * 1e9
    round_trip = 2 * (int(hold + 500)) + 1
    by_window = 32 * MIB / window * round_trip
    assert of.collective_time_ns < by_window  # two NPUs are as fast by themselves, and both ways at once are faster
    lone = made(star(8, window_bytes=window), 128, 32 * MIB)
    check(lone)
    free = made(star(8), 128, 32 * MIB)
    assert lone.collective_time_ns > 1.3 * free.collective_time_ns
    host = made(star(8), 128, 32 * MIB, by="column-generation")
    assert lone.collective_time_ns < host.collective_time_ns


def test_the_oracle_sees_windows_and_ports():
    of = made(star(4), 16)
    narrow = replace(of, topology=star(4, window_bytes=2 * MIB))
    assert {each.code for each in verify(narrow)} == {"window"}
    few = replace(of, topology=star(4, ports=3))
    assert {each.code for each in verify(few)} == {"too-many-ports"}
    none = replace(of, topology=replace(of.topology, reducing=()))
    assert {"trip-start", "trip-end"} <= {each.code for each in verify(none)}
    slow = replace(of, topology=star(4, reduction_ns=7_000))
    assert "chunk-absent" in {each.code for each in verify(slow)} or "incomplete" in {each.code for each in verify(slow)}


@examples(10)
@given(adding_fabrics(latency_ns=500.0), st.sampled_from(NAMES), st.integers(1, 4))
def test_stand_ins_take_the_predicted_time(network, name, chunks):
    what = make_collective(name, network.num_npus, 300_001, chunks, members=network.endpoints)
    if SYNTHESIZERS["in-network"].why_not(network, what) is not None:
        return
    of = made(network, chunks, 300_001, name=name)
    check(of)
    stand_in = stand_in_of(of)
    assert stand_in.network.is_exact and stand_in.error_ns == 0
    assert replay_trace(stand_in.trace(), stand_in.network.to_config(), "congestion-aware").collective_time_ns == (
        of.collective_time_ns
    )


def test_auto_takes_it_and_files_keep_it(tmp_path):
    network = adding(TWO_LEVELS, 4, 6, window_bytes=MIB, ports=8, reduction_ns=40)
    of = synthesize(network, make_collective("all-reduce", 7, 8 * MIB, 1, members=range(4)), chunks_per_npu="auto")
    assert of.synthesizer == "in-network"
    save_schedule(of, tmp_path / "schedule.npz")
    loaded = load_schedule(tmp_path / "schedule.npz")
    assert loaded.topology.reducing == network.reducing
    check(loaded)


def test_odd_times_of_reductions_are_said_to_be_off():
    stand_in = stand_in_of(made(star(4, reduction_ns=300), 2))
    assert stand_in.error_ns == 299 and not stand_in.network.is_exact
