"""`make_plan`: what `plan` does, from a request to the written run: collectives, placement, and communication moved in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.planner.placed_plan import plan_placed
from astra_tacos.planner.plan import plan, write_fastest
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.request import check_asked
from astra_tacos.planner.retime.schedule_run import ScheduleResult, schedule_run
from astra_tacos.planner.run_files import add_to_plan, check_output, planned_inputs, write_plan
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.recording import REPLAY_FILE, record_run, save_recording
from astra_tacos.run.run import read_run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.files import replaced_directory
from astra_tacos.support.temporaries import scratch_directory


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


def make_plan(
    request: PlanRequest,
    output: Path,
    on_native: OnProgress = lambda done, total: None,
    on_progress: OnProgress = lambda done, total: None,
) -> Plan:
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
        if request.keep_collectives:
            return Plan(None, _schedule_only(request, output, on_progress))
        return _scheduled_plan(request, output, on_native, on_progress)
    return Plan((plan_placed if request.place else plan)(request, output, on_native, on_progress))


def _schedule_only(request: PlanRequest, output: Path, on_progress: OnProgress) -> ScheduleResult:
    """Write a run whose communication is scheduled, and its recording; its collectives keep their algorithms."""
    with replaced_directory(output) as folder:
        result = schedule_run(request, folder, None, on_progress)
        run = read_run(planned_inputs(folder, request.inputs))
        recording = record_run(run, replay_run(run, result.backend, route_loads=True))
        write_plan(folder, {"schedule": result.to_json()})
        save_recording(recording, folder / REPLAY_FILE)
    return result


def _scheduled_plan(request: PlanRequest, output: Path, on_native: OnProgress, on_progress: OnProgress) -> Plan:
    """Schedule the communication of a run, then plan it; also plan the run as it is, and keep what ends first.

    Policies are timed with synthesized collectives, as the plan will have them. `plan.json` has the scheduling in `schedule`. Its
    `before` and its best native run are those of the run as its files say; `moved_ns` is the best native run moved in time.
    """
    with scratch_directory() as scratch:
        folder = scratch / "scheduled"
        folder.mkdir()
        scheduled = schedule_run(request, folder, SynthesisCache(request.cache), on_progress)
        as_is = plan(request, scratch / "as_is", on_native)
        plans = [(scratch / "as_is", as_is)]
        if not scheduled.is_as_is:
            moved = replace(request, inputs=planned_inputs(folder, request.inputs))
            own = plan(moved, scratch / "planned", on_native)
            plans.insert(0, (scratch / "planned", own))
            scheduled = replace(scheduled, before_ns=as_is.before_ns, kept_as_is=as_is.time_ns < own.time_ns)
            if scheduled.kept_as_is:
                note = (
                    f"planned, the run as it is ends at {as_is.time_ns:,} ns, the scheduled one at {own.time_ns:,} ns: "
                    "the run as it is was kept"
                )
                scheduled = replace(scheduled, notes=(*scheduled.notes, note))

        def add(kept: PlanResult, target: Path) -> PlanResult:
            result = kept.compared_with(as_is)
            about = scheduled.to_json() | ({} if scheduled.is_as_is else {"as_is_planned_ns": as_is.time_ns})
            add_to_plan(target, {"schedule": about} | result.to_json())
            return result

        return Plan(write_fastest(output, plans, add), scheduled)
