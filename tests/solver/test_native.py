"""Native algorithms by the replay: against runs from files, closed forms, bounds, and every mix by brute force."""

from __future__ import annotations

import itertools
import json

import pytest
from helpers.examples import examples
from helpers.networks import config, some_dimensions, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import read_run, replay_run
from astra_tacos.bounds import largest
from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import export_workload
from astra_tacos.network.network_config import write_network
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, CONGESTION_UNAWARE, binaries_for
from astra_tacos.run.run import RunInputs
from astra_tacos.solver.clock import bounds_on
from astra_tacos.solver.native import best_native_time
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.solver.untruncated import untruncated_end_ns
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.units import bytes_per_ns

MIB = 1 << 20
TWO_LEVELS = config("Switch 4 300 300, FullyConnected 2 25 1000")


def run_of(folder, network, what, keys):
    folder.mkdir(exist_ok=True)
    export_workload(what, folder / "w")
    write_network(network, folder / "network.yml")
    (folder / "system.json").write_text(json.dumps({"scheduling-policy": "FIFO", **keys}))
    return read_run(RunInputs(folder / "w", folder / "system.json", folder / "network.yml"))


@pytest.mark.parametrize("clock", BACKENDS.values(), ids=str)
@pytest.mark.parametrize("size", [100_000, MIB])
def test_a_time_is_that_of_a_run_from_files(size, clock, tmp_path):
    what = make_collective("all-reduce", 8, size)
    found = best_native_time(TWO_LEVELS, what, clock)
    run = run_of(tmp_path, TWO_LEVELS, what, found.best.configuration.keys(("all-reduce",)))
    assert found.time_ns == round(untruncated_end_ns(run, clock), 3) >= replay_run(run, clock).end_ns - 1
    assert found.time_ns == pytest.approx(replay_run(run, clock).end_ns, rel=0.01)
    assert [binary for binary, _ in found.prints] == list(binaries_for(TWO_LEVELS))
    for binary, time_ns in found.prints:
        assert time_ns == replay_run(run, binary.backend).end_ns


def test_the_fastest_of_two_dimensions_is_that_of_all_mixes(tmp_path):
    what = make_collective("all-gather", 8, 100_000)
    times = {}
    for mix in itertools.product(NATIVE_ALGORITHMS, repeat=2):
        try:
            run = run_of(tmp_path / "-".join(mix), TWO_LEVELS, what, NativeConfiguration((mix,) * 4).keys(("all-gather",)))
            if not why_incomplete(run):
                times[mix] = untruncated_end_ns(run, CONGESTION_AWARE)
        except AstraTacosError:
            continue
    found = best_native_time(TWO_LEVELS, what, CONGESTION_AWARE)
    assert found.time_ns <= min(times.values()) + 0.001 and found.best.algorithms in times


def test_a_ring_of_neighbours_has_its_closed_form():
    """Each of 7 steps waits for 10 ns before it sends, and the last message for 10 ns after it has arrived."""
    hop = 500 + MIB // 8 / bytes_per_ns(50.0)
    found = best_native_time(config("Ring 8"), make_collective("reduce-scatter", 8, MIB), CONGESTION_AWARE)
    assert found.time_ns <= 7 * (hop + 10) + 10 + 0.01


def test_what_does_not_move_all_of_the_data_is_left_out():
    """An All-Gather of a tree sends less than NPUs have to receive: 63 shards over 4 links into each NPU."""
    what = make_collective("all-gather", 64, MIB)
    found = best_native_time(config("Ring 8, Ring 8"), what, CONGESTION_AWARE)
    assert found.time_ns >= 63 * MIB / (4 * bytes_per_ns(50.0))
    assert "doubleBinaryTree" not in found.best.algorithms


@examples(20)
@given(
    dimensions=some_dimensions(4),
    collective=st.sampled_from(("all-reduce", "all-gather", "reduce-scatter", "all-to-all")),
    size=st.sampled_from((6_912, 110_592)),
)
def test_no_native_collective_is_below_the_bound(dimensions, collective, size):
    net = topology(*dimensions)
    what = make_collective(collective, net.num_npus, size)
    found = best_native_time(config(*dimensions), what, CONGESTION_AWARE)
    assert found.time_ns is None or found.time_ns >= largest(bounds_on(net, what, CONGESTION_AWARE)).time_ns
    assert bounds_on(net, what, CONGESTION_UNAWARE) == ()


def test_a_collective_that_is_not_native_is_refused():
    found = best_native_time(TWO_LEVELS, make_collective("broadcast", 8, MIB, 1, 0), CONGESTION_AWARE)
    assert found.best is None and found.refusal == "ASTRA-sim has no native broadcast"
    about = found.to_json()
    assert (about["best_native_ns"], about["best_native"]) == (None, None)
    assert about["native_search"]["refusal"] == found.refusal


def test_links_that_are_too_slow_to_be_timed_to_parts_of_a_nanosecond_are_the_reason(tmp_path):
    found = best_native_time(config("Ring 4 0.000001 500"), make_collective("all-reduce", 4, MIB), CONGESTION_AWARE)
    assert found.best is None and "which no replay times to parts of a nanosecond, expected more than 1e-06 GB/s" in found.refusal
