"""The critical path: a chain without gaps whose nodes determine the end, on random runs and on small ones by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.generated import small_model, write_network
from helpers.lint_runs import coll, comp
from helpers.runs import EVERY_BLOCK, ONE_DIMENSION, SEVERAL_DIMENSIONS, Dimensions, ending_runs, make_run

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.critical_path import critical_path, summarize_path
from astra_tacos.run.recording import record_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

BACKENDS: dict[str, tuple[Dimensions, ...]] = {
    "congestion-unaware": ONE_DIMENSION + SEVERAL_DIMENSIONS,
    "congestion-aware": ONE_DIMENSION + EVERY_BLOCK,
}


def path_of(run, outcome):
    return critical_path(record_run(run, outcome).after)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_path_has_no_gaps(backend, tmp_path):
    for run in ending_runs(tmp_path, BACKENDS[backend], backend, 60):
        outcome = replay_run(run, backend)
        recording = record_run(run, outcome)
        path = critical_path(recording.after)
        assert path.took_ns.sum() == outcome.end_ns
        assert (path.took_ns > 0).all()
        assert np.array_equal(path.start_ns, np.concatenate(([0], path.end_ns[:-1])))
        assert np.array_equal(path.end_ns, outcome.node_finish_ns[path.node])
        assert np.array_equal(path.start_ns, outcome.node_issue_ns[path.origin])
        compute = run.workload.kind[path.node] == NodeType.COMP
        assert np.array_equal(path.node[compute], path.origin[compute])
        summary = summarize_path(recording, recording.after)
        assert sum(one.spent_ns for one in summary.shares) == summary.end_ns == outcome.end_ns
        assert sum(one.count for one in summary.shares) == summary.stretches == len(path.node)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_longer_node_of_the_path_ends_the_run_later(backend, tmp_path):
    """For each computation on the path of training steps, and by all that was added.

    Under congestion this holds where one group has all ranks: else a delay may change who comes first to a link, and even end
    the run earlier, as in Graham's anomalies of list scheduling.
    """
    every = (Parallelism(dp=4), Parallelism(dp=2, tp=2), Parallelism(dp=2, pp=2), Parallelism(tp=2, pp=2))
    for number, parallelism in enumerate(every if backend == "congestion-unaware" else every[:1]):
        folder = tmp_path / str(number)
        folder.mkdir()
        network = write_network(folder / "n.yml", "Ring 4", bandwidth=5)
        step = Step(small_model(hidden=256, ffn=1024, layers=2), parallelism, micro_batches=2, batch=4)
        device = Device(peak_tflops=20, writes_durations=True)
        made = generate(step, folder / "run", device, network)
        prefix = made.path / "workload/w"
        run = read_run(RunInputs(prefix, made.path / "system.json", network, made.comm_group, made.path / "remote_memory.json"))
        outcome = replay_run(run, backend)
        path = path_of(run, outcome)
        computes = np.flatnonzero(run.workload.kind[path.node] == NodeType.COMP)
        assert len(computes) > 5
        for node, took_ns in zip(path.node[computes].tolist(), path.took_ns[computes].tolist(), strict=True):
            duration_us = run.workload.duration_us.copy()
            duration_us[node] += 1
            longer = replace(run, workload=replace(run.workload, duration_us=duration_us))
            more_ns = 1000 * int(duration_us[node]) - took_ns  # a node of 0 us takes 1 ns
            assert replay_run(longer, backend).end_ns == outcome.end_ns + more_ns


def test_a_collective_counts_from_its_last_member(tmp_path):
    ranks = [[comp(0, us=us), coll(1, [0], size=3000), comp(2, [1], us=1)] for us in (2, 9, 4)]
    run = make_run(tmp_path, ranks)
    outcome = replay_run(run)
    path = path_of(run, outcome)
    last = path.node[-2:]
    assert path.node[0] == path.origin[0] == 3  # rank 1 computes longest
    assert path.origin[1] == 4
    assert path.start_ns.tolist()[:2] == [0, 9000]
    assert run.workload.kind[last].tolist() == [NodeType.COMM_COLL, NodeType.COMP]


def test_a_message_in_a_queue_counts_from_what_it_queued_behind(tmp_path):
    """Rank 0's long message holds the only link to rank 1, on which one of rank 3, sent later, comes by."""
    ring = ("Ring", 4, 1.0, 10.0)
    ranks = "send 0 1 size=1<<24 | recv 0 0 size=1<<24; recv 1 3 tag=7 | comp 0 | comp 0 us=5; send 1 1 [0] tag=7"
    run = make_run(tmp_path, ranks, ring)
    outcome = replay_run(run, "congestion-aware")
    path = path_of(run, outcome)
    assert path.took_ns.tolist() == [outcome.end_ns]
    assert run.workload.rank[path.node[0]] in (1, 3)
    assert path.origin[0] == 0


def test_a_damaged_recording_is_no_chain(tmp_path):
    run = make_run(tmp_path, "comp 0 us=1; comp 1 [0] us=2 | comp 0 us=1")
    replay = record_run(run, replay_run(run)).after
    for cause in ([1, 0, -1], [-1, -1, -1], [-1, 1, -1]):
        with pytest.raises(ValueError, match="issued by"):
            critical_path(replace(replay, cause=np.array(cause, np.int32)))
