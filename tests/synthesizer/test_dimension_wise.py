"""All-Reduces in which every dimension exchanges values in its own form: known times, and every form on every network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.examples import examples
from helpers.networks import ALL, graph, topologies, topology
from helpers.schedules import check, made_by
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import all_gather, all_reduce, make_collective
from astra_tacos.schedule.settle import UNITS_PER_NS, exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.units import reduction_ns, reduction_us
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.exchange.level import DOUBLING, SHORTEST, dimension_levels, whole_level
from astra_tacos.synthesizer.exchange.plan import Form, Plan, send_graph_of
from astra_tacos.synthesizer.exchange.stages import one_shot_of
from astra_tacos.synthesizer.parts.dispatch import dispatch

ONE_WAY = graph("0 1 50 5, 1 2 25 6, 2 0 12.5 7, 2 3 50 1, 3 1 50 1")


def best(network, size_bytes, link_model):
    collective = all_reduce(network.num_npus, size_bytes)
    timing = compute_timing(network, all_reduce(network.num_npus, 1 << 30), link_model)
    return SYNTHESIZERS["dimension-wise"].make(network, collective, timing, 0)


@pytest.mark.parametrize(
    "dimensions, size_bytes, link_model, time_ns",
    [
        ("Ring 16", 1 << 10, "pipelined", 4_014),
        ("Ring 8", 1 << 10, "pipelined", 2_010),
        ("Ring 4, Ring 4", 1 << 10, "pipelined", 2_010),
        ("FullyConnected 8", 1 << 10, "pipelined", 513),
        ("Ring 8, Ring 8", 16 << 10, "pipelined", 4_200),
        ("Ring 8, Ring 8", 64 << 10, "pipelined", 6_516),
        ("Switch 8 450 300, Switch 4 50 1000", 8 << 10, "blocking", 6_160),
        ("Switch 8 450 300, Switch 4 50 1000", 64 << 10, "blocking", 12_120),
        ("Switch 8 450 300, Switch 4 50 1000", 1 << 20, "blocking", 19_860),
        ("Switch 8 450 300, Switch 16 50 1000", 64 << 10, "blocking", 20_180),
        ("Switch 72 900", 64 << 10, "pipelined", 2_080),
    ],
)
def test_known_times(dimensions, size_bytes, link_model, time_ns):
    """What is known to be possible, within 3% (which leaves out what truncation of tiny chunks to whole nanoseconds gains)."""
    of = best(topology(dimensions), size_bytes, link_model)
    check(of)
    assert exact_time_ns(of) <= 1.03 * time_ns


@pytest.mark.parametrize("block, size", [("Switch", 4), ("Switch", 8), ("FullyConnected", 4)])
def test_links_that_wait_for_sums_carry_contributions(block, size):
    """Reduce-scatter and all-gather leave links idle for a latency: in that time others than owners get contributions.

    A part x of the buffer s is added up by all while the sums of the rest are on their way: twice the latency l, and the links
    carry 2 (s - x) / n from or to each of the peers that share a link. What fits into the idle time makes x = l / peers.
    """
    network, buffer = topology(f"{block} {size}"), 64 << 10
    of = best(network, buffer, "pipelined")
    check(of)
    rate, (peers, latency) = 50 * 1.073741824, (size - 1, 1000.0) if block == "Switch" else (1, 500.0)
    x = latency * rate / peers
    possible = 2 * latency + 2 * peers * (buffer - x) / size / rate
    without = 2 * latency + 2 * peers * buffer / size / rate
    assert exact_time_ns(of) <= possible + 0.4 * (without - possible)


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
    pieces, turns = draw(st.integers(1, 3)), draw(st.sampled_from((1, len(levels))))
    plan = Plan(levels, tuple(forms), order, pieces, turns)
    number = plan.innermost()
    if number is None:
        return plan
    # Others than owners add up, too; positions without a channel between them send over relays.
    owners, late = forms[number].num_owners, st.integers(1, levels[number].size)
    forms[number] = Form(SHORTEST, owners * draw(st.integers(1, 2)), draw(late), draw(st.integers(0, 3)))
    return replace(plan, forms=tuple(forms))


NETWORKS = st.one_of(topologies(12), st.sampled_from([ONE_WAY, *(topology(*dimensions) for dimensions in ALL.values())]))


@examples(20)
@given(network=NETWORKS, data=st.data())
def test_every_form_in_any_mix(network, data):
    plan = data.draw(plans(network))
    collective = plan.collective(network.num_npus, data.draw(st.integers(100_000, 200_000)))
    timing = compute_timing(
        network, collective, data.draw(st.sampled_from(("blocking", "pipelined"))), data.draw(st.sampled_from((0.0, 10.0)))
    )
    check(dispatch(network, collective, timing, send_graph_of(plan, network, timing)))


@examples(20)
@given(network=NETWORKS, data=st.data())
def test_one_shot_from_an_all_gather(network, data):
    pieces, size = data.draw(st.integers(1, 3)), data.draw(st.integers(100_000, 200_000))
    gathering = all_gather(network.num_npus, size, pieces)
    timing = compute_timing(network, gathering, data.draw(st.sampled_from(("blocking", "pipelined"))), 10.0)
    gathered = SYNTHESIZERS[data.draw(st.sampled_from(("tacos", "routed", "bruck")))].make(network, gathering, timing, 3)
    of = one_shot_of(gathered, "one-shot")
    check(of)
    assert of.num_sends == gathered.num_sends
    assert of.collective_time_ns <= gathered.collective_time_ns + reduction_ns(reduction_us(of.additions.size_bytes, 10.0).max())


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
    for name in ("one-shot", "dimension-wise"):
        entry = SYNTHESIZERS[name]
        assert entry.least_ns is not None
        try:
            timing = compute_timing(network, collective, data.draw(st.sampled_from(("blocking", "pipelined"))))
            made = entry.make(network, collective, timing, 0)
        except SynthesisError:
            continue
        assert entry.least_ns(network, collective) <= exact_time_ns(made) * (1 + 1e-9) + made.num_messages / UNITS_PER_NS
