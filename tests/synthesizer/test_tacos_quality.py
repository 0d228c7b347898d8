"""TACOS's own regression cases: upstream allows 1% over these times, best of 20 runs (facts of the public tests)."""

from __future__ import annotations

import pytest
from networks import topology

from astra_tacos.collective import COLLECTIVES
from astra_tacos.synthesizer.search import synthesize

GIB = 1 << 30


def grid(block: str, sizes: tuple[int, ...], bandwidths: tuple[float, ...], latency: float):
    return tuple((block, size, bandwidth, latency) for size, bandwidth in zip(sizes, bandwidths, strict=True))


CASES = {
    "mesh 5x5": (grid("Mesh", (5, 5), (50.0, 50.0), 500.0), 1, GIB, 9606.0),
    "mesh 10x10": (grid("Mesh", (10, 10), (100.0, 100.0), 1000.0), 2, GIB, 5049.0),
    "mesh 7x12": (grid("Mesh", (7, 12), (100.0, 100.0), 1000.0), 3, 4 * GIB, 19966.27),
    "mesh 5x5, 50 and 75": (grid("Mesh", (5, 5), (50.0, 75.0), 500.0), 1, GIB, 8005.0),
    "mesh 8x5, 80 and 35": (grid("Mesh", (8, 5), (80.0, 35.0), 1000.0), 2, GIB, 8595.43),
    "mesh 7x10, 16 and 73": (grid("Mesh", (7, 10), (16.0, 73.0), 1500.0), 3, 4 * GIB, 44612.47),
    "torus 3x3x3": (grid("Ring", (3, 3, 3), (50.0,) * 3, 500.0), 1, GIB, 3706.20),
    "torus 3x4x5": (grid("Ring", (3, 4, 5), (50.0,) * 3, 500.0), 2, 2 * GIB, 6676.67),
    "torus 4x2x3": (grid("Ring", (4, 2, 3), (50.0,) * 3, 500.0), 3, 3 * GIB, 11673.67),
    "mesh 3x3x3": (grid("Mesh", (3, 3, 3), (50.0,) * 3, 500.0), 1, GIB, 6671.17),
    "mesh 3x4x5": (grid("Mesh", (3, 4, 5), (50.0,) * 3, 500.0), 2, 2 * GIB, 13353.33),
    "mesh 4x2x3": (grid("Mesh", (4, 2, 3), (50.0,) * 3, 500.0), 3, 3 * GIB, 19178.17),
}


@pytest.mark.parametrize("case", CASES)
def test_regression_cases_of_tacos(case: str) -> None:
    dimensions, chunks, gathered, expected_us = CASES[case]
    network = topology(*dimensions)
    what = COLLECTIVES["all-gather"](network.num_npus, gathered // network.num_npus, chunks)
    found = synthesize(network, what, link_model="blocking", trials=20)
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
    found = synthesize(network, COLLECTIVES[collective](network.num_npus, size, 1), link_model="blocking", trials=20)
    bound = lower_bound(network, found.collective, found.timing).time_ns
    assert found.collective_time_ns <= bound * 1.0001
