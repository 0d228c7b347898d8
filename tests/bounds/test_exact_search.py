"""The exact search of the bench: known optima, and nothing is faster than them, neither schedules nor bounds say otherwise."""

from __future__ import annotations

import pytest
from exact import all_gather, dims, random_graph
from helpers.examples import examples, refused
from helpers.networks import topology
from helpers.schedules import bound_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

BYTE_NS = 1e9 / (50 << 30)


def optimum_ns(network, size, chunks=1):
    found = all_gather(network, make_collective("all-gather", network.num_npus, size, chunks), 60.0)
    assert found.is_proven and found.schedule is not None
    return found.time_ns


@pytest.mark.parametrize(
    "block, npus, chunks, latencies, kib",
    [
        ("FullyConnected", 5, 1, 1, 1),
        ("FullyConnected", 4, 4, 1, 1),
        ("Switch", 4, 1, 2, 4),  # three chunks over the down-link, once the first is through the up-link
        ("Switch", 5, 2, 2, 4.5),
        ("Ring", 4, 1, 2, 2),
        ("Ring", 5, 1, 2, 2),  # two chunks from two hops away over two links, each behind one hop more
        ("Mesh", 3, 1, 2, 2),
    ],
)
def test_known_optima(block, npus, chunks, latencies, kib):
    expected = latencies * 500 + kib * 1024 * BYTE_NS
    assert optimum_ns(dims((block, npus)), 1024, chunks) == pytest.approx(expected, abs=0.01)


@examples(12)
@given(npus=st.integers(3, 5), seed=st.integers(0, 1000), chunks=st.integers(1, 2), size=st.sampled_from((512, 1024, 3000)))
def test_no_schedule_is_faster_and_no_bound_is_higher(npus, seed, chunks, size):
    network = random_graph(npus, seed)
    optimum = optimum_ns(network, size, chunks)
    what = make_collective("all-gather", npus, size, chunks)
    found = search(network, what, SearchOptions(link_model="pipelined", trials=4, budget=100_000, threads=1))
    assert found.exact_ns >= optimum * (1 - 1e-6)
    assert bound_of(network, what).time_ns <= optimum + 1


def test_what_the_model_does_not_have_is_refused():
    with refused("expected chunks of one size"):
        all_gather(dims(("Ring", 4)), make_collective("all-gather", 4, 1024, 3), 1.0)
    network = topology("Ring 4, Ring 2 50 100")
    with refused("expected equal latencies"):
        all_gather(network, make_collective("all-gather", 8, 1024), 1.0)
