"""Symmetric schedules: legal, no faster than the bounds, at the bound where classes of links are alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.networks import topology
from helpers.symmetric import task, tasks
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound, lower_bound
from astra_tacos.bounds.symmetric import chunked_symmetric_bound, symmetric_bounds
from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, exact_symmetric_ns
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search import SearchOptions, search
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric, fastest_symmetric, is_near_bound, near_bound
from astra_tacos.synthesizer.symmetric.symmetric import _reduced_and_gathered, _reversed, synthesize_symmetric
from astra_tacos.synthesizer.symmetric.trees import grow
from astra_tacos.verifier.schedule_oracle import verify
from astra_tacos.verifier.symmetric_oracle import verify_symmetric

ALIKE = {
    "ring": "Ring 7",
    "torus": "Ring 8, Ring 8",
    "odd torus": "Ring 5, Ring 3",
    "torus of three dimensions": "Ring 4, Ring 4, Ring 4",
    "full": "FullyConnected 8",
    "switch": "Switch 12",
    "twisted": "TwistedTorus 18",
}


@examples(20)
@given(tasks())
def test_both_oracles_accept_and_no_bound_is_beaten(what):
    schedule = synthesize_symmetric(what)
    assert verify_symmetric(schedule) == ()
    expanded = schedule.expand()
    assert verify(expanded) == ()
    assert expanded.num_sends == schedule.num_sends
    assert expanded.collective_time_ns <= schedule.collective_time_ns
    if len(expanded.collective.class_size_bytes) == 1:
        assert expanded.collective_time_ns == schedule.collective_time_ns
        assert replay_schedule(expanded).collective_time_ns == schedule.collective_time_ns
        assert exact_symmetric_ns(schedule) == exact_time_ns(expanded)
        # Nobody proves more from the dimensions alone than the other bounds do from all links.
        chunked = chunked_lower_bound(Problem(expanded.topology, expanded.collective, expanded.timing)).time_ns
        assert chunked_symmetric_bound(what).time_ns <= chunked + what.reduction_ns
    assert schedule.collective_time_ns >= chunked_symmetric_bound(what).time_ns
    most = max(bound.time_ns for bound in symmetric_bounds(what))
    assert exact_time_ns(expanded) >= most * (1 - 1e-6)
    assert most <= lower_bound(Problem(expanded.topology, expanded.collective, expanded.timing)).time_ns + 1


@pytest.mark.parametrize("collective", SYMMETRIC_COLLECTIVES)
@pytest.mark.parametrize("network", ALIKE)
def test_at_the_bound_for_chunks_where_links_are_alike(network, collective):
    what = task(ALIKE[network], collective, 1 << 30)
    time = synthesize_symmetric(what).collective_time_ns
    if collective == "all-to-all":
        assert time <= 1.15 * chunked_symmetric_bound(what).time_ns
    elif what.num_phases == 1:
        assert time <= chunked_symmetric_bound(what).time_ns + what.num_npus * what.reduction_ns  # sums on a path wait for sums
    else:
        once = synthesize_symmetric(task(ALIKE[network], "reduce-scatter", 1 << 30)).collective_time_ns
        assert time <= 2 * once


def test_forty_thousand_npus_at_the_bound():
    """The case of TACOS's paper (section VI): 10,000 steps of 1 MiB over links of 50 GiB/s and 500 ns, four at a time."""
    what = task("Ring 200, Ring 200")
    schedule = synthesize_symmetric(what)
    assert verify_symmetric(schedule) == ()
    assert schedule.collective_time_ns == 10_000 * 20_031 == chunked_symmetric_bound(what).time_ns
    assert schedule.num_sends == 40_000 * 39_999


@examples(20)
@given(tasks(12), st.data())
def test_translated_networks_have_translated_schedules(what, data):
    """The links that an expanded schedule uses at some time are moved onto one another by every translation."""
    expanded = synthesize_symmetric(what).expand()
    if len(expanded.collective.class_size_bytes) > 1:
        return
    by = data.draw(st.integers(0, what.num_npus - 1))
    moved = [what.group.move(ends.astype(np.int64), np.array(by)) for ends in (expanded.src, expanded.dst)]
    before = sorted(zip(expanded.start_ns.tolist(), expanded.src.tolist(), expanded.dst.tolist(), strict=True))
    assert sorted(zip(expanded.start_ns.tolist(), *(ends.tolist() for ends in moved), strict=True)) == before


@pytest.mark.parametrize(
    "dimensions, collective, size, chunks, message",
    [
        ("Mesh 4", "all-gather", 1024, 1, "Mesh 4 has ends or corners, or states no translations, expected"),
        ("Ring 4", "broadcast", 1024, 1, "found 'broadcast', expected all-gather"),
        ("Ring 4", "all-reduce", 3, 1, "3 bytes in 4 chunks, expected"),
        ((), "all-gather", 1024, 1, "a list of links, expected"),
        ("Ring 2000001", "all-gather", 1024, 1, "found 2,000,001 NPUs, expected"),
    ],
)
def test_what_is_no_symmetric_task(dimensions, collective, size, chunks, message):
    with refused(message):
        task(dimensions, collective, size, chunks)


@pytest.mark.parametrize("collective", SYMMETRIC_COLLECTIVES)
@pytest.mark.parametrize("network", ALIKE)
def test_auto_looks_no_further_where_it_is_at_the_bound(network, collective):
    whole = topology(ALIKE[network])
    found = search(whole, make_collective(collective, whole.num_npus, 1 << 30), SearchOptions(chunks_per_npu="auto"))
    assert (found.schedule.synthesizer, found.num_candidates) == ("symmetric", 1)
    assert found.exact_ns <= lower_bound(Problem(whole, found.schedule.collective, found.schedule.timing)).time_ns / 0.995
    assert verify(found.schedule) == ()


@examples(20)
@given(tasks(16))
def test_no_slower_than_the_matcher(what):
    """Within 1% of TACOS's algorithm in the same chunks, or one send later: trees are cut into whole sends, the same for all."""
    if what.collective == "all-to-all":
        return
    network = build_topology(NetworkConfig("test", what.dimensions))
    collective = make_collective(what.collective, network.num_npus, what.size_bytes, what.chunks_per_npu)
    timing = compute_timing(network, collective, what.link_model, what.reduce_bandwidth_gbps)
    matched = min(SYNTHESIZERS["tacos"].make(Problem(network, collective, timing), seed).collective_time_ns for seed in range(2))
    time = synthesize_symmetric(what).collective_time_ns
    assert time <= max(1.01 * matched, matched + int(what.delay_ns.max()))


@given(tasks(12))
def test_more_chunks_make_nothing_slower(what):
    one = replace(what, chunks_per_npu=1)
    best = best_symmetric(what)
    assert best.collective_time_ns <= synthesize_symmetric(one).collective_time_ns
    # No number of chunks is chosen for what truncation hides.
    assert best.task.chunks_per_npu == 1 or best.collective_time_ns >= 0.995 * exact_symmetric_ns(best)


@given(tasks(12))
def test_what_bounds_rule_out_is_not_made_and_changes_no_result(what):
    of_models = [replace(what, link_model=model) for model in LINK_MODELS]
    made = [best_symmetric(each) for each in of_models]
    best = min(made, key=lambda each: each.collective_time_ns)
    found = fastest_symmetric(of_models, None, True)
    assert (found.task, found.collective_time_ns) == (best.task, best.collective_time_ns)
    for each, schedule in zip(of_models, made, strict=True):
        near = near_bound(each, 1 << 40)
        assert (near is not None) == is_near_bound(schedule)
        assert near is None or near.collective_time_ns == schedule.collective_time_ns


@given(tasks(12), st.integers(1, 5))
def test_what_is_gathered_waits_for_sums_however_late_they_were_planned(what, times):
    """On 131,072 NPUs, sums were made earlier than planned, and the plan's times put them behind what waits for them."""
    if what.collective != "all-reduce":
        return
    gathered = grow(what)
    scattered = _reversed(what, gathered)
    late = scattered._replace(start_ns=scattered.start_ns * times, end_ns=scattered.end_ns * times)
    for schedule in _reduced_and_gathered(what, late, gathered):
        assert verify_symmetric(schedule) == ()
