"""All-Reduces in which every dimension exchanges values in its own form: known times, and every form on every network."""

from __future__ import annotations

import pytest
from helpers.examples import examples
from helpers.networks import ALL, graph, topologies, topology
from helpers.schedules import check, made_by
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import all_reduce, make_collective
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.settle import UNITS_PER_NS, exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.exchange.level import DOUBLING, SHORTEST, dimension_levels, whole_level
from astra_tacos.synthesizer.exchange.plan import Form, Plan, send_graph_of
from astra_tacos.synthesizer.parts.dispatch import dispatch

ONE_WAY = graph("0 1 50 5, 1 2 25 6, 2 0 12.5 7, 2 3 50 1, 3 1 50 1")


def best(network, size_bytes, link_model):
    collective = all_reduce(network.num_npus, size_bytes)
    timing = compute_timing(network, all_reduce(network.num_npus, 1 << 30), link_model)
    return SYNTHESIZERS["dimension-wise"].make(Problem(network, collective, timing), 0)


@pytest.mark.parametrize(
    "dimensions, size_bytes, link_model, time_ns",
    [
        ("Ring 16", 1 << 10, "pipelined", 4_014),
        ("Ring 8", 1 << 10, "pipelined", 2_010),
        ("Ring 4, Ring 4", 1 << 10, "pipelined", 2_010),
        ("FullyConnected 8", 1 << 10, "pipelined", 513),
        ("Ring 8, Ring 8", 16 << 10, "pipelined", 4_440),
        ("Ring 8, Ring 8", 64 << 10, "pipelined", 6_516),
        ("Switch 8 450 300, Switch 4 50 1000", 8 << 10, "blocking", 6_160),
        ("Switch 8 450 300, Switch 4 50 1000", 64 << 10, "blocking", 12_120),
        ("Switch 8 450 300, Switch 4 50 1000", 1 << 20, "blocking", 19_860),
        ("Switch 8 450 300, Switch 16 50 1000", 64 << 10, "blocking", 20_180),
        ("Switch 72 900", 64 << 10, "pipelined", 2_140),
    ],
)
def test_known_times(dimensions, size_bytes, link_model, time_ns):
    """What is known to be possible, within 3% (which leaves out what truncation of tiny chunks to whole nanoseconds gains)."""
    of = best(topology(dimensions), size_bytes, link_model)
    check(of)
    assert exact_time_ns(of) <= 1.03 * time_ns


def level_choices(network):
    return [(whole_level(network),)] + ([dimension_levels(network)] if network.dimensions else [])


@st.composite
def plans(draw, network):
    levels = draw(st.sampled_from(level_choices(network)))
    way = st.sampled_from((SHORTEST, DOUBLING))
    forms = []
    for level in levels:
        exchanges = st.one_of(st.just(Form(None)), way.map(Form))
        scatters = st.builds(Form, way, st.integers(1, level.size))
        forms.append(draw(st.one_of(exchanges, scatters)))
    order = tuple(draw(st.permutations(range(len(levels)))))
    return Plan(levels, tuple(forms), order, draw(st.integers(1, 3)))


NETWORKS = st.one_of(topologies(12), st.sampled_from([ONE_WAY, *(topology(*dimensions) for dimensions in ALL.values())]))


@examples(20)
@given(network=NETWORKS, data=st.data())
def test_every_form_in_any_mix(network, data):
    plan = data.draw(plans(network))
    collective = plan.collective(network.num_npus, data.draw(st.integers(100_000, 200_000)))
    timing = compute_timing(
        network, collective, data.draw(st.sampled_from(("blocking", "pipelined"))), data.draw(st.sampled_from((0.0, 10.0)))
    )
    check(dispatch(Problem(network, collective, timing), send_graph_of(plan, network, timing)))


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-to-all"])
def test_small_collectives_take_log_many_latencies_in_each_dimension(collective):
    """Bruck in both dimensions: 3 messages in groups of 6 and 2 in groups of 3, each over two links."""
    network = topology("Switch 6 450 300, Switch 3 50 1000")
    what = make_collective(collective, network.num_npus, 64 if collective == "all-gather" else 64 * network.num_npus)
    of = made_by("dimension-wise", network, what, "blocking")
    check(of)
    latencies = 3 * 2 * 300 + 2 * 2 * 1000
    busiest = 18 * 3 * 64 / (50 * 1.073741824)  # ns, no NPU sends or gets as much in all steps together
    assert latencies <= of.collective_time_ns <= latencies + busiest + 5
    assert of.num_messages == network.num_npus * 5


def test_links_too_fast_for_the_buffer_get_it_whole():
    """Shorter messages would take as long: those of ASTRA-sim's queues hold a link for 1 ns."""
    network = topology("Ring 4 1e+06 1")
    made = best(network, 64, "pipelined")
    check(made)
    assert set(made.message_bytes.tolist()) == {64}


@examples(20)
@given(data=st.data())
def test_what_cannot_win_is_told_before_it_is_made(data):
    """No schedule is faster than the least time of its synthesizer, links that are missing or differ included."""
    network = data.draw(topologies(most_npus=12))
    size = data.draw(st.sampled_from((1 << 12, 1 << 20, 1 << 24)))
    collective = all_reduce(network.num_npus, size)
    entry = SYNTHESIZERS["dimension-wise"]
    assert entry.least_ns is not None
    try:
        timing = compute_timing(network, collective, data.draw(st.sampled_from(("blocking", "pipelined"))))
        made = entry.make(Problem(network, collective, timing), 0)
    except SynthesisError:
        return
    assert entry.least_ns(network, collective) <= exact_time_ns(made) * (1 + 1e-9) + made.num_messages / UNITS_PER_NS
