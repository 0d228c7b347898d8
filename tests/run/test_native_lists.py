"""Native collectives that leave dimensions out: what nothing may be compared with."""

from __future__ import annotations

import json

import pytest
from helpers.lint_runs import RunFiles, coll
from helpers.plans import quickly_planned, schedule_run, written

from astra_tacos.planner.endpoint.endpoint import divide_endpoint
from astra_tacos.planner.place import place
from astra_tacos.planner.plan import plan
from astra_tacos.planner.request import PlanRequest
from astra_tacos.support.errors import ConfigError

GROUPS = {"1": list(range(8)), "2": [0, 1], "3": [2, 3], "4": [4, 5], "5": [6, 7]}


def run_of(folder, implementation, group):
    """An All-Reduce of all ranks, of the group of all, or of pairs (2), on three dimensions."""
    groups = [group + rank // 2 if group == 2 else group for rank in range(8)] if group else [None] * 8
    ranks = [[coll(0, size=1 << 16, group=each)] for each in groups]
    inputs = written(folder, RunFiles(ranks=ranks, topology=("Ring", "Ring", "Ring"), npus=(2, 2, 2), groups=GROUPS))
    system = json.loads(inputs.system.read_text())
    inputs.system.write_text(json.dumps(system | {"all-reduce-implementation": implementation}))
    return inputs


def plan_of(inputs, output):
    return plan(PlanRequest(inputs), output).result


def scheduled(inputs, output):
    return schedule_run(PlanRequest(inputs, schedule="search"), output)


@pytest.mark.parametrize("command", [plan_of, place, scheduled, divide_endpoint])
@pytest.mark.parametrize("group", [None, 1])
@pytest.mark.parametrize("implementation", [["ring"], ["ring", "direct"]])
def test_a_run_that_ends_too_early_is_refused(tmp_path, command, group, implementation):
    inputs = run_of(tmp_path, implementation, group)
    found = rf"implementation has {len(implementation)} of 3 dimensions: ALL_REDUCE leaves out the other dimensions; write"
    with pytest.raises(ConfigError, match=found):
        command(inputs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_named_baseline_has_all_dimensions(tmp_path):
    result, _ = quickly_planned(run_of(tmp_path, ["ring"], None), tmp_path / "plan", baseline="ring")
    assert result.before_ns is not None


@pytest.mark.parametrize(("implementation", "group"), [(["ring"], 2), (["oneRing"], None), (["ring"] * 3, 1)])
def test_others_are_not(tmp_path, implementation, group):
    result, _ = quickly_planned(run_of(tmp_path, implementation, group), tmp_path / "plan")
    assert result.before_ns is not None
