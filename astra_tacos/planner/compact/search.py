"""The search for the run that ends first: native algorithms, then schedules of cases. All candidates are replayed by classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from astra_tacos.planner.best_native import BestNative, NativeRun
from astra_tacos.planner.compact.cases import Schedules, find_cases, with_schedules
from astra_tacos.planner.plan_result import most_spent
from astra_tacos.planner.workload import MOST_SENDS
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import COMM_KEYS
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.solver.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.solver.native_search import SPLITS, splits
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError, SynthesisError
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric
from astra_tacos.verifier.symmetric_oracle import check_symmetric

_NATIVES = ("ring", "direct")
"""Native algorithms in which all members do the same."""
_SPACE = f"{' or '.join(_NATIVES)} by pattern x 1 to {SPLITS[-1]} splits, all of them active"
"""The configurations among which the best native run is looked for."""
_MOST_PARTS = 50_000
"""Parts that splits cut a native collective into, of all ranks of a group."""
_WORTH = 0.005
"""Other schedules are tried for a case that takes a larger share of the run."""
_MOST_NODES, _MOST_SENDS = 1 << 22, 1 << 18
"""Sends of a rank in a collective of several chunks, in all that the representatives run, and in a collective of one chunk."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A run that may be the planned one.

    Parameters
    ----------
    incomplete
        Why its native collectives move too little; "" if they do not.
    configuration
        How native collectives run; None for what the system says.
    """

    run: Run
    backend: Backend
    incomplete: str
    configuration: NativeConfiguration | None
    schedules: Schedules

    @cached_property
    def outcome(self) -> RunOutcome:
        """Its replay on the clock.

        Raises
        ------
        ConfigError, ReplayError
            As `replay_run`.
        """
        return replay_run(self.run, self.backend)

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.outcome.end_ns

    def on(self, backend: Backend) -> Candidate:
        """The same run on a network model."""
        return self if backend == self.backend else replace(self, backend=backend)

    def is_before(self, other: Candidate | None) -> bool:
        """Whether it is the better one: it ends earlier, or moves all of its data and the other does not."""
        if other is None or bool(self.incomplete) != bool(other.incomplete):
            return other is None or not self.incomplete
        return self.end_ns < other.end_ns


class Search:
    """The search of the plan of one run."""

    def __init__(self, run: Run, backend: Backend, baseline: str | None, on_progress: Callable[[int, int], None]) -> None:
        self.run, self.backend, self.baseline, self._on_progress = run, backend, baseline, on_progress
        self.found = find_cases(run)
        self.notes: list[str] = []
        self.num_done = 0
        over_all = {case.key for case in self.found.cases if case.members == run.lattice.num_ranks}
        self._in_groups = set(COMM_KEYS) - over_all
        before = run if baseline is None else self._alike(baseline).run(run)
        self.before = self._tried(before, "the run before", configuration_of(before))
        self.before_reason = "" if self.before is not None else self.notes[0]

    def _alike(self, name: str) -> NativeConfiguration:
        """One algorithm for all patterns."""
        own = configuration_of(self.run)
        alike = NativeConfiguration(((name,),) * len(COMM_KEYS), policy="FIFO" if own is None else own.policy)
        return alike.fitted(len(self.run.network.dimensions), self._in_groups)

    def _tried(
        self, run: Run, name: str, configuration: NativeConfiguration | None, schedules: Schedules | None = None
    ) -> Candidate | None:
        """A run that can be replayed; None if it cannot, with a note."""
        candidate = Candidate(run, self.backend, self._why_incomplete(run), configuration, schedules or {})
        self.num_done += 1
        self._on_progress(self.num_done, max(self.num_done + 1, 16))
        try:
            candidate.outcome  # noqa: B018
        except AstraTacosError as error:
            self.notes.append(f"{name} is left out: {error}")
            return None
        return candidate

    def _why_incomplete(self, run: Run) -> str:
        """Which native collectives of all ranks leave out dimensions, as the system names too few algorithms."""
        for number, case in enumerate(self.found.cases):
            named = len(run.system.native.get(case.key, ()))
            is_native = bool((run.implementation[self.found.of_row == number] == NATIVE).any())
            if is_native and case.members == self.run.lattice.num_ranks and named < len(run.network.dimensions):
                return f"{case}: the system names algorithms of {named} of {len(run.network.dimensions)} dimensions"
        return ""

    def best_native(self, quick: bool) -> tuple[Candidate | None, BestNative]:
        """The native run that ends first, and the search for it: algorithms for all patterns, then by pattern, then splits."""
        patterns = self.found.patterns
        before = self.before
        best = None if before is None or before.configuration is None or before.incomplete else before
        tried = set() if best is None else {best.configuration}

        def climb(configurations: Iterable[NativeConfiguration]) -> None:
            nonlocal best
            for configuration in configurations:
                if configuration in tried:
                    continue
                tried.add(configuration)
                run = configuration.run(self.run)
                candidate = self._tried(run, f"native {configuration.describe(patterns)}", configuration)
                if candidate is not None and candidate.is_before(best):
                    best = candidate

        alike = [self._alike(name) for name in _NATIVES]
        climb(alike)
        if best is None:
            return None, BestNative(None, None, len(tried), False, self.notes[-1], _SPACE)
        for key in patterns if len(patterns) > 1 and not quick else ():
            start, at = best.configuration, COMM_KEYS.index(key)
            assert start is not None
            climb(
                replace(start, algorithms=(*start.algorithms[:at], each.algorithms[at], *start.algorithms[at + 1 :]))
                for each in alike
            )
        configuration = best.configuration
        assert configuration is not None  # it is native
        members = max((case.members for case in self.found.cases), default=0)
        split = [] if quick else list(splits(configuration))
        admitted = [each for each in split if each.splits * members <= _MOST_PARTS]
        climb(admitted)
        assert best.configuration is not None
        native = NativeRun(best.configuration, patterns, best.end_ns, best.outcome.num_messages)
        return best, BestNative(native, native, len(tried), quick or len(admitted) < len(split), space=_SPACE)

    def synthesize(self, link_model: LinkModel) -> Schedules:
        """A schedule for each case that has one."""
        schedules: Schedules = {}
        for number, (case, count) in enumerate(zip(self.found.cases, self.found.counts, strict=True)):
            try:
                task = case.task(link_model)
                if task is not None and task.least_rows > _MOST_SENDS:
                    self.notes.append(
                        f"{case} stays native: {task.least_rows:,} sends of a rank, expected at most {_MOST_SENDS:,}"
                    )
                elif task is not None:
                    schedule = best_symmetric(task, min(MOST_SENDS, _MOST_NODES // count) * case.members)
                    check_symmetric(schedule)
                    schedules[number] = schedule
            except (ConfigError, SynthesisError) as error:
                self.notes.append(f"{case} stays native: {error}")
        return schedules

    def choose(self, native: Candidate | None, made: Sequence[Schedules]) -> Candidate:
        """The run that ends first: with all schedules of one link model, then with other schedules of one case at a time.

        Raises
        ------
        ReplayError
            If no run can be replayed.
        """
        best, configuration = native, None if native is None else native.configuration

        def consider(others: Schedules, name: str) -> None:
            nonlocal best
            others = dict(sorted(others.items()))
            run = with_schedules(self.run, self.found, others, configuration)
            candidate = self._tried(run, name, configuration, others)
            if candidate is not None and candidate.is_before(best):
                best = candidate

        for schedules in filter(None, made):
            consider(schedules, "the run with all schedules")
        cases = sorted(set().union(*made))
        spent = None if best is None else self.spent(best)
        for number in cases if len(cases) > 1 else ():
            if best is not None and (0 if spent is None else spent[number]) < _WORTH * best.end_ns:
                continue
            for schedule in (None, *(schedules.get(number) for schedules in made)):
                chosen = {} if best is None else best.schedules
                if schedule is not chosen.get(number):
                    others = {key: kept for key, kept in chosen.items() if key != number}
                    others |= {} if schedule is None else {number: schedule}
                    consider(others, f"the run with {self.found.cases[number]}")
        if best is None:
            raise ReplayError(f"{self.run.workload.prefix}: no run can be replayed; {self.notes[0]}")
        return best

    def spent(self, candidate: Candidate) -> list[int]:
        """The most time that a rank spends in each case."""
        trace = candidate.run.workload
        most: list[int] = most_spent(self.found.of_row, len(self.found.cases), trace, candidate.outcome).tolist()
        return most
