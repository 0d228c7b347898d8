"""Running the work list of a search within its budget, several candidates at a time.

Every synthesizer and link model has a share of the budget, however dear its schedules are: its first chunks, and those that it
advises, are made within a budget of their own. What promises to lead with more chunks may take several budgets.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock

from astra_tacos.schedule.link_use import Allowance, OutOfWorkError, metered
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.search.candidates import Candidate, TimedSchedule
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.synthesizer.search.search_options import EFFORTS, THOROUGH

_OVERSHOOT = 1.25
"""A candidate is stopped that examines more than what is left of a budget that was asked for, times this."""
_LEAP = 4
"""What promises to lead may take a budget smaller by this factor for the number of chunks that is advised: often many more."""
_SHARE_OF_SPARE = 0.1
"""A candidate that is tried within the spare budget takes this share of that budget at most."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    candidate: Candidate
    allowance: Allowance
    future: Future[tuple[TimedSchedule, int]] = field(default_factory=Future)

    def make(self) -> None:
        """Make the schedule, unless nobody waits for it any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(metered(self.candidate.make, self.allowance))
        except BaseException as error:
            self.future.set_exception(error)

    def drop(self) -> None:
        """Let it end soon: nobody waits for its result."""
        self.allowance.most = -1
        self.future.cancel()


@dataclass(slots=True)
class CandidateRunner:
    """Candidates are made in threads (kernels release the interpreter lock), but counted and entered in the list's order.

    So what is tried and what leads does not depend on the number of threads or on how fast they are, unless the time limit
    strikes. A candidate that is likely to need more work than is left of the budget is passed over; cheaper ones after it are
    not. What it is likely to need is its estimate, times how far that of the last one of its synthesizer and link model was off.
    One that needs much more than is left is stopped if the budget is a limit; what is dropped is stopped, too.

    Parameters
    ----------
    budget
        Sends that may be examined. The first candidate is made whatever it takes.
    is_limit
        Whether candidates are stopped at it, and not only started within it.
    work_after
        Sends examined that each send of the result will count as when it is checked and judged, which is a part of the budget.
    workers
        Threads; so many schedules, and two more, are in memory beside the best.
    deadline
        Value of `time.monotonic` from which on none but the first candidate is started.
    work
        Filled in: sends examined, as counted, or as estimated where a synthesizer counts none.
    correction
        Filled in: by synthesizer and link model, the work of its last candidate over the estimate.
    """

    leaderboard: Leaderboard
    budget: float
    workers: int
    deadline: float = math.inf
    is_limit: bool = False
    work_after: float = 0.0
    refusals: dict[tuple[str, LinkModel], str] = field(default_factory=dict)
    work: int = 0
    correction: dict[tuple[str, LinkModel], float] = field(default_factory=dict)
    work_of_due: int = 0
    """Sends examined for candidates that are due, which have a budget of their own."""
    longest: int = 0
    """Sends of the longest schedule that has led."""
    passed_over: list[Candidate] = field(default_factory=list)
    """Candidates that did not fit into the budget."""
    not_started: list[Candidate] = field(default_factory=list)
    """Candidates that the time limit kept from being started."""
    _lock: Lock = field(default_factory=Lock)

    def run(self, candidates: Sequence[Candidate], on_progress: Callable[[int, int], None]) -> None:
        """Make the candidates that may win."""
        ahead = 1 if self.workers == 1 else self.workers + 2
        rest = deque(candidates)
        under_way: deque[_UnderWay] = deque()
        waiting: list[_UnderWay] = []
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while rest or under_way:
                    while rest and len(under_way) < ahead and self._may_start(rest[0], under_way):
                        candidate = rest.popleft()
                        if not self._is_needless(candidate):
                            under_way.append(_UnderWay(candidate, Allowance(self._most(candidate))))
                            waiting.append(under_way[-1])
                            pool.submit(self._make_longest, waiting)
                    if under_way:
                        self._finish(under_way.popleft())
                    elif rest and time.monotonic() >= self.deadline:
                        self.not_started += rest
                        rest.clear()
                    elif rest:
                        self.passed_over.append(rest.popleft())
                    on_progress(len(candidates) - len(rest) - len(under_way), len(candidates))
            finally:
                for other in under_way:
                    other.drop()

    def use_spare(self, candidates: Sequence[Candidate], share: float) -> None:
        """Try cheap candidates that promise less, as a thorough search does, within a share of the budget."""
        effort, passed_over, budget = self.leaderboard.effort, self.passed_over, self.budget
        self.leaderboard.effort = replace(EFFORTS[THOROUGH], worth=effort.worth, for_leader=1.0, for_promising=1.0)
        self.passed_over, self.budget = [], share * budget
        self.run(
            [candidate for candidate in candidates if candidate.work <= _SHARE_OF_SPARE * self.budget], lambda done, total: None
        )
        self.leaderboard.effort, self.passed_over, self.budget = effort, passed_over, budget

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
        if under_way and under_way[0].candidate.stage < candidate.stage:
            return False  # whether it is needless follows from all results of the stages before
        if self._is_needless(candidate):
            return True
        if candidate.trial == 0 and any(other.candidate.series == candidate.series for other in under_way):
            return False  # whether more chunks are worth making follows from the time of fewer
        used = sum(self._likely_work(other.candidate) for other in under_way)
        is_first = not under_way and self.leaderboard.best is None
        return self._fits(candidate, used) and (time.monotonic() < self.deadline or is_first)

    def _likely_work(self, candidate: Candidate) -> float:
        return candidate.work * self.correction.get(candidate.series, 1.0)

    def _make_longest(self, waiting: list[_UnderWay]) -> None:
        """Make the one of those that wait that is likely to take longest: begun last, it would keep one thread alone busy."""
        with self._lock:
            chosen = max(waiting, key=lambda other: self._likely_work(other.candidate))
            waiting.remove(chosen)
        chosen.make()

    def _is_due(self, candidate: Candidate) -> bool:
        """Whether a candidate is the first of its synthesizer and link model, or has the chunks that its synthesizer advises."""
        return not self.leaderboard.first_ns.get(candidate.series) or candidate.is_advised

    def _left(self, candidate: Candidate) -> float:
        """What is left of the budget, less what will be examined of the result after the search."""
        left = self.budget - self.work - self.work_after * max(candidate.cut.problem.collective.least_sends, self.longest)
        if self.is_limit:
            return left
        if self._is_due(candidate):
            left = max(left, self.budget - self.work_of_due)
        best, effort = self.leaderboard.best, self.leaderboard.effort
        leads = best is not None and (best.schedule.synthesizer, best.schedule.timing.link_model) == candidate.series
        times = effort.for_leader if leads else 1.0
        if self.leaderboard.promises(candidate):
            times = effort.for_promising / (_LEAP if candidate.is_advised else 1)
        return left + (times - 1.0) * self.budget

    def _most(self, candidate: Candidate) -> float:
        """What a candidate may examine before it is stopped. This never grows: an early answer holds for later ones."""
        is_first = self.leaderboard.best is None
        return math.inf if is_first or not self.is_limit else _OVERSHOOT * max(self._left(candidate), 0.0)

    def _fits(self, candidate: Candidate, used: float = 0.0) -> bool:
        """Whether a candidate is the first, or fits into the budget beside the work counted and the expected work of others."""
        if not used and self.leaderboard.best is None:
            return True
        return used + self._likely_work(candidate) <= self._left(candidate)

    def _is_needless(self, candidate: Candidate) -> bool:
        return candidate.series in self.refusals or self.leaderboard.passes_over(candidate)

    def _finish(self, running: _UnderWay) -> None:
        """Enter a result, unless earlier ones make it needless or exhaust the budget: then it does not count, finished or not."""
        candidate = running.candidate
        if self._is_needless(candidate):
            running.drop()
            return
        if not self._fits(candidate):
            running.drop()
            self.passed_over.append(candidate)
            return
        most = self._most(candidate)
        running.allowance.most = most
        try:
            schedule, counted = running.future.result()
            if counted > most:
                raise OutOfWorkError
        except SynthesisError as error:
            self.refusals[candidate.series] = str(error)
            self.work += candidate.work
            return
        except OutOfWorkError:  # what it would have led to is not known
            self.passed_over.append(candidate)
            self.work += int(most)
            self.correction[candidate.series] = max(most / max(candidate.work, 1), 1.0)
            return
        work = counted or candidate.work
        self.work += work
        self.correction[candidate.series] = work / max(candidate.work, 1)
        self.work_of_due += work if self._is_due(candidate) else 0
        self.leaderboard.enter(candidate, schedule)
        assert self.leaderboard.best is not None
        self.longest = max(self.longest, self.leaderboard.best.schedule.num_sends)
