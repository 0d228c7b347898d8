"""Plans whose collectives exchange partial sums: written, checked node by node, and replayed."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import lint_plan, planned, written

from astra_tacos import SearchOptions, load_schedule, read_run, replay_run, verify
from astra_tacos.cli.verify import verify as verify_command
from astra_tacos.run.backend import CONGESTION_AWARE

SIZE = 1 << 14
RING = RunFiles(
    ranks=[[comp(0, us=1), coll(1, [0], size=SIZE), comp(2, [1], us=1)] for _ in range(6)], topology=("Ring",), npus=(6,)
)
TORUS = RunFiles(
    ranks=[[coll(0, size=SIZE, group=1 + rank // 4), coll(1, [0], size=2 * SIZE)] for rank in range(8)],
    groups={"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]},
    topology=("Ring", "Ring"),
    npus=(4, 2),
)


@pytest.mark.parametrize("files", [RING, TORUS])
def test_partial_sums_from_synthesis_to_replay(tmp_path, files):
    name = "dimension-wise"
    inputs = written(tmp_path, files)
    options = SearchOptions(name, "auto", reduce_bandwidth_gbps=10.0)
    asked: dict[str, Any] = {"options": options, "cache": tmp_path / "cache", "backend": CONGESTION_AWARE}
    result, after = planned(inputs, tmp_path / "plan", **asked)
    own = [case for case in result.cases if case.algorithm == name]
    assert own and len(result.cases) - len(own) == sum(case.reason.startswith("native is faster") for case in result.cases)
    assert lint_plan(after).findings == ()
    schedules = [load_schedule(path) for path in (tmp_path / "cache").rglob("*.npz")]
    assert len(schedules) >= len(result.cases)  # and of joint ones
    assert any(schedule.sums is not None for schedule in schedules)
    assert all(verify(schedule) == () for schedule in schedules)
    for case in own:
        done = CliRunner().invoke(
            verify_command, [str(tmp_path / "plan" / "collective" / case.name), "--collective", "all-reduce"]
        )
        assert done.exit_code == 0, done.output
    # The run that was written takes what was told, and its collectives what was predicted, where that is exact.
    outcome = replay_run(read_run(after), result.clock)
    assert outcome.end_ns == result.time_ns
    for case in own:
        if case.exact and case.together_ns is None and not result.joint:  # which ranks end at different times
            assert case.spent_after_ns == case.predicted_ns
    again, _ = planned(inputs, tmp_path / "again", **asked)
    assert all(case.from_cache for case in again.cases)
    assert again.time_ns == result.time_ns
