"""TACOS's own regression cases: upstream allows 1% over these times, best of 20 runs (facts of the public tests)."""

from __future__ import annotations

import pytest
from networks import topology
from tacos_cases import CASES, GIB

from astra_tacos.collective import COLLECTIVES
from astra_tacos.synthesizer.search import synthesize


@pytest.mark.parametrize("case", CASES)
def test_regression_cases_of_tacos(case: str) -> None:
    dimensions, chunks, gathered, expected_us = CASES[case]
    network = topology(*dimensions)
    what = COLLECTIVES["all-gather"](network.num_npus, gathered // network.num_npus, chunks)
    found = synthesize(network, what, synthesizer="tacos", link_model="blocking", trials=20)
    assert found.collective_time_ns <= expected_us * 1000 * 1.01


@pytest.mark.parametrize(
    ("dimensions", "collective"),
    [
        ((("Ring", 8, 50.0, 500.0),), "all-gather"),
        ((("Ring", 8, 50.0, 500.0),), "reduce-scatter"),
        ((("Switch", 8, 50.0, 500.0),), "all-gather"),
        ((("Switch", 8, 50.0, 500.0),), "all-reduce"),
        ((("FullyConnected", 8, 50.0, 500.0),), "all-gather"),
        ((("Ring", 8, 50.0, 500.0), ("Ring", 8, 50.0, 500.0)), "all-gather"),
    ],
)
def test_the_bound_is_reached_where_tacos_stays_above_it(dimensions, collective: str) -> None:
    from astra_tacos.bounds import lower_bound

    network = topology(*dimensions)
    size = GIB // network.num_npus if collective == "all-gather" else GIB
    found = synthesize(
        network, COLLECTIVES[collective](network.num_npus, size, 1), synthesizer="tacos", link_model="blocking", trials=20
    )
    bound = lower_bound(network, found.collective, found.timing).time_ns
    assert found.collective_time_ns <= bound * 1.0001
