"""Native algorithms by the replay: against runs from files, closed forms, bounds, and every mix by brute force."""

from __future__ import annotations

import itertools
import json

import pytest
from helpers.examples import examples
from helpers.networks import config, some_dimensions, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import lower_bound, read_run, replay_run
from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import export_workload
from astra_tacos.network.network_config import write_network
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, CONGESTION_UNAWARE
from astra_tacos.run.run import RunInputs
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.native import NativeSystem, native_time_ns, native_times
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.units import bytes_per_ns

MIB = 1 << 20
TWO_LEVELS = config("Switch 4 300 300, FullyConnected 2 25 1000")


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=str)
@pytest.mark.parametrize(
    "system", [NativeSystem(("ring", "direct")), NativeSystem(("direct", "ring"), 4, "localBWAware")], ids=str
)
def test_a_time_is_that_of_a_run_from_files(system, backend, tmp_path):
    what = make_collective("all-reduce", 8, 100_000)
    export_workload(what, tmp_path / "w")
    write_network(TWO_LEVELS, tmp_path / "network.yml")
    (tmp_path / "system.json").write_text(json.dumps({"scheduling-policy": "FIFO", **system.keys("all-reduce")}))
    run = read_run(RunInputs(tmp_path / "w", tmp_path / "system.json", tmp_path / "network.yml"))
    assert native_time_ns(TWO_LEVELS, what, system, backend) == replay_run(run, backend).end_ns


def test_the_fastest_of_two_dimensions_is_that_of_all_mixes():
    what = make_collective("all-gather", 8, 100_000)
    times = {}
    for mix in itertools.product(NATIVE_ALGORITHMS, repeat=2):
        try:
            times[mix] = native_time_ns(TWO_LEVELS, what, NativeSystem(mix), CONGESTION_AWARE)
        except AstraTacosError:
            continue
    found = native_times(TWO_LEVELS, what, CONGESTION_AWARE).fastest
    assert found.time_ns == min(times.values()) == times[found.system.algorithms]


def test_a_ring_of_neighbours_has_its_closed_form():
    network, size = config("Ring 8"), MIB
    what = make_collective("reduce-scatter", 8, size)
    hop = int(500 + size // 8 / bytes_per_ns(50.0))
    # Each of 7 steps waits for 10 ns before it sends, and the last message for 10 ns after it has arrived.
    assert native_time_ns(network, what, NativeSystem(("ring",)), CONGESTION_AWARE) == 7 * (hop + 10) + 10


def test_messages_that_overlap_on_links_are_impossible():
    network = config("Ring 8")
    what = make_collective("all-to-all", 8, 8 * MIB)
    times = native_times(network, what, CONGESTION_UNAWARE)
    fastest, possible = times.fastest, times.fastest_possible
    assert fastest is not None and possible is not None
    assert fastest.impossible.startswith("no queues; ")
    # Of the messages to the farthest half of the NPUs, each of the two links of an NPU carries its share.
    distances = sum(min(step, 8 - step) for step in range(1, 8))
    fluid_ns = MIB * distances / 2 / bytes_per_ns(50.0)
    assert fastest.time_ns < fluid_ns <= (possible.possible_ns or 0)
    notes = times.faster_than(fastest.time_ns + 1)
    assert len(notes) == 1 and "not physically possible: no queues" in notes[0] and str(fastest.system) in notes[0]
    assert times.faster_than(fastest.time_ns) == ()
    assert not any("faster" in note for note in times.faster_than(None)), "than what has no time"
    assert possible.possible_ns is not None
    assert [note for note in times.faster_than(possible.possible_ns + 1, "for a reason") if note.endswith("; for a reason")]
    assert not any("for a reason" in note for note in times.faster_than(possible.possible_ns, "for a reason"))


def test_truncated_messages_are_impossible():
    network = config("Switch 72 900")
    what = make_collective("all-reduce", 72, 1 << 16)
    fastest = native_times(network, what, CONGESTION_AWARE).fastest
    assert fastest.exact_ns is not None
    # 910 bytes take 0.94 ns of a link, of which nothing is left in whole ns.
    assert fastest.impossible.startswith("the times of its messages are truncated")
    assert fastest.time_ns + 120 < fastest.exact_ns < fastest.time_ns + 2 * 71


def test_what_does_not_move_all_of_the_data_is_impossible():
    """An All-Gather of a tree sends less than NPUs have to receive: 63 shards over 4 links into each NPU."""
    network = config("Ring 8, Ring 8")
    what = make_collective("all-gather", 64, MIB)
    least_ns = 63 * MIB / (4 * bytes_per_ns(50.0))
    times = native_times(network, what, CONGESTION_AWARE)
    assert times.fastest.time_ns < least_ns
    assert times.fastest.possible_ns is None and times.fastest.impossible.endswith("it does not move all of the data")
    assert (times.fastest_possible.possible_ns or 0) >= least_ns
    notes = times.faster_than(310_000, "why")
    assert len(notes) == 1 and "not physically possible: any algorithm needs 308.12 us at least" in notes[0]


@examples(20)
@given(
    dimensions=some_dimensions(4),
    collective=st.sampled_from(("all-reduce", "all-gather", "reduce-scatter", "all-to-all")),
    size=st.sampled_from((6_912, 110_592)),
    backend=st.sampled_from(list(BACKENDS.values())),
)
def test_what_is_possible_respects_the_bound(dimensions, collective, size, backend):
    network, net = config(*dimensions), topology(*dimensions)
    what = make_collective(collective, net.num_npus, size)
    bound = lower_bound(net, what, compute_timing(net, make_collective(collective, net.num_npus, MIB), "pipelined"))
    times = native_times(network, what, backend)
    assert times.fastest is not None
    possible = times.fastest_possible
    if possible is not None and possible.possible_ns is not None:
        assert possible.possible_ns >= (1 - 0.01) * bound.time_ns
        assert times.fastest.time_ns <= possible.time_ns


def test_a_collective_that_is_not_native_is_refused():
    times = native_times(TWO_LEVELS, make_collective("broadcast", 8, MIB, 1, 0), CONGESTION_AWARE)
    assert (times.fastest, times.fastest_possible) == (None, None)
    assert times.refusal == "ASTRA-sim has no native broadcast"
    assert times.to_json() == {"fastest": None, "fastest_possible": None, "refusal": times.refusal}
