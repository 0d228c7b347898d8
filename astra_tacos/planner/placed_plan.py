"""`plan --place`: plans of a run as it is and with its ranks on other NPUs, of which the faster one stays."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from astra_tacos.planner.place import PlaceResult, place
from astra_tacos.planner.plan import plan, write_fastest
from astra_tacos.planner.plan_result import PlannedPlacement, PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_files import PLACE_FILE, add_to_plan, check_output, planned_inputs
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.errors import ReplayError
from astra_tacos.support.files import write_json

_NOT_PLACED = "its ranks stay where they are, as the run before does not end in any placement"


def plan_placed(
    request: PlanRequest,
    output: Path,
    on_native: OnProgress = lambda done, total: None,
    on_progress: OnProgress = lambda done, total: None,
) -> PlanResult:
    """The faster one of two plans: of the run as it is, and of the run with its ranks where it ends earliest.

    `place.json` is then beside `plan.json`, and both say where the ranks are in the plan that is kept. The time before and the
    best native run are those of the run as its files say; `moved_ns` is the best native run in the placement.
    A run that ends in no placement is planned as it is, and a note says so.

    Parameters
    ----------
    request, output, on_native, on_progress
        As for `plan`.

    Raises
    ------
    ConfigError, ReplayError
        As `plan` does.
    """
    inputs = request.inputs
    check_output(output, inputs)
    with tempfile.TemporaryDirectory(prefix="astra_tacos_") as scratch:
        folder = Path(scratch)
        try:
            found = place(inputs, folder / "placed", backend=request.backend, seed=request.options.seed)
        except ReplayError as error:
            return plan(replace(request, more_notes=(f"{_NOT_PLACED}: {error}",)), output, on_native, on_progress)
        own = plan(request, folder / "own", on_native, on_progress)
        plans = [(folder / "own", own)]
        if not found.is_as_it_was:
            moved = planned_inputs(folder / "placed", inputs)
            where = f"ranks are placed as {found.name} ({PLACE_FILE})"
            note = f"{where}: as they were, the plan takes {own.time_ns:,} ns"
            asked = replace(request, inputs=moved, more_notes=(note,))
            plans.append((folder / "moved", plan(asked, folder / "moved", on_native, on_progress)))
        return write_fastest(output, plans, adds=lambda kept, target: _add_placement(found, own, plans, kept, target))


def _add_placement(
    found: PlaceResult, own: PlanResult, plans: list[tuple[Path, PlanResult]], kept: PlanResult, target: Path
) -> PlanResult:
    """Say in `plan.json` and `place.json` where the ranks are in the plan that is kept; returns its result with that."""
    written = replace(found, best=found.own) if kept is own else found
    best = written.best
    placement = PlannedPlacement(
        name=written.name,
        matrix=best.matrix,
        npu_of_rank=tuple(best.npu_of_rank.tolist()),
        kept_as_is=written.is_as_it_was,
        before_ns=own.before_ns,
        as_is_planned_ns=own.time_ns,
        placed_planned_ns=plans[1][1].time_ns if len(plans) > 1 else None,
    )
    result = replace(kept.compared_with(own), placement=placement)
    add_to_plan(target, result.to_json())
    write_json(target / PLACE_FILE, written.to_json())
    return result
