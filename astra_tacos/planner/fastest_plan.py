"""The fastest of several plans of one run, which were made beside one another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.solver.possibility import earliest
from astra_tacos.support.files import replaced_directory


def write_fastest(
    output: Path,
    plans: Sequence[tuple[Path, PlanResult]],
    adds: Callable[[PlanResult, Path], PlanResult] = lambda kept, target: kept,
) -> PlanResult:
    """Copy the plan whose run ends first, the first one of equally fast ones; returns its result.

    Parameters
    ----------
    output
        Directory to write; a plan that is there is replaced.
    plans
        The directory and the result of each plan.
    adds
        Adds to the directory what there is to say of the plan that is kept; returns its result with that.
    """
    folder, result = plans[earliest(result.after_end for _, result in plans)]
    with replaced_directory(output) as target:
        shutil.copytree(folder, target, dirs_exist_ok=True)
        return adds(result, target)
