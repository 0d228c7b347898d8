"""Running the work list of a search within its budget, several candidates at a time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.schedule.work_meter import metered
from astra_tacos.synthesizer.search.candidates import Candidate, TimedSchedule
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.topology.topology import Topology

_UnderWay = tuple[Candidate, Future[tuple[TimedSchedule, int]]]


@dataclass(slots=True)
class CandidateRunner:
    """Candidates are made in threads (kernels release the interpreter lock), but counted and entered in the list's order.

    So what is tried and what leads does not depend on the number of threads or on how fast they are, unless the time limit
    strikes. A candidate that is likely to need more work than is left of the budget is passed over; cheaper ones after it are
    not. What it is likely to need is its estimate, times how far that of the last one of its synthesizer and link model was off.

    Parameters
    ----------
    leaderboard
        Where results are entered.
    budget
        Sends that may be examined. The first candidate is made whatever it takes.
    workers
        Threads; so many schedules, and one more, are in memory beside the best.
    deadline
        Value of `time.monotonic` from which on none but the first candidate is started.
    refusals
        Filled in: synthesizers that failed under a link model, and why.
    work
        Filled in: sends examined, as counted, or as estimated where a synthesizer counts none.
    correction
        Filled in: by synthesizer and link model, the work of its last candidate over the estimate.
    """

    topology: Topology
    leaderboard: Leaderboard
    budget: float
    workers: int
    deadline: float = math.inf
    refusals: dict[tuple[str, LinkModel], str] = field(default_factory=dict)
    work: int = 0
    correction: dict[tuple[str, LinkModel], float] = field(default_factory=dict)
    passed_over: list[Candidate] = field(default_factory=list)
    """Candidates that did not fit into the budget."""
    not_started: list[Candidate] = field(default_factory=list)
    """Candidates that the time limit kept from being started."""

    def run(self, candidates: Sequence[Candidate], on_progress: Callable[[int, int], None]) -> None:
        """Make the candidates that may win."""
        ahead = 1 if self.workers == 1 else self.workers + 1
        rest = deque(candidates)
        under_way: deque[_UnderWay] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while rest or under_way:
                    while rest and len(under_way) < ahead and self._may_start(rest[0], under_way):
                        candidate = rest.popleft()
                        if not self._is_needless(candidate):
                            under_way.append((candidate, pool.submit(metered, partial(candidate.make, self.topology))))
                    if under_way:
                        self._finish(*under_way.popleft())
                    elif rest and time.monotonic() >= self.deadline:
                        self.not_started += rest
                        rest.clear()
                    elif rest:
                        self.passed_over.append(rest.popleft())
                    on_progress(len(candidates) - len(rest) - len(under_way), len(candidates))
            finally:
                for _, future in under_way:
                    future.cancel()

    @property
    def was_cut_off(self) -> bool:
        """Whether candidates that might have won did not fit into the budget."""
        return not all(map(self._is_needless, self.passed_over))

    @property
    def ran_out_of_time(self) -> bool:
        """Whether candidates that might have won were not started in time."""
        return not all(map(self._is_needless, self.not_started))

    def _may_start(self, candidate: Candidate, under_way: deque[_UnderWay]) -> bool:
        """Whether to start a candidate now; while others are running, as far as can be told without their results."""
        if under_way and under_way[0][0].stage < candidate.stage:
            return False  # whether it is needless follows from all results of the stages before
        if self._is_needless(candidate):
            return True
        used = sum(self._likely_work(other) for other, _ in under_way)
        return self._fits(candidate, used) and (time.monotonic() < self.deadline or self._is_first(under_way))

    def _is_first(self, under_way: deque[_UnderWay]) -> bool:
        return not under_way and self.leaderboard.best is None

    def _likely_work(self, candidate: Candidate) -> float:
        return candidate.work * self.correction.get(candidate.series, 1.0)

    def _fits(self, candidate: Candidate, used: float = 0.0) -> bool:
        """Whether a candidate is the first, or fits into the budget beside the work counted and the expected work of others."""
        if not used and self.leaderboard.best is None:
            return True
        return self.work + used + self._likely_work(candidate) <= self.budget

    def _is_needless(self, candidate: Candidate) -> bool:
        return candidate.series in self.refusals or self.leaderboard.passes_over(candidate)

    def _finish(self, candidate: Candidate, future: Future[tuple[TimedSchedule, int]]) -> None:
        """Enter a result, unless earlier ones make it needless or exhaust the budget: then it does not count, finished or not."""
        if self._is_needless(candidate):
            return
        if not self._fits(candidate):
            self.passed_over.append(candidate)
            return
        try:
            schedule, counted = future.result()
        except SynthesisError as error:
            self.refusals[candidate.series] = str(error)
            self.work += candidate.work
            return
        work = counted or candidate.work
        self.work += work
        self.correction[candidate.series] = work / max(candidate.work, 1)
        self.leaderboard.enter(candidate, schedule)
