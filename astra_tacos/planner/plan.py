"""`plan`: from a request to the written run: collectives, ranks in other places, and communication moved in time.

A run is read, moved where that is asked for, and planned as it is and as it was moved. The plan that ends first is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.planner.move import Move, Stage, keep_one
from astra_tacos.planner.placed import placed
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.planned_collectives import plan_collectives
from astra_tacos.planner.planning import PlannedCollectives
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.request import check_asked
from astra_tacos.planner.retime.schedule_run import ScheduleResult, schedule
from astra_tacos.planner.run_files import check_output
from astra_tacos.planner.scheduled import scheduled, write_scheduled
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.directory import Given, find_run, read_found
from astra_tacos.run.jobs import job_figures, job_rows, jobs_of
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import QUIET, OnProgress
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.support.rows import Result, Row, Table

STAGES: tuple[Stage, ...] = (placed, scheduled)
"""What may move a run before its collectives are planned, in this order; a request asks for at most one."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Result):
    """A run that was planned.

    Parameters
    ----------
    result
        What was planned; None if collectives keep their algorithms.
    scheduled
        How communication was moved in time; None if it was not asked for.
    jobs
        When each job of a run of several ends, and ended before, in ns, with its ranks; empty for other and for placed runs.

    Examples
    --------
    >>> from astra_tacos import plan
    >>> planned = plan("configs/workload/transformer_16", network="configs/network/torus_4x4.yml")
    >>> planned.to_json()["time_ns"] == planned.result.time_ns
    True
    """

    result: PlanResult | None
    scheduled: ScheduleResult | None
    jobs: tuple[dict[str, Any], ...]
    _write: Callable[[Path], None] = field(compare=False)

    def write(self, output: str | Path) -> Path:
        """Write the planned run, and return its directory: what ASTRA-sim reads, `plan.json` and the recorded replay.

        Parameters
        ----------
        output
            Directory to write; a plan that is there is replaced.

        Raises
        ------
        ConfigError
            If something else is there, or an input of the plan.
        """
        self._write(Path(output))
        return Path(output)

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        planned = {} if self.result is None else self.result.to_json()
        planned |= {} if self.scheduled is None else {"schedule": self.scheduled.to_json()}
        return planned | ({"jobs": list(self.jobs)} if self.jobs else {})

    @property
    def clock(self) -> Backend:
        """The network model that all times are of."""
        main_result = self._whole
        return main_result.clock if isinstance(main_result, PlanResult) else main_result.backend

    @property
    def _whole(self) -> PlanResult | ScheduleResult:
        """What the run that was written is judged by."""
        main_result = self.result or self.scheduled
        assert main_result is not None
        return main_result

    def title(self) -> str:
        """That of the result."""
        return self._whole.title()

    def rows(self) -> list[Row]:
        """Those of the result, with the end of each job and the policies of the schedule."""
        if self.result is None:
            return [*self._whole.rows(), *job_rows(self.jobs)]
        policies = [] if self.scheduled is None else [Row("schedule", note=self.scheduled.name)]
        return [*self.result.times(), *job_rows(self.jobs), *policies, *self.result.beside_times()]

    def tables(self) -> list[Table]:
        """Those of the result."""
        return self._whole.tables()


def plan(
    request: PlanRequest | str | Path,
    output: str | Path | None = None,
    on_native: OnProgress = QUIET,
    on_progress: OnProgress = QUIET,
    *,
    network: str | Path | None = None,
    **more: Any,
) -> Plan:
    """Plan a training run with synthesized collectives, and replay the run before and after.

    Parameters
    ----------
    request
        The directory of a run; or a `PlanRequest`, which says all.
    output
        Directory to write, as `Plan.write` does; None to write nothing yet.
    network
        The network of a run that is given by its directory; None for the one inside.
    **more
        Other fields of a `PlanRequest` for such a run, such as `place=True`.
    on_native, on_progress
        Called with how many native configurations, and distinct collectives or combinations of policies, are done, and how many
        there are.

    Returns
    -------
    planned
        Times in ns and figures, in `result` and `scheduled`; `planned.write(DIR)` writes the run.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    VerificationError
        If the planned run does not do what the run before did: a defect of this package.

    Examples
    --------
    >>> from astra_tacos import plan
    >>> planned = plan("configs/workload/transformer_16", network="configs/network/torus_4x4.yml")
    >>> planned.result.time_ns < planned.result.best_native_ns
    True
    >>> planned.write("planned")
    PosixPath('planned')
    """
    if not isinstance(request, PlanRequest):
        inputs = find_run(Path(request), None, Given(network=None if network is None else Path(network)))
        request = PlanRequest(inputs, **more)
    elif network is not None or more:
        raise ConfigError("request: found a PlanRequest and other arguments, expected a PlanRequest alone")
    if output is not None:
        check_output(Path(output), request.inputs)
    planned = _plan(request, on_native, on_progress)
    if output is not None:
        planned.write(output)
    return planned


def _plan(request: PlanRequest, on_native: OnProgress, on_progress: OnProgress) -> Plan:
    if request.schedule is not None:
        check_asked(request.schedule)
    run = read_found(request.inputs)
    jobs = jobs_of(run.directory, run.workload.num_ranks)
    if request.keep_collectives:
        rescheduled = schedule(request, find_workload(run), None, on_progress)
        return Plan(None, rescheduled.result, (), lambda output: write_scheduled(request, run, rescheduled, jobs, output))
    cache = SynthesisCache(request.cache)
    moves = [move for stage in STAGES if (move := stage(request, run, cache, on_progress)) is not None]
    if len(moves) > 1:
        raise ConfigError(f"found {len(moves)} stages that move the run, expected at most one")
    move = moves[0] if moves else Move()

    def planned(of: Run, notes: tuple[str, ...]) -> PlannedCollectives:
        noted = replace(request, more_notes=(*request.more_notes, *notes))
        return plan_collectives(noted, of, cache, on_native, on_progress)

    as_is = planned(run, move.why_not)
    moved = None if move.run is None else planned(move.run, move.notes(as_is))
    plans = keep_one(as_is, moved, prefers_moved=move.is_preferred)
    answer = move.told(plans)
    before, npu_of_rank = (run, None) if plans.keeps_as_is else move.before(run)
    after, as_was = plans.kept.recording.after, plans.as_is.recording.before
    before_ns = None if as_was is None else as_was.finish_ns
    job_ends = job_figures(jobs, after.finish_ns, before_ns) if npu_of_rank is None else []  # placed ranks have other numbers
    entries = answer.entries | ({"jobs": job_ends} if job_ends else {})

    def write(output: Path) -> None:
        check_output(output, request.inputs)
        with replaced_directory(output) as folder:
            plans.kept.write(folder, Path(run.workload.prefix).name, before, answer.result, entries, npu_of_rank)
            for name, content in answer.files.items():
                write_json(folder / name, content)

    return Plan(answer.result, answer.scheduled, tuple(job_ends), write)
