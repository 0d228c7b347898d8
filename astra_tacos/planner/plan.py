"""`plan`: from a request to the written run: collectives, ranks in other places, and communication moved in time.

A run is read, moved where that is asked for, planned as it is and as it was moved, and the plan that ends first is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.planner.permuted_run import permuted, renumbered
from astra_tacos.planner.place import PlaceResult, best_placement
from astra_tacos.planner.plan_result import PlannedPlacement, PlanResult
from astra_tacos.planner.planned_collectives import PlannedCollectives, check_verdict, plan_collectives
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.request import check_asked
from astra_tacos.planner.retime.schedule_run import ScheduleResult, schedule
from astra_tacos.planner.run_files import PLACE_FILE, check_output, write_plan, write_script
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.recording import REPLAY_FILE, record_run, save_recording
from astra_tacos.run.run import Run, read_run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.errors import ReplayError
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.verifier.run_oracle import verify_run

_QUIET: OnProgress = lambda done, total: None  # noqa: E731
_NOT_PLACED = "its ranks stay where they are, as the run before does not end in any placement"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that was planned.

    Parameters
    ----------
    result
        What was planned; None if collectives keep their algorithms.
    scheduled
        How communication was moved in time; None if it was not asked for.
    """

    result: PlanResult | None
    scheduled: ScheduleResult | None = None

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        planned = {} if self.result is None else self.result.to_json()
        return planned | ({} if self.scheduled is None else {"schedule": self.scheduled.to_json()})


def plan(request: PlanRequest, output: Path, on_native: OnProgress = _QUIET, on_progress: OnProgress = _QUIET) -> Plan:
    """Write a training run with synthesized collectives, and replay the run before and after.

    Parameters
    ----------
    request
        What is asked.
    output
        Directory to write; a plan that is there is replaced.
    on_native, on_progress
        Called with how many native configurations, and distinct collectives or combinations of policies, are done, and how many
        there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    VerificationError
        If the planned run does not do what the run before did: a defect of this package.
    """
    check_output(output, request.inputs)
    if request.schedule is not None:
        check_asked(request.schedule)
    run = read_run(request.inputs)
    if request.schedule is None:
        return Plan((_placed if request.place else _collectives)(request, run, output, on_native, on_progress))
    if request.keep_collectives:
        return Plan(None, _scheduled_alone(request, run, output, on_progress))
    return _scheduled(request, run, output, on_native, on_progress)


def first_to_end(plans: Sequence[PlannedCollectives]) -> PlannedCollectives:
    """The plan whose run ends first, the first of those that end together."""
    return min(plans, key=lambda planned: planned.end_ns)


def _collectives(request: PlanRequest, run: Run, output: Path, on_native: OnProgress, on_progress: OnProgress) -> PlanResult:
    """Plan the collectives of a run as it is."""
    planned = plan_collectives(request, run, SynthesisCache(request.cache), on_native, on_progress)
    with replaced_directory(output) as folder:
        planned.write(folder, request.inputs, run, {})
    return planned.result


def _placed(request: PlanRequest, run: Run, output: Path, on_native: OnProgress, on_progress: OnProgress) -> PlanResult:
    """Plan a run as it is, and with its ranks where it ends earliest.

    `place.json` is then beside `plan.json`, and both say where the ranks are in the plan that is kept. The time before and the
    best native run are those of the run as its files say; `moved_ns` is the best native run in the placement. A run that ends in
    no placement is planned as it is, and a note says so.
    """
    workload = find_workload(run)
    try:
        found = best_placement(workload, backend=request.backend, seed=request.options.seed)
    except ReplayError as error:
        stays = replace(request, more_notes=(f"{_NOT_PLACED}: {error}",))
        return _collectives(stays, run, output, on_native, on_progress)
    cache = SynthesisCache(request.cache)
    as_is = plan_collectives(request, run, cache, on_native, on_progress)
    moved = None
    if not found.is_as_it_was:
        where = f"ranks are placed as {found.name} ({PLACE_FILE})"
        asked = replace(request, more_notes=(f"{where}: as they were, the plan takes {as_is.end_ns:,} ns",))
        moved = plan_collectives(asked, permuted(workload, found.best.npu_of_rank), cache, on_native, on_progress)
    kept = as_is if moved is None else first_to_end((as_is, moved))
    written = replace(found, best=found.own) if kept is as_is else found
    placement = _placement(written, as_is, moved)
    result = replace(kept.result.compared_with(as_is.result), placement=placement)
    before, npu_of_rank = run, None
    if kept is moved:
        npu_of_rank = written.best.npu_of_rank
        before = renumbered(run, npu_of_rank)
    with replaced_directory(output) as folder:
        kept.write(folder, request.inputs, before, result.to_json(), npu_of_rank)
        write_json(folder / PLACE_FILE, written.to_json())
    return result


def _placement(written: PlaceResult, as_is: PlannedCollectives, moved: PlannedCollectives | None) -> PlannedPlacement:
    """What there is to say of where the ranks are."""
    return PlannedPlacement(
        name=written.name,
        matrix=written.best.matrix,
        npu_of_rank=tuple(written.best.npu_of_rank.tolist()),
        kept_as_is=written.is_as_it_was,
        before_ns=as_is.result.before_ns,
        as_is_planned_ns=as_is.end_ns,
        placed_planned_ns=None if moved is None else moved.end_ns,
    )


def _scheduled_alone(request: PlanRequest, run: Run, output: Path, on_progress: OnProgress) -> ScheduleResult:
    """Schedule the communication of a run whose collectives keep their algorithms."""
    found = schedule(request, run, None, on_progress)
    with replaced_directory(output) as folder:
        written = found.run.write(folder, request.inputs.workload.name)
        check_verdict(verify_run(written, {}, run))
        write_script(folder, found.run)
        recording = record_run(written, replay_run(written, found.result.backend, route_loads=True))
        write_plan(folder, {"schedule": found.result.to_json()})
        save_recording(recording, folder / REPLAY_FILE)
    return found.result


def _scheduled(request: PlanRequest, run: Run, output: Path, on_native: OnProgress, on_progress: OnProgress) -> Plan:
    """Schedule the communication of a run, then plan it; also plan the run as it is, and keep what ends first.

    Policies are timed with synthesized collectives, as the plan will have them. `plan.json` has the scheduling in `schedule`. Its
    `before` and its best native run are those of the run as its files say; `moved_ns` is the best native run moved in time.
    """
    cache = SynthesisCache(request.cache)
    found = schedule(request, run, cache, on_progress)
    scheduled = found.result
    as_is = kept = plan_collectives(request, run, cache, on_native)
    if not scheduled.is_as_is:
        moved = plan_collectives(request, found.run, cache, on_native)
        kept = first_to_end((moved, as_is))
        scheduled = replace(scheduled, before_ns=as_is.result.before_ns, kept_as_is=kept is as_is)
        if scheduled.kept_as_is:
            note = (
                f"planned, the run as it is ends at {as_is.end_ns:,} ns, the scheduled one at {moved.end_ns:,} ns: "
                "the run as it is was kept"
            )
            scheduled = replace(scheduled, notes=(*scheduled.notes, note))
    result = kept.result.compared_with(as_is.result)
    about = scheduled.to_json() | ({} if scheduled.is_as_is else {"as_is_planned_ns": as_is.end_ns})
    with replaced_directory(output) as folder:
        kept.write(folder, request.inputs, run, {"schedule": about} | result.to_json())
    return Plan(result, scheduled)
