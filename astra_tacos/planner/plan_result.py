"""The result of a plan in figures: what was changed, and how much time it saves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.pages.prints import prints_text
from astra_tacos.planner.best_native import BestNative
from astra_tacos.planner.run_bound import RunBound, less_truncated
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import least_ns
from astra_tacos.planner.workload import DistinctCollective, MessageCounts, Workload
from astra_tacos.replayer.run_replay import Attempt, try_replay
from astra_tacos.run.backend import Backend, binaries_for
from astra_tacos.run.critical_path import PathSummary
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.trace.trace import Trace
from astra_tacos.solver.clock import Printed, beside_native
from astra_tacos.support.arrays import Ints
from astra_tacos.support.rows import Figure, Importance, Result, Row, Table, Value, detail, notes_of, share_of
from astra_tacos.support.units import format_size, format_time

_MOST_CASES = 4
"""Cases in an answer of one screen."""
_MOST_RANKS = 8
"""Ranks of a group that are listed."""
_COLUMNS = (
    "collective",
    "members",
    "groups",
    "count",
    "algorithm",
    "predicted ns",
    "all at once ns",
    "bound ns",
    "before ns",
    "after ns",
    "share",
)
_SHORT = ("collective", "groups", "count", "algorithm", "before ns", "after ns", "share")
_COMPUTES = 1.001
"""A run whose compute takes all but a thousandth of its time cannot gain."""
DEPRECATED = {"after_ns": "time_ns", "exposed_after_ns": "exposed_ns"}
"""Keys of plan.json that the next release will not have, and those that take their place."""


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """Figures of a case; times in ns, None where unknown.

    Parameters
    ----------
    name, collective, size_bytes, members, groups
        What it is: the name of its traces, members of a group, and how many groups run it.
    first_group, first_node
        Ranks of the first of these groups; rank and id of the first node.
    algorithm, chunks_per_npu, link_model
        What its nodes run; `native` or `own trace` where they stay as they are.
    together_ns, native_ns
        Replays of all its groups at once, of the new traces and of the native collective.
    ran_out_of_time
        Whether the time limit ended it, so that another machine might find something else.
    spent_before_ns, spent_after_ns, share
        The most time that a rank spends in it before and after, and its share of the run after.
    network
        The network that its members have between them, where that is dimensions.
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
    network: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything that depends on the inputs alone."""
        left = {"from_cache", *(("network",) if self.network is None else ())}
        return {name: getattr(self, name) for name in self.__slots__ if name not in left}

    @property
    def which(self) -> str:
        """The case by its pattern, size, groups and nodes."""
        ranks = ", ".join(map(str, self.first_group[:_MOST_RANKS])) + (", ..." if len(self.first_group) > _MOST_RANKS else "")
        more = f" and {self.groups - 1:,} more" if self.groups > 1 else ""
        rank, node = self.first_node
        nodes = f"{self.count * self.members:,} nodes, the first rank {rank}, node {node}"
        return f"{self.collective} of {format_size(self.size_bytes)}, group of ranks {ranks}{more} ({nodes})"

    def cells(self) -> tuple[Value, ...]:
        """The row of the case in a table of `_COLUMNS`."""
        predicted_ns: Value = self.predicted_ns
        if self.predicted_ns is not None and not self.exact:
            predicted_ns = Figure(self.predicted_ns, f"{self.predicted_ns:,} ~")
        return (
            f"{self.collective} {format_size(self.size_bytes)}",
            self.members,
            self.groups,
            self.count,
            f"{self.algorithm} x{self.chunks_per_npu}" if self.chunks_per_npu else self.algorithm,
            predicted_ns,
            self.together_ns,
            self.bound_ns,
            self.spent_before_ns,
            self.spent_after_ns,
            share_of(self.share),
        )


@dataclass(frozen=True, slots=True)
class JointFigures:
    """Figures of several collectives that run one joint schedule; times in ns, of one time that they run, on average.

    Parameters
    ----------
    name, collectives, ranks
        The name of the traces, what they are for (`4 x all-to-all 2 MiB`), and all ranks.
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

    def cells(self) -> tuple[Value, ...]:
        """The row of the joint schedule in a table."""
        counts = self.count, self.chunks_per_npu, self.predicted_ns, self.apart_ns, self.spent_ns
        return ", ".join(self.collectives), len(self.ranks), *counts


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """Where the ranks of a run are that was planned with and without another placement; times in ns, None where unknown.

    Parameters
    ----------
    name, matrix, npu_of_rank
        The placement that was written, in words, as a matrix (None if it was found without axes), and as a map.
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


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Result):
    """The result of a plan: times before and after, and the figures of each distinct collective.

    Parameters
    ----------
    clock, baseline
        The network model that all times are of, and the native algorithm of the run before, None for the run as it was.
    num_ranks, num_nodes, num_collectives
        Ranks, collective nodes, and collectives that they make.
    before_ns, time_ns
        End of the run as its files say, and of the planned one; before is None if that run does not end.
    before_reason
        Why not.
    exposed_before_ns, exposed_ns
        Largest exposed communication of a rank.
    cases
        Figures by case.
    notes
        What could not be done, and why.
    native
        The best native configuration of the run, and how it was found.
    bound
        What the run takes at least, whatever algorithms its collectives have.
    messages
        How many messages ASTRA-sim has to simulate.
    joint
        Collectives of several groups that run joint schedules.
    path_before, path_after
        The critical paths; before is None if that run does not end, and both of a run with classes that is not written.
    prints
        What programs of ASTRA-sim print for the planned run, and for the best native one.
    moved_ns
        End of the best native run, moved in space or in time as the planned run was; None if that was not moved.
    placement
        Where the ranks are, if other places were tried.
    num_classes
        Ranks that stand for all, of a run with classes.

    Examples
    --------
    >>> from astra_tacos import plan
    >>> result = plan("configs/workload/transformer_16", network="configs/network/torus_4x4.yml").result
    >>> result.time_ns <= result.before_ns
    True
    """

    clock: Backend
    baseline: str | None
    num_ranks: int
    num_nodes: int
    num_collectives: int
    before_ns: int | None
    before_reason: str
    time_ns: int
    exposed_before_ns: int | None
    exposed_ns: int
    cases: tuple[CaseFigures, ...]
    notes: tuple[str, ...]
    native: BestNative
    bound: RunBound
    messages: MessageCounts
    joint: tuple[JointFigures, ...]
    path_before: PathSummary | None
    path_after: PathSummary | None
    prints: tuple[Printed, ...] = ()
    moved_ns: int | None = None
    placement: PlannedPlacement | None = None
    num_classes: int | None = None

    @property
    def bound_ns(self) -> int:
        """What the run takes at least on the clock."""
        return self.bound.end_ns

    @property
    def num_tried(self) -> int:
        """How many native configurations were replayed."""
        return self.native.num_replays

    @property
    def efficiency(self) -> float:
        """The bound as a share of the time."""
        return efficiency_of(self.time_ns, self.bound_ns)

    @property
    def best_native_ns(self) -> int | None:
        """End of the best native run; None if none is known."""
        return self.native.end_ns

    @property
    def speed_up_over_best_native(self) -> float | None:
        """The end of the best native run over that of the planned one."""
        return None if self.best_native_ns is None else self.best_native_ns / max(self.time_ns, 1)

    @property
    def speed_up(self) -> float | None:
        """The end of the run before over that of the planned one."""
        return None if self.before_ns is None else self.before_ns / max(self.time_ns, 1)

    @property
    def why_no_gain(self) -> str:
        """Why the planned run ends no earlier than the best native one; "" if it does, or none is known."""
        if self.best_native_ns is None or self.time_ns < self.best_native_ns:
            return ""
        if self.time_ns <= self.bound.parts_ns.get("compute", 0) * _COMPUTES:
            return "no gain: compute ends last"
        limit = self.messages.limit
        if limit is not None and limit < self.native_messages:
            return f"no gain: the best native run has more messages than the {limit:,} of --max-messages"
        ordinary = "" if self.num_classes is None else " (the run of `export --format run` may gain)"
        return f"no gain: native collectives are as fast{ordinary}"

    @property
    def native_messages(self) -> int:
        """Messages of the best native run, 0 if none is known."""
        return 0 if self.native.best is None else self.native.best.num_messages

    def title(self) -> str:
        """How many collectives of how many ranks there are, and on which clock."""
        count = self.num_classes
        classes = "" if count is None else f" of {count:,} class{'es' * (count != 1)}"
        ranks = f"{self.num_collectives:,} collectives of {self.num_ranks:,} ranks{classes}"
        return f"{ranks}, {len(self.cases):,} distinct, on the {self.clock} model"

    def rows(self) -> list[Row]:
        """The times on the clock, where the ranks are, what bounds the times, and notes."""
        return [*self.times(), *self.beside_times()]

    def times(self) -> list[Row]:
        """The times of the plan on its clock."""
        rows = [Row("end of the run", self.time_ns, "ns", self.why_no_gain)]
        if self.before_ns is None:
            rows.append(Row("before", None, note="the run before does not end: --verbose says why"))
        else:
            baseline = f", native {self.baseline}" if self.baseline else ""
            rows.append(Row("before", self.before_ns, "ns", f"{self._times(self.before_ns)} times as long{baseline}"))
        best_ns = self.best_native_ns
        if best_ns is not None:
            tried = f"the best of {self.num_tried:,} configurations"
            rows.append(Row("best native", best_ns, "ns", f"{self._times(best_ns)} times as long, {tried}"))
            if self.moved_ns is not None:
                how = "moved in time" if self.placement is None else "with its ranks placed"
                chain = f"{best_ns:,} best native -> {self.moved_ns:,} the same collectives, {how} -> {self.time_ns:,}"
                rows.append(Row("in steps", note=f"{chain} with synthesized collectives: {self._times(best_ns)} times"))
        if self.clock.models_congestion:
            share = f"{self.bound_ns / max(self.time_ns, 1):.1%} of the end of the run"
        else:
            share = "compute and latencies alone: on this model a link carries any number of messages at once"
        rows.append(Row("at least", self.bound_ns, "ns", share))
        before = "" if self.exposed_before_ns is None else f"{self.exposed_before_ns:,} ns before"
        return [*rows, Row("exposed", self.exposed_ns, "ns", before)]

    def beside_times(self) -> list[Row]:
        """Where the ranks are and what programs print; what was tried and what bounds the times; notes."""
        rows = [] if self.placement is None else [Row("placement", note=self.placement.name)]
        printed = prints_text([printed_collective.to_json() for printed_collective in self.prints], self.clock.name)
        rows += [Row("prints", note=printed)] if printed else []
        best = self.native.best.name if self.native.best else None
        space = f"{self.native.space}; the best: {best}" if best else f"{self.native.space}; {self.native.refusal}"
        rows.append(detail("native space", f"{self.native.num_replays} tried of: {space}"))
        return [*rows, *self._bounds(), self._cost(), *notes_of(self.notes)]

    def _bounds(self) -> list[Row]:
        """What makes the bound so long, and how close the run is if the members of collectives keep in step."""
        rows = [detail("bound", self.bound_ns, "ns", self.bound.where)]
        in_step_ns = self.bound.in_step_ns
        if in_step_ns is not None:
            is_met = in_step_ns <= self.time_ns
            share = f"{in_step_ns / max(self.time_ns, 1):.1%} of the end of the run" if is_met else "this run takes less"
            condition = "the bound if members of collectives begin and end together and no other rank relays"
            rows.append(detail("in step", in_step_ns, "ns", f"{condition} ({share})"))
        return rows

    def _cost(self) -> Row:
        """What the planned run costs the simulator."""
        counts = self.messages
        before = "" if counts.before is None else f"{counts.before:,} -> "
        is_above = counts.limit is not None and counts.after > counts.limit
        above = f", above the {counts.limit:,} asked for: no collective takes less" if is_above else ""
        took = f"about {format_time(counts.after_s * 1e9)} of ASTRA-sim's own time"
        return detail("messages", f"{before}{counts.after:,} ({took}{above})")

    def _times(self, other_ns: int) -> str:
        """How many times as long as the planned run something takes."""
        return f"{other_ns / max(self.time_ns, 1):.3f}"

    def tables(self) -> list[Table]:
        """Figures by case, and of joint schedules; below, why cases keep their algorithms."""
        left = [case for case in self.cases if case.reason]
        why = [f"not synthesized, algorithm {case.algorithm}: {case.which}: {case.reason}" for case in left]
        remarks = ("", *why) if why else ()
        title = "one schedule for several groups, whose ranks relay chunks for other groups (times are means per group)"
        columns = ("joint schedules", "ranks", "count", "chunks", "predicted ns", "apart ns", "after ns")
        joint = [figure.cells() for figure in self.joint]
        tables = [Table(title, columns, joint, Importance.DETAIL, remarks=remarks)] if joint else []
        return [self._cases(() if joint else remarks), *tables]

    def _cases(self, remarks: tuple[str, ...]) -> Table:
        cells = [case.cells() for case in self.cases]
        at = [_COLUMNS.index(name) for name in _SHORT]
        few = [tuple(row[column] for column in at) for row in cells[:_MOST_CASES]]
        short = Table(f"where the time goes ({len(few)} of {len(cells)})", _SHORT, few)
        title = "collectives (before and after: the most time that a rank spends in them)"
        return Table(title, _COLUMNS, cells, Importance.DETAIL, remarks=remarks, short=short)

    def compared_with(self, as_is: PlanResult) -> PlanResult:
        """The same plan beside the run as its files say and its best native run, for a run that was moved before."""
        native = {printed.binary: printed.best_native_ns for printed in as_is.prints}
        return replace(
            self,
            before_ns=as_is.before_ns,
            before_reason=as_is.before_reason,
            exposed_before_ns=as_is.exposed_before_ns,
            native=as_is.native,
            moved_ns=None if self is as_is else self.native.end_ns,
            path_before=as_is.path_before,
            prints=beside_native(self.prints, native),
        )

    def to_json(self) -> dict[str, Any]:
        """One object for `plan.json`; `deprecated` names the keys that the next release will not have."""
        document: dict[str, Any] = {"backend": self.clock.name, "baseline": self.baseline}
        document |= {} if self.num_classes is None else {"num_classes": self.num_classes}
        document |= {"num_ranks": self.num_ranks, "num_nodes": self.num_nodes, "num_collectives": self.num_collectives}
        document |= {"time_ns": self.time_ns, "before_ns": self.before_ns, "before_reason": self.before_reason}
        document |= {"exposed_before_ns": self.exposed_before_ns, "exposed_ns": self.exposed_ns, "moved_ns": self.moved_ns}
        document |= {"notes": list(self.notes), "speed_up": self.speed_up}
        document |= {"best_native_ns": self.best_native_ns, "speed_up_over_best_native": self.speed_up_over_best_native}
        document |= self.native.to_json() | self.bound.to_json() | {"efficiency": self.efficiency}
        document |= {"prints": [printed.to_json() for printed in self.prints]} | self.messages.to_json()
        document |= {"after_ns": self.time_ns, "exposed_after_ns": self.exposed_ns, "deprecated": DEPRECATED}
        document |= {"joint": [asdict(figure) for figure in self.joint]}
        paths = {"before": self.path_before, "after": self.path_after}
        document |= {} if self.placement is None else {"placement": asdict(self.placement)}
        document |= {"critical_path": {when: path and path.to_json() for when, path in paths.items()}}
        return document | {"cases": [case.to_json() for case in self.cases]}


def case_figures(
    workload: Workload, solutions: tuple[CaseSolution, ...], before: Attempt, after: RunOutcome
) -> tuple[CaseFigures, ...]:
    """Figures of all cases, those in which a rank spends most of the run after first."""
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
        has_own_trace = solution.keeps_custom and names_trace[number]
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
                algorithm=schedule.synthesizer if schedule else "own trace" if has_own_trace else "native",
                chunks_per_npu=schedule.collective.chunks_per_npu if schedule else 0,
                link_model=schedule.timing.link_model if schedule else "",
                reason=solution.reason,
                predicted_ns=schedule.collective_time_ns if schedule else None,
                bound_ns=_least_ns(case, solution) if after.backend.models_congestion else None,
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


def _least_ns(case: DistinctCollective, solution: CaseSolution) -> int | None:
    """The bound of a case, less what truncated messages may save."""
    least = least_ns(case, solution)
    if least is None or solution.schedule is None:
        return least
    bandwidth_gibps = solution.schedule.topology.link_bandwidth_gibps
    return less_truncated(least, case.collective, case.size_bytes, case.num_members, bandwidth_gibps)


def find_prints(
    clock: Backend, network: NetworkConfig, planned: tuple[Run, int], native: tuple[Run, int] | None
) -> tuple[Printed, ...]:
    """What the programs of ASTRA-sim that run the network print for the planned run and for the best native one.

    Parameters
    ----------
    planned, native
        A run, and its end on the clock.
    """

    def end_of(backend: Backend, run: Run, end_ns: int) -> int | None:
        return end_ns if backend == clock else try_replay(run, backend).end_ns

    printed = []
    for binary in binaries_for(network):
        planned_ns = end_of(binary.backend, *planned)
        native_ns = None
        if native is not None:
            native_ns = planned_ns if native[0] is planned[0] else end_of(binary.backend, *native)
        printed.append(Printed(binary, planned_ns, native_ns))
    return tuple(printed)


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
    """
    rows = np.flatnonzero((case >= 0) & (outcome.node_issue_ns >= 0))
    spent = np.zeros((num_cases, trace.num_ranks), np.int64)
    np.add.at(spent, (case[rows], trace.rank[rows]), outcome.node_finish_ns[rows] - outcome.node_issue_ns[rows])
    longest: Ints = spent.max(axis=1, initial=0)
    return longest
