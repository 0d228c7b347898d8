"""Plans of runs with classes: a symmetric schedule for each distinct collective, and a replay of one rank of each class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.network.network_config import describe_dimensions
from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.best_native import MOST_MESSAGES
from astra_tacos.planner.classes.cases import CompactCase, Schedules, find_cases, group_at, with_schedules
from astra_tacos.planner.classes.class_bound import class_bound
from astra_tacos.planner.classes.ordinary_run import write_expanded
from astra_tacos.planner.plan_result import CaseFigures, JointFigures, most_spent
from astra_tacos.planner.planning import Planning, Start
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import RunBound, less_truncated
from astra_tacos.planner.run_files import ORDINARY, NodeTable
from astra_tacos.planner.workload import MOST_SENDS, baseline_run
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import choose_backend
from astra_tacos.run.compact_run import why_not_compact
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel
from astra_tacos.solver.clock import Printed
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.solver.native_search import MOST_SPLITS, NativeCollectives, Reach
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError, ReplayError, SynthesisError
from astra_tacos.synthesizer.search.search_options import QUICK
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric
from astra_tacos.verifier.symmetric_oracle import check_symmetric

_NATIVES = ("ring", "direct")
"""Native algorithms in which all members do the same."""
_MOST_PARTS = 50_000
"""Parts that splits cut a native collective into, of all ranks of a group."""
_REACH = Reach(
    MOST_MESSAGES,
    _MOST_PARTS,
    rounds=1,
    algorithms=_NATIVES,
    by_dimension=False,
    varied=frozenset({"algorithms", "splits"}),
    split=1,
    space=f"{' or '.join(_NATIVES)} by pattern x 1 to {MOST_SPLITS} splits, all of them active",
)
"""How far the best native run is looked for."""
_WORTH = 0.005
"""Other schedules are tried for a case that takes a larger share of the run."""
_MOST_OF_REPRESENTATIVES = 1 << 22
"""Sends of a rank in all collectives that the representatives run: a schedule that they run n times may have an nth of them."""
_MOST_OF_ONE_CHUNK = 1 << 18
"""Sends of a rank in a collective of one chunk per NPU, which has no fewer."""
_MOST_EXPANDED = 1024
"""Most ranks of an ordinary run beside one with classes."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassCandidate:
    """A run that may be the planned one.

    Parameters
    ----------
    schedules
        What its cases run; others are native.
    after
        Its replay.
    is_incomplete
        Whether its native collectives move too little.
    """

    run: Run
    schedules: Schedules
    after: RunOutcome
    is_incomplete: bool

    @property
    def end_ns(self) -> int:
        """When it ends on the clock."""
        return self.after.end_ns

    def is_better_than(self, other: ClassCandidate) -> bool:
        """Whether it is the better one: it ends earlier, or moves all of its data and the other does not."""
        if self.is_incomplete != other.is_incomplete:
            return other.is_incomplete
        return self.end_ns < other.end_ns

    def proof(self, written: Run, before: Run, npu_of_rank: Ints | None) -> dict[str, Any]:
        """Nothing: the oracle has proven the schedules, and reads no traces of classes."""
        return {}

    def write_beside(self, folder: Path, written: Run, prints: Sequence[Printed]) -> None:
        """Write the ordinary run that this one stands for, if it has few ranks."""
        assert written.classes is not None
        if written.classes.num_ranks <= _MOST_EXPANDED:
            (folder / ORDINARY).mkdir()
            symmetric = {prefix: traces for prefix, traces in self.run.files.items() if isinstance(traces, SymmetricTraces)}
            write_expanded(written, symmetric, folder / ORDINARY)

    def node_table(self) -> NodeTable | None:
        """None: a node stands for those of its class."""
        return None


_Solutions = tuple[Schedules, ...]
"""The schedules of cases, for each link model."""


class ClassPlanning(Planning[_Solutions, ClassCandidate]):
    """The plan of a run with classes.

    Raises
    ------
    ConfigError
        If ranks of a class do not do the same, or a group is no product of coordinates.
    """

    def __init__(self, request: PlanRequest, run: Run, on_native: OnProgress) -> None:
        assert run.classes is not None
        if why := why_not_compact(run):
            raise ConfigError(f"{run.network.source}: {why}")
        self.lattice = run.classes
        self.cases = find_cases(run)
        most = max((case.members for case in self.cases.cases), default=0)
        over_all = frozenset(case.key for case in self.cases.cases if case.members == self.lattice.num_ranks)

        def messages(configuration: NativeConfiguration) -> int:
            return most * configuration.splits if configuration.splits > 1 else 0  # unsplit ones are always replayed

        collectives = NativeCollectives(run, self.cases.patterns, over_all, messages)
        start = baseline_run(run, run, request.baseline)
        super().__init__(request, run, start, choose_backend(request.backend), collectives, on_native)
        self._left_out: list[str] = []

    @property
    def reach(self) -> Reach:
        """How far the best native run is searched: natives in which all members do the same."""
        return replace(_REACH, varied=frozenset(), is_partial=True) if self.request.options.effort == QUICK else _REACH

    @property
    def limit(self) -> None:
        """None: schedules are limited one by one."""
        return None

    @property
    def counts(self) -> tuple[int, int]:
        """How many collective nodes all ranks have, and how many collectives they make."""
        counts = [self._count(number) for number in range(len(self.cases.cases))]
        return sum(count * case.members for count, case in zip(counts, self.cases.cases, strict=True)), sum(counts)

    def _count(self, number: int) -> int:
        """How many collectives a case has, of all ranks."""
        return self.cases.counts[number] * self._alike // self.cases.cases[number].members

    @property
    def _alike(self) -> int:
        """Ranks of a class."""
        return self.lattice.num_ranks // self.run.workload.num_ranks

    def solve(self, on_progress: OnProgress) -> _Solutions:
        """A schedule for each case that has one, for each link model."""
        # Also for the other link model: a run may be refused whose events have no one order.
        link_models = sorted(LINK_MODELS, key=lambda link_model: link_model != self.clock.link_model)
        solutions = []
        for done, link_model in enumerate(link_models, 1):
            solutions.append(self._schedules(link_model))
            on_progress(done, len(link_models))
        return tuple(solutions)

    def _schedules(self, link_model: LinkModel) -> Schedules:
        """A schedule for each case that has one."""
        schedules: Schedules = {}
        for number, (case, count) in enumerate(zip(self.cases.cases, self.cases.counts, strict=True)):
            try:
                task = case.task(link_model)
                if task is not None and task.least_rows > _MOST_OF_ONE_CHUNK:
                    self._left_out.append(
                        f"{case} stays native: {task.least_rows:,} sends of a rank, expected at most {_MOST_OF_ONE_CHUNK:,}"
                    )
                elif task is not None:
                    schedule = best_symmetric(task, min(MOST_SENDS, _MOST_OF_REPRESENTATIVES // count) * case.members)
                    check_symmetric(schedule)
                    schedules[number] = schedule
            except (ConfigError, SynthesisError) as error:
                self._left_out.append(f"{case} stays native: {error}")
        return schedules

    def choose(self, base: Start, solutions: _Solutions) -> ClassCandidate:
        """The run that ends first, of the native one and those with schedules."""
        acceptance = Acceptance(self._unchanged(base) if base.native is not None or not self.cases.patterns else None)
        for name, schedules in self._proposals(solutions, acceptance):
            run = with_schedules(self.run, self.cases, schedules, base.native)
            if acceptance.consider(partial(self._replayed, run, schedules)) is None:
                self._left_out.append(f"{name} is left out: {acceptance.failures[-1]}")
        if acceptance.best is None:
            why = acceptance.failures[-1] if acceptance.failures else self.native.refusal
            raise ReplayError(f"{self.run.workload.prefix}: no run can be replayed; {why}")
        return acceptance.best

    def _unchanged(self, start: Start) -> ClassCandidate | None:
        """A run without schedules of ours; None if it does not end."""
        after = start.replay.outcome
        return None if after is None else ClassCandidate(start.run, {}, after, is_incomplete=start.end_ns is None)

    def _replayed(self, run: Run, schedules: Schedules) -> ClassCandidate:
        after = replay_run(run, self.clock, route_loads=True)
        return ClassCandidate(run, schedules, after, is_incomplete=bool(why_incomplete(run)))

    def _proposals(self, solutions: _Solutions, acceptance: Acceptance[ClassCandidate]) -> Iterator[tuple[str, Schedules]]:
        """What cases may run: all schedules of one link model, then other schedules of one case at a time."""
        for schedules in filter(None, solutions):
            yield "the run with all schedules", schedules
        cases, best = sorted(set().union(*solutions)), acceptance.best
        spent = None if best is None else self._spent(best.after)
        for number in cases if len(cases) > 1 else ():
            best = acceptance.best
            if best is not None and (0 if spent is None else spent[number]) < _WORTH * best.end_ns:
                continue
            for schedule in (None, *(schedules.get(number) for schedules in solutions)):
                chosen = {} if acceptance.best is None else acceptance.best.schedules
                if schedule is not chosen.get(number):
                    others = {key: kept for key, kept in chosen.items() if key != number}
                    others |= {} if schedule is None else {number: schedule}
                    yield f"the run with {self.cases.cases[number]}", dict(sorted(others.items()))

    def _spent(self, outcome: RunOutcome) -> list[int]:
        """The most time that a rank spends in each case."""
        most: list[int] = most_spent(self.cases.of_row, len(self.cases.cases), self.run.workload, outcome).tolist()
        return most

    def bound(self, solutions: _Solutions) -> RunBound:
        """What the run takes at least, whatever algorithms its collectives have."""
        return class_bound(self.run, self.cases.alone_ns, self.clock)

    def notes(self, best: ClassCandidate, solutions: _Solutions) -> tuple[str, ...]:
        """What could not be done, and what the times do not say."""
        reason, before = self.own.replay.reason, self._unchanged(self.own)
        notes = [f"the run before is left out: {reason}"] if reason else []
        notes += [*self.native.left_out, *self._left_out]
        if before is not None and before.is_better_than(best):
            notes.append(f"keep the run as it is: it ends at {before.end_ns:,} ns, before this plan")
        return tuple(notes)

    def joint_figures(self, best: ClassCandidate) -> tuple[JointFigures, ...]:
        """None: classes have no joint schedules."""
        return ()

    def figures(self, best: ClassCandidate) -> tuple[CaseFigures, ...]:
        """Figures of each distinct collective, those in which a rank spends most of the run first."""
        run, cases, before = self.run, self.cases, self.own.replay.outcome
        spent_before, spent_after = None if before is None else self._spent(before), self._spent(best.after)
        trace = run.workload
        place = {number: place for place, number in enumerate(best.schedules)}
        bandwidth_gibps = np.array([dimension.bandwidth_gibps for dimension in run.network.dimensions])
        figures = []
        for number, case in enumerate(cases.cases):
            schedule = best.schedules.get(number)
            rows = np.flatnonzero(cases.of_row == number)
            first = int(rows[0])
            least = case.least_ns() if self.clock.models_congestion else None
            if least is not None:
                least = less_truncated(least, case.collective, case.size_bytes, case.members, bandwidth_gibps)
            figures.append(
                CaseFigures(
                    name=case.name if schedule is None else f"{case.name}_{place[number]}",
                    collective=case.collective,
                    size_bytes=case.size_bytes,
                    members=case.members,
                    groups=len(np.unique(trace.rank[rows])) * self._alike // case.members,
                    first_group=group_at(run, first),
                    first_node=(int(self.lattice.representatives[trace.rank[first]]), int(trace.node_id[first])),
                    count=self._count(number),
                    algorithm=_natives(best, case) if schedule is None else schedule.synthesizer,
                    chunks_per_npu=0 if schedule is None else schedule.task.chunks_per_npu,
                    link_model="" if schedule is None else schedule.task.link_model,
                    reason="",
                    predicted_ns=None if schedule is None else schedule.collective_time_ns,
                    bound_ns=least,
                    together_ns=None,
                    native_ns=None,
                    exact=True,
                    was_cut_off=False,
                    ran_out_of_time=False,
                    from_cache=False,
                    spent_before_ns=None if spent_before is None else spent_before[number],
                    spent_after_ns=spent_after[number],
                    share=round(spent_after[number] / max(best.end_ns, 1), 6),
                    network=None if case.dimensions is None else describe_dimensions(case.dimensions),
                )
            )
        return tuple(sorted(figures, key=lambda figures: -figures.spent_after_ns))


def _natives(best: ClassCandidate, case: CompactCase) -> str:
    return "native " + ", ".join(dict.fromkeys(best.run.system.native.get(case.key, ())))
