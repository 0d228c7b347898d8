"""Random partial sums over devices that forward: a hop carries the value of its trip, and everything says the same of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from helpers.examples import examples
from helpers.messages import sums_over_devices
from helpers.naive_schedule import naive_times, sums_up
from helpers.schedules import check, codes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.export.chakra import export_chakra
from astra_tacos.export.stand_in import stand_in_of
from astra_tacos.pages.html.synthesis_data import arrivals
from astra_tacos.pages.links_over_time import link_rows, sends_of_chunk
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.verifier.program import verify_trace


@examples(20)
@given(sums_over_devices())
def test_they_are_legal_and_replayed_as_predicted(of):
    check(of)
    assert of.additions.npu.max(initial=0) < of.topology.num_endpoints
    assert int(arrivals(of).time_ns.max(initial=0)) <= of.collective_time_ns


@examples(3)
@given(sums_over_devices(most_npus=4, most_chunks=1))
def test_times_are_those_of_the_slow_twin(of):
    start, end = naive_times(of, [])
    assert (of.start_ns.tolist(), of.end_ns.tolist()) == (start, end)
    assert sums_up(of)
    assert replay_schedule(of).link_busy_ns.tolist() == of.link_busy_ns.tolist()


@examples(20)
@given(of=sums_over_devices())
def test_what_is_stored_is_read_again(tmp_path_factory, of):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    save_schedule(of, path)
    read = load_schedule(path)
    assert (read.item.tolist(), read.trip.tolist()) == (of.item.tolist(), of.trip.tolist())
    assert check(read).npu_finish_ns.tolist() == of.npu_finish_ns.tolist()


@examples(20)
@given(of=sums_over_devices())
def test_traces_between_npus_are_proven_alone(tmp_path_factory, of):
    prefix = tmp_path_factory.mktemp("et") / "a"
    export_chakra(between_npus(of), prefix)
    verdict = verify_trace(read_trace(prefix), of.collective.name, None, of.collective.root)
    assert verdict.proven, verdict.violations


@examples(10)
@given(of=sums_over_devices(latency_ns=500.0))
def test_a_run_in_which_devices_are_ranks_takes_the_predicted_time(of):
    stand_in = stand_in_of(of)
    assert stand_in.error_ns == 0
    replayed = replay_trace(stand_in.trace(), stand_in.network.to_config(), stand_in.network.backend)
    assert replayed.collective_time_ns == of.collective_time_ns


@examples(10)
@given(of=sums_over_devices())
def test_a_hop_waits_for_the_hop_of_its_trip_alone(of):
    """Several trips may bring one value to one device."""
    for chunk in range(of.collective.num_chunks):
        own = np.flatnonzero(of.chunk == chunk)
        sends = sends_of_chunk(of, link_rows(of.topology), chunk)
        brought = {}
        for waits, source in zip(sends.waits.tolist(), sends.source.tolist(), strict=True):
            brought.setdefault(waits, []).append(source)
        for at, row in enumerate(own.tolist()):
            if of.src[row] >= of.topology.num_endpoints:
                assert [of.trip[own[source]] for source in brought[at]] == [of.trip[row]]


@examples(30)
@given(of=sums_over_devices(), data=st.data())
def test_hops_that_do_not_fit_are_objected_to(of, data):
    forwards = np.flatnonzero(of.src >= of.topology.num_endpoints)
    row = int(data.draw(st.sampled_from(forwards.tolist())))
    match data.draw(st.sampled_from(("value", "early", "lost"))):
        case "value":  # a device gives out another value of the chunk than it took in
            others = np.flatnonzero((of.sums.chunk == of.chunk[row]) & (np.arange(of.sums.num_values) != of.value[row]))
            value = of.value.copy()
            value[row] = data.draw(st.sampled_from(others.tolist()))
            assert "trip-chunk" in codes(replace(of, value=value))
        case "early":
            before = np.flatnonzero((of.trip == of.trip[row]) & (of.dst == of.src[row]))[0]
            start, end = of.start_ns.copy(), of.end_ns.copy()
            by = int(start[row] - end[before]) + 1
            start[row], end[row] = start[row] - by, end[row] - by
            assert "trip-early" in codes(replace(of, start_ns=start, end_ns=end))
        case "lost":
            kept = np.delete(np.arange(of.num_sends), row)
            names = ("chunk", "channel", "reduces", "start_ns", "end_ns", "value", "trip")
            assert codes(replace(of, **{name: getattr(of, name)[kept] for name in names})) & {"trip-gap", "trip-end"}
