"""How many messages a planned run may have, and has."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import QUICK, planned, read_json, written

from astra_tacos import read_run, replay_run
from astra_tacos.planner.workload import DEFAULT_FACTOR, find_workload, limit_messages, native_messages

RING = RunFiles(ranks=[[comp(0, us=1), coll(1, [0], size=1 << 20), coll(2, [1], size=1 << 14)] for _ in range(4)], npus=(4,))


def test_native_messages_are_those_of_the_replay(tmp_path: Path) -> None:
    inputs = written(tmp_path, RING)
    workload = find_workload(inputs)
    assert native_messages(workload).tolist() == [24, 24]
    assert replay_run(workload.run).num_messages == 48  # the system's ring


def test_messages_between_ranks_count(tmp_path: Path) -> None:
    ranks = [[send(0, 1), coll(1, [0])], [recv(0, 0), coll(1, [0])], [coll(1)], [coll(1)]]
    run = read_run(written(tmp_path, RunFiles(ranks=ranks, npus=(4,))))
    assert replay_run(run).num_messages == 24 + 1


@pytest.mark.parametrize("most", [48, 200, None])
def test_a_plan_keeps_to_the_limit_and_says_how_many_there_are(tmp_path: Path, most: int | None) -> None:
    result, after = planned(written(tmp_path, RING), tmp_path / "plan", options=QUICK, most_messages=most)
    limit = most or 48 * DEFAULT_FACTOR
    figures = read_json(tmp_path / "plan" / "plan.json")
    assert (figures["max_messages"], figures["messages_before"]) == (limit, 48)
    assert figures["messages_after"] == result.messages.after == replay_run(read_run(after)).num_messages <= limit


def test_every_collective_may_take_as_many_as_a_native_one(tmp_path: Path) -> None:
    workload, limit = limit_messages(find_workload(written(tmp_path, RING)), 1)
    assert limit == 1
    assert [case.most_messages for case in workload.cases] == [24, 24]
