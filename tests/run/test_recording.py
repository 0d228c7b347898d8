"""Recordings of replays: what was seen comes back, the same bytes each time, and files that are none are refused."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from helpers.runs import ONE_DIMENSION, SEVERAL_DIMENSIONS, ending_runs, load_run, make_run

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.recording import FORMAT, KINDS, load_recording, record_run, save_recording
from astra_tacos.support.errors import ConfigError

AWARE, UNAWARE = "congestion-aware", "congestion-unaware"


def equal(one, other):
    if is_dataclass(one):
        return all(equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    return bool(one == other)


def small_run(folder):
    ranks = """comp 0 us=3; coll 1 [0] size=4096 group=1; send 2 2 [1]; comp 3 [0] us=1 is_cpu_op=True |
        comp 0 us=2; coll 1 [0] size=4096 group=1 |
        recv 7 0; coll 9 [7] size=1024 group=2 |
        coll 9 size=1024 group=2"""
    return make_run(folder, ranks, groups="{'1': [0, 1], '2': [2, 3]}")


def recorded(folder, backend=AWARE):
    run = small_run(folder)
    outcome = replay_run(run, backend, route_loads=True)
    return run, outcome, record_run(run, outcome)


@pytest.mark.parametrize("backend", [AWARE, UNAWARE])
def test_what_was_seen_comes_back(tmp_path, backend):
    run, outcome, recording = recorded(tmp_path, backend)
    save_recording(recording, tmp_path / "replay.npz")
    back = load_recording(tmp_path / "replay.npz")
    assert equal(back, recording)
    assert back.before is None
    assert back.after.finish_ns.tolist() == outcome.finish_ns.tolist()
    assert back.after.exposed_comm_ns.tolist() == outcome.exposed_comm_ns.tolist()
    assert back.after.end_ns.tolist() == outcome.node_finish_ns.tolist()
    assert back.after.run_end_ns == outcome.end_ns
    kinds = [KINDS[kind] for kind in back.nodes.kind.tolist()]
    assert kinds == [
        *("compute", "collective", "send", "other"),
        *("compute", "collective"),
        *("receive", "collective"),
        "collective",
    ]
    assert back.nodes.size_bytes.tolist() == [-1, 4096, 4096, -1, -1, 4096, 4096, 1024, 1024]
    assert [back.texts[name] for name in back.nodes.name.tolist()] == ["n0", "n1", "n2", "n3", "n0", "n1", "n7", "n9", "n9"]
    assert [back.texts[group] if group >= 0 else None for group in back.nodes.group.tolist()] == [
        *(None, "1", None, None),
        *(None, "1"),
        *(None, "2"),
        "2",
    ]
    algorithms = {back.texts[number] for number in back.after.algorithm.tolist() if number >= 0}
    assert algorithms == {name for name in outcome.collective_names if name.startswith("native")}
    assert back.after.links_are_routed is (backend == UNAWARE)
    assert int(back.after.link_bytes.sum()) == int(outcome.sent_bytes.sum())  # all are neighbours
    assert run.workload.node_id.tolist() == back.nodes.node_id.tolist()


def test_the_same_recording_has_the_same_bytes(tmp_path):
    for number in range(2):
        _, _, recording = recorded(tmp_path / str(number))
        save_recording(recording, tmp_path / f"{number}.npz")
    assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()


@pytest.mark.parametrize("backend", [AWARE, UNAWARE])
def test_random_runs_come_back(tmp_path, backend):
    for run in ending_runs(tmp_path, ONE_DIMENSION + SEVERAL_DIMENSIONS, backend, 12):
        recording = record_run(run, replay_run(run, backend, route_loads=True))
        save_recording(recording, tmp_path / "replay.npz")
        assert equal(load_recording(tmp_path / "replay.npz"), recording)


@pytest.mark.golden_cases("e2e_*")
def test_recorded_runs(golden, golden_case):
    expected = json.loads((golden / golden_case / "expected.json").read_text())
    run = load_run(golden / golden_case)
    recording = record_run(run, replay_run(run, expected["backend"].replace("_", "-"), route_loads=True))
    assert recording.after.finish_ns.tolist() == expected["finish_ns"]
    assert recording.after.exposed_comm_ns.tolist() == expected["exposed_comm_ns"]


def damaged(path, **changes):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez_compressed(path, **(arrays | changes))


def test_what_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "replay.npz"
    with pytest.raises(ConfigError, match=r"replay\.npz: cannot be read"):
        load_recording(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="not a recorded replay of astra_tacos"):
        load_recording(path)
    _, _, recording = recorded(tmp_path)

    def refused(match, **changes):
        save_recording(recording, path)
        damaged(path, **changes)
        with pytest.raises(ConfigError, match=match):
            load_recording(path)

    header = np.frombuffer(json.dumps({"format": "astra_tacos replay 0"}).encode(), np.uint8)
    refused(f"format is 'astra_tacos replay 0', expected '{FORMAT}'", header=header)
    refused("values of finish_ns, expected 4", after_finish_ns=recording.after.finish_ns[1:])
    refused("values of end_ns, expected 9", after_end_ns=recording.after.end_ns[1:])
    refused("values of link_bytes, expected 12", after_link_bytes=recording.after.link_bytes[1:])
    refused("nodes do not follow", nodes_rank_first=recording.nodes.rank_first[::-1])
    refused("differ in length", nodes_kind=recording.nodes.kind[1:])
    refused("unknown kind", nodes_kind=recording.nodes.kind + np.uint8(200))
    refused("a text is missing", nodes_name=recording.nodes.name + np.int32(1000))
    refused("expected a column of int64", after_issue_ns=recording.after.issue_ns.astype(np.float64))
    save_recording(recording, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="not a recorded replay"):
        load_recording(path)


def test_classes_come_back_with_the_ranks_that_they_stand_for(tmp_path):
    nodes = replace(recorded(tmp_path)[2].nodes, owners=(0, 5, 9, 12), num_alike=4)
    recording = replace(recorded(tmp_path)[2], nodes=nodes, num_npus=16)
    save_recording(recording, tmp_path / "replay.npz")
    assert equal(load_recording(tmp_path / "replay.npz"), recording)
    assert nodes.title == "16 ranks of 4 classes" and nodes.owner.tolist() == np.array(nodes.owners)[nodes.rank].tolist()
    save_recording(replace(recording, nodes=replace(nodes, owners=(0, 5))), tmp_path / "replay.npz")
    with pytest.raises(ConfigError, match="which ranks its classes stand for"):
        load_recording(tmp_path / "replay.npz")
