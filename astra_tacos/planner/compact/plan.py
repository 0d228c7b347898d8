"""Plans of compact runs: one collective for each kind of group, one replay for each kind of rank.

Groups are products of coordinates, so their members see a product of dimensions. Where this product looks the same from every
member, a symmetric schedule serves all members (`synthesizer.symmetric`), and ranks of one class stay alike. All candidates
are replayed by classes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.bounds.symmetric import symmetric_bounds
from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.export.run_directory import SCRIPT
from astra_tacos.network.network_config import Dimension, describe_dimensions, read_network
from astra_tacos.network.rotations import why_not_symmetric
from astra_tacos.planner.assignment import tag_ranges
from astra_tacos.planner.compact.bound import compact_bound, shapes_of
from astra_tacos.planner.compact.expanded import write_expanded
from astra_tacos.planner.native_configuration import NativeConfiguration, configuration_of, native_run
from astra_tacos.planner.plan_result import end_in_json
from astra_tacos.planner.run_bound import RunBound
from astra_tacos.planner.run_files import COLLECTIVE, PER_NODE, PLAN_FILE, copy_network, write_system
from astra_tacos.replayer.run_replay import Attempt, replay_classes
from astra_tacos.run.backend import CONGESTION_AWARE, CUT_THROUGH, Backend, choose_backend
from astra_tacos.run.compact_run import CompactRun, fixed_dimensions, read_compact, write_ranks
from astra_tacos.run.groups import ALL_RANKS, CommunicatorGroups, group_ids
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import COLLECTIVE_NAMES, TAGS
from astra_tacos.run.run import CLASSES, GROUPS, MEMORY, NATIVE, NETWORK, RANKS, SYSTEM, Run, pattern_key
from astra_tacos.run.system import COMM_KEYS, MAX_NODE_ID
from astra_tacos.run.trace.node_bytes import load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.schema import CommType
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.solver.possibility import RunEnd, end_with_queues, is_as_early
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError, SynthesisError
from astra_tacos.support.files import check_replaceable, replaced_directory, write_json
from astra_tacos.support.grouping import distinct
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric
from astra_tacos.verifier.symmetric_oracle import check_symmetric

_NATIVES = ("ring", "direct")
"""Native algorithms in which all members do the same."""
_SPLITS = (2, 4, 8, 16)
_MOST_PARTS = 50_000
"""Parts that splits cut a native collective into, of all ranks of a group."""
_WORTH = 0.005
"""Other schedules are tried for a case that takes a larger share of the run."""
_MOST_ROWS = 1 << 16
_MOST_NODES, _MOST_SENDS = 1 << 22, 1 << 18
"""Sends of a rank in a collective of several chunks, in all that the representatives run, and in a collective of one chunk."""
EXPANDED, MOST_EXPANDED = "ordinary", 1024
"""The ordinary run beside a compact one, and the most ranks of such a run."""
Schedules = dict[int, SymmetricSchedule]
"""What cases run, by their numbers."""
_FILES = {PLAN_FILE, RANKS, SYSTEM, NETWORK, MEMORY, PER_NODE, COLLECTIVE, EXPANDED, "classes"}


@dataclass(frozen=True, slots=True)
class CompactCase:
    """A collective of some groups that see the same network.

    Parameters
    ----------
    pattern, size_bytes
        Its `CommType`, and `comm_size` of its nodes.
    dimensions
        The network that members of a group have between them; None where it does not look the same from all of them.
    members
        How many they are.
    """

    pattern: int
    size_bytes: int
    dimensions: tuple[Dimension, ...] | None
    members: int

    @property
    def collective(self) -> str:
        """Name of its pattern, a key of `COLLECTIVES`."""
        return COLLECTIVE_NAMES[CommType(self.pattern)]

    def task(self, link_model: LinkModel) -> SymmetricTask | None:
        """What to synthesize; None if members play different parts.

        Raises
        ------
        ConfigError
            If there are more chunks than bytes.
        """
        seen = self.dimensions
        if seen is None or self.collective not in SYMMETRIC_COLLECTIVES or why_not_symmetric(seen):
            return None
        return SymmetricTask(describe_dimensions(seen), seen, self.collective, self.size_bytes, 1, link_model)

    def least_ns(self) -> int | None:
        """What it takes at least on the links between its members; None where that is not known."""
        task = self.task("pipelined")
        return None if task is None else max(bound.time_ns for bound in symmetric_bounds(task))

    def __str__(self) -> str:
        return f"{self.collective} of {self.size_bytes:,} bytes and {self.members:,} ranks"


@dataclass(frozen=True, slots=True, eq=False)
class CompactCases:
    """The distinct collectives of a run, and int64[num_nodes], which one each node is; -1 for none."""

    cases: tuple[CompactCase, ...]
    of_row: NDArray[np.int64]

    @property
    def counts(self) -> list[int]:
        """How many nodes of representatives each has."""
        counts: list[int] = np.bincount(self.of_row[self.of_row >= 0], minlength=len(self.cases)).tolist()
        return counts


def find_cases(some: CompactRun) -> CompactCases:
    """The distinct collectives of a compact run of several members and at least a byte.

    Raises
    ------
    ConfigError
        If a group is no product of coordinates.
    """
    trace, columns = some.run.workload, some.run.columns
    shapes = shapes_of(some)
    rows = shapes.rows
    ids = group_ids(columns)[rows]
    seen = {number: _seen(some, number) for number in distinct(ids).tolist()}
    known: dict[CompactCase, int] = {}
    of_row = np.full(trace.num_nodes, -1, np.int64)
    listed = (rows, columns.comm_type[rows], trace.size_bytes[rows], columns.involved_dims[rows], ids, shapes.members)
    for row, pattern, size, involved, group, members in zip(*(each.tolist() for each in listed), strict=True):
        if members > 1 and size > 0:
            dimensions = None if involved >= 0 and group == ALL_RANKS else seen[group]
            of_row[row] = known.setdefault(CompactCase(pattern, size, dimensions, members), len(known))
    return CompactCases(tuple(known), of_row)


def _seen(some: CompactRun, number: int) -> tuple[Dimension, ...] | None:
    """The network between the members of a group; None if it is not known."""
    dimensions, lattice = some.run.network.dimensions, some.lattice
    if number == ALL_RANKS:
        return dimensions
    members = np.array(some.run.groups.members[number], np.int64)
    seen = []
    for dimension, values in zip(dimensions, lattice.values(members, f"group {number}"), strict=True):
        if len(values) > 1:
            whole = len(values) == dimension.size
            block = dimension.block if whole else dimension.building_block.part(dimension.size, values)
            if block is None:
                return None
            seen.append(replace(dimension, block=block, size=len(values)))
    return tuple(seen)


@dataclass(frozen=True, slots=True, eq=False)
class CompactPlan:
    """The plan of a compact run; times in ns.

    Parameters
    ----------
    backend
        The network model that judges.
    num_ranks, num_classes
        Ranks, and ranks that stand for all.
    before, native, after
        When the run ends as it was, with the best of the native algorithms that treat ranks alike, and as planned.
    native_name
        The best native algorithms, "" if none ends.
    exposed_ns
        The largest exposed communication of a rank of the planned run.
    bound
        What the run takes at least.
    cases
        A row for each distinct collective.
    notes
        What could not be replayed, and why.
    """

    backend: Backend
    num_ranks: int
    num_classes: int
    before: RunEnd | None
    native: RunEnd | None
    native_name: str
    after: RunEnd
    exposed_ns: int
    bound: RunBound
    cases: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def speed_up(self) -> float | None:
        """Time before over time after, as both count."""
        return None if self.before is None else self.before.counted_ns / max(self.after.counted_ns, 1)

    @property
    def speed_up_over_best_native(self) -> float | None:
        """The same of the best native run."""
        return None if self.native is None else self.native.counted_ns / max(self.after.counted_ns, 1)

    def to_json(self) -> dict[str, Any]:
        """One object for `plan.json`, with the keys of other plans where they mean the same."""
        own: dict[str, Any] = {"backend": self.backend.name, "num_ranks": self.num_ranks, "num_classes": self.num_classes}
        own |= end_in_json("before", self.before) | end_in_json("after", self.after)
        own |= {"best_native_ns": self.native and self.native.counted_ns, "best_native": self.native_name or None}
        own |= {"speed_up": self.speed_up, "speed_up_over_best_native": self.speed_up_over_best_native}
        own |= self.bound.to_json() | {"efficiency": efficiency_of(self.after.counted_ns, self.bound.end_ns)}
        return own | {"exposed_after_ns": self.exposed_ns, "cases": list(self.cases), "notes": list(self.notes)}


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A run, the network model that judges, and why its native collectives move too little ("" if they do not)."""

    some: CompactRun
    backend: Backend
    incomplete: str = ""

    @cached_property
    def outcome(self) -> RunOutcome:
        """Its replay on the judge.

        Raises
        ------
        ConfigError, ReplayError
            As `replay_classes`.
        """
        return replay_classes(self.some, self.backend)

    @cached_property
    def end(self) -> RunEnd:
        """When it ends, and where a network can carry it."""
        end_ns = self.outcome.end_ns
        if self.incomplete:
            return RunEnd(end_ns, None, self.incomplete)
        if self.backend.models_congestion:
            return RunEnd(end_ns, end_ns)
        known: dict[Backend, Attempt] = {}
        for model in (CUT_THROUGH, CONGESTION_AWARE):
            try:
                known[model] = Attempt(queued := replay_classes(self.some, model))
                if is_as_early(end_ns, queued.end_ns):
                    return RunEnd(end_ns, end_ns)
            except AstraTacosError as error:
                known[model] = Attempt(None, str(error))
        return end_with_queues(self.some.run, self.backend, end_ns, known)


class _Planning:
    """What all steps of the plan of one run know."""

    def __init__(self, some: CompactRun, backend: Backend, baseline: str | None, on_progress: Callable[[int, int], None]) -> None:
        self.some, self.backend, self._on_progress = some, backend, on_progress
        self.found = find_cases(some)
        self.notes: list[str] = []
        self._done = 0
        own = some if baseline is None else replace(some, run=self._alike(baseline).run(some.run))
        self.before = self._tried(own, "the run before")

    def _alike(self, name: str) -> NativeConfiguration:
        """One algorithm for all patterns."""
        own = configuration_of(self.some.run)
        algorithms = tuple(self._named(key, name) for key in COMM_KEYS)
        return NativeConfiguration(algorithms, policy="FIFO" if own is None else own.policy)

    def _named(self, key: str, name: str) -> tuple[str, ...]:
        """The algorithms of a pattern, as many as it needs."""
        everyone = self.some.lattice.num_ranks
        over_all = any(case.members == everyone for case in self.found.cases if pattern_key(case.pattern) == key)
        return (name,) * (len(self.some.run.network.dimensions) if over_all else 1)

    def _tried(self, some: CompactRun, name: str) -> _Candidate | None:
        """A run that can be replayed; None if it cannot, with a note."""
        candidate = _Candidate(some, self.backend, self._why_incomplete(some.run))
        self._done += 1
        self._on_progress(self._done, max(self._done, 16))
        if fixed := fixed_dimensions(some):
            self.notes.append(f"{name} is left out: its collectives treat ranks by their numbers in dimension {fixed[0]}")
            return None
        try:
            candidate.outcome  # noqa: B018
        except AstraTacosError as error:
            self.notes.append(f"{name} is left out: {error}")
            return None
        return candidate

    def _why_incomplete(self, run: Run) -> str:
        """Which native collectives of all ranks leave out dimensions, as the system names too few algorithms."""
        for number, case in enumerate(self.found.cases):
            named = len(run.system.native.get(pattern_key(case.pattern), ()))
            is_native = bool((run.implementation[self.found.of_row == number] == NATIVE).any())
            if is_native and case.members == self.some.lattice.num_ranks and named < len(run.network.dimensions):
                return f"{case}: the system names algorithms of {named} of {len(run.network.dimensions)} dimensions"
        return ""

    def best_native(self, quick: bool) -> tuple[_Candidate | None, NativeConfiguration | None]:
        """The native run that ends first: algorithms for all patterns, then by pattern, then splits."""
        patterns = [key for key in COMM_KEYS if key in {pattern_key(case.pattern) for case in self.found.cases}]
        best: tuple[_Candidate | None, NativeConfiguration | None] = (None, None)
        tried: set[NativeConfiguration] = set()
        own = None if self.before is None else configuration_of(self.before.some.run)
        if own is not None:
            best = self.before, own
            tried.add(own)

        def climb(configurations: Iterator[NativeConfiguration]) -> None:
            nonlocal best
            for configuration in configurations:
                if configuration in tried:
                    continue
                tried.add(configuration)
                run = configuration.run(self.some.run)
                candidate = self._tried(replace(self.some, run=run), f"native {configuration.describe(tuple(patterns))}")
                if candidate is not None and _is_before(candidate, best[0]):
                    best = candidate, configuration

        climb(map(self._alike, _NATIVES))
        for key in patterns if len(patterns) > 1 and best[1] and not quick else ():
            start, place = best[1], COMM_KEYS.index(key)
            assert start is not None
            climb(
                replace(start, algorithms=(*start.algorithms[:place], self._named(key, name), *start.algorithms[place + 1 :]))
                for name in _NATIVES
            )
        if best[1] is not None and not quick:
            members = max((case.members for case in self.found.cases), default=0)
            splits = [each for each in _SPLITS if each * members <= _MOST_PARTS]
            climb(replace(start, splits=each, active_chunks=each) for start in [best[1]] for each in splits)
        return best

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
                    schedule = best_symmetric(task, min(_MOST_ROWS, _MOST_NODES // count) * case.members)
                    check_symmetric(schedule)
                    schedules[number] = schedule
            except (ConfigError, SynthesisError) as error:
                self.notes.append(f"{case} stays native: {error}")
        return schedules

    def choose(
        self, best: _Candidate | None, native: NativeConfiguration | None, made: Sequence[Schedules]
    ) -> tuple[_Candidate, Schedules]:
        """The run that ends first: with all schedules of one link model, then with other schedules of one case at a time.

        Raises
        ------
        ReplayError
            If no run can be replayed.
        """
        chosen: Schedules = {}

        def consider(others: Schedules, name: str) -> None:
            nonlocal best, chosen
            others = dict(sorted(others.items()))
            candidate = self._tried(with_schedules(self.some, self.found, others, native), name)
            if candidate is not None and _is_before(candidate, best):
                best, chosen = candidate, others

        for schedules in filter(None, made):
            consider(schedules, "the run with all schedules")
        cases = sorted(set().union(*made))
        spent = [0] * len(self.found.cases) if best is None else _spent(self.found, best)
        for number in cases if len(cases) > 1 else ():
            if best is not None and spent[number] < _WORTH * best.outcome.end_ns:
                continue
            for schedule in (None, *(schedules.get(number) for schedules in made)):
                if schedule is not chosen.get(number):
                    others = {key: kept for key, kept in chosen.items() if key != number}
                    others |= {} if schedule is None else {number: schedule}
                    consider(others, f"the run with {self.found.cases[number]}")
        if best is None:
            raise ReplayError(f"{self.some.run.workload.prefix}: no run can be replayed; {self.notes[0]}")
        return best, chosen


def _is_before(one: _Candidate, other: _Candidate | None) -> bool:
    """Whether a run ends earlier, asking of queues only where the judge leaves that open."""
    if other is None:
        return True
    if other.end.possible_ns is not None and one.outcome.end_ns >= other.end.counted_ns:
        return False
    return one.end.is_before(other.end)


def with_schedules(
    some: CompactRun,
    found: CompactCases,
    schedules: Schedules,
    native: NativeConfiguration | None = None,
) -> CompactRun:
    """The run in which cases that have a schedule run its traces, in groups of their own, and all else is native.

    Parameters
    ----------
    some, found
        The run and its distinct collectives.
    schedules
        What cases run; all others are native.
    native
        How native collectives run; None for what the system says.
    """
    run = some.run
    system = run.system if native is None else native.system(run.system)
    if not schedules:
        return replace(some, run=native_run(run, system))
    prefixes = tuple(f"{COLLECTIVE}/{_name(found.cases[number], place)}" for place, number in enumerate(schedules))
    made = zip(_tagged(run, schedules.values()), prefixes, strict=True)
    traces = tuple(SymmetricTraces(*each).compact(prefix) for each, prefix in made)
    entry = np.full(len(found.cases) + 1, NATIVE, np.int32)
    entry[list(schedules)] = np.arange(len(schedules))
    implementation = entry[found.of_row]
    # A group keeps the trace of the first node of a pattern, so each trace has groups of its own; all groups have as many copies.
    columns, members = run.columns, dict(run.groups.members)
    ids, at = group_ids(columns), np.flatnonzero(implementation != NATIVE)
    names, group = list(columns.group_names), columns.group.copy()
    first = max(members, default=0) + 1
    for place, one in enumerate(distinct(ids[at][ids[at] != ALL_RANKS]).tolist()):
        for which in range(len(prefixes)):
            number = first + place * len(prefixes) + which
            members[number] = members[one]
            group[at[(ids[at] == one) & (implementation[at] == which)]] = len(names)
            names.append(str(number))
    workload = replace(run.workload, workload=replace(columns, group=group, group_names=tuple(names)))
    planned = replace(
        native_run(run, replace(system, preferred_dataset_splits=1)),
        workload=workload,
        groups=CommunicatorGroups(run.groups.source, members),
        prefixes=prefixes,
        collectives=traces,
        implementation=implementation,
    )
    return replace(some, run=planned)


def _tagged(run: Run, schedules: Iterable[SymmetricSchedule]) -> list[tuple[SymmetricSchedule, int]]:
    """Schedules and their first tags, so that each has a range of its own, apart from the workload's."""
    listed = list(schedules)
    rows = [schedule.num_rows for schedule in listed]
    return list(zip(listed, tag_ranges(run.workload.prefix, run.workload.tag, rows, TAGS), strict=True))


def _name(case: CompactCase, place: int) -> str:
    return f"{case.collective.replace('-', '_')}_{case.size_bytes}B_of_{case.members}_{place}"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedClasses:
    """A planned compact run: its figures, the run, how its native collectives run, and the schedules of the others."""

    result: CompactPlan
    some: CompactRun
    native: NativeConfiguration | None
    schedules: Schedules

    def write(self, output: Path, folder: Path, network: Path) -> None:
        """Write the planned run, replay what was written, and write the ordinary run beside it if it has few ranks.

        Parameters
        ----------
        output
            Directory to write; a plan that is there is replaced.
        folder, network
            The compact run, and the file of its network.

        Raises
        ------
        ConfigError
            If something else is there.
        ReplayError
            If the written run ends at another time.
        """
        check_output(output, folder)
        with replaced_directory(output) as target:
            traces = _write(target, folder, network, self)
            again = read_compact(target, read_network(target / NETWORK))
            if replay_classes(again, self.result.backend).end_ns != self.result.after.end_ns:
                raise ReplayError(f"{output}: DEFECT of astra_tacos, please report it: the written run has another end")
            if self.some.lattice.num_ranks <= MOST_EXPANDED:
                (target / EXPANDED).mkdir()
                write_expanded(again, traces, target / EXPANDED, self.result.backend)
            write_json(target / PLAN_FILE, self.result.to_json())


def check_output(output: Path, folder: Path) -> None:
    """Check that the plan of the compact run of a folder may be written.

    Raises
    ------
    ConfigError
        If there is anything but a plan.
    """
    inside = [f"{EXPANDED}/{name}" for name in (GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, SCRIPT)]
    check_replaceable(output, "plan of astra_tacos", lambda names: names <= _FILES and (not names or PLAN_FILE in names), inside)
    if output.resolve() == folder.resolve():
        raise ConfigError(f"{output}: is the run itself, expected another directory")


def plan_compact(
    some: CompactRun,
    backend: Backend | str | None = None,
    baseline: str | None = None,
    quick: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlannedClasses:
    """Plan a compact run: the best native algorithms, and a symmetric schedule for each case that ends the run earlier.

    Parameters
    ----------
    some
        The run.
    backend
        The network model that judges, or its name; None takes the network's default.
    baseline
        Native algorithm of the run before; None takes the run as it is.
    quick
        Whether fewer native runs are tried: each algorithm for all patterns.
    on_progress
        Called with how many runs were replayed, and about how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be.
    ReplayError
        If no run can be replayed.
    """
    model = choose_backend(backend, some.run.network)
    planning = _Planning(some, model, baseline, on_progress)
    native, configuration = planning.best_native(quick)
    # Where there are no queues, sends that wait for one another only on their links count with queues (`RunEnd`).
    link_models: tuple[LinkModel, ...] = tuple(dict.fromkeys((model.link_model, "pipelined")))
    best, chosen = planning.choose(native, configuration, [planning.synthesize(each) for each in link_models])
    if planning.before is not None and _is_before(planning.before, best):
        planning.notes.append(f"keep the run as it is: it ends at {planning.before.end.counted_ns:,} ns, before this plan")
    result = _result(planning, best, native, configuration, chosen)
    return PlannedClasses(result, best.some, configuration, chosen)


def _result(
    planning: _Planning,
    best: _Candidate,
    native: _Candidate | None,
    configuration: NativeConfiguration | None,
    chosen: Schedules,
) -> CompactPlan:
    some, found, before = planning.some, planning.found, planning.before
    spent = [None if each is None else _spent(found, each) for each in (before, best)]
    alike = some.lattice.num_ranks // some.run.workload.num_ranks
    least = [case.least_ns() for case in found.cases]
    alone_ns = np.array([*(each or 0 for each in least), 0], np.int64)[found.of_row]
    rows = []
    for number, (case, count) in enumerate(zip(found.cases, found.counts, strict=True)):
        schedule = chosen.get(number)
        algorithm = "native " + ", ".join(dict.fromkeys(best.some.run.system.native.get(pattern_key(case.pattern), ())))
        rows.append(
            {
                "collective": case.collective,
                "size_bytes": case.size_bytes,
                "members": case.members,
                "network": None if case.dimensions is None else describe_dimensions(case.dimensions),
                "count": count * alike // case.members,
                "algorithm": algorithm if schedule is None else schedule.synthesizer,
                "chunks_per_npu": 0 if schedule is None else schedule.task.chunks_per_npu,
                "predicted_ns": None if schedule is None else schedule.collective_time_ns,
                "bound_ns": least[number],
                "spent_before_ns": None if spent[0] is None else spent[0][number],
                "spent_after_ns": spent[1][number] if spent[1] else 0,
            }
        )
    patterns = tuple(key for key in COMM_KEYS if key in {pattern_key(case.pattern) for case in found.cases})
    return CompactPlan(
        backend=planning.backend,
        num_ranks=some.lattice.num_ranks,
        num_classes=some.run.workload.num_ranks,
        before=None if before is None else before.end,
        native=None if native is None else native.end,
        native_name="" if configuration is None else configuration.describe(patterns),
        after=best.end,
        exposed_ns=int(best.outcome.exposed_comm_ns.max()),
        bound=compact_bound(some, alone_ns),
        cases=tuple(sorted(rows, key=lambda row: -row["spent_after_ns"])),
        notes=tuple(planning.notes),
    )


def _spent(found: CompactCases, candidate: _Candidate) -> list[int]:
    """The most time that a rank spends in each case."""
    outcome, rank = candidate.outcome, candidate.some.run.workload.rank
    rows = np.flatnonzero((found.of_row >= 0) & (outcome.node_issue_ns >= 0))
    spent = np.zeros((len(found.cases), candidate.some.run.workload.num_ranks), np.int64)
    np.add.at(spent, (found.of_row[rows], rank[rows]), outcome.node_finish_ns[rows] - outcome.node_issue_ns[rows])
    most: list[int] = spent.max(axis=1, initial=0).tolist()
    return most


def _write(target: Path, source: Path, network: Path, planned: PlannedClasses) -> dict[str, SymmetricTraces]:
    """Write all files of a planned run but the plan itself; returns its custom collectives by the prefix of their files."""
    run, schedules, native = planned.some.run, planned.schedules.values(), planned.native
    per_node = _write_classes(target, run)
    if schedules:
        (target / COLLECTIVE).mkdir()
    traces = {prefix: SymmetricTraces(*made) for prefix, made in zip(run.prefixes, _tagged(run, schedules), strict=True)}
    for prefix, each in traces.items():
        each.write(target / prefix, [0])
    positions = {prefix: each.positions for prefix, each in traces.items()}
    write_ranks(target, planned.some.lattice, run.groups.members, positions)
    write_system(target, source / SYSTEM, per_node, {} if native is None else native.keys())
    copy_network(network, target)
    if (source / MEMORY).is_file():
        shutil.copyfile(source / MEMORY, target / MEMORY)
    return traces


def _write_classes(target: Path, run: Run) -> dict[int, str]:
    """Write the traces of the representatives; returns the prefix of the trace of each node id.

    ASTRA-sim looks up traces by ids alone, of any rank, so ids are multiplied, and the rest says which trace a node runs.
    """
    trace, columns = run.workload, run.columns
    (target / CLASSES).parent.mkdir()
    factor = np.uint64(len(run.prefixes) + 1)
    new_id = trace.node_id * factor + (run.implementation + 1).astype(np.uint64)
    if run.prefixes and int(trace.node_id.max()) > MAX_NODE_ID // int(factor) - 1:
        raise ConfigError(f"{trace.prefix}: node {int(trace.node_id.max())}, expected ids below {MAX_NODE_ID // int(factor):,}")
    ids = group_ids(columns)
    for place in range(trace.num_ranks):
        begin, end = trace.rank_first[place : place + 2].tolist()
        data = load_rank(trace, place)
        changed: dict[int, Any] = {}
        if run.prefixes:
            of_old = dict(zip(trace.node_id[begin:end].tolist(), new_id[begin:end].tolist(), strict=True))
            for row in range(begin, end):
                node = changed[row - begin] = node_at(data, int(columns.byte_offset[row]))
                node.id = of_old[node.id]
                for deps in (node.data_deps, node.ctrl_deps):
                    deps[:] = [of_old.get(dep, dep) for dep in deps]
                if run.implementation[row] != NATIVE and ids[row] != ALL_RANKS:
                    set_attribute(node, "pg_name", "string_val", str(int(ids[row])))
        path = target / f"{CLASSES}.{place}.et"
        path.write_bytes(replace_nodes(data, columns.byte_offset[begin:end], changed, str(path)))
    runs = np.flatnonzero(run.implementation != NATIVE)
    return dict(zip(new_id[runs].tolist(), (run.prefixes[which] for which in run.implementation[runs].tolist()), strict=True))
