"""What ranks do when: against a twin that looks at every nanosecond, and the replay's own figures."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.runs import ONE_DIMENSION, SEVERAL_DIMENSIONS, ending_runs, load_run
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import replay_run
from astra_tacos.pages.rank_states import (
    COMPUTES,
    EXPOSED,
    IDLE,
    NO_NODE,
    OVERLAPS,
    STATES,
    WAITS,
    coarser,
    find_segments,
    next_to_end,
    state_over_time,
)
from astra_tacos.run.recording import KINDS, record_run

AWARE, UNAWARE = "congestion-aware", "congestion-unaware"


def naive_states(recording, rank):
    """State of a rank in each nanosecond until it has finished."""
    nodes, replay = recording.nodes, recording.after
    rows = range(int(nodes.rank_first[rank]), int(nodes.rank_first[rank + 1]))
    going: dict[str, list[bool]] = {kind: [False] * int(replay.finish_ns[rank]) for kind in KINDS}
    for row in rows:
        kind = KINDS[int(nodes.kind[row])]
        for ns in range(int(replay.issue_ns[row]), int(replay.end_ns[row])):
            going[kind][ns] = True
    states = []
    for ns in range(int(replay.finish_ns[rank])):
        communicates = going["collective"][ns] or going["send"][ns] or going["memory"][ns]
        if going["compute"][ns]:
            states.append(OVERLAPS if communicates else COMPUTES)
        else:
            states.append(EXPOSED if communicates else WAITS if going["receive"][ns] else IDLE)
    return states


def check_figures(segments, recording):
    """Segments tile the time of each rank, and their sums are what the replay counted."""
    totals, replay = segments.totals(), recording.after
    assert totals.shape == (recording.nodes.num_ranks, len(STATES))
    assert (totals[:, COMPUTES] + totals[:, OVERLAPS]).tolist() == replay.compute_ns.tolist()
    assert (totals[:, EXPOSED] + totals[:, WAITS] + totals[:, IDLE]).tolist() == replay.exposed_comm_ns.tolist()
    for rank in range(recording.nodes.num_ranks):
        own = slice(int(segments.rank_first[rank]), int(segments.rank_first[rank + 1]))
        starts, ends = segments.start_ns[own].tolist(), segments.end_ns[own].tolist()
        assert starts == [0, *ends[:-1]]
        assert ends[-1] == replay.finish_ns[rank]
        assert all(start < end for start, end in zip(starts, ends, strict=True))


def check_nodes(segments, recording):
    """Nodes of a segment go on all through it, and are what its state says."""
    nodes, replay = recording.nodes, recording.after
    for entry, rank in enumerate(segments.rank.tolist()):
        state = int(segments.state[entry])
        compute, communication = int(segments.compute[entry]), int(segments.communication[entry])
        assert (compute != NO_NODE) == (state in (COMPUTES, OVERLAPS))
        assert (communication != NO_NODE) == (state in (EXPOSED, OVERLAPS, WAITS))
        for node in (compute, communication):
            if node != NO_NODE:
                assert nodes.rank_first[rank] <= node < nodes.rank_first[rank + 1]
                assert replay.issue_ns[node] <= segments.start_ns[entry]
                assert replay.end_ns[node] >= segments.end_ns[entry]
        if state == WAITS:
            assert KINDS[int(nodes.kind[communication])] == "receive"


def check(run, backend):
    recording = record_run(run, replay_run(run, backend))
    segments = find_segments(recording.nodes, recording.after)
    check_figures(segments, recording)
    check_nodes(segments, recording)
    for rank in range(recording.nodes.num_ranks):
        own = slice(int(segments.rank_first[rank]), int(segments.rank_first[rank + 1]))
        found = np.repeat(segments.state[own], segments.end_ns[own] - segments.start_ns[own]).tolist()
        assert found == naive_states(recording, rank)


@pytest.mark.parametrize("backend", [AWARE, UNAWARE])
def test_random_runs(tmp_path, backend):
    for run in ending_runs(tmp_path, ONE_DIMENSION + SEVERAL_DIMENSIONS, backend, 7):
        check(run, backend)


@pytest.mark.golden_cases("e2e_*")
def test_recorded_runs(golden, golden_case):
    check(load_run(golden / golden_case), AWARE)


def test_states_over_time_add_up(golden):
    run = load_run(golden / "e2e_p2p_pipeline_ring8")
    recording = record_run(run, replay_run(run, AWARE))
    segments = find_segments(recording.nodes, recording.after)
    end = recording.after.run_end_ns
    for edges in (np.linspace(0, end, 18), np.array([0.0, 1.0, end / 3, 2.0 * end])):
        shares = state_over_time(segments, edges)
        assert shares.min() >= -1e-9
        assert shares.sum(axis=0).max() <= recording.nodes.num_ranks + 1e-9
        np.testing.assert_allclose((shares * np.diff(edges)).sum(axis=1), segments.totals().sum(axis=0), rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("resolution_ns", [1, 700, 5000, 10**9])
def test_short_times_are_put_together(golden, resolution_ns):
    run = load_run(golden / "e2e_p2p_pipeline_ring8")
    recording = record_run(run, replay_run(run, AWARE))
    fine = find_segments(recording.nodes, recording.after)
    coarse = coarser(fine, resolution_ns)
    if resolution_ns == 1:
        assert coarse.state.tolist() == fine.state.tolist()
        assert coarse.compute.tolist() == fine.compute.tolist()
        assert coarse.communication.tolist() == fine.communication.tolist()
    for rank in range(recording.nodes.num_ranks):
        seen = slice(int(fine.rank_first[rank]), int(fine.rank_first[rank + 1]))
        own = slice(int(coarse.rank_first[rank]), int(coarse.rank_first[rank + 1]))
        starts, ends = coarse.start_ns[own].tolist(), coarse.end_ns[own].tolist()
        assert starts == [0, *ends[:-1]]
        assert ends[-1] == recording.after.finish_ns[rank]
        assert len(starts) <= 3 * (-(-ends[-1] // resolution_ns)) + 1
        shown = {(start, end): entry for entry, (start, end) in enumerate(zip(starts, ends, strict=True))}
        for entry in range(seen.start, seen.stop):
            if fine.end_ns[entry] - fine.start_ns[entry] >= resolution_ns:  # long ones stay as they are
                same = own.start + shown[int(fine.start_ns[entry]), int(fine.end_ns[entry])]
                assert coarse.state[same] == fine.state[entry]
                assert coarse.communication[same] == fine.communication[entry]
        for entry in range(own.start, own.stop):
            states = np.zeros(len(STATES), np.int64)
            inside = [
                number
                for number in range(seen.start, seen.stop)
                if coarse.start_ns[entry] <= fine.start_ns[number] and fine.end_ns[number] <= coarse.end_ns[entry]
            ]
            np.add.at(states, fine.state[inside], (fine.end_ns - fine.start_ns)[inside])
            assert states[coarse.state[entry]] == states.max()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=12))
def test_the_next_to_end(nodes):
    begin, length = np.array(nodes, np.int64).reshape(-1, 2).T
    end = begin + length
    found = next_to_end(np.arange(len(nodes)), begin, end, 30)
    for moment in range(30):
        is_open = [(int(end[i]), int(begin[i]), i) for i in range(len(nodes)) if begin[i] <= moment < end[i]]
        assert found[moment] == (min(is_open)[2] if is_open else NO_NODE)
