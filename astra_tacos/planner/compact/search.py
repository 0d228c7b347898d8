"""The search for the run that ends first: native algorithms, then schedules of cases. All candidates are replayed by classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.best_native import MOST_MESSAGES, BestNative, best_native
from astra_tacos.planner.compact.cases import CompactCases, Schedules, find_cases, with_schedules
from astra_tacos.planner.plan_result import most_spent
from astra_tacos.planner.workload import MOST_SENDS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.run_replay import Attempt, replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.solver.native_configuration import configuration_of
from astra_tacos.solver.native_search import MOST_SPLITS, NativeCollectives, NativeReplays, Reach
from astra_tacos.support.errors import ConfigError, ReplayError, SynthesisError
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


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
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

    def is_before(self, other: Candidate) -> bool:
        """Whether it is the better one: it ends earlier, or moves all of its data and the other does not."""
        if self.is_incomplete != other.is_incomplete:
            return other.is_incomplete
        return self.end_ns < other.end_ns


class Search:
    """The search of the plan of one run."""

    def __init__(self, run: Run, backend: Backend, baseline: str | None, on_progress: Callable[[int, int], None]) -> None:
        self.run, self.backend, self.baseline, self._on_progress = run, backend, baseline, on_progress
        self.found = find_cases(run)
        self.notes: list[str] = []
        self._num_done = 0
        own = _native_collectives(run, self.found)
        self._collectives = own if baseline is None else replace(own, run=own.alike(baseline).run(run))
        first = Acceptance[Candidate]()
        self.before = first.consider(lambda: self._replayed(self._collectives.run, {}))
        self.before_reason = "".join(f"the run before is left out: {error}" for error in first.failures)
        self.notes += filter(None, [self.before_reason])

    def _replayed(self, run: Run, schedules: Schedules) -> Candidate:
        """A candidate.

        Raises
        ------
        ConfigError, ReplayError
            As `replay_run`.
        """
        self._num_done += 1
        self._on_progress(self._num_done, max(self._num_done + 1, 16))
        return Candidate(run, schedules, replay_run(run, self.backend), bool(why_incomplete(run)))

    def best_native(self, quick: bool) -> tuple[Candidate | None, BestNative]:
        """The native run that candidates start from, and the search for it. What has no collective starts from the run before."""
        before, collectives, replays = self.before, self._collectives, NativeReplays()
        known = None
        if before is not None and not before.is_incomplete and (configuration := configuration_of(before.run)) is not None:
            known = configuration, Attempt(before.after)
        reach = replace(_REACH, varied=frozenset()) if quick else _REACH
        found = best_native(collectives, self.backend, reach, self._on_progress, known=known, replays=replays)
        self.notes += found.left_out
        if found.base is None:
            return (None if collectives.patterns else before), found
        after = replays[found.base.configuration].outcome
        assert after is not None  # it has an end
        native = Candidate(found.base.configuration.run(collectives.run), {}, after, is_incomplete=False)
        return native, replace(found, was_cut_off=found.was_cut_off or quick)

    def synthesize(self, link_model: LinkModel) -> Schedules:
        """A schedule for each case that has one."""
        schedules: Schedules = {}
        for number, (case, count) in enumerate(zip(self.found.cases, self.found.counts, strict=True)):
            try:
                task = case.task(link_model)
                if task is not None and task.least_rows > _MOST_OF_ONE_CHUNK:
                    self.notes.append(
                        f"{case} stays native: {task.least_rows:,} sends of a rank, expected at most {_MOST_OF_ONE_CHUNK:,}"
                    )
                elif task is not None:
                    schedule = best_symmetric(task, min(MOST_SENDS, _MOST_OF_REPRESENTATIVES // count) * case.members)
                    check_symmetric(schedule)
                    schedules[number] = schedule
            except (ConfigError, SynthesisError) as error:
                self.notes.append(f"{case} stays native: {error}")
        return schedules

    def choose(self, native: Candidate | None, natives: BestNative, made: Sequence[Schedules]) -> Candidate:
        """The run that ends first, of the native one and those that `_proposals` says.

        Raises
        ------
        ReplayError
            If no run can be replayed.
        """
        configuration = None if natives.base is None else natives.base.configuration
        acceptance = Acceptance(native)
        for name, schedules in self._proposals(made, acceptance):
            run = with_schedules(self.run, self.found, schedules, configuration)
            if acceptance.consider(partial(self._replayed, run, schedules)) is None:
                self.notes.append(f"{name} is left out: {acceptance.failures[-1]}")
        if acceptance.best is None:
            why = acceptance.failures[-1] if acceptance.failures else natives.refusal
            raise ReplayError(f"{self.run.workload.prefix}: no run can be replayed; {why}")
        return acceptance.best

    def _proposals(self, made: Sequence[Schedules], acceptance: Acceptance[Candidate]) -> Iterator[tuple[str, Schedules]]:
        """What cases may run: all schedules of one link model, then other schedules of one case at a time."""
        for schedules in filter(None, made):
            yield "the run with all schedules", schedules
        cases, best = sorted(set().union(*made)), acceptance.best
        spent = None if best is None else self.spent(best)
        for number in cases if len(cases) > 1 else ():
            best = acceptance.best
            if best is not None and (0 if spent is None else spent[number]) < _WORTH * best.end_ns:
                continue
            for schedule in (None, *(schedules.get(number) for schedules in made)):
                chosen = {} if acceptance.best is None else acceptance.best.schedules
                if schedule is not chosen.get(number):
                    others = {key: kept for key, kept in chosen.items() if key != number}
                    others |= {} if schedule is None else {number: schedule}
                    yield f"the run with {self.found.cases[number]}", dict(sorted(others.items()))

    def spent(self, candidate: Candidate) -> list[int]:
        """The most time that a rank spends in each case."""
        trace = candidate.run.workload
        most: list[int] = most_spent(self.found.of_row, len(self.found.cases), trace, candidate.after).tolist()
        return most


def _native_collectives(run: Run, found: CompactCases) -> NativeCollectives:
    """The collectives of a run with classes, of which unsplit ones are always replayed."""
    most = max((case.members for case in found.cases), default=0)
    over_all = frozenset(case.key for case in found.cases if case.members == run.lattice.num_ranks)
    return NativeCollectives(run, found.patterns, over_all, lambda each: most * each.splits if each.splits > 1 else 0)
