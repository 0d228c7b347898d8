"""Candidates: a run rewritten by policies, in memory, and replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.exposure_bound import exposed_of_ranks
from astra_tacos.planner.retime.list_schedule import list_schedule
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.planner.retime.policy import Setting
from astra_tacos.planner.retime.request import Request, describe
from astra_tacos.planner.retime.steps import steps_of
from astra_tacos.planner.retime.task_reader import read_graph
from astra_tacos.planner.retime.tasks import CollectiveDurations, Operation, TaskGraph
from astra_tacos.planner.retime.written import Ordered, ordered, run_of
from astra_tacos.planner.workload import Workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.chunks import shared_plans
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.run import Run
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rewritten run.

    Parameters
    ----------
    notes
        What policies could not do.
    exposed_ns
        int64[num_ranks], time for which each rank communicates and computes nothing.
    iteration_ns
        An iteration in steady state, if it is to be short; else None.
    """

    requests: tuple[Request, ...]
    new: Ordered
    outcome: RunOutcome
    notes: tuple[str, ...]
    exposed_ns: Ints
    iteration_ns: int | None = None
    is_ordered: bool = False

    @property
    def end_ns(self) -> int:
        """End of the run."""
        return self.outcome.end_ns

    @property
    def cost_ns(self) -> int:
        """What is to be short: an iteration, or the whole run."""
        return self.end_ns if self.iteration_ns is None else self.iteration_ns

    def is_better_than(self, other: Candidate) -> bool:
        """Whether it is the better one: what is to be short is shorter, or ranks communicate less without computing."""
        return (self.cost_ns, int(self.exposed_ns.sum())) < (other.cost_ns, int(other.exposed_ns.sum()))

    @property
    def name(self) -> str:
        """The policies in words."""
        return describe(self.requests) + (" in the best order" if self.is_ordered else "")


def replay_with(collectives: SynthesizedCollectives | None, run: Run, backend: Backend) -> RunOutcome:
    """The replay of a run with other collectives, or with its own.

    Raises
    ------
    ConfigError, ReplayError
        As `replay_run` does.
    """
    return replay_run(run if collectives is None else collectives.implemented(run), backend)


class Candidates:
    """Rewrites one run.

    Parameters
    ----------
    collectives
        What replaces its collectives in all replays; None for its own.
    per_iteration
        Whether an iteration in steady state is to be short, not the whole run.

    Raises
    ------
    ConfigError
        If collectives run traces of their own, or some node never runs.
    """

    def __init__(
        self,
        workload: Workload,
        before: RunOutcome,
        backend: Backend,
        collectives: SynthesizedCollectives | None = None,
        per_iteration: bool = False,
    ) -> None:
        run = workload.run
        self.steps = steps_of(run) if per_iteration else None
        rows = np.arange(run.workload.num_nodes)
        self.cost_as_is_ns = before.end_ns if self.steps is None else self.steps.iteration_ns(rows, before)
        self.workload, self.before, self.backend, self._collectives = workload, before, backend, collectives
        self._graph = read_graph(workload, before)
        self.setting = Setting(
            CollectiveDurations(run, backend, collectives),
            run.network.num_npus,
            run.system.roofline_enabled,
            run.workload.duration_us,
            run.columns.num_ops,
            run.columns.tensor_size,
            run.workload.size_bytes,
            int(run.workload.tag.max(initial=-1)) + 1,
        )
        self._shared = shared_plans(self._implemented(run)).keys()

    def is_allowed(self, candidate: Candidate) -> bool:
        """Whether a candidate is no slower than the run as it is."""
        return candidate.cost_ns <= self.cost_as_is_ns and candidate.end_ns <= self.before.end_ns

    def _implemented(self, run: Run) -> Run:
        return run if self._collectives is None else self._collectives.implemented(run)

    def rewritten(self, requests: Sequence[Request]) -> tuple[TaskGraph, tuple[str, ...]]:
        """The run's tasks after some policies, and what these could not do."""
        graph, notes = self._graph.copy(), []
        for request in requests:
            notes += POLICIES[request.name].apply(graph, self.setting, dict(request.values))
        return graph, tuple(dict.fromkeys(notes))

    def make(self, requests: Sequence[Request]) -> Candidate:
        """A candidate.

        Raises
        ------
        AstraTacosError
            If its replay does not end, or policies contradict one another.
        """
        return self._replayed(tuple(requests), *self.rewritten(requests))

    def in_sequence(self, candidate: Candidate, graph: TaskGraph, sequence: Sequence[Operation]) -> Candidate:
        """The same candidate with another order of its collectives.

        Parameters
        ----------
        graph, sequence
            Its tasks as `rewritten` made them, and all their operations in their order.

        Raises
        ------
        AstraTacosError
            If its replay does not end.
        """
        return self._replayed(candidate.requests, graph, candidate.notes, sequence)

    def _replayed(
        self,
        requests: tuple[Request, ...],
        graph: TaskGraph,
        notes: tuple[str, ...],
        sequence: Sequence[Operation] | None = None,
    ) -> Candidate:
        new = ordered(graph, list_schedule(graph, self.setting.duration_of, sequence))
        run = run_of(new, self.workload.run)
        implemented = self._implemented(run)
        if more := shared_plans(implemented).keys() - self._shared:
            pattern = pattern_name(min(more))
            raise ConfigError(
                f"two groups of a rank would run {pattern} by one algorithm: ASTRA-sim may abort at its end (lint: G10)"
            )
        outcome = replay_run(implemented, self.backend)
        trace = self.workload.run.workload
        iteration_ns = None if self.steps is None else self.steps.iteration_ns(new.laid_out(trace).row, outcome)
        return Candidate(requests, new, outcome, notes, exposed_of_ranks(run, outcome), iteration_ns, sequence is not None)
