"""Synthesis of a case: the schedule that is fastest where it will run.

Where predictions are exact, this is the best schedule of the search. Elsewhere the candidates differ in how much of the network a
group uses, in the number of chunks and in the algorithm, and are replayed on the real network, all groups at once. ASTRA-sim's
native collective is also a candidate.

The bound of a case is for the links that its groups may use. Its candidates are made of views of the network, numbers of chunks
and synthesizers.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.any_algorithm.ports import egress, ingress
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.export.candidate import Candidate
from astra_tacos.network.topology import Topology
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.solution import CaseSolution, defect_note
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.planner.workload import DistinctCollective
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.schedule.dependencies import holds_no_link
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, timing_of_sizes
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError, SynthesisError, VerificationError
from astra_tacos.support.installation import package_version
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.verifier.schedule_oracle import check, verify

_MOST_EXACT = 8
"""Groups of a case on a fabric for which all bounds are found; where there are more, only those that are quick."""
WORTH_MORE_SENDS = 0.99
"""Schedules of more messages have to take less than this share of the time of one of fewer."""
_MOST_NATIVE_SENDS = 400_000
"""Native collectives of about so many messages are replayed to see whether they are faster."""


def least_ns(case: DistinctCollective, solution: CaseSolution) -> int | None:
    """Lower bound on the time of any algorithm on the links that it may use; None where nothing is synthesized for the case.

    On a fabric it holds for all groups of the case: they see routes that are alike, but may have different links around them.
    """
    if solution.schedule is None:
        return None
    if case.fabric is not None:
        return _on_fabric(case)
    schedule = solution.schedule
    return lower_bound(schedule.problem).time_ns


@lru_cache(maxsize=256)
def _on_fabric(case: DistinctCollective) -> int:
    assert case.fabric is not None  # checked by the caller
    fabric = case.fabric
    bounds = (lower_bound,) if len(case.groups) <= _MOST_EXACT else QUICK_BOUNDS
    return min(largest_bound(fabric, collective_of_group(case, group, fabric), bounds) for group in case.groups)


def collective_of_group(case: DistinctCollective, members: tuple[int, ...], topology: Topology) -> Collective:
    """The collective of one group of a case, on the whole network."""
    root = None if case.root is None else members[case.root]
    return make_collective(case.collective, topology.num_npus, case.size_bytes, 1, root, members)


QUICK_BOUNDS = (ingress, egress)
"""Those that are quick to find."""


def largest_bound(topology: Topology, collective: Collective, bounds: Sequence[Callable[[Problem], Bound]] = QUICK_BOUNDS) -> int:
    """The largest of some bounds, in ns, where reductions take no time."""
    timing = timing_of_sizes(topology, collective.class_size_bytes, "pipelined", 0.0, may_be_instant=True)
    return max(bound(Problem(topology, collective, timing)).time_ns for bound in bounds)


_CHUNKS = (1, 4, 16, 64)
_CHUNKS_ON_FABRICS = (1, 2, 4, 8, 16, 32, 64)
"""There no model tells a good number: devices store and forward, and messages are limited."""
_PLAIN = ("ring", "direct")
"""Synthesizers that are tried by themselves where predictions are estimates."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One search for a case."""

    topology: Topology
    collective: Collective
    synthesizer: str
    link_model: LinkModel
    recut: bool
    is_exact: bool


def list_tasks(case: DistinctCollective, backend: Backend, options: SearchOptions) -> list[Task]:
    """Searches for a case: one on its own links, several where links of views are routes, whose results are compared by replay.

    Raises
    ------
    ConfigError
        If it has less than a byte per chunk.
    """
    synthesizer, requested = options.synthesizer, options.chunks_per_npu
    chunks_per_npu = requested if isinstance(requested, int) else None
    root = (case.root or 0) if case.collective in ROOTED else None
    is_routed = case.has_routed_links
    some = _CHUNKS if case.fabric is None else _CHUNKS_ON_FABRICS
    tasks: list[Task] = []
    for view in case.views.values():
        is_exact = not view.num_routed and not view.topology.has_switches
        counts: list[int | None] = [chunks_per_npu] if chunks_per_npu or not is_routed else [*some, None]
        names = [synthesizer]
        if is_routed and synthesizer == AUTO:
            names += [name for name in _PLAIN if case.collective in SYNTHESIZERS[name].collectives]
        for name in names:
            for count in counts:
                if name != synthesizer and count is None:
                    continue
                try:
                    collective = _in_chunks(case, count or 1, root, may_be_fewer=chunks_per_npu is not None)
                except ConfigError:
                    continue  # fewer bytes than chunks
                if count is not None:
                    count = collective.chunks_per_npu
                if count is not None and count > 1 and _sends(collective) > min(case.max_sends, options.max_sends):
                    continue
                tasks.append(Task(view.topology, collective, name, backend.link_model, count is None, is_exact))
    if not tasks:
        raise ConfigError(
            f"{case.collective} of {case.size_bytes:,} bytes in a group of {case.num_members}: less than a byte per chunk, "
            "expected more"
        )
    return tasks


def _in_chunks(case: DistinctCollective, count: int, root: int | None, *, may_be_fewer: bool) -> Collective:
    """The collective of a group in so many chunks per NPU; where these have less than a byte each, half as many if there may be.

    Raises
    ------
    ConfigError
        If chunks have less than a byte.
    """
    try:
        return make_collective(case.collective, case.num_members, case.size_bytes, count, root)
    except ConfigError:
        if not may_be_fewer or count == 1:
            raise
    return _in_chunks(case, count // 2, root, may_be_fewer=True)


def _sends(collective: Collective) -> int:
    return collective.num_phases * (collective.num_npus - 1) * collective.num_chunks


_FIGURES = {"together_ns": "ns or None", "is_exact": "bool", "was_cut_off": "bool"}
"""What is kept with a schedule: parameters of `CaseSolution`."""


def solve_case(
    case: DistinctCollective,
    machine: Machine,
    options: SearchOptions,
    cache: SynthesisCache,
    candidates: tuple[Candidate, ...] = (),
) -> CaseSolution:
    """Synthesize a case, or find it in the cache, and compare it with the native collective.

    A case of which no schedule can be made or run stays as it is, and the solution says why.

    Parameters
    ----------
    options
        What is asked of its searches; budget and time limit are for all of them together.
    cache
        Where results are kept. One that a time limit cut off is not.

    Raises
    ------
    ConfigError
        If nothing can run it: no synthesizer does its pattern, and ASTRA-sim lacks it too.
    """
    is_native = case.pattern in PATTERN_KEYS
    refusal = _refusal(case, options)
    if refusal is not None:
        if is_native:
            return CaseSolution(None, refusal, keeps_custom=True)
        if case.pattern == CommType.BROADCAST:
            return CaseSolution(None, f"{refusal}; ASTRA-sim waits for the node's duration")
        raise ConfigError(f"{CommType(case.pattern).name}: {refusal}, and ASTRA-sim has none: remove its nodes")
    backend = machine.backend
    native_ns = native_together_ns(case, machine)
    most = min(case.max_sends, options.max_sends)
    judged = {"version": package_version(), "backend": backend.name, "times": "clock", "max_sends": most}
    identity = case.identity | options.identity() | judged
    if candidates:
        identity["candidates"] = [candidate.digest for candidate in candidates]
    if case.needs_replay(backend):
        identity["network"] = asdict(machine.network) | {"source": "", "groups": case.groups}
    try:
        tasks = list_tasks(case, backend, options)
    except ConfigError as error:
        return CaseSolution(None, str(error), native_ns=native_ns, keeps_custom=True)
    topologies = tuple(task.topology for task in _views(tasks))
    entry = cache.find(identity, Wanted(topologies, tasks[0].collective, _FIGURES))
    defects: list[str] = []
    if entry is None:
        search = _CaseSearch(case, machine, options, may_hold_none=not backend.models_congestion or native_ns is None)
        defects = search.defects
        try:
            schedule, best = search.run(tasks, candidates)
        except (ConfigError, SynthesisError, ReplayError) as error:
            reason = f"no candidate can run there: {error}"
            return CaseSolution(None, reason, native_ns=native_ns, keeps_custom=True, defects=tuple(defects))
        if not best.ran_out_of_time and not defects:
            cache.keep(identity, schedule, {name: getattr(best, name) for name in _FIGURES})
    else:
        schedule = entry[0]
        best = CaseSolution(schedule, from_cache=cache.directory is not None, **entry[1])
    if native_ns is not None and native_ns < best.time_ns:
        reason = f"native is faster: {native_ns:,} ns against {best.time_ns:,} ns of {schedule.synthesizer}"
        return CaseSolution(None, reason, native_ns=native_ns, from_cache=best.from_cache, defects=tuple(defects))
    return replace(best, native_ns=native_ns, defects=tuple(defects))


def _refusal(case: DistinctCollective, options: SearchOptions) -> str | None:
    """The reason why no synthesizer supports this pattern; None if one does."""
    if case.collective not in COLLECTIVES:
        return f"no synthesizer does {case.collective}"
    names = auto_synthesizers() if options.synthesizer == AUTO else (options.synthesizer,)
    if not any(case.collective in SYNTHESIZERS[name].collectives for name in names):
        return f"{'no synthesizer does' if options.synthesizer == AUTO else f'{options.synthesizer} does no'} {case.collective}"
    return None


def check_named(cases: Sequence[DistinctCollective], backend: Backend, options: SearchOptions) -> None:
    """Check that a synthesizer that is asked for by name can do one of the cases that it has the pattern of, if there are any.

    Raises
    ------
    SynthesisError
        If it can do none: says why, for each reason once.
    """
    if options.synthesizer == AUTO:
        return
    reasons: dict[str, DistinctCollective] = {}
    for case in cases:
        if _refusal(case, options) is not None:
            continue
        reason = _why_not_named(case, backend, options)
        if reason is None:
            return
        reasons.setdefault(reason, case)
    if not reasons:
        return
    refusals = "; ".join(f"{case.name}: {reason}" for reason, case in reasons.items())
    raise SynthesisError(f"{options.synthesizer} can do no collective of the run: {refusals}")


def check_candidates(
    cases: Sequence[DistinctCollective], backend: Backend, options: SearchOptions, candidates: Sequence[Candidate]
) -> None:
    """Check that the program of each file does one of the cases.

    Raises
    ------
    ConfigError
        If one does none.
    """
    collectives: list[Collective] = []
    for case in cases:
        if _refusal(case, options) is None:
            with contextlib.suppress(ConfigError):  # fewer bytes than chunks
                collectives += [task.collective for task in _views(list_tasks(case, backend, options))]
    for candidate in candidates:
        reasons = [candidate.why_not(collective) for collective in collectives]
        if None not in reasons:
            refusals = ", ".join(str(reason) for reason in dict.fromkeys(reasons)) or "the run has none that is planned"
            raise ConfigError(
                f"{candidate.proven.path}: fits no collective of the run: {refusals}; expected a program of one of them"
            )


def _why_not_named(case: DistinctCollective, backend: Backend, options: SearchOptions) -> str | None:
    """Why the synthesizer that is asked for can do no version of a case that it has the pattern of; None if it can."""
    entry = SYNTHESIZERS[options.synthesizer]
    try:
        refusals = [entry.why_not(task.topology, task.collective) for task in list_tasks(case, backend, options)]
    except ConfigError as error:
        return str(error)
    return None if None in refusals else refusals[0]


class _CaseSearch:
    """The search for the best candidate of a case that the oracle passes and that can run.

    Parameters
    ----------
    case, machine, options
        The case, what it runs on, and what is asked of all searches together.
    may_hold_none
        Whether to take a schedule whose chunks hold a link for less than 1 ns, where there is nothing else.
    """

    def __init__(self, case: DistinctCollective, machine: Machine, options: SearchOptions, *, may_hold_none: bool) -> None:
        self.case, self.machine, self.options, self.may_hold_none = case, machine, options, may_hold_none
        self.deadline = math.inf if options.time_limit_s is None else time.monotonic() + options.time_limit_s
        self.needs_replay = case.needs_replay(machine.backend)
        self.best: tuple[Schedule, CaseSolution] | None = None
        self.defects: list[str] = []
        """What there is to say of schedules that the oracle refused."""

    def run(self, tasks: list[Task], candidates: tuple[Candidate, ...]) -> tuple[Schedule, CaseSolution]:
        """The best of all tasks, and of proven programs, each made a schedule of every view of the network.

        Raises
        ------
        SynthesisError, ConfigError, ReplayError
            If no search finds a schedule, or none that is found can be replayed: what stopped the last one.
        """
        failure: AstraTacosError | None = None
        was_cut_off = ran_out_of_time = False
        for task in tasks:
            if self.best is not None and time.monotonic() >= self.deadline:
                ran_out_of_time = True
                break
            try:
                result = self._legal(task, self._options_of(task, len(tasks)))
                self._consider(result.schedule, task)
            except (ConfigError, SynthesisError, ReplayError) as error:
                failure = error
                continue
            was_cut_off |= result.was_cut_off
            ran_out_of_time |= result.ran_out_of_time
        for task in _views(tasks) if candidates else []:
            for candidate in candidates:
                if candidate.why_not(task.collective) is not None:
                    continue
                try:
                    speed = self.options.reduce_bandwidth_gbps
                    converted = candidate.schedule(task.topology, task.collective, (task.link_model,), speed)
                    check(converted.schedule)
                    self._consider(converted.schedule, task)
                except (ConfigError, SynthesisError, ReplayError, VerificationError) as error:
                    self.defects.append(f"{self.case.name}: {candidate.name} is left out: {error}")
        if self.best is None:
            raise failure or SynthesisError(f"{self.case.name}: nothing to try")
        schedule, solution = self.best
        return schedule, replace(solution, was_cut_off=was_cut_off, ran_out_of_time=ran_out_of_time)

    def _consider(self, schedule: Schedule, task: Task) -> None:
        """Make a schedule the best one if it is; its prediction decides, or where that is none, its replay with all its groups.

        Raises
        ------
        SynthesisError, ConfigError, ReplayError
            If the schedule cannot run.
        """
        if not self.may_hold_none and holds_no_link(schedule):
            raise SynthesisError("chunks hold a link for less than 1 ns, at which ASTRA-sim stops at the beginning of a run")
        solution = CaseSolution(schedule, is_exact=task.is_exact)
        if self.needs_replay:
            groups = self.case.pattern, self.case.size_bytes, self.case.groups
            solution = replace(solution, together_ns=self.machine.replay_together(schedule, *groups))
        if self.best is None or _is_better(schedule, solution, *self.best):
            self.best = schedule, solution

    def _legal(self, task: Task, options: SearchOptions) -> SearchResult:
        """The best result that the oracle passes: a synthesizer whose schedule it refuses is left out of another search."""
        left_out: set[str] = set()
        while not left_out.issuperset(options.synthesizers):
            result = search(task.topology, task.collective, options, without=left_out)
            violations = verify(result.schedule)
            if not violations:
                return result
            self.defects.append(defect_note(self.case, result.schedule.synthesizer, violations))
            left_out.add(result.schedule.synthesizer)
        raise SynthesisError("the oracle refused all schedules")

    def _options_of(self, task: Task, num_tasks: int) -> SearchOptions:
        """Options of one search: its share of the budget, and what time is left."""
        options = self.options
        return replace(
            options.part_of_budget(num_tasks, task.topology),
            synthesizer=task.synthesizer,
            chunks_per_npu="auto" if task.recut else None,
            max_sends=min(self.case.max_sends, options.max_sends),
            link_model=task.link_model,
            time_limit_s=None if math.isinf(self.deadline) else max(self.deadline - time.monotonic(), 1e-9),
        )


def _views(tasks: list[Task]) -> list[Task]:
    """One task of every view of the network."""
    return list({id(task.topology): task for task in tasks}.values())


def _is_better(schedule: Schedule, solution: CaseSolution, leader: Schedule, its: CaseSolution) -> bool:
    """Whether a candidate beats the leader: more messages, which ASTRA-sim has to simulate, must gain a hundredth."""
    worth = WORTH_MORE_SENDS if schedule.num_messages > leader.num_messages else 1.0
    return solution.time_ns < its.time_ns * worth


def native_together_ns(case: DistinctCollective, machine: Machine) -> int | None:
    """Replay of the native collective, all groups at once; None where the system has none, or it cannot be replayed."""
    if PATTERN_KEYS.get(CommType(case.pattern)) not in machine.system.native or case.num_members**2 > _MOST_NATIVE_SENDS:
        return None
    try:
        return machine.replay_together(None, case.pattern, case.size_bytes, case.groups)
    except AstraTacosError:
        return None
