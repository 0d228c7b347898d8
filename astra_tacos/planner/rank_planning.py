"""Plans of ordinary runs: each distinct collective is synthesized once for its groups, and several may run a joint schedule."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from astra_tacos.network.composition import build_topology
from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.alike import find_alike, renumbered_solution
from astra_tacos.planner.best_native import native_collectives
from astra_tacos.planner.candidate_runs import CandidateRun, choose_run
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.joint.joint_choice import JointLimits, choose_joint, joint_figures
from astra_tacos.planner.joint.joint_sets import JointSet
from astra_tacos.planner.joint.joint_synthesis import JointCollective, JointWorkload, apart, synthesize_joint
from astra_tacos.planner.plan_result import CaseFigures, JointFigures, case_figures
from astra_tacos.planner.planned_run import planned_run
from astra_tacos.planner.planning import Planning, Start
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import RunBound, run_bound
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import check_candidates, check_named, solve_case
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import baseline_run, find_workload, limit_messages
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.native_share import why_idle
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.rules.refusal import refuse_left_out
from astra_tacos.run.backend import choose_backend
from astra_tacos.run.run import Run
from astra_tacos.solver.first_use import QUIET, OnProgress
from astra_tacos.support.arrays import Ints
from astra_tacos.synthesizer.search.search_options import SearchOptions

_ONLY_REPLAYED = (
    "stock ASTRA-sim has no network with devices that forward: the embedded replay alone times this run, each message on its "
    "fixed route"
)
_Solutions = tuple[CaseSolution, ...]


class RankPlanning(Planning[_Solutions, CandidateRun]):
    """The plan of a run whose traces have every rank.

    Raises
    ------
    ConfigError
        If ranks disagree on their collectives, or the network cannot be replayed.
    """

    def __init__(self, request: PlanRequest, run: Run, cache: SynthesisCache, on_native: OnProgress) -> None:
        self.workload, self._limit = limit_messages(find_workload(run), request.most_messages)
        clock = choose_backend(request.backend)
        NETWORK_MODELS[clock](run.network)  # refuses what it cannot replay before anything is synthesized for it
        self.topology = build_topology(run.network, may_forward=True)
        start = baseline_run(run, self.workload.own_run, request.baseline)
        refuse_left_out(start)
        super().__init__(request, run, start, clock, native_collectives(self.workload, clock), on_native)
        self.cache = cache

    @property
    def limit(self) -> int:
        """About how many messages the planned run may have; a default must not exclude the best native run."""
        native = self.native.base
        return self._limit if native is None or self.request.most_messages is not None else max(self._limit, native.num_messages)

    @property
    def counts(self) -> tuple[int, int]:
        """How many collective nodes all ranks have, and how many collectives they make."""
        return len(self.workload.instances.nodes.row), self.workload.instances.num_instances

    @property
    def patterns(self) -> Ints:
        """int64[num_nodes], the pattern that each collective node stands for."""
        nodes = self.workload.instances.nodes
        pattern: Ints = self.run.columns.comm_type.copy()
        pattern[nodes.row] = nodes.pattern
        return pattern

    def solve(self, on_progress: OnProgress) -> _Solutions:
        """The solution of each case."""
        system = replace(self.base.run.system, preferred_dataset_splits=1)  # as in a run that has a trace of its own
        options = [self.request.options] * len(self.workload.cases)
        return self.solve_all(Machine(self.run.network, system, self.clock), options, on_progress)

    def solve_all(self, machine: Machine, options: Sequence[SearchOptions], on_progress: OnProgress = QUIET) -> _Solutions:
        """The solution of each case; `options` are those of each."""
        cases, candidates = self.workload.cases, self.request.candidates
        if options and not candidates:
            check_named(cases, self.clock, options[0])
        check_candidates(cases, self.clock, self.request.options, candidates)
        threads = next((option.threads for option in options if option.threads), None) or os.cpu_count() or 1
        options_of = [replace(option, threads=max(1, threads // max(len(cases), 1))) for option in options]
        alike = dict.fromkeys(range(len(cases))) if candidates else find_alike(cases)
        solutions: dict[int, Future[CaseSolution]] = {}

        def solution_of(number: int) -> CaseSolution:
            like, case = alike[number], cases[number]
            if like is not None:
                first = solutions[like.number].result()
                solution = renumbered_solution(first, cases[like.number], case, like.npu, machine)
                if solution is not None:
                    return solution
            return solve_case(case, machine, options_of[number], self.cache, candidates)

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

    def choose(self, base: Start, solutions: _Solutions) -> CandidateRun:
        """The run that ends first, perhaps with joint schedules."""
        best = self._choose(solutions, base)
        if base.native is not None and self.own.end_ns is not None and best.end_ns >= self.own.end_ns:
            # What is as fast in the run's own system stays there: a plan of a plan is the same plan.
            in_own = self._choose(solutions, self.own)
            best = best if Acceptance(in_own).take(best) else in_own
        return self._join(best, base, solutions)

    def _choose(self, solutions: _Solutions, base: Start) -> CandidateRun:
        """The fastest run, see `choose_run`."""

        def planned(chosen: _Solutions, order: Ints | None) -> Callable[[], CandidateRun]:
            return self._planned(apart(self.workload), chosen, order, base)

        return choose_run(self.workload, solutions, base.run, base.replay.outcome, base.end_ns, planned)

    def _join(self, best: CandidateRun, base: Start, solutions: _Solutions) -> CandidateRun:
        """A faster run with joint schedules, see `choose_joint`; else the best one."""
        topology = self.topology
        if topology.forwarding:
            return best  # joint schedules route over NPUs, not over devices
        options = self.request.options

        def synthesize(joint: JointSet, most_messages: int) -> JointCollective | None:
            return synthesize_joint(joint, topology, self.run.network, self.clock, options, self.cache, most_messages)

        def planned(joint_workload: JointWorkload, chosen: _Solutions, order: Ints) -> Callable[[], CandidateRun]:
            return self._planned(joint_workload, chosen, order, base)

        limits = JointLimits(options.threads or os.cpu_count() or 1, self.limit, topology.num_channels)
        return choose_joint(self.workload, best, solutions, synthesize, planned, limits)

    def _planned(
        self, joint_workload: JointWorkload, chosen: _Solutions, order: Ints | None, base: Start
    ) -> Callable[[], CandidateRun]:
        """A planned run, to be replayed."""
        planned = planned_run(joint_workload, chosen, order, base.native)
        return lambda: CandidateRun(planned, joint_workload, chosen, replay_run(planned.run, self.clock, route_loads=True))

    def notes(self, best: CandidateRun, solutions: _Solutions) -> tuple[str, ...]:
        """What could not be done, and what the times do not say."""
        defects = dict.fromkeys(note for solution in solutions for note in solution.defects)
        forwards = (_ONLY_REPLAYED,) if self.run.network.forwarding and self.clock.is_analytical else ()
        reason = why_idle(self.start) or self.own.why_incomplete if self.own.replay.outcome is not None else ""
        incomplete = (f"do not compare with the run before: {reason}",) if reason else ()
        return (*defects, *self.request.more_notes, *forwards, *incomplete)

    def bound(self, solutions: _Solutions) -> RunBound:
        """What the run takes at least, whatever algorithms its collectives have."""
        return run_bound(self.workload, self.topology, solutions, self.clock)

    def figures(self, best: CandidateRun) -> tuple[CaseFigures, ...]:
        """Figures of each distinct collective, those in which a rank spends most of the run first."""
        separate = set(best.joint_workload.workload.of_instance.tolist())  # all nodes of other cases are in joint schedules
        joint = {case.name for number, case in enumerate(self.workload.cases) if number not in separate}
        figures = case_figures(self.workload, best.solutions, self.own.replay, best.after)
        return tuple(_as_joint(figure) if figure.name in joint else figure for figure in figures)

    def joint_figures(self, best: CandidateRun) -> tuple[JointFigures, ...]:
        """Figures of joint schedules."""
        return joint_figures(best)


def _as_joint(figures: CaseFigures) -> CaseFigures:
    """The figures of a case all of whose collectives run in joint schedules: none of a schedule of its own."""
    return replace(figures, algorithm="joint", chunks_per_npu=0, link_model="", predicted_ns=None, together_ns=None)
