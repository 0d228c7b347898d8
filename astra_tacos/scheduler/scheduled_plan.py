"""`scheduled_plan`: a run whose communication is scheduled, and whose collectives are synthesized after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from astra_tacos.files import replaced_directory
from astra_tacos.planner.fastest_plan import write_fastest
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.run_files import RunInputs, add_to_plan, check_output, planned_inputs, write_plan
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import read_inputs
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.recorded_run import record_run
from astra_tacos.run.recording import REPLAY_FILE, save_recording
from astra_tacos.scheduler.request import SEARCH
from astra_tacos.scheduler.schedule_run import ScheduleResult, schedule_run
from astra_tacos.scheduler.search import DEFAULT_REPLAYS
from astra_tacos.temporaries import scratch_directory

Progress = Callable[[int, int], None]


def schedule_only(
    inputs: RunInputs,
    output: Path,
    asked: str = SEARCH,
    *,
    backend: Backend | str | None = None,
    most_replays: int = DEFAULT_REPLAYS,
    per_iteration: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> ScheduleResult:
    """Write a run whose communication is scheduled, and its recording; its collectives keep their algorithms.

    Parameters
    ----------
    inputs, asked, backend, most_replays, per_iteration, on_progress
        As in `schedule_run`.
    output
        Directory to write; a plan that is there is replaced.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or collectives run custom traces.
    ReplayError
        If the run before does not end.
    """
    check_output(output, inputs)
    with replaced_directory(output) as folder:
        result = schedule_run(
            inputs,
            folder,
            asked,
            backend=backend,
            most_replays=most_replays,
            per_iteration=per_iteration,
            on_progress=on_progress,
        )
        run = read_inputs(planned_inputs(folder, inputs))
        recording = record_run(run, replay_run(run, result.backend, route_loads=True))
        write_plan(folder, {"schedule": result.to_json()}, [], ())
        save_recording(recording, folder / REPLAY_FILE)
    return result


def scheduled_plan(
    inputs: RunInputs,
    output: Path,
    policies: str = SEARCH,
    *,
    backend: Backend | str | None = None,
    most_replays: int = DEFAULT_REPLAYS,
    per_iteration: bool = False,
    on_progress: Progress = lambda done, total: None,
    **more: Any,
) -> tuple[PlanResult, ScheduleResult]:
    """Schedule the communication of a run, then plan it; also plan the run as it is, and keep what ends first.

    Policies are judged with synthesized collectives, as the plan will have them.
    The plan's `before` is the scheduled run with its own collectives. `plan.json` has the scheduling in `schedule`, with the end
    of the run as its files say, and that of its plan.

    Parameters
    ----------
    inputs, backend, most_replays, per_iteration, on_progress
        As in `schedule_run`.
    output
        Directory to write; a plan that is there is replaced.
    policies
        What is asked for, as in `schedule_run`.
    **more
        Further arguments of `plan`.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or collectives run custom traces.
    ReplayError
        If the run before does not end.
    """
    check_output(output, inputs)
    with scratch_directory() as scratch:
        folder = scratch / "scheduled"
        folder.mkdir()
        scheduled = schedule_run(
            inputs,
            folder,
            policies,
            backend=backend,
            most_replays=most_replays,
            cache=SynthesisCache(more.get("cache")),
            per_iteration=per_iteration,
            on_progress=on_progress,
        )
        chosen = inputs if scheduled.is_as_is else planned_inputs(folder, inputs)
        more_figures: dict[str, Any] = {}
        own = plan(chosen, scratch / "planned", backend=backend, **more)
        plans = [(scratch / "planned", own)]
        if not scheduled.is_as_is:
            as_is = plan(inputs, scratch / "as_is", backend=backend, **more)
            plans.append((scratch / "as_is", as_is))
            more_figures["as_is_planned_ns"] = as_is.after_ns
            scheduled = replace(scheduled, before_ns=as_is.before_ns, kept_as_is=as_is.after_end.is_before(own.after_end))
            if scheduled.kept_as_is:
                note = (
                    f"planned, the run as it is ends at {as_is.after_ns:,} ns, the scheduled one at {own.after_ns:,} ns: "
                    "the run as it is was kept"
                )
                scheduled = replace(scheduled, notes=(*scheduled.notes, note))
        for place, _ in plans:
            add_to_plan(place, "schedule", scheduled.to_json() | more_figures)
        return write_fastest(output, plans), scheduled
