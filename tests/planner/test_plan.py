"""Small workloads, planned: what changes, what stays, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from helpers.command import read_json
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import QUICK, attributes, contents, lint_plan, messages, planned, put_on_links, quickly_planned, written

from astra_tacos import (
    CommType,
    ConfigError,
    PlanRequest,
    SearchOptions,
    load_schedule,
    read_run,
    replay_run,
)
from astra_tacos.planner.plan import plan
from astra_tacos.planner.request import PLAN_OPTIONS
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import DEFAULT_FACTOR, find_workload, limit_messages, native_messages
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.recording import load_recording
from astra_tacos.run.run import NATIVE


def of_two_sizes(rank):
    """Two sizes of All-Reduce in one of two groups; ranks number their nodes differently."""
    first, group = 1 - rank % 2, 1 + rank // 2
    reduced = [coll(first + 1, [first], size=1 << 20, group=group), coll(first + 2, [first + 1], size=1 << 16, group=group)]
    return [comp(first, us=3), *reduced, coll(first + 3, [first + 2], CommType.ALL_GATHER, size=1 << 15)]


TWO_SIZES = RunFiles([of_two_sizes(rank) for rank in range(4)], groups={"1": [0, 1], "2": [2, 3]}, topology=("Ring",))


def test_two_sizes_in_one_group(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)
    result, after = planned(inputs, tmp_path / "plan")
    assert result.time_ns < result.before_ns
    assert lint_plan(after).findings == ()
    nodes = messages(after)
    names = [attributes(node).get("pg_name") for node in nodes[0]]
    assert names == [None, "1", "3", None]
    assert [attributes(node).get("pg_name") for node in nodes[3]] == [None, "2", "4", None]
    # Every id is one trace's, that of the node's size and group, whatever the rank; ranks of one trace share it.
    per_node = dict(line.split(": ") for line in (tmp_path / "plan" / "per_node.yml").read_text().splitlines())
    assert len(per_node) == 3
    for node in [node for rank in nodes for node in rank[1:]]:
        members = 2 if attributes(node).get("pg_name") else 4
        assert f"_{attributes(node)['comm_size']}B_of_{members}_" in per_node[str(node.id)]


def test_a_plan_of_a_plan_changes_nothing(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)
    first, after = quickly_planned(inputs, tmp_path / "plan")
    second, _ = quickly_planned(after, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")
    assert second.before_ns == first.time_ns == second.time_ns
    one, other = (load_recording(tmp_path / name / "replay.npz") for name in ("plan", "again"))
    for column in ("finish_ns", "issue_ns", "end_ns", "link_bytes"):
        assert len({tuple(getattr(replay, column)) for replay in (one.after, other.before, other.after)}) == 1


def test_the_recording_has_the_runs_before_and_after(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)
    result, after = quickly_planned(inputs, tmp_path / "plan", baseline="ring")
    recording = load_recording(tmp_path / "plan" / "replay.npz")
    assert (recording.before.run_end_ns, recording.after.run_end_ns) == (result.before_ns, result.time_ns)
    exposed = [int(replay.exposed_comm_ns.max()) for replay in (recording.before, recording.after)]
    assert exposed == [result.exposed_before_ns, result.exposed_ns]
    outcome = replay_run(read_run(after), result.clock)
    assert recording.after.finish_ns.tolist() == outcome.finish_ns.tolist()
    names = [
        {recording.texts[entry] for entry in replay.algorithm.tolist() if entry >= 0}
        for replay in (recording.before, recording.after)
    ]
    assert all(name.startswith("native ") for name in names[0])
    assert names[1] == {f"collective/{case.name}" for case in result.cases}


@pytest.mark.parametrize("pattern", [CommType.ALL_REDUCE, CommType.ALL_TO_ALL])
def test_a_case_that_fits_no_link_stays_and_the_others_are_planned(tmp_path, pattern):
    """Without congestion a chunk of 6 B would hold a link of 0 ns for less than 1 ns: no search finds a schedule."""
    ranks = [[coll(3, comm_type=pattern, size=48), coll(7, [3], size=1 << 16)] for _ in range(8)]
    files = RunFiles(ranks=ranks, topology=("FullyConnected", "Switch"), npus=(2, 4), latency=0)
    result, after = planned(written(tmp_path, files), tmp_path / "plan", backend="congestion-unaware")
    large, small = sorted(result.cases, key=lambda case: -case.size_bytes)
    assert small.algorithm == "native" and "holds a link" not in large.reason
    assert "of 6 B holds a link of network for less than 1 ns" in small.reason
    assert (small.first_group, small.first_node) == (tuple(range(8)), (0, 3))
    assert result.time_ns <= result.before_ns
    assert not lint_plan(after).errors


def test_messages_of_less_than_a_nanosecond_are_planned(tmp_path):
    """ASTRA-sim's queues would stop at 16 bytes on a link at time 0: they are sent as what takes 1 ns."""
    groups = {"1": [0, 2, 4, 6], "2": [1, 3, 5, 7]}
    ranks = [[coll(0, size=16, group=1 + rank % 2), coll(1, [0], size=1 << 16)] for rank in range(8)]
    result, after = planned(written(tmp_path, RunFiles(ranks=ranks, groups=groups, topology=("Ring",))), tmp_path / "plan")
    assert all(case.algorithm != "native" for case in result.cases)
    assert result.time_ns < result.before_ns
    assert not lint_plan(after).errors


def test_the_same_bytes_for_any_number_of_threads_and_from_the_cache(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)
    outputs = [tmp_path / f"plan{number}" for number in range(3)]
    planned(inputs, outputs[0], options=replace(PLAN_OPTIONS, threads=1))
    planned(inputs, outputs[1], options=replace(PLAN_OPTIONS, threads=3), cache=tmp_path / "cache")
    result, _ = planned(inputs, outputs[2], options=replace(PLAN_OPTIONS, threads=2), cache=tmp_path / "cache")
    assert all(case.from_cache for case in result.cases)
    everything = ("plan.json", "replay.npz", "workload", "collective", "comm_group.json", "per_node.yml", "system.json")
    assert contents(outputs[0], everything) == contents(outputs[1], everything) == contents(outputs[2], everything)


def test_an_interrupted_plan_goes_on_from_the_cache(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)

    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan(PlanRequest(inputs, options=QUICK, cache=tmp_path / "cache"), tmp_path / "plan", on_progress=interrupt)
    assert not (tmp_path / "plan").exists()
    assert not list(tmp_path.glob(".plan*"))
    result, _ = quickly_planned(inputs, tmp_path / "plan", cache=tmp_path / "cache")
    assert sum(case.from_cache for case in result.cases) >= 2


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A plan, and the cache that it filled."""
    folder = tmp_path_factory.mktemp("sound")
    quickly_planned(written(folder, TWO_SIZES), folder / "plan", cache=folder / "cache")
    return folder


def cut_off(path):
    path.write_bytes(path.read_bytes()[:100])


def nest_deeply(path):
    path.with_suffix(".json").write_text("[" * 100_000, encoding="utf-8")


def flip_a_figure(path):
    about = path.with_suffix(".json")
    text = about.read_text(encoding="utf-8")
    about.write_text(text.replace('"is_exact": true', '"is_exact": "yes"'), encoding="utf-8")


def send_too_early(path):
    """A sound file, under a sound checksum, of a schedule that the oracle refuses."""
    schedule = load_schedule(path)
    early = np.maximum(schedule.start_ns - 1, 0)
    keep_as_it_is(path, replace(schedule, start_ns=early))


def keep_another_size(path):
    """The same, of a schedule that is legal, but of another collective."""
    schedule = load_schedule(path)
    other = replace(schedule.collective, size_bytes=schedule.collective.size_bytes + 1)
    keep_as_it_is(path, replace(schedule, collective=other))


def keep_as_it_is(path, schedule):
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    cache = SynthesisCache(path.parent.parent)
    cache.keep(about["identity"], schedule, about["figures"])


@pytest.mark.parametrize("damage", [cut_off, nest_deeply, flip_a_figure, send_too_early, keep_another_size])
def test_a_damaged_cache_is_no_cache(sound, tmp_path, damage, caplog):
    inputs = written(tmp_path, TWO_SIZES)
    shutil.copytree(sound / "cache", tmp_path / "cache")
    kept = sorted((tmp_path / "cache").rglob("*.npz"))
    before = {path: (path.read_bytes(), path.with_suffix(".json").read_bytes()) for path in kept}
    for path in kept:
        damage(path)
    # Entries of joint schedules lack some figures.
    kept = [path for path in kept if (path.read_bytes(), path.with_suffix(".json").read_bytes()) != before[path]]
    assert not caplog.messages
    result, _ = quickly_planned(inputs, tmp_path / "again", cache=tmp_path / "cache")
    assert not any(case.from_cache for case in result.cases)
    assert contents(tmp_path / "again") == contents(sound / "plan")
    assert len(caplog.messages) == len(kept)
    for path in kept:
        (message,) = [message for message in caplog.messages if path.stem in message]
        assert "\n" not in message and message.endswith("; the entry counts as missing and is computed again")
        assert (path.read_bytes(), path.with_suffix(".json").read_bytes()) == before[path]


def test_a_pipe_in_the_cache_is_not_written_to(tmp_path, caplog):
    """It would wait for a reader for ever; here is one."""
    inputs = written(tmp_path, TWO_SIZES)
    quickly_planned(inputs, tmp_path / "plan", cache=tmp_path / "cache")
    pipe = next((tmp_path / "cache").rglob("*.npz"))
    pipe.unlink()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        quickly_planned(inputs, tmp_path / "again", cache=tmp_path / "cache")
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
    assert [message for message in caplog.messages if "is a pipe, expected" in message] == caplog.messages != []
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")


def test_a_network_of_listed_links_takes_its_table_along(tmp_path):
    links = {pair: 25 * (1 + (pair[0] ^ pair[1])) for pair in permutations(range(4), 2)}
    inputs = put_on_links(written(tmp_path, TWO_SIZES), links)
    result, after = quickly_planned(inputs, tmp_path / "plan", baseline="ring")
    assert result.clock is CONGESTION_AWARE
    assert (tmp_path / "plan" / "links.csv").read_bytes() == (tmp_path / "links.csv").read_bytes()
    quickly_planned(after, tmp_path / "again")
    quickly_planned(inputs, tmp_path / "plan")


def test_a_network_that_names_an_ns3_topology_takes_it_along(tmp_path):
    inputs = written(tmp_path, TWO_SIZES)
    links = "".join(f"{npu} 4 400Gbps 0.0005ms 0\n" for npu in range(4))
    inputs.network.with_name("t.txt").write_text(f"5 1 4\n4\n{links}")
    inputs.network.write_text("topology: [ Custom ]\ntopology_file: t.txt\n")
    _, after = quickly_planned(inputs, tmp_path / "plan", baseline="ring")
    assert (tmp_path / "plan" / "t.txt").read_bytes() == (tmp_path / "t.txt").read_bytes()
    assert not (tmp_path / "plan" / "run_astra_sim.sh").exists()
    quickly_planned(after, tmp_path / "again")
    quickly_planned(inputs, tmp_path / "plan")


def test_ranks_that_would_deadlock_get_one_order(tmp_path):
    """Rank 0 would begin with group 1, rank 1 with group 2, as nothing but ids orders them."""
    groups = {"1": [0, 1], "2": [0, 1]}
    ranks = [
        [coll(0, size=1 << 16, group=1), coll(1, size=1 << 16, group=2)],
        [coll(0, size=1 << 16, group=2), coll(1, size=1 << 16, group=1)],
    ]
    inputs = written(tmp_path, RunFiles(ranks=ranks, groups=groups))
    result, after = quickly_planned(inputs, tmp_path / "plan")
    assert result.before_ns is None
    assert "deadlock" in result.before_reason
    assert lint_plan(after).findings == ()


def test_what_is_not_ours_comes_out_as_it_went_in(tmp_path):
    """Unknown fields and attributes, attributes without a value, points on the way: sends and receives with tags."""
    ranks = []
    for rank in range(4):
        nodes = [comp(3, us=2, colour="blue", nothing=None), coll(4, [3], size=1 << 16, shade="dark")]
        if rank == 0:
            nodes.append(send(5, 1, [4], tag=9))
        if rank == 1:
            nodes.append(recv(5, 0, [4], tag=9))
        for node in nodes:
            node.MergeFromString(b"\xf2\x3f\x03abc")  # field 1022, which the schema does not have
        ranks.append(nodes)
    inputs = written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",)))
    (tmp_path / "system.json").write_text((tmp_path / "system.json").read_text()[:-1] + ', "colour": "green"}')
    _, after = quickly_planned(inputs, tmp_path / "plan")
    for rank in range(4):
        assert Path(f"{after.workload}.{rank}.et").read_bytes() == Path(f"{inputs.workload}.{rank}.et").read_bytes()
    assert '"colour": "green"' in after.system.read_text()
    assert after.network.read_bytes() == inputs.network.read_bytes()


def test_a_group_of_one_does_nothing(tmp_path):
    """ASTRA-sim's native collectives stall in one."""
    groups = {"1": [0], "2": [1]}
    ranks = [[coll(0, size=4096, group=rank + 1), coll(1, [0], size=1 << 16)] for rank in range(2)]
    result, after = quickly_planned(written(tmp_path, RunFiles(ranks=ranks, groups=groups)), tmp_path / "plan")
    assert result.before_ns is None
    assert [case.members for case in result.cases] == [2]
    assert lint_plan(after).findings == ()
    assert contents(tmp_path / "plan") == contents(quickly_planned(after, tmp_path / "again")[1].directory)


def test_outputs_that_would_destroy_something_are_refused(tmp_path):
    inputs = written(tmp_path / "run", TWO_SIZES)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    for output in (tmp_path / "full", tmp_path / "run"):
        with pytest.raises(ConfigError, match="choose another output"):
            plan(PlanRequest(inputs), output)
    _, after = quickly_planned(inputs, tmp_path / "plan")
    with pytest.raises(ConfigError, match="is inside, which would be replaced"):
        plan(PlanRequest(after), tmp_path / "plan")
    quickly_planned(inputs, tmp_path / "plan")


@pytest.mark.parametrize(("low", "sizes"), [(11, (1 << 20, 1 << 20)), (45, (1 << 20, 1 << 16))])
def test_ids_that_are_the_same_in_32_bits(tmp_path, low, sizes):
    """ASTRA-sim looks for traces by the lower 32 bits of ids: a native collective must not find another one's.

    Not one whose id stays, 11, nor one that gets a new id, past the largest: 45.
    """
    long = (1 << 32) + low
    ranks = [
        [coll(11, size=sizes[rank // 4], group=1 + rank // 4), coll(long, [11], CommType.ALL_TO_ALL), comp(44, [long])]
        for rank in range(8)
    ]
    inputs = written(tmp_path, RunFiles(ranks=ranks, groups={"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}, topology=("Ring",)))
    options = SearchOptions("tacos", trials=1)
    result, after = quickly_planned(inputs, tmp_path / "plan", options=options)
    run = read_run(after)
    native = [node.id for nodes in messages(after) for node in nodes if attributes(node).get("comm_type") == CommType.ALL_TO_ALL]
    assert native == [long] * 8
    named = dict(zip(run.workload.node_id.tolist(), run.implementation.tolist(), strict=True))
    assert named[long] == NATIVE
    assert sum(entry != NATIVE for entry in named.values()) == (1 if result.joint else len(set(sizes)))
    quickly_planned(after, tmp_path / "again", options=options)
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")


RING = {ends[::way]: 50 for ends in ((0, 1), (1, 2), (2, 3), (3, 0)) for way in (1, -1)}


def test_a_backend_without_routes_is_refused_before_anything_is_synthesized(tmp_path, monkeypatch):
    inputs = put_on_links(written(tmp_path, RunFiles([[coll(0)]] * 4)), RING)
    monkeypatch.setattr("astra_tacos.planner.rank_planning.solve_case", lambda *_: pytest.fail("synthesized in vain"))
    with pytest.raises(ConfigError, match=r"network.yml: astra_tacos.links is beyond the congestion-unaware backend") as caught:
        plan(PlanRequest(inputs, backend="congestion-unaware"), tmp_path / "plan")
    assert str(caught.value).startswith(str(tmp_path))
    assert not (tmp_path / "plan").exists()


def test_fewer_bytes_than_ranks_stay_as_they_are_and_the_rest_is_planned(tmp_path):
    rank = [coll(0, size=4096), coll(1, [0], CommType.REDUCE_SCATTER, size=7)]
    result, after = quickly_planned(written(tmp_path, RunFiles([rank] * 8)), tmp_path / "plan")
    small = next(case for case in result.cases if case.collective == "reduce-scatter")
    assert (small.algorithm, small.first_group, small.first_node) == ("native", tuple(range(8)), (0, 1))
    assert small.reason == "reduce-scatter of 7 bytes in a group of 8: less than a byte per chunk, expected more"
    assert replay_run(read_run(after)).end_ns == result.time_ns


BOTH = {"1": [0, 1], "2": [0, 1]}
TWICE = [coll(1), coll(2, [1])]
REFUSED = {
    r"position 1: rank 0, node 2 .*4,096.*, but rank 1, node 8 .*8,192": RunFiles([TWICE, [coll(7), coll(8, [7], size=8192)]]),
    r"position 1: rank 0, node 2 \(.*\), but no node on rank 1": RunFiles([TWICE, [coll(7)]]),
    "rank 0, node 0: its root is rank 4, expected a rank of its group": RunFiles([[coll(0, (), CommType.REDUCE, root=4)]] * 4),
    "deadlock: ranks order their collectives differently: the ALL_REDUCE of rank 0, node": RunFiles(
        [[coll(0, group=first), coll(1, [0], group=3 - first)] for first in (1, 2)], groups=BOTH
    ),
    "network.yml: the ranks of the group 0, 2 cannot reach one another without other": RunFiles(
        [[coll(0, group=1 + rank % 2)] for rank in range(4)], groups={"1": [0, 2], "2": [1, 3]}, topology=("Ring",)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_runs_that_cannot_be_planned_are_refused(tmp_path, message):
    files = REFUSED[message]
    inputs = written(tmp_path, files)
    if files.topology == ("Ring",):
        put_on_links(inputs, RING)
    with pytest.raises(ConfigError, match=message):
        plan(PlanRequest(inputs), tmp_path / "plan")
    assert not (tmp_path / "plan").exists()


REDUCES = RunFiles(ranks=[[comp(0, us=1), coll(1, [0], size=1 << 20), coll(2, [1], size=1 << 14)] for _ in range(4)], npus=(4,))


def test_native_messages_are_those_of_the_replay(tmp_path):
    inputs = written(tmp_path, REDUCES)
    workload = find_workload(read_run(inputs))
    assert native_messages(workload).tolist() == [24, 24]
    assert replay_run(workload.run).num_messages == 48  # the system's ring


def test_messages_between_ranks_count(tmp_path):
    ranks = [[send(0, 1), coll(1, [0])], [recv(0, 0), coll(1, [0])], [coll(1)], [coll(1)]]
    run = read_run(written(tmp_path, RunFiles(ranks=ranks, npus=(4,))))
    assert replay_run(run).num_messages == 24 + 1


@pytest.mark.parametrize("most", [48, 200, None])
def test_a_plan_keeps_to_the_limit_and_says_how_many_there_are(tmp_path, most):
    result, after = planned(written(tmp_path, REDUCES), tmp_path / "plan", options=QUICK, most_messages=most)
    limit = most or 48 * DEFAULT_FACTOR
    figures = read_json(tmp_path / "plan" / "plan.json")
    assert (figures["max_messages"], figures["messages_before"]) == (limit, 48)
    assert figures["messages_after"] == result.messages.after == replay_run(read_run(after)).num_messages <= limit


def test_every_collective_may_take_as_many_as_a_native_one(tmp_path):
    workload, limit = limit_messages(find_workload(read_run(written(tmp_path, REDUCES))), 1)
    assert limit == 1
    assert [case.most_messages for case in workload.cases] == [24, 24]
