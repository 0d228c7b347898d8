"""Placements of ranks: the matrices of P2, the model that scores them, and the runs that are written."""

from __future__ import annotations

import json
import shutil
from itertools import permutations

import numpy as np
import pytest
from helpers.command import read_json
from helpers.command import run as command
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import QUICK, attributes, lint_plan, messages, options_of, quickly_planned, written
from helpers.trace_bytes import encode_messages

from astra_tacos import CommType, ConfigError, Dimension, PlanRequest, ReplayError, read_run, replay_run
from astra_tacos.planner import plan as plan_room
from astra_tacos.planner.move import Plans
from astra_tacos.planner.permuted_run import permuted
from astra_tacos.planner.place import Demand, PlacementCost, exchange, find_placements, place
from astra_tacos.planner.plan import plan
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.placement_matrix import Axis, find_axes, npu_of_rank, placements, read_axes
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.solver.planned_verdict import verify_planned

IN_P2 = """
4x16 8x8 3
4x16 4x16 3
4x16 16x4 3
4x16 2x32 2
4x16 2x2x16 4
4x16 8x2x4 5
4x8 8x4 3
4x8 4x2x4 5
1x2x2x4 4x4 4
2x4x8 8x8 6
2x4x8 2x32 3
2x4x8 4x4x4 15
2x16 8x4 2
2x16 2x4x4 3
"""
"""Levels of a network, axes, and how many placements there are."""


@pytest.mark.parametrize("case", IN_P2.strip().splitlines())
def test_as_many_placements_as_in_p2(case):
    levels, axes, (count,) = (tuple(map(int, part.split("x"))) for part in case.split())
    found = placements(levels, axes)
    assert len(found) == len(set(found)) == count
    for matrix in found:
        assert tuple(np.prod(matrix, axis=1)) == axes
        assert tuple(np.prod(matrix, axis=0)) == levels
        strides = np.cumprod((1, *axes[:-1])).tolist()
        named = [Axis(str(at), size, stride) for at, (size, stride) in enumerate(zip(axes, strides, strict=True))]
        assert sorted(npu_of_rank(matrix, named).tolist()) == list(range(int(np.prod(levels))))


@pytest.mark.parametrize(("row", "local", "outer"), [((1, 4), 1.5, 0), ((2, 2), 1.0, 8), ((4, 1), 0, 24)])
def test_the_time_of_an_all_reduce_is_that_of_the_formula(row, local, outer):
    """On 4 nodes of 16 NPUs that share a NIC, an axis of 4: S (local / B_l + outer / B_n)."""
    size, fast, shared = 1 << 30, 280.0, 10.0
    cost = PlacementCost([Dimension("Switch", 16, fast, 0), Dimension("Switch", 4, shared / 16, 0)], [])
    across, within = row
    npus = [node * 16 + member for node in range(across) for member in range(within)]
    expected_s = local / fast + outer / shared
    assert cost.time_ns("all-reduce", size, npus) == pytest.approx(expected_s * 1e9)


def test_axes_are_found_in_groups():
    assert find_axes(8, [[0, 1], [4, 5], [0, 2, 4, 6]]) == (Axis("axis1", 2, 1), Axis("axis2", 4, 2))
    assert find_axes(16, [[0, 1, 4, 5]]) == tuple(Axis(f"axis{at + 1}", 2, 1 << at) for at in range(4))
    assert find_axes(8, [[0, 1, 3]]) is None
    assert find_axes(8, [[0, 3]]) is None
    assert read_axes("tp=2,dp=4") == (Axis("tp", 2, 1), Axis("dp", 4, 2))
    for text in ("tp", "tp=x", "tp=2,tp=4", "tp=0", ""):
        with pytest.raises(ConfigError, match="expected names and sizes"):
            read_axes(text)


def test_no_permutation_of_8_beats_the_best_matrix():
    """Symmetric levels: the best of all placements is one of the matrices', and the search by exchanges finds it."""
    pairs = [Demand("all-reduce", 1 << 24, (first, first + 4), 1) for first in range(4)]
    fours = [Demand("all-gather", 1 << 18, tuple(range(first, first + 4)), 2) for first in (0, 4)]
    cost = PlacementCost([Dimension("FullyConnected", 2, 100.0, 100), Dimension("Switch", 4, 10.0, 500)], [*pairs, *fours])
    axes = find_axes(8, [demand.ranks for demand in cost.demands])
    by_matrix = min(cost.score_ns(npu_of_rank(matrix, axes)) for matrix in placements((4, 2), [axis.size for axis in axes]))
    rows = np.array(list(permutations(range(8))))
    rows = rows[rows[:, 0] == 0]  # NPUs are alike
    assert min(cost.score_ns(row) for row in rows) == pytest.approx(by_matrix)
    assert cost.score_ns(exchange(cost, 8, 4, 0)[0]) == pytest.approx(by_matrix)


def of_rank(rank):
    """Much in groups of ranks 4 apart, which are on different switches, and a broadcast and a message."""
    other = [send(3, 5, [2], size=1 << 10)] if rank == 1 else [recv(3, 1, [2], size=1 << 10)] if rank == 5 else []
    own = [coll(1, [0], size=1 << 22, group=rank % 4 + 1), coll(2, [1], CommType.BROADCAST, 1 << 10, 5 + rank // 4)]
    return [comp(0, us=2), *own, *other]


GROUPS = {str(first + 1): [first, first + 4] for first in range(4)} | {"5": [0, 1, 2, 3], "6": [4, 5, 6, 7]}
TWO = RunFiles(ranks=[of_rank(rank) for rank in range(8)], groups=GROUPS, topology=("FullyConnected", "Switch"), npus=(4, 2))


@pytest.fixture
def two(tmp_path):
    inputs = written(tmp_path, TWO)
    inputs.network.write_text(inputs.network.read_text().replace("[50, 50]", "[100, 5]"))
    return inputs


def test_groups_that_talk_much_come_together(two, tmp_path):
    result = place(two, tmp_path / "placed")
    assert (result.speed_up or 0) > 2
    after = planned_inputs(tmp_path / "placed", two)
    assert replay_run(read_run(after)).end_ns == result.best.end_ns
    assert lint_plan(after).errors == {}
    told = read_json(tmp_path / "placed" / "place.json")
    npu = told["npu_of_rank"]
    assert sorted(npu) == list(range(8))
    assert all(npu[first] // 4 == npu[first + 4] // 4 for first in range(4))
    assert told["before"]["end_ns"] == result.own.end_ns


def test_peers_groups_and_roots_follow_and_all_else_stays(two, tmp_path):
    npu = np.array([3, 1, 4, 0, 5, 2, 7, 6])
    (tmp_path / "placed").mkdir()
    permuted(find_workload(read_run(two)), npu).write(tmp_path / "placed", "w")
    after = planned_inputs(tmp_path / "placed", two)
    groups = read_json(after.groups) if after.groups else {}
    assert groups == {name: sorted(npu[ranks].tolist()) for name, ranks in GROUPS.items()}
    old, new = messages(two), messages(after)
    for rank in range(8):
        for one, other in zip(old[rank], new[npu[rank]], strict=True):
            before, now = attributes(one), attributes(other)
            for name in ("comm_src", "comm_dst"):
                if name in before:
                    assert now.pop(name) == npu[before.pop(name)]
            if now.get("comm_type") == CommType.BROADCAST:
                assert now.pop("root") == npu[0 if rank < 4 else 4]
            assert before == now
    assert replay_run(read_run(after)).compute_ns[npu].tolist() == replay_run(read_run(two)).compute_ns.tolist()


def test_groups_that_are_no_products_are_placed_by_exchanges(tmp_path):
    groups = {"1": [0, 3], "2": [1, 2]}
    ranks = [[coll(0, size=1 << 20, group=1 if rank in (0, 3) else 2)] for rank in range(4)]
    inputs = written(tmp_path, RunFiles(ranks=ranks, groups=groups, topology=("Ring", "Ring"), npus=(2, 2)))
    axes, tried = find_placements(find_workload(read_run(inputs)), None, 0)
    assert axes is None
    assert tried[0].matrix is None
    assert tried[0].score_ns <= min(each.score_ns for each in tried)


def test_the_command(two, tmp_path):
    arguments = ["plan", "--only-place", *options_of(two), "--output", "placed"]
    done = command(*arguments, "--axes", "tp=4,dp=2", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "placement" in done.stdout
    assert "dp 1x2" in done.stdout
    done = command(*arguments, "--axes", "tp=4,dp=4", cwd=tmp_path)
    assert done.returncode == 2 and "expected a product of 8" in done.stderr
    (tmp_path / "placed" / "mine.txt").write_text("")
    assert command(*arguments, cwd=tmp_path).returncode == 2
    assert (tmp_path / "placed" / "mine.txt").is_file()


def test_a_plan_of_the_placed_run_if_that_is_faster(two, tmp_path):
    own, _ = quickly_planned(two, tmp_path / "own")
    result = plan(PlanRequest(two, options=QUICK, place=True), tmp_path / "plan").result
    assert result.time_ns < own.time_ns
    assert any("ranks are placed as" in note for note in result.notes)
    told = read_json(tmp_path / "plan" / "place.json")
    groups = read_json(tmp_path / "plan" / "comm_group.json")
    assert groups["1"] == sorted(told["npu_of_rank"][rank] for rank in GROUPS["1"])
    assert tuple(told["npu_of_rank"]) == result.placement.npu_of_rank and not result.placement.kept_as_is
    assert (result.placement.before_ns, result.placement.as_is_planned_ns) == (own.before_ns, own.time_ns)
    assert result.before_ns == own.before_ns and (result.moved_ns, result.best_native_ns) == (None, None)
    assert result.placement.placed_planned_ns == result.time_ns
    planned = read_json(tmp_path / "plan" / "plan.json")
    assert planned["placement"] == json.loads(json.dumps(result.to_json()["placement"]))
    with pytest.raises(ConfigError, match="to be placed before it is planned"):
        plan(PlanRequest(planned_inputs(tmp_path / "plan", two), options=QUICK, place=True), tmp_path / "again")


def test_the_oracle_follows_a_placement(two, tmp_path):
    """Ranks, the ends of the message and the roots of the broadcasts are elsewhere; a map that is not the plan's is none."""
    plan(PlanRequest(two, options=QUICK, place=True), tmp_path / "plan")
    path = tmp_path / "plan" / "plan.json"
    told = read_json(path)
    npus = told["placement"]["npu_of_rank"]
    for named, code, message in ((npus, 0, ""), (npus[::-1], 1, ""), ([99, *npus[1:]], 2, "names each NPU once")):
        told["placement"]["npu_of_rank"] = named
        path.write_text(json.dumps(told))
        done = command("verify", "plan", "--before", str(two.workload), cwd=tmp_path)
        assert done.returncode == code and message in done.stderr, done.stdout


def edited(change):
    """A fault in the nodes of a rank."""

    def edit(path):
        head, nodes = read_messages(path)
        path.write_bytes(encode_messages(head, change(nodes) or nodes))

    return edit


def longer_wait(nodes):
    node = next(node for node in nodes if node.data_deps)
    del node.data_deps[:], node.ctrl_deps[:]


def other_size(nodes):
    entry = next(entry for node in nodes for entry in node.attr if entry.name == "comm_size")
    setattr(entry, entry.WhichOneof("value"), 1 << 15)


def other_turn(nodes):
    nodes[0].id, nodes[1].id = nodes[1].id, nodes[0].id


@pytest.mark.parametrize("of", ["only-place", "place"])
def test_faults_of_a_placed_run_are_found(two, tmp_path, of):
    """By the directory of the run before, whose groups are its own, and by the prefix of its traces."""
    folder = tmp_path / "before"
    shutil.copytree(two.workload.parent, folder / "workload")
    shutil.copyfile(two.groups, folder / "comm_group.json")
    if of == "place":
        plan(PlanRequest(two, options=QUICK, place=True), tmp_path / "plan")
    else:
        place(two, tmp_path / "plan")
    for before in (folder, two.workload):
        verdict = verify_planned(tmp_path / "plan", before)
        assert verdict.proven and verdict.rewriting is None
    path = sorted((tmp_path / "plan" / "workload").glob("*.et"))[0]
    whole = path.read_bytes()
    for change in (longer_wait, other_size, other_turn, lambda nodes: nodes[:-1]):
        edited(change)(path)
        assert verify_planned(tmp_path / "plan", folder).violations
        path.write_bytes(whole)
    groups = read_json(tmp_path / "plan" / "comm_group.json")
    named = next(name for node in read_messages(path)[1] if (name := attributes(node).get("pg_name", "0")) != "0")
    groups[named] = sorted({*range(8)} - {*groups[named]})[:1] + groups[named][1:]
    (tmp_path / "plan" / "comm_group.json").write_text(json.dumps(groups))
    assert verify_planned(tmp_path / "plan", folder).violations


def test_a_plan_that_keeps_the_run_as_it_was_says_so(two, tmp_path, monkeypatch):
    """Of the native runs the placed one ends first, of the plans that of the run as it is."""
    monkeypatch.setattr(plan_room, "keep_one", lambda as_is, moved, **_: Plans(as_is, moved, as_is))
    result = plan(PlanRequest(two, options=QUICK, place=True), tmp_path / "plan").result
    told = read_json(tmp_path / "plan" / "place.json")
    assert told["npu_of_rank"] == list(range(8))
    assert told["after"] == told["before"] and told["speed_up"] == 1
    assert told["before"]["end_ns"] == result.before_ns == result.placement.before_ns
    assert result.placement.kept_as_is and result.placement.name == "as it was"
    assert result.placement.placed_planned_ns < result.placement.as_is_planned_ns == result.time_ns
    assert read_json(tmp_path / "plan" / "comm_group.json")["1"] == GROUPS["1"]


def test_a_run_that_ends_in_no_placement_is_planned_where_it_is(tmp_path):
    """The order of native collectives deadlocks; the plan's does not. The note names the files of the user."""
    groups = {"1": [0, 1, 2, 3], "2": [0, 1, 2, 3]}
    orders = [(1, 2), (2, 1), (1, 2), (2, 1)]
    ranks = [[coll(0, size=1 << 16, group=first), coll(1, size=1 << 16, group=second)] for first, second in orders]
    inputs = written(tmp_path, RunFiles(ranks=ranks, groups=groups))
    with pytest.raises(ReplayError, match="deadlock") as error:
        place(inputs, tmp_path / "placed")
    assert str(error.value).startswith(str(inputs.workload))
    result = plan(PlanRequest(inputs, options=QUICK, place=True), tmp_path / "plan").result
    assert result.before_ns is None
    assert f"the run before does not end in any placement: {inputs.workload}: deadlock" in result.notes[0]
    assert replay_run(read_run(planned_inputs(tmp_path / "plan", inputs))).end_ns == result.time_ns
