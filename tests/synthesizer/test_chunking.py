"""Candidates for the number of chunks."""

from __future__ import annotations

import pytest
from helpers.examples import examples, refused
from helpers.networks import ALL, HIERARCHY, TWO_SWITCHES, dims_of, topologies, topology
from helpers.schedules import schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.chunk_counts import choose_chunks


@examples(20)
@given(
    network=topologies(),
    collective=st.sampled_from(sorted(COLLECTIVES)),
    size=st.integers(3000, 1 << 30),
    model=st.sampled_from(("blocking", "pipelined")),
    max_sends=st.integers(1, 20_000),
)
def test_candidates_keep_the_limits(network, collective, size, model, max_sends):
    try:
        found = choose_chunks(network, collective, size, model, max_sends)
    except SynthesisError as error:
        assert "less than 1 ns" in str(error)
        return
    chunks = [candidate.chunks_per_npu for candidate in found]
    assert 1 in chunks
    assert len(set(chunks)) == len(chunks)
    for candidate in found:
        what = COLLECTIVES[collective](network.num_npus, size, candidate.chunks_per_npu)
        sends = fewest_crossings(network, what) if what.is_personalised else what.least_sends
        assert candidate.num_sends == sends
        assert candidate.num_sends <= max_sends or candidate.chunks_per_npu == 1
        assert compute_timing(network, what, model).channel_delay_ns.min() >= 1
        assert candidate.estimate_ns > 0
    least = min(candidate.estimate_ns for candidate in found)
    assert found[0].estimate_ns <= least * 1.005 + 1
    assert all(
        candidate.chunks_per_npu >= found[0].chunks_per_npu for candidate in found if candidate.estimate_ns <= least * 1.005
    )


GUESSES = [
    (dimensions, collective, link_model, size)
    for row, dimensions in enumerate((HIERARCHY, TWO_SWITCHES, ALL["ring8"], ALL["hetero-torus"], dims_of("Mesh 5, Mesh 5")))
    for column, (collective, link_model, size) in enumerate(
        (
            ("all-gather", "blocking", 1 << 18),
            ("all-reduce", "blocking", 1 << 26),
            ("all-gather", "pipelined", 1 << 26),
            ("all-reduce", "pipelined", 1 << 18),
        )
    )
    if (row + column) % 2
]
"""On each network, either the small or the large collective by each link model."""


@pytest.mark.parametrize("dimensions, collective, link_model, size", GUESSES)
def test_the_best_guess_is_near_the_best(dimensions, collective, link_model, size):
    network = topology(*dimensions)

    def best_ns(chunks):
        what = COLLECTIVES[collective](network.num_npus, size, chunks)
        return synthesize(network, what, link_model=link_model, trials=1, synthesizer="tacos").collective_time_ns

    found = choose_chunks(network, collective, size, link_model, 20_000)
    times = {candidate.chunks_per_npu: best_ns(candidate.chunks_per_npu) for candidate in found}
    assert times[found[0].chunks_per_npu] <= min(times.values()) * 1.25


def test_estimates_are_no_bounds_but_not_below_those_of_ports():
    network = topology(*ALL["torus"])
    for candidate in choose_chunks(network, "all-gather", 1 << 20, "blocking", 10_000):
        what = COLLECTIVES["all-gather"](12, 1 << 20, candidate.chunks_per_npu)
        assert (
            candidate.estimate_ns
            == chunked_lower_bound(Problem(network, what, compute_timing(network, what, "blocking"))).time_ns
        )


def test_bad_arguments():
    with refused("less than 1 ns", SynthesisError):
        choose_chunks(topology("Ring 4 400 0"), "all-gather", 8, "blocking", 100)


@examples(20)
@given(schedules())
def test_exact_time_is_near_the_predicted_one(of):
    """Truncation shortens each delay by less than 1 ns, rounding of reductions moves each by half a microsecond at most."""
    slack = 1.0 + (501.0 if of.timing.reduce_bandwidth_gbps else 1.0)
    assert abs(exact_time_ns(of) - of.collective_time_ns) <= slack * 2 * of.num_sends
