"""`plan`: from a run to the same run with synthesized collectives.

`plan` synthesizes each distinct collective, writes candidate runs and replays them, and keeps the best. `write_fastest` chooses
among several plans of one run, such as those of several placements.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from astra_tacos.network.composition import build_topology
from astra_tacos.network.topology import Topology
from astra_tacos.planner.alike import find_alike, renumbered_solution
from astra_tacos.planner.best_native import NativeReplays, best_native
from astra_tacos.planner.candidate_runs import CandidateRun, choose_run
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.joint.joint_choice import JointLimits, choose_joint, joint_figures
from astra_tacos.planner.joint.joint_sets import JointSet
from astra_tacos.planner.joint.joint_synthesis import JointCollective, JointWorkload, apart, synthesize_joint
from astra_tacos.planner.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.planner.plan_result import (
    JudgedRun,
    PlanResult,
    case_figures,
    fair_judges,
    judge_run,
    notes_on_other_plan,
)
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import RunBound, run_bound
from astra_tacos.planner.run_files import check_output, move_up, planned_inputs, without_folder, write_plan
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import solve_case
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import MessageCounts, baseline_run, find_workload, limit_messages
from astra_tacos.planner.written_run import COLUMNS, WrittenRun, node_rows, write_run
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.run_replay import Attempt, replay_once, replay_run, try_replay
from astra_tacos.run.backend import BACKENDS, Backend, choose_backend
from astra_tacos.run.critical_path import summarize_path
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import check_dimensions
from astra_tacos.run.recording import REPLAY_FILE, Recording, record_run, save_recording
from astra_tacos.run.run import Run, read_run
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.solver.judges import differ, judges_of_run
from astra_tacos.solver.possibility import RunEnd, earliest, judge_end, why_idle
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError, VerificationError
from astra_tacos.support.files import replaced_directory
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import THOROUGH, SearchOptions
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
_QUIET: OnProgress = lambda done, total: None  # noqa: E731
_AnyEnd = TypeVar("_AnyEnd", RunEnd, RunEnd | None)


def plan(
    request: PlanRequest,
    output: Path,
    on_native: OnProgress = _QUIET,
    on_progress: OnProgress = _QUIET,
) -> PlanResult:
    """Write a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Ranks stay where they are, and communication when it is (`planner.retime.make_plan` moves both).

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
    check_output(output, request.inputs)
    planning = _Planning(request, on_native)
    system = replace(planning.base.run.system, preferred_dataset_splits=1)  # as in a run that has a trace of its own
    solutions = planning.solve_all(
        Machine(planning.network, system, planning.model), [request.options] * len(planning.workload.cases), on_progress
    )
    # The bound is found while candidates are replayed.
    with ThreadPoolExecutor(1) as aside, replaced_directory(output) as folder:
        bound = aside.submit(run_bound, planning.workload, planning.topology, solutions)
        best = planning.best_run(folder, solutions)
        judged, notes = planning.judge(folder, best, solutions)
        checked = _check(best.run, best.written, planning.workload.run)
        move_up(best.folder, folder, _CANDIDATE)
        recording = planning.recording(best.after)
        result = planning.result(best, judged, notes, bound.result(), recording)
        with garbage_kept():
            rows = node_rows(best.made, best.solutions, best.written)
            write_plan(folder, result.to_json() | checked, rows, COLUMNS)
            save_recording(recording, folder / REPLAY_FILE)
    return result


@dataclass(frozen=True, slots=True)
class _Base:
    """A run that candidates start from, its replay and end, and how its native collectives run, if not by the system file."""

    run: Run
    replay: Attempt
    end: RunEnd | None
    native: NativeConfiguration | None = None


def _base(run: Run, model: Backend, attempts: dict[Backend, Attempt]) -> _Base:
    """A run that candidates start from, given its replays on the model and on others."""
    attempt = attempts[model]
    end = None if attempt.end_ns is None else judge_end(run, model, attempt.end_ns, attempts)
    return _Base(run, attempt, end)


class _Planning:
    """What all steps of one plan know.

    `start` is the run before: the user's, with native algorithms if `--baseline` asks for them. `before` has its replays,
    `own` its end. `native` is the best native run that a search found. Candidates start from `base`: the best
    native run, or `own` where there is none.

    Parameters
    ----------
    request
        What is asked.
    on_native
        Called with how many native configurations were tried, and about how many there are.
    """

    def __init__(self, request: PlanRequest, on_native: OnProgress) -> None:
        self.request = request
        self.workload, limit = limit_messages(find_workload(request.inputs), request.most_messages)
        self.network = network = self.workload.run.network
        self.model = choose_backend(request.backend, network)
        NETWORK_MODELS[self.model](network)  # refuses what it cannot replay before anything is synthesized for it
        self.topology = build_topology(network, may_forward=True)
        self.start = baseline_run(self.workload, request.baseline)
        check_dimensions(self.start)
        self.cache = SynthesisCache(request.cache)
        self.judges = judges_of_run(network, self.model)
        models = tuple(dict.fromkeys((self.model, *(judge.backend for judge in self.judges))))
        with ThreadPoolExecutor(len(models)) as pool:
            self.before = dict(zip(models, pool.map(self._replay_start, models), strict=True))
        self.native_replays: NativeReplays = {}
        self.native = best_native(
            self.workload, self.model, on_native, request.most_messages, self._known(self.model), self.native_replays
        )
        if request.most_messages is None and self.native.base is not None:
            limit = max(limit, self.native.base.num_messages)  # a default must not exclude the best native run
        self.limit = limit
        self.own = _base(self.start, self.model, self.before)
        self.base = self._best_base()

    def _replay_start(self, model: Backend) -> Attempt:
        return try_replay(self.start, model, route_loads=True)

    def _known(self, model: Backend) -> tuple[NativeConfiguration, dict[Backend, Attempt]] | None:
        """The native configuration of the run before, and its replays; None if it has none, or does not end."""
        configuration = configuration_of(self.start)
        return None if configuration is None or self.before[model].outcome is None else (configuration, self.before)

    def _best_base(self) -> _Base:
        """The best possible native run, so that what stays native is as fast as it can be; else the run before."""
        if self.native.base is None:
            return self.own
        configuration = self.native.base.configuration
        run = configuration.run(self.workload.own_run)
        attempt = replay_once(run, self.model, self.native_replays[configuration])
        return _Base(run, attempt, self.native.base.end, configuration)

    def solve_all(
        self, machine: Machine, options: Sequence[SearchOptions], on_progress: OnProgress = _QUIET
    ) -> tuple[CaseSolution, ...]:
        """The solution of each case; `options` are those of each."""
        cases, candidates = self.workload.cases, self.request.candidates
        threads = next((own.threads for own in options if own.threads), None) or os.cpu_count() or 1
        each = [replace(own, threads=max(1, threads // max(len(cases), 1))) for own in options]
        alike = dict.fromkeys(range(len(cases))) if candidates else find_alike(cases)
        solutions: dict[int, Future[CaseSolution]] = {}

        def solution_of(number: int) -> CaseSolution:
            like, case = alike[number], cases[number]
            if like is not None:
                first = solutions[like.number].result()
                made = renumbered_solution(first, cases[like.number], case, like.npu, machine)
                if made is not None:
                    return made
            return solve_case(case, machine, each[number], self.cache, candidates)

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

    def best_run(self, folder: Path, solutions: tuple[CaseSolution, ...]) -> CandidateRun:
        """The fastest run of all that are written to a folder."""
        best = self._choose(folder, solutions, self.base, self.model)
        if self.base.native is not None and self.own.end is not None and not best.end.is_before(self.own.end):
            # What is as fast in the run's own system stays there: a plan of a plan is the same plan.
            in_own = self._choose(folder, solutions, self.own, self.model)
            best = best if best.is_before(in_own) else in_own
        return self._join(folder, best, solutions)

    def _choose(self, folder: Path, solutions: tuple[CaseSolution, ...], base: _Base, model: Backend) -> CandidateRun:
        """The fastest run on a network model, see `choose_run`."""

        def write(chosen: tuple[CaseSolution, ...], order: Ints | None) -> CandidateRun | AstraTacosError:
            return self._write_and_replay(folder, apart(self.workload), chosen, order, base, model)

        return choose_run(self.workload, solutions, base.run, base.replay.outcome, base.end, write)

    def _join(self, folder: Path, best: CandidateRun, solutions: tuple[CaseSolution, ...]) -> CandidateRun:
        """A faster run with joint schedules, see `choose_joint`; else the best one."""
        topology = self.topology
        if topology.forwarding:
            return best  # joint schedules route over NPUs, not over devices
        options = self.request.options

        def synthesize(joint: JointSet, most_messages: int) -> JointCollective | None:
            return synthesize_joint(joint, topology, self.network, self.model, options, self.cache, most_messages)

        def write(made: JointWorkload, chosen: tuple[CaseSolution, ...], order: Ints) -> CandidateRun | AstraTacosError:
            return self._write_and_replay(folder, made, chosen, order, self.base, self.model)

        limits = JointLimits(options.threads or os.cpu_count() or 1, self.limit, topology.num_channels)
        return choose_joint(self.workload, best, solutions, synthesize, write, limits)

    def _write_and_replay(
        self,
        folder: Path,
        made: JointWorkload,
        chosen: tuple[CaseSolution, ...],
        order: Ints | None,
        base: _Base,
        model: Backend,
    ) -> CandidateRun | AstraTacosError:
        place = folder / f"{_CANDIDATE}{len(list(folder.glob(f'{_CANDIDATE}*')))}"
        place.mkdir()
        written = write_run(place, self.request.inputs, made, chosen, order, model, base.native)
        try:
            run = read_run(planned_inputs(place, self.request.inputs))
            after = replay_run(run, model, route_loads=True)
        except (ConfigError, ReplayError) as error:
            return type(error)(without_folder(place, str(error)))
        return CandidateRun(place, run, made, chosen, written, model, after)

    def judge(
        self, folder: Path, best: CandidateRun, solutions: tuple[CaseSolution, ...]
    ) -> tuple[tuple[JudgedRun, ...], tuple[str, ...]]:
        """The end of the run on each judge, and what there is to say of it."""
        request = self.request
        judged = judge_run(self.judges, self.before, best.run, best.known)
        judged = tuple(replace(each, reason=without_folder(best.folder, each.reason)) for each in judged)
        if request.compare_backends and self.native.fastest_possible is not None:
            judged = tuple(self._with_native(each) for each in judged)
        defects = [note for each in solutions for note in each.defects]
        notes = [note for each in judged if (note := each.note(self.model))]
        others = [each for each in BACKENDS.values() if each != self.model]
        is_thorough = request.options.effort == THOROUGH
        for other in others if request.compare_backends and is_thorough and differ(self.judges) else []:
            quick = [_quick(request.options, solution, self.topology) for solution in solutions]
            try:
                theirs = self.solve_all(Machine(self.network, self.start.system, other), quick)
                defects += [note for each in theirs for note in each.defects]
                before = self.before if other in self.before else {**self.before, other: self._replay_start(other)}
                run = self._choose(folder, theirs, _base(self.start, other, before), other)
            except AstraTacosError:
                continue  # no plan for it can be replayed
            fair = fair_judges(self.judges, other)
            notes += notes_on_other_plan(judged, judge_run(fair, self.before, run.run, run.known), other)
        if self.network.forwarding and self.model.is_analytical:
            notes.insert(0, _ONLY_REPLAYED)
        return judged, (*dict.fromkeys(defects), *request.more_notes, *notes, *self._notes_on_messages(best.end))

    def _with_native(self, judged: JudgedRun) -> JudgedRun:
        """With the best native run on this judge, if this judge has queues and the plan's backend has none."""
        backend = judged.judge.backend
        if self.model.models_congestion or not backend.models_congestion or not backend.is_analytical:
            return judged
        there = best_native(self.workload, backend, known=self._known(backend), replays=self.native_replays).fastest_possible
        return judged if there is None else replace(judged, native_ns=there.end.possible_ns)

    def _notes_on_messages(self, after: RunEnd) -> tuple[str, ...]:
        """A note if the best native run is faster and has more messages than the limit."""
        best, limit = self.native.fastest_possible, self.limit
        if best is None or not best.end.is_before(after) or best.num_messages <= limit:
            return ()
        most = f"more than the {limit:,} of --max-messages"
        return (f"the best native run has {best.num_messages:,} messages, {most}: the planned run is slower",)

    def recording(self, after: RunOutcome) -> Recording:
        """The replays, before and after."""
        nodes = self.workload.instances.nodes
        pattern = self.workload.run.columns.comm_type.copy()
        pattern[nodes.row] = nodes.pattern
        return record_run(self.workload.run, after, self.own.replay.outcome, pattern)

    def result(
        self, best: CandidateRun, judged: tuple[JudgedRun, ...], notes: tuple[str, ...], bound: RunBound, recording: Recording
    ) -> PlanResult:
        """The figures of the plan."""
        workload, before, after = self.workload, self.own.replay, best.after
        messages_before = None if before.outcome is None else before.outcome.num_messages
        return PlanResult(
            backend=self.model,
            baseline=self.request.baseline,
            num_ranks=workload.run.workload.num_ranks,
            num_nodes=len(workload.instances.nodes.row),
            num_collectives=workload.instances.num_instances,
            before_end=_impossible_if_idle(self.start, self.own.end),
            before_reason=before.reason,
            after_end=_impossible_if_idle(best.run, best.end),
            exposed_before_ns=None if before.outcome is None else int(before.outcome.exposed_comm_ns.max()),
            exposed_after_ns=int(after.exposed_comm_ns.max()),
            cases=case_figures(workload, best.solutions, before, after),
            judged=judged,
            notes=notes,
            native=self.native,
            bound=bound,
            messages=MessageCounts(self.limit, messages_before, after.num_messages),
            joint=joint_figures(best),
            path_before=None if recording.before is None else summarize_path(recording, recording.before),
            path_after=summarize_path(recording, recording.after),
        )


def _impossible_if_idle(run: Run, end: _AnyEnd) -> _AnyEnd:
    """The end of a run; marked as not possible if the run's Broadcasts move nothing."""
    reason = why_idle(run)
    return replace(end, possible_ns=None, impossible=reason) if reason and end is not None else end


def _quick(options: SearchOptions, solution: CaseSolution, topology: Topology) -> SearchOptions:
    """Options for the same case on another backend: its synthesizer alone, and part of the budget."""
    synthesizer = solution.schedule.synthesizer if solution.schedule else options.synthesizer
    if synthesizer not in SYNTHESIZERS:  # the program of a file
        synthesizer = options.synthesizer
    return replace(options.part_of_budget(_SHARE_OF_BUDGET, topology), synthesizer=synthesizer, trials=1)


def _check(after: Run, written: WrittenRun, before: Run) -> dict[str, Any]:
    """The oracle's verdict on the run and the content of its traces, for plan.json.

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
