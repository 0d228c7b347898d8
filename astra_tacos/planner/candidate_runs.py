"""The choice of collectives for a whole run, by replay: the best schedules of single cases may delay one another in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.joint.joint_synthesis import JointWorkload
from astra_tacos.planner.plan_result import time_spent
from astra_tacos.planner.planned_run import COLUMNS, PlannedRun, node_rows
from astra_tacos.planner.run_bound import estimate_durations
from astra_tacos.planner.run_files import NodeTable, write_ns3_configurations, write_script
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import Workload
from astra_tacos.run.graph.global_order import order_instances
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.schedule.dependencies import holds_no_link
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.clock import Printed
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.run_oracle import RunVerdict, verify_run

MOST_CHECKED = 1 << 16
"""Traces of up to so many messages are checked by their data, too: some microseconds a message."""
Solutions = tuple[CaseSolution, ...]
Planned = Callable[[Solutions, Ints | None], Callable[[], "CandidateRun"]]
"""Plans a run, to be replayed. Takes what each case runs and int64[num_nodes + num_instances], the place of each row and
collective in the run's order, None to leave all nodes as they are, as all its collectives are native."""


@dataclass(frozen=True, eq=False)
class CandidateRun:
    """A planned run.

    Parameters
    ----------
    joint_workload, solutions
        Its collectives, of which some may be joint, and what each case runs.
    after
        Its replay.
    """

    planned: PlannedRun
    joint_workload: JointWorkload
    solutions: Solutions
    after: RunOutcome

    @property
    def run(self) -> Run:
        """The run."""
        return self.planned.run

    @property
    def end_ns(self) -> int:
        """When it ends on the clock."""
        return self.after.end_ns

    def is_better_than(self, other: CandidateRun) -> bool:
        """Whether it is the better one."""
        return self.end_ns < other.end_ns

    def proof(self, written: Run, before: Run, npu_of_rank: Ints | None) -> dict[str, Any]:
        """The oracle's verdict on the run and the content of its traces."""
        verdict = verify_run(written, self.planned.parts, before, MOST_CHECKED, npu_of_rank)
        check_verdict(verdict)
        traces = {prefix: parts.to_json() for prefix, parts in self.planned.parts.items()}
        return {"verified": verdict.proven, "unchecked": list(verdict.unchecked), "traces": traces}

    def write_beside(self, folder: Path, written: Run, prints: Sequence[Printed]) -> None:
        """Write the scripts that start the run."""
        write_script(folder, self.run, prints)
        if not self.after.backend.is_analytical:
            write_ns3_configurations(folder, self.run)

    def node_table(self) -> NodeTable:
        """What happened to each collective node, and why."""
        return COLUMNS, node_rows(self.joint_workload, self.solutions, self.planned)


def choose_run(
    workload: Workload, solutions: Solutions, start: Run, before: RunOutcome | None, before_ns: int | None, planned: Planned
) -> CandidateRun:
    """Try what `proposals` says until a run is no slower than the run before; return the best of those that were tried.

    Parameters
    ----------
    start, before, before_ns
        The run before, its replay and its end, None if it cannot be replayed or moves too little.

    Raises
    ------
    AstraTacosError
        If no candidate can be replayed: the error of the last one. If there are not enough tags or ids for one.
    """
    acceptance = Acceptance[CandidateRun]()
    for chosen, order in proposals(workload, solutions, start, before, acceptance):
        run = acceptance.consider(planned(chosen, order))
        if run is not None and (before_ns is None or run.end_ns <= before_ns):
            break
    if acceptance.best is None:
        raise acceptance.failures[-1]
    return acceptance.best


def proposals(
    workload: Workload, solutions: Solutions, start: Run, before: RunOutcome | None, acceptance: Acceptance[CandidateRun]
) -> Iterator[tuple[Solutions, Ints | None]]:
    """What each case may run, and the order of the run, one candidate after the other.

    1. the best solution of each case;
    2. if 1 cannot be replayed, the same without cases whose chunks hold a link for less than 1 ns, which stay as they were;
    3. the same in the order of the run before;
    4. the same, but the cases that take longer in the last run that could be replayed than before stay as they were;
    5. all cases as they were, in the order of the run before;
    6. if they are all native then, the run before as it is: even an order that it keeps may delay it.

    If the run before is a plan already, or cannot be replayed, 3 and 4 are left out. If it cannot be replayed, 5 is tried only if
    1 and 2 cannot be replayed, either.

    Parameters
    ----------
    acceptance
        What became of the proposals so far.
    """
    yield solutions, order_run(workload, solutions, None)
    custom = _custom_traces(workload, solutions, start)
    why = f"the run with it cannot be replayed: {acceptance.failures[-1]}" if acceptance.failures else ""

    def with_some_as_they_were(is_chosen: list[bool], why: str = "") -> Solutions:
        pairs = zip(solutions, is_chosen, strict=True)
        return tuple(
            _as_it_was(workload.cases[number].pattern, solution, start, custom[number], why) if chosen else solution
            for number, (solution, chosen) in enumerate(pairs)
        )

    if why:
        instant = [solution.schedule is not None and holds_no_link(solution.schedule) for solution in solutions]
        solutions = with_some_as_they_were(instant, why)
        if any(instant):
            yield solutions, order_run(workload, solutions, None)
    if before is not None and not any(candidate.is_solution for candidate in custom):
        yield solutions, order_run(workload, solutions, before)
        if acceptance.last is not None:
            slower = time_spent(workload, acceptance.last.after) > time_spent(workload, before)
            mixed = with_some_as_they_were(slower.tolist())
            yield mixed, order_run(workload, mixed, before)
    if before is not None or acceptance.best is None:
        as_they_were = with_some_as_they_were([True] * len(solutions), "" if acceptance.best is not None else why)
        yield as_they_were, order_run(workload, as_they_were, before)
        keeps_none = bool(np.all(workload.run.implementation == NATIVE)) or not any(
            candidate.keeps_custom for candidate in as_they_were
        )
        if before is not None and keeps_none and all(candidate.schedule is None for candidate in as_they_were):
            yield as_they_were, None


@dataclass(frozen=True, slots=True)
class _CustomTrace:
    """Whether the nodes of a case ran a custom trace before, and whether that is the one of the case's solution."""

    exists: bool
    is_solution: bool = False


def _custom_traces(workload: Workload, solutions: Solutions, start: Run) -> list[_CustomTrace]:
    """The custom trace that the nodes of each case ran before."""
    nodes, of_node = workload.instances.nodes, workload.of_instance[workload.instances.instance]
    traces = []
    for number, solution in enumerate(solutions):
        entry = int(np.argmax(of_node == number))
        named = int(start.implementation[nodes.row[entry]])
        if named == NATIVE or nodes.named_group[entry] != nodes.group[entry]:
            traces.append(_CustomTrace(exists=False))
            continue
        trace = start.collectives[named]
        assert isinstance(trace, Trace)  # compact ones are of compact runs
        traces.append(_CustomTrace(True, solution.schedule is not None and is_trace_of(solution.schedule, trace)))
    return traces


def _as_it_was(pattern: int, solution: CaseSolution, start: Run, custom: _CustomTrace, reason: str) -> CaseSolution:
    """The solution of a case that stays as it was: the run's own trace, or native if ASTRA-sim can run it, else `solution`.

    `reason` says why; if it is empty, the reason is that this is faster.
    """
    if solution.schedule is None or custom.is_solution:
        return solution
    if custom.exists:
        text = reason or "in the whole run, its own trace is faster"
        return replace(solution, schedule=None, keeps_custom=True, reason=text)
    if PATTERN_KEYS.get(CommType(pattern)) in start.system.native:
        return replace(solution, schedule=None, reason=reason or "in the whole run, native is faster")
    return solution


def is_trace_of(schedule: Schedule, trace: Trace) -> bool:
    """Whether a trace equals the one that is written for a schedule, except for the first tag."""
    other = schedule_trace(schedule, trace.prefix)
    names = ("rank_first", "node_id", "kind", "duration_us", "size_bytes", "peer", "dep_first", "dep")
    if not all(np.array_equal(getattr(trace, name), getattr(other, name)) for name in names):
        return False
    tagged = other.tag >= 0
    shift = trace.tag[tagged] - other.tag[tagged]
    return not shift.size or int(np.ptp(shift)) == 0


def order_run(workload: Workload, solutions: Solutions, before: RunOutcome | None, known_ns: Ints | None = None) -> Ints:
    """int64, place of each row and collective in an order that all ranks can keep: that of the replay `before`, if possible.

    Parameters
    ----------
    before
        A replay; None for the order of list scheduling.
    known_ns
        int64[num_instances], how long collectives take, 0 where the solutions say it.
    """
    duration_ns, instance_ns = estimate_durations(workload, solutions)
    if known_ns is not None:
        instance_ns = np.where(known_ns > 0, known_ns, instance_ns)
    instances, urgency = workload.instances, None
    if before is not None:
        urgency = np.zeros(instances.num_instances, np.int64)
        np.maximum.at(urgency, instances.instance, before.node_issue_ns[instances.nodes.row])
        urgency = -urgency
    return order_instances(workload.graph, duration_ns, instance_ns, urgency)


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
