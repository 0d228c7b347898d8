"""The steps of a plan of collectives, which every run takes.

The run before is replayed, the best native run is searched, each distinct collective is solved, and the run that ends first is
chosen. A bound and figures go beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from astra_tacos.planner.acceptance import Candidate
from astra_tacos.planner.best_native import REACH, BestNative, best_native
from astra_tacos.planner.plan_result import CaseFigures, JointFigures, PlanResult, find_prints
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_bound import RunBound
from astra_tacos.planner.run_files import NodeTable, write_plan
from astra_tacos.planner.workload import MessageCounts
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.run_replay import Attempt, try_replay
from astra_tacos.run.aborts import aborts_of
from astra_tacos.run.backend import Backend
from astra_tacos.run.critical_path import summarize_path
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recording import REPLAY_FILE, Recording, record_run, save_recording
from astra_tacos.run.run import Run
from astra_tacos.solver.clock import Printed
from astra_tacos.solver.first_use import OnProgress
from astra_tacos.solver.native_configuration import NativeConfiguration, configuration_of
from astra_tacos.solver.native_search import NativeCollectives, NativeReplays, Reach
from astra_tacos.support.arrays import Ints
from astra_tacos.support.temporaries import garbage_kept


@dataclass(frozen=True)
class Start:
    """A run that candidates start from, its replay, and how its native collectives run, if not by the system file."""

    run: Run
    replay: Attempt
    native: NativeConfiguration | None = None

    @cached_property
    def end_ns(self) -> int | None:
        """When it ends; None if it does not, or its native collectives move less than they have to."""
        return None if self.replay.end_ns is None or self.why_incomplete else self.replay.end_ns

    @cached_property
    def why_incomplete(self) -> str:
        """Which of its native collectives moves less than it has to; "" if none, as in a native run that a search found."""
        return why_incomplete(self.run) if self.native is None else ""


class PlannedCandidate(Candidate, Protocol):
    """A run whose collectives run what was chosen for them, and its replay."""

    @property
    def run(self) -> Run:
        """The run."""
        ...

    @property
    def after(self) -> RunOutcome:
        """Its replay."""
        ...

    @property
    def end_ns(self) -> int:
        """When it ends on the clock."""
        ...

    def proof(self, written: Run, before: Run, npu_of_rank: Ints | None) -> dict[str, Any]:
        """What the oracle says of the written run beside the run before, for `plan.json`.

        Raises
        ------
        VerificationError
            If the run does not do what the run before did: a defect of this package.
        """
        ...

    def write_beside(self, folder: Path, written: Run, prints: Sequence[Printed]) -> None:
        """Write what belongs to the written run: scripts that start it, or the ordinary run that it stands for."""
        ...

    def node_table(self) -> NodeTable | None:
        """What happened to each collective node; None where nodes are not listed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCollectives:
    """A run with planned collectives, in memory.

    Parameters
    ----------
    best
        The run, and what its collectives run.
    recording
        The replays, before and after.
    """

    best: PlannedCandidate
    result: PlanResult
    recording: Recording

    @property
    def end_ns(self) -> int:
        """When it ends."""
        return self.result.time_ns

    def write(
        self,
        folder: Path,
        name: str,
        before: Run,
        result: PlanResult,
        entries: dict[str, Any],
        npu_of_rank: Ints | None = None,
    ) -> None:
        """Write the run, its recording, and what there is to say of it, into an empty directory.

        Parameters
        ----------
        name, before
            The name of the workload, and the user's run.
        result, entries
            The figures of `plan.json`: those of this plan, perhaps beside the user's run, and others.
        npu_of_rank
            int64[num_ranks], where the ranks of the user's run are; None if they stay.

        Raises
        ------
        VerificationError
            If the written run does not do what the run before did: a defect of this package.
        """
        written = self.best.run.write(folder, name)
        proof = self.best.proof(written, before, npu_of_rank)
        with garbage_kept():
            write_plan(folder, self.result.to_json() | proof | entries | result.to_json(), self.best.node_table())
            save_recording(self.recording, folder / REPLAY_FILE)
            self.best.write_beside(folder, written, self.result.prints)


Solutions = TypeVar("Solutions")
C = TypeVar("C", bound=PlannedCandidate)


class Planning(ABC, Generic[Solutions, C]):
    """One plan: what its steps know, and their order.

    Parameters
    ----------
    run, start
        The run of the request, or what was made of it; and the run before, which has native algorithms if `--baseline` asks for
        them.
    collectives
        Its native collectives.
    """

    def __init__(
        self, request: PlanRequest, run: Run, start: Run, clock: Backend, collectives: NativeCollectives, on_native: OnProgress
    ) -> None:
        self.request, self.run, self.start, self.clock = request, run, start, clock
        self.collectives, self.on_native = collectives, on_native
        self.native_replays: NativeReplays = {}

    @cached_property
    def own(self) -> Start:
        """The run before, and its replay."""
        return Start(self.start, try_replay(self.start, self.clock, route_loads=True))

    @cached_property
    def native(self) -> BestNative:
        """The best native run."""
        configuration, reach, limit = configuration_of(self.start), self.reach, self.request.most_messages
        known = None if configuration is None or self.own.end_ns is None else (configuration, self.own.replay)
        return best_native(self.collectives, self.clock, reach, self.on_native, limit, known, self.native_replays)

    @cached_property
    def base(self) -> Start:
        """What candidates start from: the best native run, so that what stays native is fast; without one the run before."""
        if self.native.base is None:
            return self.own
        configuration = self.native.base.configuration
        run = configuration.run(self.collectives.run)
        return Start(run, self.native_replays.get(configuration) or try_replay(run, self.clock), configuration)

    def plan(self, on_progress: OnProgress) -> PlannedCollectives:
        """Take all steps.

        Parameters
        ----------
        on_progress
            Called with how many steps of the solution of cases are done, and how many there are.

        Raises
        ------
        ReplayError
            If neither a planned run nor the run before goes to its end.
        """
        base = self.base
        solutions = self.solve(on_progress)
        # The bound is found while candidates are replayed.
        with ThreadPoolExecutor(1) as aside:
            bound = aside.submit(self.bound, solutions)
            best = self.choose(base, solutions)
            recording = record_run(self.run, best.after, self.own.replay.outcome, self.patterns)
            return PlannedCollectives(best, self._result(best, solutions, bound.result(), recording), recording)

    @abstractmethod
    def solve(self, on_progress: OnProgress) -> Solutions:
        """What each distinct collective may run."""

    @abstractmethod
    def choose(self, base: Start, solutions: Solutions) -> C:
        """The run that ends first of all that are tried; candidates start from `base`."""

    @abstractmethod
    def bound(self, solutions: Solutions) -> RunBound:
        """What the run takes at least, whatever algorithms its collectives have."""

    @abstractmethod
    def figures(self, best: C) -> tuple[CaseFigures, ...]:
        """Figures of each distinct collective, those in which a rank spends most of the run first."""

    @abstractmethod
    def joint_figures(self, best: C) -> tuple[JointFigures, ...]:
        """Figures of joint schedules."""

    @abstractmethod
    def notes(self, best: C, solutions: Solutions) -> tuple[str, ...]:
        """What could not be done, and what the times do not say."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """How many collective nodes all ranks have, and how many collectives they make."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """About how many messages the planned run may have; None for any number."""

    @property
    def reach(self) -> Reach:
        """How far the best native run is searched."""
        return REACH

    @property
    def patterns(self) -> Ints | None:
        """int64[num_nodes], the pattern that each collective node stands for; None for the one in its trace."""
        return None

    def _result(self, best: C, solutions: Solutions, bound: RunBound, recording: Recording) -> PlanResult:
        before, after, run = self.own.replay, best.after, self.run
        num_nodes, num_collectives = self.counts
        native = self.native.best
        native_run = None if native is None else (native.configuration.run(self.collectives.run), native.end_ns)
        return PlanResult(
            clock=self.clock,
            baseline=self.request.baseline,
            num_ranks=run.workload.num_ranks if run.classes is None else run.classes.num_ranks,
            num_nodes=num_nodes,
            num_collectives=num_collectives,
            before_ns=before.end_ns,
            before_reason=before.reason,
            time_ns=best.end_ns,
            exposed_before_ns=None if before.outcome is None else int(before.outcome.exposed_comm_ns.max()),
            exposed_ns=int(after.exposed_comm_ns.max()),
            cases=self.figures(best),
            notes=(*self.notes(best, solutions), *(f"ASTRA-sim aborts here: {why}" for why in aborts_of(best.run, after))),
            native=self.native,
            bound=bound,
            messages=MessageCounts(
                self.limit, None if before.outcome is None else before.outcome.num_messages, after.num_messages
            ),
            joint=self.joint_figures(best),
            path_before=None if recording.before is None else summarize_path(recording, recording.before),
            path_after=summarize_path(recording, recording.after),
            prints=find_prints(self.clock, run.network, (best.run, best.end_ns), native_run),
            num_classes=None if run.classes is None else run.workload.num_ranks,
        )
