"""Settling, dependencies and timing against their naive twins."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.naive_schedule import blocking_delay, delays, naive_dependencies, naive_times
from helpers.networks import ALL, topology
from helpers.schedules import column_bytes, made_by, schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.schedule.dependencies import data_dependencies, operations, previous_on_link
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.partial_sums import Places
from astra_tacos.schedule.settle import exact_time_ns, settle
from astra_tacos.schedule.timing import choose_link_model, compute_timing, least_bytes
from astra_tacos.support.errors import SynthesisError


@examples(20)
@given(schedules())
def test_times_are_the_earliest_that_link_order_allows(of):
    dependencies = naive_dependencies(of)
    first, row = data_dependencies(of)
    assert [row[first[i] : first[i + 1]].tolist() for i in range(of.num_sends)] == dependencies
    assert (of.start_ns.tolist(), of.end_ns.tolist()) == naive_times(of, dependencies)
    # Settling again changes nothing.
    again = settle(of.problem, Sends(of.chunk, of.channel, of.reduces, of.message_first))
    assert column_bytes(again) == column_bytes(of)


@examples(20)
@given(schedules())
def test_delays_are_those_of_the_timing_model(of):
    sizes = of.sizes
    for row, message in enumerate(of.message_of.tolist()):
        size_class = sizes.size_class[message]
        up = int(of.topology.channel_link[of.channel[row]])
        assert (sizes.timing.link_hold_ns[up, size_class], sizes.timing.link_delay_ns[up, size_class]) == delays(of, row, up)
        if of.timing.is_blocking:
            assert of.end_ns[row] - of.start_ns[row] == blocking_delay(of, row)


@examples(20)
@given(schedules())
def test_previous_on_link(of):
    link = of.topology.channel_link[of.channel]
    last: dict[int, int] = {}
    for message, previous in enumerate(previous_on_link(of).tolist()):
        own = int(link[of.message_row[message]])
        assert previous == last.get(own, -1)
        last[own] = message


def test_a_known_ring_by_hand():
    """Four NPUs, 1 GiB/s, 100 ns: a shard of 1,000 bytes takes int(931.3) ns of a link and int(1031.3) ns to arrive."""
    ring = topology("Ring 4 1 100")
    gathered = schedule(ring, "all-gather", 1000, link_model="blocking", trials=32)
    assert gathered.collective_time_ns == 2 * 1031
    piped = schedule(ring, "all-gather", 1000, link_model="pipelined", trials=32)
    assert piped.collective_time_ns == 2 * 1031  # what leaves second is what came first
    reduced = schedule(ring, "reduce-scatter", 4000, link_model="blocking", trials=32)
    assert reduced.collective_time_ns == 2 * (1031 + 1)
    switch = topology("Switch 2 1 100")
    assert schedule(switch, "all-gather", 1000, link_model="blocking").collective_time_ns == 1131
    assert schedule(switch, "all-gather", 1000, link_model="pipelined").collective_time_ns == 2 * 1031


@pytest.mark.parametrize(
    "name, model",
    [
        *((name, "pipelined") for name in ("ring8", "torus", "full", "switch", "pair")),
        *((name, "blocking") for name in ("hetero-torus", "mesh", "switches", "mixed")),
    ],
)
def test_auto_takes_what_astra_sim_replays_exactly(name, model):
    network = topology(*ALL[name])
    assert choose_link_model(network)[0] == model


def test_chunks_below_a_nanosecond():
    network = topology(*ALL["ring8"])
    tiny = COLLECTIVES["all-gather"](8, 1, 1)
    padded = compute_timing(network, tiny, "pipelined")
    assert padded.link_hold_ns.tolist() == [[1]] * network.num_links
    assert least_bytes(network).tolist() == [54] * network.num_links  # of 50 GiB/s
    for dimensions, size, chunks, model, message in (
        ("Ring 8", 100, 2, "pipelined", "less than 1 ns"),
        ("Ring 4 50 0", 1, 1, "blocking", "less than 1 ns"),
        ("Ring 4 1e-09 0", 1 << 40, 1, "blocking", "longer than"),
    ):
        slow = topology(dimensions)
        with refused(message, SynthesisError):
            compute_timing(slow, COLLECTIVES["all-gather"](slow.num_npus, size, chunks), model)
    with refused("reduce bandwidth"):
        compute_timing(network, COLLECTIVES["all-gather"](8, 100, 1), "blocking", float("nan"))


PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=30)


@given(some=PAIRS, more=PAIRS, asked=PAIRS)
def test_places_are_numbered_pairs(some, more, asked):
    def columns(pairs):
        table = np.array(pairs, np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    places = Places.of(10, columns(some), columns(more))
    number = {pair: at for at, pair in enumerate(sorted({*some, *more}))}
    assert len(places) == len(number)
    assert list(zip(*(column.tolist() for column in places.pairs), strict=True)) == list(number)
    assert places.find(*columns(asked)).tolist() == [number.get(pair, len(number)) for pair in asked]


def test_memory_grows_with_sends_not_with_npus_times_values():
    """144 NPUs and 50,880 values of which each NPU has few: a table of all would take 8 bytes for each pair."""
    network = topology("Ring 12, Ring 12")
    what = make_collective("all-reduce", 144, 1 << 18)
    of = made_by("dimension-wise", network, what)
    table = 8 * network.num_npus * of.sums.num_values
    for examine in (exact_time_ns, operations):
        examine(replace(of))  # what is cached, and loaded at first use, does not count
        tracemalloc.start()
        try:
            examine(replace(of))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < table * 0.8
