"""From a run to the same run with its communication scheduled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.planner.request import SEARCH, PlanRequest
from astra_tacos.planner.retime.candidates import Candidate, Candidates, replay_with
from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.exposure_bound import exposed_ns, exposed_of_ranks
from astra_tacos.planner.retime.policy import MAX_NODES_OF_RANK
from astra_tacos.planner.retime.request import AS_IS, describe, parse_schedule
from astra_tacos.planner.retime.search import Found, Tried, names_of, search
from astra_tacos.planner.retime.search import tried as tried_candidate
from astra_tacos.planner.retime.written import on_all_ranks, scheduled_run
from astra_tacos.planner.workload import Workload
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.rules.refusal import refuse_left_out
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.critical_path import PathSummary, summarize_path
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import COLLECTIVE_NAMES, pattern_name
from astra_tacos.run.recording import record_run
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import AstraTacosError, ConfigError, VerificationError
from astra_tacos.support.rows import Result, Row, Table, notes_of

_MOST_LAYERS = 1000
"""Collectives of a run up to which each has a row of its own."""
_MOST_ROWS = 12
"""Of a table; plan.json has all."""
_WITH = {"native": "with the run's own collectives", "synthesized": "with synthesized collectives"}
_MOST_RANKS = 4
"""Ranks of a group that names of equal collectives list."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScheduleResult(Result):
    """A scheduled run.

    Parameters
    ----------
    asked, name
        The policies that were asked for, and those of the run that was written; `as-is` for the run before.
    backend
        The network model that judged.
    collectives
        What collectives the times are of: `native` or `synthesized`.
    iteration_as_is_ns, iteration_ns
        An iteration in steady state, before and after, if it was to be short; else None.
    as_is_ns, after_ns
        End of the run before, and of the one that was written, with the same collective algorithms.
    exposed_as_is_ns, exposed_after_ns
        The longest time for which a rank computes nothing while it communicates.
    means_as_is_ns
        Compute, and communication without compute, of the run before; means over ranks.
    tried
        What was tried.
    layers
        Exposed communication of each collective of the run before and after, by name (with ranks, if several groups have one of
        that name) and kind, as `all-reduce`: the mean over its ranks, in ns.
    path_as_is, path_after
        The critical paths of both runs, with the collectives that the times are of.
    notes
        What policies could not do, and why the run before was written, if it was.
    before_ns
        End of the run as its files say, with its own collectives, where it was planned beside the scheduled run; else None.
    kept_as_is
        Whether the plan of the run as it is was kept, because it ends first.

    Examples
    --------
    >>> from astra_tacos import plan
    >>> options = {"schedule": "priority", "keep_collectives": True}
    >>> result = plan("configs/workload/transformer_16", network="configs/network/torus_4x4.yml", **options).scheduled
    >>> result.after_ns <= result.as_is_ns
    True
    """

    asked: str
    name: str
    backend: Backend
    collectives: str
    iteration_as_is_ns: int | None
    iteration_ns: int | None
    as_is_ns: int
    after_ns: int
    exposed_as_is_ns: int
    exposed_after_ns: int
    means_as_is_ns: tuple[int, int]
    tried: tuple[Tried, ...]
    layers: tuple[tuple[str, str, int, int], ...]
    path_as_is: PathSummary
    path_after: PathSummary
    notes: tuple[str, ...]
    before_ns: int | None = None
    kept_as_is: bool = False

    @property
    def speed_up(self) -> float:
        """How many times faster the run is."""
        return self.as_is_ns / max(self.after_ns, 1)

    @property
    def is_as_is(self) -> bool:
        """Whether the run before was written."""
        return self.name == AS_IS

    def title(self) -> str:
        """None: the rows name the policies, and are listed."""
        return ""

    def rows(self) -> list[Row]:
        """What scheduling did to the run."""
        ends = f"{self.as_is_ns:,} ns (as it is) -> {self.after_ns:,} ns"
        return [
            Row("schedule", self.name),
            Row("on", f"the {self.backend} model, {_WITH[self.collectives]}"),
            *self._iteration(),
            Row("end of the run", ends),
            Row("exposed communication", f"up to {self.exposed_as_is_ns:,} ns -> {self.exposed_after_ns:,} ns"),
            Row("speed-up", f"{self.speed_up:.3f}"),
            *notes_of(self.notes),
        ]

    def _iteration(self) -> list[Row]:
        """The row of an iteration, if it was to be short."""
        before, after = self.iteration_as_is_ns, self.iteration_ns
        if before is None or after is None:
            return []
        return [Row("iteration", f"{before:,} ns (as it is) -> {after:,} ns, {before / max(after, 1):.3f} times as fast")]

    def tables(self) -> list[Table]:
        """The policies that were tried, and the collectives that expose most."""
        tables = []
        if len(self.tried) > 1:
            ended = sorted(
                (candidate for candidate in self.tried if candidate.end_ns is not None),
                key=lambda candidate: candidate.end_ns or 0,
            )
            shown = ended[:_MOST_ROWS]
            title = f"policies ({len(shown)} of {len(self.tried)} that were tried; plan.json has all)"
            cells = [(candidate.name, candidate.end_ns, f"{self.as_is_ns / (candidate.end_ns or 1):.3f}") for candidate in shown]
            tables.append(Table(title, ("policies", "end ns", "speed-up"), cells))
        exposed = [(name, was, now) for name, _, was, now in self.layers if max(was, now) > 0]
        exposed = sorted(exposed, key=lambda row: -max(row[1:]))[:_MOST_ROWS]
        if exposed:
            title = "exposed communication by collective (mean of its ranks; the largest)"
            tables.append(Table(title, ("collective", "before ns", "after ns"), exposed))
        return tables

    def to_json(self) -> dict[str, Any]:
        """The entry `schedule` of `plan.json`."""
        return {
            "asked": self.asked,
            "policies": self.name,
            "backend": str(self.backend),
            "collectives": self.collectives,
            "iteration_as_is_ns": self.iteration_as_is_ns,
            "iteration_ns": self.iteration_ns,
            "as_is_ns": self.as_is_ns,
            "after_ns": self.after_ns,
            "speed_up": round(self.speed_up, 6),
            "exposed_as_is_ns": self.exposed_as_is_ns,
            "exposed_after_ns": self.exposed_after_ns,
            "as_is": {"end_ns": self.as_is_ns, "compute_ns": self.means_as_is_ns[0], "exposed_ns": self.means_as_is_ns[1]},
            "tried": [
                {
                    "policies": candidate.name,
                    "uses": list(candidate.uses),
                    "end_ns": candidate.end_ns,
                    "iteration_ns": candidate.iteration_ns,
                    "compute_ns": candidate.compute_ns,
                    "exposed_ns": candidate.exposed_ns,
                    "note": candidate.reason,
                }
                for candidate in self.tried
            ],
            "layers": [
                {"collective": name, "kind": kind, "exposed_as_is_ns": was, "exposed_after_ns": now}
                for name, kind, was, now in self.layers
            ],
            "critical_path": {"as_is": self.path_as_is.to_json(), "after": self.path_after.to_json()},
            "notes": list(self.notes),
            "before_ns": self.before_ns,
            "kept_as_is": self.kept_as_is,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A run whose communication is scheduled, in memory, and its replay with the collectives that its times are of."""

    run: Run
    result: ScheduleResult


def schedule(
    request: PlanRequest,
    workload: Workload,
    collectives: SynthesizedCollectives | None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Scheduled:
    """A run whose communication is scheduled by policies; its collectives keep their algorithms.

    Parameters
    ----------
    request, workload
        The network model that judges, and the request's `schedule`: `search`, `as-is`, or policies and systems with options
        (`request.parse_schedule`), of this run. A search stops as the effort of the request's options says.
    collectives
        With which all is judged; None for the run's own. The run keeps its own in either case.
    on_progress
        Called with how many were tried, and how many there are at most.

    Raises
    ------
    ConfigError
        If ranks disagree on their collectives, or collectives run custom traces.
    ReplayError
        If the run before does not end.
    VerificationError
        If the run of all ranks ends at another time than that of some for all: a defect of this package.
    """
    run, wanted = workload.run, request.schedule or SEARCH
    requests = None if wanted in (AS_IS, SEARCH) else parse_schedule(wanted)
    refuse_left_out(run)
    _check_size(run)
    model = choose_backend(request.backend)
    NETWORK_MODELS[model](run.network)
    before = replay_with(collectives, run, model)
    notes: list[str] = []
    candidates = None if wanted == AS_IS else Candidates(workload, before, model, collectives, request.per_iteration)
    outcome = Found(None, ()) if candidates is None else _found(request, candidates, requests, before, notes, on_progress)
    best = outcome.best
    new, after = _as_it_is(run, before) if best is None else _of_all_ranks(workload, best, collectives, model)
    notes += () if best is None else best.notes
    was_ns = candidates.cost_as_is_ns if candidates is not None and request.per_iteration else None
    result = ScheduleResult(
        asked=wanted,
        name=AS_IS if best is None else best.name,
        backend=model,
        collectives="native" if collectives is None else "synthesized",
        iteration_as_is_ns=was_ns,
        iteration_ns=was_ns if was_ns is None or best is None else best.cost_ns,
        as_is_ns=before.end_ns,
        after_ns=after.end_ns,
        exposed_as_is_ns=int(before.exposed_comm_ns.max()),
        exposed_after_ns=int(after.exposed_comm_ns.max()),
        means_as_is_ns=(int(before.compute_ns.mean()), int(exposed_of_ranks(run, before).mean())),
        tried=outcome.tried,
        layers=_layers(workload, before, new, after, best),
        path_as_is=_path(run, before),
        path_after=_path(new, after),
        notes=tuple(dict.fromkeys(notes)),
    )
    return Scheduled(new, result)


def _found(
    request: PlanRequest,
    candidates: Candidates,
    requests: tuple[Any, ...] | None,
    before: RunOutcome,
    notes: list[str],
    on_progress: Callable[[int, int], None],
) -> Found:
    """What the policies that were asked for make of the run, or what the search finds."""
    if requests is not None:
        return _one(candidates, requests, before, notes)
    outcome = search(candidates, request.schedule_replays, on_progress, request.options.effort)
    if outcome.best is None:
        notes.append("the run is written unchanged: no policy that was tried is faster")
    return outcome


def _as_it_is(run: Run, before: RunOutcome) -> tuple[Run, RunOutcome]:
    """The run without names of custom traces, which it may not have."""
    if run.prefixes:
        raise ConfigError(f"{run.system.source}: collectives run custom traces, expected native collectives to schedule")
    return replace(run, system=run.system.without_traces()), before


def _of_all_ranks(
    workload: Workload, best: Candidate, collectives: SynthesizedCollectives | None, model: Backend
) -> tuple[Run, RunOutcome]:
    """The run of all ranks, and the candidate's outcome, which is that of some ranks for all."""
    new = scheduled_run(workload, best.new)
    end_ns = replay_with(collectives, new, model).end_ns
    if end_ns != best.end_ns:
        expected = f"the run of all ranks ends at {end_ns:,} ns, expected {best.end_ns:,} ns"
        raise VerificationError(f"DEFECT of astra_tacos: {best.name}: {expected}")
    return new, best.outcome


def _check_size(run: Run) -> None:
    most = int(np.diff(run.workload.rank_first).max())
    if most > MAX_NODES_OF_RANK:
        raise ConfigError(
            f"{run.workload.prefix}: found {most:,} nodes of a rank, expected at most {MAX_NODES_OF_RANK:,} to schedule"
        )


def _path(run: Run, outcome: RunOutcome) -> PathSummary:
    recording = record_run(run, outcome)
    return summarize_path(recording, recording.after)


def _one(candidates: Candidates, requests: tuple[Any, ...], before: RunOutcome, notes: list[str]) -> Found:
    try:
        candidate = candidates.make(requests)
    except AstraTacosError as error:
        notes.append(f"{describe(requests)}: {error}")
        return Found(None, (Tried(describe(requests), names_of(requests), None, str(error)),))
    tried = (tried_candidate(candidate),)
    if candidate.end_ns > before.end_ns:
        notes += candidate.notes
        notes.append(f"{candidate.name} ends at {candidate.end_ns:,} ns, later than the run as it is at {before.end_ns:,} ns")
        return Found(None, tried)
    if not candidates.is_allowed(candidate):
        as_is_ns = candidates.cost_as_is_ns
        notes += candidate.notes
        notes.append(f"{candidate.name}: an iteration takes {candidate.cost_ns:,} ns, longer than as it is, {as_is_ns:,} ns")
        return Found(None, tried)
    return Found(candidate, tried)


def _layers(
    workload: Workload, before: RunOutcome, run: Run, after: RunOutcome, best: Candidate | None
) -> tuple[tuple[str, str, int, int], ...]:
    """Exposed communication by the collective of the run before, whose parts share what they expose by their bytes."""
    instances = workload.instances
    nodes = instances.nodes
    num = instances.num_instances
    if not 1 <= num <= _MOST_LAYERS:
        return ()
    was, now = np.zeros(num), np.zeros(num)
    np.add.at(was, instances.instance, exposed_ns(workload.run, before)[nodes.row])
    if best is None:
        now = was
    else:
        exposed = exposed_ns(run, after)
        tasks = (task for of_rank in on_all_ranks(best.new, workload).ranks for task in of_rank)
        for row, task in enumerate(tasks):
            if task.kind != NodeType.COMM_COLL or task.operation is None or not exposed[row]:
                continue
            total = max(task.operation.num_bytes, 1)
            for extent in task.operation.content:
                now[extent.instance] += exposed[row] * (extent.end - extent.begin) / total
    first = np.unique(instances.instance, return_index=True)[1]
    names = workload.run.names(nodes.row[first])
    repeated = {name for name, number in Counter(names).items() if number > 1}
    groups = (instances.nodes.members[group] for group in instances.group.tolist())
    names = [
        f"{name} (ranks {', '.join(map(str, members[:_MOST_RANKS]))}{', ...' if len(members) > _MOST_RANKS else ''})"
        if name in repeated
        else name
        for name, members in zip(names, groups, strict=True)
    ]
    count = np.maximum(instances.num_members, 1)
    kinds = (
        COLLECTIVE_NAMES[CommType(pattern)] if pattern in COLLECTIVE_NAMES else pattern_name(pattern)
        for pattern in instances.pattern.tolist()
    )
    rows = zip(names, kinds, (was / count).round().tolist(), (now / count).round().tolist(), strict=True)
    return tuple((name, kind, int(before_ns), int(other)) for name, kind, before_ns, other in rows)
