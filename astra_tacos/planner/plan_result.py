"""The result of a plan in figures: what was changed, and how much time it saves on each judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.planner.best_native import BestNative
from astra_tacos.planner.run_bound import RunBound
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import least_ns
from astra_tacos.planner.workload import MessageCounts, Workload
from astra_tacos.replayer.run_replay import Attempt, replay_once
from astra_tacos.run.backend import Backend
from astra_tacos.run.critical_path import PathSummary
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.trace.trace import Trace
from astra_tacos.solver.judges import FIGURES, Judge
from astra_tacos.solver.possibility import RunEnd
from astra_tacos.support.arrays import Ints

Known = Mapping[Backend, Attempt]
"""Replays that are there already."""

_AS_FAST = 1.01


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """End of a run on one judge, in ns; None where it does not end, or was not asked for.

    Parameters
    ----------
    judge
        The judge.
    before_ns, after_ns
        Of the run before, and of the planned one.
    reason
        Why the planned one does not end.
    native_ns
        Of the best native run on this judge, where it was looked for: on judges with queues that the plan is not made for.
    """

    judge: Judge
    before_ns: int | None
    after_ns: int | None
    reason: str = ""
    native_ns: int | None = None

    @property
    def speed_up_over_native(self) -> float | None:
        """The best native run on this judge over the planned run there; None where either is not known."""
        return None if self.native_ns is None or self.after_ns is None else self.native_ns / max(self.after_ns, 1)

    @property
    def loses_to_native(self) -> bool:
        """Whether the planned run is slower here than the best native one, by more than models differ."""
        return self.native_ns is not None and (self.after_ns is None or self.after_ns > _AS_FAST * self.native_ns)

    def to_json(self) -> dict[str, Any]:
        """The time after under the judge's figure, `stock_ns`, the one before as `stock_before_ns`, and the best native one."""
        figure = self.judge.figure
        stem = figure.removesuffix("_ns")
        native = {} if self.native_ns is None else {f"{stem}_best_native_ns": self.native_ns}
        return {figure: self.after_ns, f"{stem}_before_ns": self.before_ns} | native

    def note(self, made_for: Backend) -> str | None:
        """What there is to say: the planned run does not end there, is slower than before, or takes less than it can.

        Parameters
        ----------
        made_for
            The backend of the plan: schedules whose sends wait in queues overlap on a judge that has none.
        """
        if made_for.link_model == "pipelined" and not self.judge.backend.models_congestion and self.after_ns is not None:
            return f"{self.judge.describe()} has no queues: sends of this plan overlap on links there, and its time is too short"
        if self.after_ns is None:
            return f"on {self.judge.describe()} the planned run does not end: {self.reason}"
        if self.before_ns is not None and self.after_ns > self.before_ns:
            times = f"{self.after_ns:,} ns instead of {self.before_ns:,} ns"
            return f"on {self.judge.describe()} the planned run is slower than the run before: {times}"
        return None


def judge_run(judges: tuple[Judge, ...], before: Known, after: Run, known_after: Known) -> tuple[JudgedRun, ...]:
    """The end of a run before and after, on each judge.

    Parameters
    ----------
    judges
        The judges.
    before
        The replays of the run before, on all of them.
    after
        The planned run.
    known_after
        Its replays by network model, as far as they are there.
    """
    judged = []
    for judge in judges:
        backend = judge.backend
        end = replay_once(after, backend, dict(known_after))
        judged.append(JudgedRun(judge, before[backend].end_ns, end.end_ns, end.reason))
    return tuple(judged)


def fair_judges(judges: tuple[Judge, ...], backend: Backend) -> tuple[Judge, ...]:
    """Those that can tell whether a plan for another backend ends earlier.

    A judge without queues is asked only of plans that are made for it: schedules whose sends wait in queues overlap there.
    """
    return tuple(judge for judge in judges if judge.backend.models_congestion or judge.backend == backend)


def notes_on_other_plan(judged: tuple[JudgedRun, ...], other: tuple[JudgedRun, ...], backend: Backend) -> tuple[str, ...]:
    """Where the plan for another backend ends earlier.

    Parameters
    ----------
    judged, other
        The plan, and the other one on its fair judges.
    backend
        The backend of the other one.
    """
    notes = []
    own = {each.judge.figure: each for each in judged}
    for theirs in other:
        ours = own[theirs.judge.figure]
        if theirs.after_ns is not None and (ours.after_ns is None or theirs.after_ns < ours.after_ns):
            instead = "" if ours.after_ns is None else f" instead of {ours.after_ns:,} ns"
            end = f"a plan for the {backend} backend ends at {theirs.after_ns:,} ns{instead}"
            notes.append(f"on {ours.judge.describe()} {end}: --backend {backend} makes such")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """Figures of a case; times in ns, None where unknown.

    Parameters
    ----------
    name, collective, size_bytes, members, groups
        What it is: the name of its traces, members of a group, and how many groups run it.
    first_group, first_node
        Ranks of the first of these groups; rank and id of the first node.
    count
        Collectives of the workload.
    algorithm, chunks_per_npu, link_model
        What its nodes run; `native` or `own trace` where they stay as they are.
    reason
        Why they do.
    predicted_ns, bound_ns
        Of one group alone.
    together_ns, native_ns
        Replays of all its groups at once, of the new traces and of the native collective.
    exact
        Whether the prediction is what ASTRA-sim takes for a group alone.
    was_cut_off
        Whether the budget was too small for the search for it.
    ran_out_of_time
        Whether the time limit ended it, so that another machine might find something else.
    from_cache
        Whether it had been synthesized before.
    spent_before_ns, spent_after_ns, share
        The most time that a rank spends in it before and after, and its share of the run after.
    """

    name: str
    collective: str
    size_bytes: int
    members: int
    groups: int
    first_group: tuple[int, ...]
    first_node: tuple[int, int]
    count: int
    algorithm: str
    chunks_per_npu: int
    link_model: str
    reason: str
    predicted_ns: int | None
    bound_ns: int | None
    together_ns: int | None
    native_ns: int | None
    exact: bool
    was_cut_off: bool
    ran_out_of_time: bool
    from_cache: bool
    spent_before_ns: int | None
    spent_after_ns: int
    share: float

    def to_json(self) -> dict[str, Any]:
        """Everything that depends on the inputs alone."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "from_cache"}


@dataclass(frozen=True, slots=True)
class JointFigures:
    """Figures of several collectives that run one joint schedule; times in ns, of one time that they run, on average.

    Parameters
    ----------
    name, collectives, ranks
        The name of the traces, what they are for (`4 x all-to-all 2 MiB`), and all ranks.
    count
        How often they run.
    chunks_per_npu
        How finely the one that is cut most finely is cut.
    predicted_ns, apart_ns, spent_ns
        Its predicted time, the time of the same collectives in the best run without joint schedules, and in this run.
    """

    name: str
    collectives: tuple[str, ...]
    ranks: tuple[int, ...]
    count: int
    chunks_per_npu: int
    predicted_ns: int
    apart_ns: int
    spent_ns: int


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """Where the ranks of a run are that was planned with and without another placement; times in ns, None where unknown.

    Parameters
    ----------
    name, matrix, npu_of_rank
        The placement that was written, in words, as a matrix (None if it was found without axes), and as a map.
    kept_as_is
        Whether the ranks stay where they were.
    before_ns
        End of the run as its files say.
    as_is_planned_ns, placed_planned_ns
        End of both plans; None where no other placement was planned.
    """

    name: str
    matrix: tuple[tuple[int, ...], ...] | None
    npu_of_rank: tuple[int, ...]
    kept_as_is: bool
    before_ns: int | None
    as_is_planned_ns: int
    placed_planned_ns: int | None


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan: times before and after, and the figures of each distinct collective.

    Parameters
    ----------
    backend, baseline
        What it was judged on, and the native algorithm of the run before, None for the run as it was.
    num_ranks, num_nodes, num_collectives
        Ranks, collective nodes, and collectives that they make.
    before_end, after_end
        End of the run; before is None if that run does not end.
    before_reason
        Why not.
    exposed_before_ns, exposed_after_ns
        Largest exposed communication of a rank.
    cases
        Figures by case.
    judged
        The end of the run on each judge, whichever it was planned for.
    notes
        Where the planned run is slower than before, and where a plan for another backend is faster.
    native
        The fastest native configuration of the run, and how it was found.
    bound
        What the run takes at least, whatever algorithms its collectives have.
    messages
        How many messages ASTRA-sim has to simulate.
    joint
        Collectives of several groups that run joint schedules.
    path_before, path_after
        The critical paths; before is None if that run does not end.
    placement
        Where the ranks are, if other places were tried. The run before is then the one in that placement.
    """

    backend: Backend
    baseline: str | None
    num_ranks: int
    num_nodes: int
    num_collectives: int
    before_end: RunEnd | None
    before_reason: str
    after_end: RunEnd
    exposed_before_ns: int | None
    exposed_after_ns: int
    cases: tuple[CaseFigures, ...]
    judged: tuple[JudgedRun, ...]
    notes: tuple[str, ...]
    native: BestNative
    bound: RunBound
    messages: MessageCounts
    joint: tuple[JointFigures, ...]
    path_before: PathSummary | None
    path_after: PathSummary
    placement: PlannedPlacement | None = None

    @property
    def before_ns(self) -> int | None:
        """End of the run before in its replay; None if it does not end."""
        return None if self.before_end is None else self.before_end.end_ns

    @property
    def after_ns(self) -> int:
        """End of the planned run in its replay."""
        return self.after_end.end_ns

    @property
    def counted_ns(self) -> int:
        """End of the planned run where it counts, see `RunEnd`."""
        return self.after_end.counted_ns

    @property
    def efficiency(self) -> float | None:
        """The bound as a share of the time after; None if that is shorter than any network can be."""
        return efficiency_of(self.counted_ns, self.bound.end_ns)

    @property
    def best_native_ns(self) -> int | None:
        """End of the native run that ends first where a network can carry it; None if none is known."""
        return None if self.native.fastest_possible is None else self.native.fastest_possible.end.possible_ns

    @property
    def speed_up_over_best_native(self) -> float | None:
        """The same time over the time after, as both count."""
        return None if self.best_native_ns is None else self.best_native_ns / max(self.counted_ns, 1)

    @property
    def speed_up(self) -> float | None:
        """Time before over time after, as both count."""
        return None if self.before_end is None else self.before_end.counted_ns / max(self.counted_ns, 1)

    def to_json(self) -> dict[str, Any]:
        """One object for `plan.json`."""
        own: dict[str, Any] = {"backend": self.backend.name, "baseline": self.baseline}
        own |= {"num_ranks": self.num_ranks, "num_nodes": self.num_nodes, "num_collectives": self.num_collectives}
        own |= end_in_json("before", self.before_end) | {"before_reason": self.before_reason}
        own |= end_in_json("after", self.after_end)
        own |= {"exposed_before_ns": self.exposed_before_ns, "exposed_after_ns": self.exposed_after_ns}
        own |= {"notes": list(self.notes), "speed_up": self.speed_up}
        own |= {"best_native_ns": self.best_native_ns, "speed_up_over_best_native": self.speed_up_over_best_native}
        own |= self.native.to_json() | self.bound.to_json() | {"efficiency": self.efficiency}
        own |= {"below_bound_ns": max(self.bound.end_ns - self.counted_ns, 0)}
        own |= self.messages.to_json() | dict.fromkeys(FIGURES)
        for judged in self.judged:
            own |= judged.to_json()
        own |= {"joint": [asdict(each) for each in self.joint]}
        paths = {"before": self.path_before, "after": self.path_after}
        own |= {} if self.placement is None else {"placement": asdict(self.placement)}
        own |= {"critical_path": {when: path and path.to_json() for when, path in paths.items()}}
        return own | {"cases": [case.to_json() for case in self.cases]}


def case_figures(
    workload: Workload, solutions: tuple[CaseSolution, ...], before: Attempt, after: RunOutcome
) -> tuple[CaseFigures, ...]:
    """Figures of all cases, those in which a rank spends most of the run after first.

    Parameters
    ----------
    workload
        The run and its collectives.
    solutions
        The result of each distinct collective.
    before, after
        Replays of the run as it was, and of the planned one.
    """
    spent_after = time_spent(workload, after)
    spent_before = None if before.outcome is None else time_spent(workload, before.outcome)
    nodes = workload.instances.nodes
    has_trace = workload.run.implementation[nodes.row] != NATIVE
    names_trace = np.zeros(len(workload.cases) + 1, np.bool_)  # the last one: collectives of no case
    case_of_node = workload.of_instance[workload.instances.instance]
    np.logical_or.at(names_trace, case_of_node, has_trace)
    figures = []
    for number, (case, solution) in enumerate(zip(workload.cases, solutions, strict=True)):
        schedule = solution.schedule
        own = solution.keeps_custom and names_trace[number]
        first = int(np.argmax(case_of_node == number))
        figures.append(
            CaseFigures(
                name=case.name,
                collective=case.collective,
                size_bytes=case.size_bytes,
                members=case.num_members,
                groups=len(case.groups),
                first_group=case.groups[0],
                first_node=(int(nodes.rank[first]), int(workload.run.workload.node_id[nodes.row[first]])),
                count=case.count,
                algorithm=schedule.synthesizer if schedule else "own trace" if own else "native",
                chunks_per_npu=schedule.collective.chunks_per_npu if schedule else 0,
                link_model=schedule.timing.link_model if schedule else "",
                reason=solution.reason,
                predicted_ns=schedule.collective_time_ns if schedule else None,
                bound_ns=least_ns(case, solution),
                together_ns=solution.together_ns,
                native_ns=solution.native_ns,
                exact=solution.is_exact,
                was_cut_off=solution.was_cut_off,
                ran_out_of_time=solution.ran_out_of_time,
                from_cache=solution.from_cache,
                spent_before_ns=None if spent_before is None else int(spent_before[number]),
                spent_after_ns=int(spent_after[number]),
                share=round(float(spent_after[number]) / max(after.end_ns, 1), 6),
            )
        )
    return tuple(sorted(figures, key=lambda figures: (-figures.spent_after_ns, figures.name)))


def end_in_json(when: str, end: RunEnd | None) -> dict[str, Any]:
    """The keys of plan.json for the end of a run."""
    times = {f"{when}_ns": None, f"{when}_possible_ns": None, f"{when}_impossible": ""}
    if end is None:
        return times
    return dict(zip(times, (end.end_ns, end.possible_ns, end.impossible), strict=True))


def time_spent(workload: Workload, outcome: RunOutcome) -> Ints:
    """int64[num_cases], the most time that a rank spends in each case. Rows of the workload are the same before and after."""
    trace = workload.run.workload
    case = np.full(trace.num_nodes, -1, np.int64)
    case[workload.instances.nodes.row] = workload.of_instance[workload.instances.instance]
    return most_spent(case, len(workload.cases), trace, outcome)


def most_spent(case: Ints, num_cases: int, trace: Trace, outcome: RunOutcome) -> Ints:
    """int64[num_cases], the most time that a rank spends in nodes of each case.

    Parameters
    ----------
    case, num_cases
        int64[num_nodes], the case of each node, -1 for none; and how many cases there are.
    trace, outcome
        The nodes, and a replay of them.
    """
    rows = np.flatnonzero((case >= 0) & (outcome.node_issue_ns >= 0))
    spent = np.zeros((num_cases, trace.num_ranks), np.int64)
    np.add.at(spent, (case[rows], trace.rank[rows]), outcome.node_finish_ns[rows] - outcome.node_issue_ns[rows])
    longest: Ints = spent.max(axis=1, initial=0)
    return longest
