"""The collectives of a run, planned: from a run in memory to the same run with synthesized collectives.

Each distinct collective is synthesized once, candidate runs are replayed, and the best is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from astra_tacos.network.composition import build_topology
from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.alike import find_alike, renumbered_solution
from astra_tacos.planner.best_native import REACH, best_native, native_collectives
from astra_tacos.planner.candidate_runs import CandidateRun, choose_run
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.joint.joint_choice import JointLimits, choose_joint, joint_figures
from astra_tacos.planner.joint.joint_sets import JointSet
from astra_tacos.planner.joint.joint_synthesis import JointCollective, JointWorkload, apart, synthesize_joint
from astra_tacos.planner.plan_result import PlanResult, case_figures, find_prints
from astra_tacos.planner.planned_run import COLUMNS, PlannedRun, node_rows, planned_run
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import RunBound, run_bound
from astra_tacos.planner.run_files import write_ns3_configurations, write_plan, write_script
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import check_candidates, check_named, solve_case
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import MessageCounts, baseline_run, find_workload, limit_messages
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.native_share import why_idle, why_incomplete
from astra_tacos.replayer.run_replay import Attempt, replay_run, try_replay
from astra_tacos.run.aborts import aborts_of
from astra_tacos.run.backend import choose_backend
from astra_tacos.run.critical_path import summarize_path
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import check_dimensions
from astra_tacos.run.recording import REPLAY_FILE, Recording, record_run, save_recording
from astra_tacos.run.run import Run
from astra_tacos.solver.clock import Printed
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.solver.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.solver.native_search import NativeReplays
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import VerificationError
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.verifier.run_oracle import RunVerdict, verify_run

MOST_CHECKED = 1 << 16
"""Traces of up to so many messages are checked by their data, too: some microseconds a message."""


_ONLY_REPLAYED = (
    "stock ASTRA-sim has no network with devices that forward: the embedded replay alone times this run, each message on its "
    "fixed route"
)
_QUIET: OnProgress = lambda done, total: None  # noqa: E731


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCollectives:
    """A run with planned collectives, in memory.

    Parameters
    ----------
    best
        The run, and what its collectives run.
    recording
        The replays, before and after.
    """

    best: CandidateRun
    result: PlanResult
    recording: Recording

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.result.time_ns

    def write(
        self,
        folder: Path,
        name: str,
        before: Run,
        result: PlanResult,
        entries: dict[str, Any],
        npu_of_rank: Ints | None = None,
    ) -> None:
        """Write the run, its recording, and what there is to say of it, into an empty directory.

        Parameters
        ----------
        name, before
            The name of the workload, and the user's run.
        result, entries
            The figures of `plan.json`: those of this plan, perhaps beside the user's run, and others.
        npu_of_rank
            int64[num_ranks], where the ranks of the user's run are; None if they stay.

        Raises
        ------
        VerificationError
            If the written run does not do what the run before did: a defect of this package.
        """
        run = self.best.planned.run
        written = run.write(folder, name)
        checked = _check(written, self.best.planned, before, npu_of_rank)
        with garbage_kept():
            rows = node_rows(self.best.made, self.best.solutions, self.best.planned)
            write_plan(folder, self.result.to_json() | checked | entries | result.to_json(), rows, COLUMNS)
            save_recording(self.recording, folder / REPLAY_FILE)
            write_script(folder, run, self.result.prints)
            if not self.result.clock.is_analytical:
                write_ns3_configurations(folder, run)


def plan_collectives(
    request: PlanRequest, run: Run, cache: SynthesisCache, on_native: OnProgress = _QUIET, on_progress: OnProgress = _QUIET
) -> PlannedCollectives:
    """Plan a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Ranks stay where they are, and communication when it is.

    Parameters
    ----------
    run
        The run of the request, or what was made of it.
    cache
        Where synthesized collectives are kept.
    on_native
        Called with how many native configurations were tried, and about how many there are.
    on_progress
        Called with how many distinct collectives are done, and how many there are.

    Raises
    ------
    ConfigError
        If ranks disagree on their collectives, or the network cannot be replayed.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    """
    planning = _Planning(request, run, cache, on_native)
    system = replace(planning.base.run.system, preferred_dataset_splits=1)  # as in a run that has a trace of its own
    solutions = planning.solve_all(
        Machine(planning.network, system, planning.clock), [request.options] * len(planning.workload.cases), on_progress
    )
    # The bound is found while candidates are replayed.
    with ThreadPoolExecutor(1) as aside:
        bound = aside.submit(run_bound, planning.workload, planning.topology, solutions, planning.clock)
        best = planning.best_run(solutions)
        recording = planning.recording(best.after)
        return PlannedCollectives(best, planning.result(best, solutions, bound.result(), recording), recording)


@dataclass(frozen=True)
class _Base:
    """A run that candidates start from, its replay, and how its native collectives run, if not by the system file."""

    run: Run
    replay: Attempt
    native: NativeConfiguration | None = None

    @cached_property
    def end_ns(self) -> int | None:
        """When it ends; None if it does not, or its native collectives move less than they have to."""
        return None if self.replay.end_ns is None or self.why_incomplete else self.replay.end_ns

    @cached_property
    def why_incomplete(self) -> str:
        """Which of its native collectives moves less than it has to; "" if none, as in a native run that a search found."""
        return why_incomplete(self.run) if self.native is None else ""


class _Planning:
    """What all steps of one plan know.

    `start` is the run before: the user's, with native algorithms if `--baseline` asks for them; `own` is that run and its replay.
    `native` is the best native run that a search found. Candidates start from `base`: the best native run, or `own` where there
    is none. All replays are on the `clock`.

    Parameters
    ----------
    on_native
        Called with how many native configurations were tried, and about how many there are.
    """

    def __init__(self, request: PlanRequest, run: Run, cache: SynthesisCache, on_native: OnProgress) -> None:
        self.request = request
        self.workload, limit = limit_messages(find_workload(run), request.most_messages)
        self.network = network = self.workload.run.network
        self.clock = choose_backend(request.backend)
        NETWORK_MODELS[self.clock](network)  # refuses what it cannot replay before anything is synthesized for it
        self.topology = build_topology(network, may_forward=True)
        self.start = baseline_run(self.workload, request.baseline)
        check_dimensions(self.start)
        self.cache = cache
        self.own = _Base(self.start, try_replay(self.start, self.clock, route_loads=True))
        self.native_replays: NativeReplays = {}
        self.native = best_native(
            native_collectives(self.workload, self.clock),
            self.clock,
            REACH,
            on_native,
            request.most_messages,
            self._known(),
            self.native_replays,
        )
        if request.most_messages is None and self.native.base is not None:
            limit = max(limit, self.native.base.num_messages)  # a default must not exclude the best native run
        self.limit = limit
        self.base = self._best_base()

    def _known(self) -> tuple[NativeConfiguration, Attempt] | None:
        """The native configuration of the run before, and its replay; None if it has none, or does not end."""
        configuration = configuration_of(self.start)
        return None if configuration is None or self.own.replay.outcome is None else (configuration, self.own.replay)

    def _best_base(self) -> _Base:
        """The best native run, so that what stays native is as fast as it can be; else the run before."""
        if self.native.base is None:
            return self.own
        configuration = self.native.base.configuration
        run = configuration.run(self.workload.own_run)
        return _Base(run, self.native_replays.get(configuration) or try_replay(run, self.clock), configuration)

    def solve_all(
        self, machine: Machine, options: Sequence[SearchOptions], on_progress: OnProgress = _QUIET
    ) -> tuple[CaseSolution, ...]:
        """The solution of each case; `options` are those of each."""
        cases, candidates = self.workload.cases, self.request.candidates
        if options and not candidates:
            check_named(cases, self.clock, options[0])
        check_candidates(cases, self.clock, self.request.options, candidates)
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

    def best_run(self, solutions: tuple[CaseSolution, ...]) -> CandidateRun:
        """The fastest run of all that are tried."""
        best = self._choose(solutions, self.base)
        if self.base.native is not None and self.own.end_ns is not None and best.end_ns >= self.own.end_ns:
            # What is as fast in the run's own system stays there: a plan of a plan is the same plan.
            in_own = self._choose(solutions, self.own)
            best = best if Acceptance(in_own).take(best) else in_own
        return self._join(best, solutions)

    def _choose(self, solutions: tuple[CaseSolution, ...], base: _Base) -> CandidateRun:
        """The fastest run, see `choose_run`."""

        def planned(chosen: tuple[CaseSolution, ...], order: Ints | None) -> Callable[[], CandidateRun]:
            return self._planned(apart(self.workload), chosen, order, base)

        return choose_run(self.workload, solutions, base.run, base.replay.outcome, base.end_ns, planned)

    def _join(self, best: CandidateRun, solutions: tuple[CaseSolution, ...]) -> CandidateRun:
        """A faster run with joint schedules, see `choose_joint`; else the best one."""
        topology = self.topology
        if topology.forwarding:
            return best  # joint schedules route over NPUs, not over devices
        options = self.request.options

        def synthesize(joint: JointSet, most_messages: int) -> JointCollective | None:
            return synthesize_joint(joint, topology, self.network, self.clock, options, self.cache, most_messages)

        def planned(made: JointWorkload, chosen: tuple[CaseSolution, ...], order: Ints) -> Callable[[], CandidateRun]:
            return self._planned(made, chosen, order, self.base)

        limits = JointLimits(options.threads or os.cpu_count() or 1, self.limit, topology.num_channels)
        return choose_joint(self.workload, best, solutions, synthesize, planned, limits)

    def _planned(
        self, made: JointWorkload, chosen: tuple[CaseSolution, ...], order: Ints | None, base: _Base
    ) -> Callable[[], CandidateRun]:
        """A planned run, to be replayed."""
        planned = planned_run(made, chosen, order, base.native)
        return lambda: CandidateRun(planned, made, chosen, replay_run(planned.run, self.clock, route_loads=True))

    def _notes(self, solutions: tuple[CaseSolution, ...]) -> tuple[str, ...]:
        """What could not be done, and what the times do not say."""
        defects = dict.fromkeys(note for each in solutions for note in each.defects)
        forwards = (_ONLY_REPLAYED,) if self.network.forwarding and self.clock.is_analytical else ()
        own = why_idle(self.start) or self.own.why_incomplete if self.own.replay.outcome is not None else ""
        incomplete = (f"do not compare with the run before: {own}",) if own else ()
        return (*defects, *self.request.more_notes, *forwards, *incomplete)

    def _prints(self, best: CandidateRun) -> tuple[Printed, ...]:
        """What programs of ASTRA-sim print, see `find_prints`."""
        native = self.native.best
        native_run = None if native is None else (native.configuration.run(self.workload.own_run), native.end_ns)
        return find_prints(self.clock, self.network, (best.planned.run, best.end_ns), native_run)

    def recording(self, after: RunOutcome) -> Recording:
        """The replays, before and after."""
        nodes = self.workload.instances.nodes
        pattern = self.workload.run.columns.comm_type.copy()
        pattern[nodes.row] = nodes.pattern
        return record_run(self.workload.run, after, self.own.replay.outcome, pattern)

    def result(
        self, best: CandidateRun, solutions: tuple[CaseSolution, ...], bound: RunBound, recording: Recording
    ) -> PlanResult:
        """The figures of the plan."""
        workload, before, after = self.workload, self.own.replay, best.after
        messages_before = None if before.outcome is None else before.outcome.num_messages
        return PlanResult(
            clock=self.clock,
            baseline=self.request.baseline,
            num_ranks=workload.run.workload.num_ranks,
            num_nodes=len(workload.instances.nodes.row),
            num_collectives=workload.instances.num_instances,
            before_ns=before.end_ns,
            before_reason=before.reason,
            time_ns=best.end_ns,
            exposed_before_ns=None if before.outcome is None else int(before.outcome.exposed_comm_ns.max()),
            exposed_ns=int(after.exposed_comm_ns.max()),
            cases=case_figures(workload, best.solutions, before, after),
            notes=(*self._notes(solutions), *(f"ASTRA-sim aborts here: {why}" for why in aborts_of(best.planned.run, after))),
            native=self.native,
            bound=bound,
            messages=MessageCounts(self.limit, messages_before, after.num_messages),
            joint=joint_figures(best),
            path_before=None if recording.before is None else summarize_path(recording, recording.before),
            path_after=summarize_path(recording, recording.after),
            prints=self._prints(best),
        )


def _check(after: Run, planned: PlannedRun, before: Run, npu_of_rank: Ints | None) -> dict[str, Any]:
    """The oracle's verdict on the run and the content of its traces, for plan.json.

    Raises
    ------
    VerificationError
        If the run does not do what the run before did: a defect of this package.
    """
    verdict = verify_run(after, planned.parts, before, MOST_CHECKED, npu_of_rank)
    check_verdict(verdict)
    traces = {prefix: parts.to_json() for prefix, parts in planned.parts.items()}
    return {"verified": verdict.proven, "unchecked": list(verdict.unchecked), "traces": traces}


def check_verdict(verdict: RunVerdict) -> None:
    """Check that the oracle found nothing wrong.

    Raises
    ------
    VerificationError
        If it did: a defect of this package.
    """
    if verdict.violations:
        more = f" and {len(verdict.violations) - 1:,} more" if len(verdict.violations) > 1 else ""
        raise VerificationError(f"DEFECT of astra_tacos: the planned run is wrong: {verdict.violations[0]}{more}")
