"""Where values are: numbers of pairs, and memory in proportion to what is there."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
from helpers.networks import topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.schedule.dependencies import operations
from astra_tacos.schedule.places import Places
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS

PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=30)


@given(some=PAIRS, more=PAIRS, asked=PAIRS)
def test_places_are_numbered_pairs(some, more, asked) -> None:
    def columns(pairs):
        table = np.array(pairs, np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    places = Places.of(10, columns(some), columns(more))
    number = {pair: at for at, pair in enumerate(sorted({*some, *more}))}
    assert len(places) == len(number)
    assert list(zip(*(column.tolist() for column in places.pairs), strict=True)) == list(number)
    assert places.find(*columns(asked)).tolist() == [number.get(pair, len(number)) for pair in asked]


def test_memory_grows_with_sends_not_with_npus_times_values() -> None:
    """144 NPUs and 50,880 values of which each NPU has few: a table of all would take 8 bytes for each pair."""
    network = topology("Ring 12, Ring 12")
    what = make_collective("all-reduce", 144, 1 << 18)
    of = SYNTHESIZERS["dimension-wise"].make(network, what, compute_timing(network, what, "pipelined"), 0)
    assert of.sums is not None
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
