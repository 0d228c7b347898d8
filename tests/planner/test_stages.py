"""A stage is one file and one line: the run that it moves is planned beside the run as it is, and what ends first is written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from helpers.command import read_json
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import QUICK, written

from astra_tacos import PlanRequest, Run, plan, read_run, replay_run
from astra_tacos.planner import plan as planning
from astra_tacos.planner.move import Move
from astra_tacos.planner.permuted_run import permuted, renumbered
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.workload import find_workload

GROUPS = {"1": [0, 2, 4, 6], "2": [1, 3, 5, 7]}
"""Half of the members of each are on the other side."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Gathered(Move):
    """The members of each group on neighbouring NPUs."""

    run: Run | None
    npu_of_rank: np.ndarray

    def notes(self, as_is):
        return (f"gathered: as it is, the plan takes {as_is.end_ns:,} ns",)

    def before(self, run):
        return renumbered(run, self.npu_of_rank), self.npu_of_rank


@pytest.fixture
def inputs(tmp_path):
    ranks = [[comp(0, us=3), coll(1, size=1 << 20, group=1 + rank % 2)] for rank in range(8)]
    return written(tmp_path, RunFiles(ranks=ranks, groups=GROUPS, topology=("FullyConnected", "Ring"), npus=(4, 2)))


@pytest.mark.parametrize("gathers", [True, False])
def test_a_stage_is_one_line(inputs, tmp_path, monkeypatch, gathers):
    npu_of_rank = np.array([0, 4, 1, 5, 2, 6, 3, 7] if gathers else np.arange(8))

    def gathered(request, run, cache, on_progress):
        moved = permuted(find_workload(run), npu_of_rank) if gathers else None
        return Gathered(run=moved, npu_of_rank=npu_of_rank)

    as_is = plan(PlanRequest(inputs, options=QUICK), tmp_path / "as_is").result
    monkeypatch.setattr(planning, "STAGES", (gathered, *planning.STAGES))
    result = plan(PlanRequest(inputs, options=QUICK), tmp_path / "out").result
    after = planned_inputs(tmp_path / "out", inputs)
    assert replay_run(read_run(after)).end_ns == result.time_ns
    assert (result.time_ns < as_is.time_ns) == gathers
    told = read_json(tmp_path / "out" / "plan.json")
    assert told["before_ns"] == as_is.before_ns and told["best_native_ns"] == as_is.best_native_ns
    assert (told["moved_ns"] is not None) == gathers
    assert told["verified"] and any("gathered" in note for note in told["notes"]) == gathers
