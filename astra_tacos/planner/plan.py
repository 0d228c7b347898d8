"""`plan`: from a run to the same run with synthesized collectives.

The fastest of several plans of one run, which were made beside one another.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.candidate import Candidate
from astra_tacos.network.composition import build_topology
from astra_tacos.planner.alike import find_alike, renumbered_solution
from astra_tacos.planner.best_native import BestNative, best_native
from astra_tacos.planner.candidate_runs import CandidateRun, choose_run
from astra_tacos.planner.joint_choice import choose_joint, joint_figures
from astra_tacos.planner.joint_sets import JointSet
from astra_tacos.planner.joint_synthesis import JointCollective, JointWorkload, apart, synthesize_joint
from astra_tacos.planner.message_limit import limit_messages
from astra_tacos.planner.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.planner.plan_result import (
    JudgedRun,
    PlanResult,
    fair_judges,
    judge_run,
    notes_on_other_plan,
    plan_result,
    replay_or_reason,
)
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import run_bound
from astra_tacos.planner.run_files import RunInputs, check_output, planned_inputs, write_plan
from astra_tacos.planner.solution import Solution
from astra_tacos.planner.synthesis import solve
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import Workload, baseline_run, find_workload, read_inputs
from astra_tacos.planner.written_run import COLUMNS, WrittenRun, node_rows, write_run
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, Backend, choose_backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import check_dimensions
from astra_tacos.run.recording import REPLAY_FILE, Recording, record_run, save_recording
from astra_tacos.run.run import Run
from astra_tacos.run.system import SystemConfig
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.solver.judges import differ, judges_of_run
from astra_tacos.solver.possibility import RunEnd, earliest, judge_end, why_idle
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError, VerificationError
from astra_tacos.support.files import replaced_directory
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.work import AUTO_BUDGET
from astra_tacos.verifier.run_oracle import verify_run


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


_SHARE_OF_BUDGET = 4
"""The plan for another backend gets one part in so many of the budget."""
_ONLY_REPLAYED = (
    "stock ASTRA-sim has no network with devices that forward: the embedded replay alone times this run, each message on its "
    "fixed route"
)
_CANDIDATE = "candidate"
"""Begin of the names of the folders that candidate runs are written to."""
MOST_CHECKED = 1 << 16
"""Traces of up to so many messages are checked by their data, too: some microseconds a message."""
_AnyEnd = TypeVar("_AnyEnd", RunEnd, RunEnd | None)


def plan(
    request: PlanRequest,
    output: Path,
    on_native: OnProgress = lambda done, total: None,
    on_progress: OnProgress = lambda done, total: None,
) -> PlanResult:
    """Write a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Ranks stay where they are, and communication when it is (`scheduler.make_plan` moves both).

    Parameters
    ----------
    request
        What is asked.
    output
        Directory to write; a plan that is there is replaced.
    on_native
        Called with how many native configurations were tried, and about how many there are.
    on_progress
        Called with how many distinct collectives are done, and how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    """
    inputs, baseline, options, candidates = request.inputs, request.baseline, request.options, request.candidates
    most_messages = request.most_messages
    check_output(output, inputs)
    workload, limit = limit_messages(find_workload(inputs), most_messages)
    network = workload.run.network
    model = choose_backend(request.backend, network)
    NETWORK_MODELS[model](network)  # refuses what it cannot replay before anything is synthesized for it
    start = baseline_run(workload, baseline)
    check_dimensions(start)
    kept = SynthesisCache(request.cache)
    judges = judges_of_run(network, model)
    models = tuple(dict.fromkeys((model, *(judge.backend for judge in judges))))
    with ThreadPoolExecutor(len(models)) as pool:
        before = dict(zip(models, pool.map(partial(replay_or_reason, start), models), strict=True))
    native = best_native(workload, model, on_native, None if most_messages is None else limit, _known(start, before[model]))
    if most_messages is None and native.base is not None:
        limit = max(limit, native.base.num_messages)  # what nobody asked for does not make a plan slower than a native run
    own = _Base(start, _end(start, model, before))
    base = _base(own, workload, native)
    system = replace(base.run.system, preferred_dataset_splits=1)  # as in a run that has a trace of its own
    solutions = _solve_all(workload, system, model, (options,) * len(workload.cases), kept, on_progress, candidates)
    # The bound is found while candidates are replayed.
    with ThreadPoolExecutor(1) as aside, replaced_directory(output) as folder:
        bound = aside.submit(run_bound, workload, build_topology(network, may_forward=True), solutions)
        runs = _Candidates(folder, inputs, workload)
        best = runs.best(solutions, base, before[model] if base.native is None else replay_or_reason(base.run, model), model)
        if base.native is not None and own.end is not None and not best.end.is_before(own.end):
            # What is as fast in the run's own system stays there: a plan of a plan is the same plan.
            in_own = runs.best(solutions, own, before[model], model)
            best = best if best.is_before(in_own) else in_own
        best = runs.joint(best, solutions, base, model, options, kept, limit)
        judged = judge_run(judges, before, best.run, best.known)
        judged = tuple(replace(each, reason=_without(best.folder, each.reason)) for each in judged)
        if request.compare_backends and native.fastest_possible is not None:
            judged = tuple(_with_native(each, workload, model, start, before) for each in judged)
        defects = [note for each in solutions for note in each.defects]
        notes = tuple(note for each in judged if (note := each.note(model)))
        others = [each for each in BACKENDS.values() if each != model] if request.compare_backends and differ(judges) else []
        for other in others:
            quick = tuple(_quick(options, solution) for solution in solutions)
            try:
                theirs = _solve_all(workload, start.system, other, quick, kept, candidates=candidates)
                defects += [note for each in theirs for note in each.defects]
                start_there = before[other] if other in before else replay_or_reason(start, other)
                run = runs.best(theirs, _Base(start, _end(start, other, {**before, other: start_there})), start_there, other)
            except AstraTacosError:
                continue  # no plan for it can be replayed
            fair = fair_judges(judges, other)
            notes += notes_on_other_plan(judged, judge_run(fair, before, run.run, run.known), other)
        notes += _notes_on_messages(native, best.end, limit)
        checked = _check(best.run, best.written, workload.run)
        _move_up(best.folder, folder)
        notes = (
            *dict.fromkeys(defects),
            *request.more_notes,
            *((_ONLY_REPLAYED,) if network.forwarding and model.is_analytical else ()),
            *notes,
        )
        recording = _recording(workload, best.after, before[model])
        result = plan_result(
            workload,
            best.solutions,
            model,
            baseline,
            before[model],
            best.after,
            judged,
            notes,
            native,
            bound.result(),
            limit,
            joint_figures(best),
            recording,
            (_idle_counts(start, own.end), _idle_counts(best.run, best.end)),
        )
        rows = node_rows(best.made, best.solutions, best.written.assignment, best.written.changes, best.written.traces)
        write_plan(folder, result.to_json() | checked, rows, COLUMNS)
        save_recording(recording, folder / REPLAY_FILE)
    return result


@dataclass(frozen=True, slots=True)
class _Base:
    """The run that candidates start from, when it ends, and how its native collectives run, if not as the system file says."""

    run: Run
    end: RunEnd | None
    native: NativeConfiguration | None = None


def _notes_on_messages(native: BestNative, after: RunEnd, limit: int) -> tuple[str, ...]:
    """Why the planned run is slower than the best native one: that one has more messages than it may have."""
    best = native.fastest_possible
    if best is None or not best.end.is_before(after) or best.num_messages <= limit:
        return ()
    most = f"more than the {limit:,} of --max-messages"
    return (f"the best native run has {best.num_messages:,} messages, {most}: the planned run is slower",)


def _end(run: Run, model: Backend, outcomes: Mapping[Backend, RunOutcome | str]) -> RunEnd | None:
    """The end of a run on a model, as runs are compared, given its replays there and on others; None if it does not end."""
    outcome, queued = outcomes[model], outcomes.get(CONGESTION_AWARE, "")
    if isinstance(outcome, str):
        return None
    return judge_end(run, model, outcome.end_ns, None if isinstance(queued, str) else queued.end_ns, idle_counts=False)


def _idle_counts(run: Run, end: _AnyEnd) -> _AnyEnd:
    """The end of a run, which is not possible if its Broadcasts move nothing."""
    reason = why_idle(run)
    return replace(end, possible_ns=None, impossible=reason) if reason and end is not None else end


def _known(start: Run, end: RunOutcome | str) -> tuple[NativeConfiguration, RunOutcome] | None:
    """The native configuration of the run before, and its replay; None if it has none, or does not end."""
    configuration = configuration_of(start)
    return None if configuration is None or isinstance(end, str) else (configuration, end)


def _with_native(
    judged: JudgedRun, workload: Workload, made_for: Backend, start: Run, before: Mapping[Backend, RunOutcome | str]
) -> JudgedRun:
    """With the best native run on a judge that has queues, if the plan is made for a backend without."""
    backend = judged.judge.backend
    if made_for.models_congestion or not backend.models_congestion or not backend.is_analytical:
        return judged
    there = best_native(workload, backend, known=_known(start, before[backend])).fastest_possible
    return judged if there is None else replace(judged, native_ns=there.end.possible_ns)


def _base(own: _Base, workload: Workload, native: BestNative) -> _Base:
    """The best possible native run, so that what stays native is as fast as it can be; else the run before."""
    if native.base is None:
        return own
    configuration = native.base.configuration
    return _Base(configuration.run(workload.own_run), native.base.end, configuration)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Candidate runs of one plan, written beside one another."""

    folder: Path
    inputs: RunInputs
    workload: Workload

    def best(self, solutions: tuple[Solution, ...], base: _Base, before: RunOutcome | str, model: Backend) -> CandidateRun:
        """The fastest run on a network model, see `choose_run`."""

        def write_and_replay(chosen: tuple[Solution, ...], order: NDArray[np.int64] | None) -> CandidateRun | AstraTacosError:
            return self._write_and_replay(apart(self.workload), chosen, order, base, model)

        return choose_run(self.workload, solutions, base.run, before, base.end, write_and_replay)

    def joint(
        self,
        best: CandidateRun,
        solutions: tuple[Solution, ...],
        base: _Base,
        model: Backend,
        options: SearchOptions,
        cache: SynthesisCache,
        limit: int,
    ) -> CandidateRun:
        """A faster run with joint schedules, see `choose_joint`; else the best one."""
        network = self.workload.run.network
        topology = build_topology(network, may_forward=True)
        if topology.forwarding:
            return best  # joint schedules route over NPUs, not over devices

        def synthesize(joint: JointSet, most_messages: int) -> JointCollective | None:
            return synthesize_joint(joint, topology, network, model, options, cache, most_messages)

        def write(made: JointWorkload, chosen: tuple[Solution, ...], order: NDArray[np.int64]) -> CandidateRun | AstraTacosError:
            return self._write_and_replay(made, chosen, order, base, model)

        threads = options.threads or os.cpu_count() or 1
        return choose_joint(self.workload, best, solutions, synthesize, write, threads, limit, topology.num_channels)

    def _write_and_replay(
        self, made: JointWorkload, chosen: tuple[Solution, ...], order: NDArray[np.int64] | None, base: _Base, model: Backend
    ) -> CandidateRun | AstraTacosError:
        place = self.folder / f"{_CANDIDATE}{len(list(self.folder.glob(f'{_CANDIDATE}*')))}"
        place.mkdir()
        written = write_run(place, self.inputs, made, chosen, order, model, base.native)
        try:
            run = read_inputs(planned_inputs(place, self.inputs))
            after = replay_run(run, model, route_loads=True)
        except (ConfigError, ReplayError) as error:
            return type(error)(_without(place, str(error)))
        return CandidateRun(place, run, made, chosen, written, model, after)


def _without(folder: Path, text: str) -> str:
    """A text whose paths of files in a folder begin there: the folder will be gone."""
    return text.replace(f"{folder}{os.sep}", "")


def _quick(options: SearchOptions, solution: Solution) -> SearchOptions:
    """Options for the same case on another backend: its synthesizer alone, and part of the budget."""
    synthesizer = solution.schedule.synthesizer if solution.schedule else options.synthesizer
    if synthesizer not in SYNTHESIZERS:  # the program of a file
        synthesizer = options.synthesizer
    budget = max((options.budget or AUTO_BUDGET) // _SHARE_OF_BUDGET, 1)
    return replace(options, synthesizer=synthesizer, budget=budget, trials=1)


def _solve_all(
    workload: Workload,
    system: SystemConfig,
    model: Backend,
    options: tuple[SearchOptions, ...],
    cache: SynthesisCache,
    on_progress: OnProgress = lambda done, total: None,
    candidates: tuple[Candidate, ...] = (),
) -> tuple[Solution, ...]:
    """The solution of each case."""
    network, cases = workload.run.network, workload.cases
    threads = next((each.threads for each in options if each.threads), None) or os.cpu_count() or 1
    of_case = [replace(each, threads=max(1, threads // max(len(cases), 1))) for each in options]
    alike = dict.fromkeys(range(len(cases))) if candidates else find_alike(cases)
    solutions: dict[int, Future[Solution]] = {}

    def solution_of(number: int) -> Solution:
        like, case = alike[number], cases[number]
        if like is not None:
            first = solutions[like.number].result()
            made = renumbered_solution(first, cases[like.number], case, like.npu, network, system, model)
            if made is not None:
                return made
        return solve(case, network, system, model, of_case[number], cache, candidates)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for number in alike:  # what others wait for begins before them
                solutions[number] = pool.submit(solution_of, number)
            for done, future in enumerate(solutions.values(), 1):
                future.result()
                on_progress(done, len(solutions))
        finally:
            pool.shutdown(cancel_futures=True)
    return tuple(solutions[number].result() for number in range(len(cases)))


def _check(after: Run, written: WrittenRun, before: Run) -> dict[str, Any]:
    """What plan.json says of the oracle's verdict on the run, and of what its traces are for.

    Raises
    ------
    VerificationError
        If the run does not do what the run before did: a defect of this package.
    """
    verdict = verify_run(after, written.parts, before, MOST_CHECKED)
    if verdict.violations:
        more = f" and {len(verdict.violations) - 1:,} more" if len(verdict.violations) > 1 else ""
        raise VerificationError(f"DEFECT of astra_tacos: the planned run is wrong: {verdict.violations[0]}{more}")
    traces = {prefix: parts.to_json() for prefix, parts in written.parts.items()}
    return {"verified": verdict.proven, "unchecked": list(verdict.unchecked), "traces": traces}


def _recording(workload: Workload, after: RunOutcome, before: RunOutcome | str) -> Recording:
    nodes = workload.instances.nodes
    pattern = workload.run.columns.comm_type.copy()
    pattern[nodes.row] = nodes.pattern
    return record_run(workload.run, after, None if isinstance(before, str) else before, pattern)


def _move_up(chosen: Path, folder: Path) -> None:
    """Make the files of one candidate the result, and delete those of the others."""
    for entry in chosen.iterdir():
        entry.rename(folder / entry.name)
    for rest in folder.glob(f"{_CANDIDATE}*"):
        shutil.rmtree(rest)
