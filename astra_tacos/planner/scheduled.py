"""The stage that moves the communication of a run in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from astra_tacos.planner.candidate_runs import check_verdict
from astra_tacos.planner.move import Move, Plans, Told
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.schedule_run import Scheduled, schedule
from astra_tacos.planner.run_files import check_output, write_plan, write_script
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import choose_backend
from astra_tacos.run.jobs import Job
from astra_tacos.run.recording import REPLAY_FILE, record_run, save_recording
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.support.files import replaced_directory
from astra_tacos.verifier.run_oracle import verify_run


def scheduled(request: PlanRequest, run: Run, cache: SynthesisCache, on_progress: OnProgress) -> Move | None:
    """The run with its communication scheduled; policies are timed with synthesized collectives, as the plan will have them."""
    if request.schedule is None:
        return None
    workload = find_workload(run)
    collectives = SynthesizedCollectives(workload, choose_backend(request.backend), cache=cache)
    outcome = schedule(request, workload, collectives, on_progress)
    return _Scheduled(run=None if outcome.result.is_as_is else outcome.run, outcome=outcome)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scheduled(Move):
    """`plan.json` has the scheduling in `schedule`.

    Its `before` and its best native run are those of the run as its files say; `moved_ns` is the best native run moved in time.
    """

    run: Run | None
    outcome: Scheduled
    is_preferred = True

    def told(self, plans: Plans) -> Told:
        result, as_is, moved = self.outcome.result, plans.as_is, plans.moved
        extra_keys = {}
        if moved is not None:
            extra_keys = {"as_is_planned_ns": as_is.end_ns}
            result = replace(result, before_ns=as_is.result.before_ns, kept_as_is=plans.keeps_as_is)
            if result.kept_as_is:
                note = (
                    f"planned, the run as it is ends at {as_is.end_ns:,} ns, the scheduled one at {moved.end_ns:,} ns: "
                    "the run as it is was kept"
                )
                result = replace(result, notes=(*result.notes, note))
        return Told(plans.result, result, {"schedule": result.to_json() | extra_keys})


def write_scheduled(request: PlanRequest, run: Run, outcome: Scheduled, jobs: Sequence[Job], output: Path) -> None:
    """Write a run whose communication is scheduled and whose collectives keep their algorithms, and its recording.

    Raises
    ------
    VerificationError
        If the written run does not do what the run before did: a defect of this package.
    """
    check_output(output, request.inputs)
    with replaced_directory(output) as folder:
        written = outcome.run.write(folder, Path(run.workload.prefix).name)
        check_verdict(verify_run(written, {}, run))
        write_script(folder, outcome.run)
        recording = record_run(written, replay_run(written, outcome.result.backend, route_loads=True))
        more = {"jobs": [asdict(job) for job in jobs]} if jobs else {}
        write_plan(folder, {"schedule": outcome.result.to_json()} | more)
        save_recording(recording, folder / REPLAY_FILE)
