"""What to write, if the best collective of each case does not make the best run: collectives of a run get in each other's way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.planner.duration_estimates import estimate
from astra_tacos.planner.global_order import order_instances
from astra_tacos.planner.plan_result import time_spent
from astra_tacos.planner.solution import Solution
from astra_tacos.planner.workload import Workload
from astra_tacos.planner.written_run import WrittenRun
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.trace.schema import CommType
from astra_tacos.trace.trace import Trace

Choice = tuple[tuple[Solution, ...], NDArray[np.int64]]
"""What each case runs, and int64[num_nodes + num_instances], the order of rows and collectives."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRun:
    """A planned run: where it was written, and its replay."""

    folder: Path
    solutions: tuple[Solution, ...]
    written: WrittenRun
    after: RunOutcome


def choices(
    workload: Workload, solutions: tuple[Solution, ...], start: Run, before: RunOutcome | str, done: list[CandidateRun]
) -> Iterator[Choice]:
    """What to try, until an attempt is no slower than the run before.

    The best of each case; that in the order of the run before; the same without the cases that then take longer than before;
    all cases as they were, in that order. Of a run that is a plan already only the first and the last.

    Parameters
    ----------
    start, before
        The run before, and its replay or why there is none.
    done
        Attempts so far, to be filled as choices are taken.
    """
    yield solutions, _order(workload, solutions)
    if isinstance(before, str) or done[-1].after.end_ns <= before.end_ns:
        return
    own = _own_traces(workload, solutions, start)
    if not any(own[number] == "same" for number in own):
        yield solutions, _order(workload, solutions, before)
        if done[-1].after.end_ns <= before.end_ns:
            return
        slower = (time_spent(workload, done[-1].after) > time_spent(workload, before)).tolist()
        mixed = tuple(_stays(workload, solutions, start, own, number) if slower[number] else solutions[number] for number in own)
        yield mixed, _order(workload, mixed, before)
        if done[-1].after.end_ns <= before.end_ns:
            return
    kept = tuple(_stays(workload, solutions, start, own, number) for number in own)
    yield kept, _order(workload, kept, before)


def _own_traces(workload: Workload, solutions: tuple[Solution, ...], start: Run) -> dict[int, str]:
    """For each case, whether its nodes ran a custom trace: `none`, the `same` as its solution's, or an`other`."""
    of_node = workload.of_instance[workload.instances.instance]
    found: dict[int, str] = {}
    for number, solution in enumerate(solutions):
        row = int(workload.instances.nodes.row[np.argmax(of_node == number)])
        named = int(start.implementation[row])
        if named == NATIVE:
            found[number] = "none"
        else:
            is_same = solution.schedule is not None and is_trace_of(solution.schedule, start.collectives[named])
            found[number] = "same" if is_same else "other"
    return found


def _stays(workload: Workload, solutions: tuple[Solution, ...], start: Run, own: dict[int, str], number: int) -> Solution:
    """A case as it was: with the run's own trace, or native where ASTRA-sim can."""
    case, solution = workload.cases[number], solutions[number]
    if solution.schedule is None or own[number] == "same":
        return solution
    if own[number] == "other":
        return replace(solution, schedule=None, keeps_custom=True, reason="in the whole run, its own trace is faster")
    if case.pattern in PATTERN_KEYS and PATTERN_KEYS[CommType(case.pattern)] in start.system.native:
        return replace(solution, schedule=None, reason="in the whole run, native is faster")
    return solution


def is_trace_of(schedule: Schedule, trace: Trace) -> bool:
    """Whether a trace is what a schedule is written as, whatever its first tag."""
    other = schedule_trace(schedule, trace.prefix)
    names = ("rank_first", "node_id", "kind", "duration_us", "size_bytes", "peer", "dep_first", "dep")
    if not all(np.array_equal(getattr(trace, name), getattr(other, name)) for name in names):
        return False
    tagged = other.tag >= 0
    shift = trace.tag[tagged] - other.tag[tagged]
    return not shift.size or int(np.ptp(shift)) == 0


def _order(workload: Workload, solutions: tuple[Solution, ...], before: RunOutcome | None = None) -> NDArray[np.int64]:
    """Place of each row and collective in an order that all ranks can keep, if possible that of a replay."""
    duration_ns, instance_ns = estimate(workload, solutions)
    trace, instances = workload.run.workload, workload.instances
    urgency = None
    if before is not None:
        urgency = np.zeros(instances.num_instances, np.int64)
        np.maximum.at(urgency, instances.instance, before.node_issue_ns[instances.nodes.row])
        urgency = -urgency
    on_cpu = workload.run.columns.is_cpu_op
    return order_instances(trace, workload.issue, instances, workload.graph, duration_ns, instance_ns, on_cpu, urgency)
