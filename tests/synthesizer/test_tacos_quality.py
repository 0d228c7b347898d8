"""TACOS's own regression cases (upstream allows 1% over these times, best of 20 runs), and bounds that are to be reached."""

from __future__ import annotations

import pytest
from helpers.networks import HIERARCHY, TWO_SWITCHES, broken_torus, hypercube, topology
from helpers.schedules import schedule
from tacos_cases import CASES, GIB

from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.problem import Problem
from astra_tacos.solver.solve import synthesize
from astra_tacos.verifier.schedule_oracle import verify


@pytest.mark.parametrize("case", CASES)
def test_regression_cases_of_tacos(case):
    dimensions, chunks, gathered, expected_us = CASES[case]
    network = topology(*dimensions)
    what = COLLECTIVES["all-gather"](network.num_npus, gathered // network.num_npus, chunks)
    found = synthesize(network, what, link_model="blocking", trials=20, synthesizer="tacos")
    assert found.collective_time_ns <= expected_us * 1000 * 1.01


def best_ns(network, collective, size, chunks, link_model, trials=None):
    what = COLLECTIVES[collective](network.num_npus, size, chunks)
    return synthesize(network, what, link_model=link_model, trials=trials, synthesizer="tacos").collective_time_ns


@pytest.mark.parametrize("chunks", [2, 4])
def test_small_all_gather_in_the_time_of_astra_sim(chunks):
    assert best_ns(topology("Ring 8, Ring 8"), "all-gather", 1 << 16, chunks, "pipelined", 10) <= 20_020


@pytest.mark.parametrize(
    "dimensions, link_model, chunks, cut_us, at_least",
    [
        (HIERARCHY, "blocking", 7, 2187.5, 0.958),
        (HIERARCHY, "pipelined", 64, 2187.5, 0.994),
        (TWO_SWITCHES, "blocking", 16, 3750.0, 0.973),
        (TWO_SWITCHES, "pipelined", 64, 3750.0, 0.990),
    ],
)
def test_cut_bound_of_hierarchies(dimensions, link_model, chunks, cut_us, at_least):
    network = topology(*dimensions)
    trials = 20 if link_model == "blocking" else 2
    found = best_ns(network, "all-gather", GIB // network.num_npus, chunks, link_model, trials)
    assert cut_us * 1000 / found >= at_least


@pytest.mark.parametrize(
    "network",
    [
        *(topology(f"{block}, {block}") for block in ("Ring 4", "Ring 8", "Ring 16", "Mesh 4", "Mesh 5", "Mesh 8")),
        *map(topology, ("Ring 2, Ring 2, Ring 2, Ring 2, Ring 2, Ring 2", "Ring 8", "Switch 8", "FullyConnected 8")),
        hypercube(6),
    ],
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_one_chunk_per_npu_reaches_the_quantised_bound(network, collective):
    if collective == "all-reduce" and not network.has_switches:
        return
    size = GIB // network.num_npus if collective == "all-gather" else GIB
    what = COLLECTIVES[collective](network.num_npus, size, 1)
    found = synthesize(network, what, link_model="blocking", synthesizer="tacos")
    assert found.collective_time_ns <= chunked_lower_bound(Problem(network, what, found.timing)).time_ns * 1.0001


@pytest.mark.parametrize("failed", [10, 41, 102])
def test_failed_links(failed):
    network = broken_torus(16, failed, seed=1)
    for collective, chunks, at_least in (("all-gather", 1, 0.97), ("all-reduce", 4, 0.49)):
        size = GIB // network.num_npus if collective == "all-gather" else GIB
        of = schedule(network, collective, size, chunks, link_model="blocking", synthesizer="tacos")
        assert chunked_lower_bound(Problem(network, of.collective, of.timing)).time_ns >= of.collective_time_ns * at_least
        if failed == 41:
            assert verify(of) == ()
