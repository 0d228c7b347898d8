"""Running the work list of a search within its budget, several candidates at a time.

The leaderboard knows the fastest result so far, and the candidates that need not be tried any more. All its decisions follow from
the results entered so far, in the order of the work list, and not from time or threads. A candidate that is needless once stays
so while the effort is the same: the leader only gets faster, and a synthesizer that gets no more chunks enters no more of them.

Every synthesizer and link model has a share of the budget, however dear its schedules are: its first chunks, and those that it
advises, are made within a budget of their own. What promises to lead with more chunks may take several budgets.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from threading import Lock

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import Allowance, OutOfWorkError, metered
from astra_tacos.schedule.timing import TRUNCATION_HANDICAP, LinkModel
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.search.candidates import Candidate, TimedSchedule, is_between
from astra_tacos.synthesizer.search.search_options import EFFORTS, THOROUGH, Effort

_ADVISED_COUNTS, _IN_BETWEEN = 1, 2
"""Numbers of the stages (`Candidate.stage`) that try advised numbers of chunks, and those between powers of two."""
_SMALL = 100_000
_WORTH_MORE_CHUNKS = 0.995
"""A candidate with more chunks than the leader that needs more than `_SMALL` sends has to be faster than the leader's time times
`_WORTH_MORE_CHUNKS`, and times `Effort.worth` for each doubling, as traces grow with the number of chunks."""
_PATIENCE = 2
"""A synthesizer gets no more chunks if its last so many increases of their number gained too little, see `Effort.gain`."""
_BEHIND = 1.02
"""It gets no more chunks, either, if with the gain of the last two increases, all remaining ones would leave its time above the
leader's time times this."""
_FAR = 1.25
"""Nor if they would leave its time above the time of a rival that is not searched for, times this."""
_WORTH_SEEDS = 1.05
"""Other seeds are tried for a number of chunks if the first seed's time is at most the synthesizer's best time times this."""
_ADVISED = 1.25
"""The advised number of chunks is not tried of a synthesizer that is this much behind the leader."""
_SAME_SEEDS = 4
"""No more seeds are tried of a number of chunks where so many differ by less than the fastest of them is behind the leader."""
_MODEL_BEHIND = 1.5
"""No more schedules that hold their links are made if the best of those of `_FEW` synthesizers is this much behind the leader.
The others gain more from more chunks."""
_FEW = 4
_NO_WORSE, _PROMISING = 1.5, 0.99
"""Synthesizers promise a better schedule if the fewest chunks take at most `_NO_WORSE` times what they take of any other, or if
the gains of their last chunks lead to less than the leader's time times `_PROMISING`."""


@dataclass(slots=True)
class Leaderboard:
    """The best schedule so far, by exact time, then fewer sends, then order of entry; and the results of each synthesizer.

    Among schedules of more than 100,000 sends, one of more chunks has to be 0.5% faster than the leader. A schedule that
    ASTRA-sim's truncation makes more than 0.5% faster than it is has to be 5% faster than any other.

    Parameters
    ----------
    most_chunks
        Largest number of chunks per NPU in the work list.
    effort
        How little a candidate may promise to be tried.
    handicaps
        By link model, what its times are multiplied by before they are compared; 1 where nothing is said.
    rival_ns
        The time of another schedule. What falls far behind it is not refined.
    first_ns
        By synthesizer and link model, the times of its first seed by number of chunks, in the order of entry: ascending in
        each stage.
    """

    most_chunks: int
    effort: Effort
    handicaps: Mapping[LinkModel, float] = field(default_factory=dict)
    rival_ns: float = math.inf
    best: TimedSchedule | None = None
    tried: set[str] = field(default_factory=set)
    """Synthesizers of which there was a result."""
    made: set[int] = field(default_factory=set)
    """Candidates of which there was a result, by identity."""
    first_ns: dict[tuple[str, LinkModel], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    _busiest_ns: dict[tuple[str, LinkModel], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By synthesizer and link model, the times of the busiest links of its first seeds, in the order of entry."""
    _seeds_ns: dict[tuple[str, LinkModel, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By synthesizer, link model and number of chunks, the times of all seeds so far."""

    def enter(self, candidate: Candidate, made: TimedSchedule) -> None:
        """Record a result."""
        self.tried.add(candidate.synthesizer)
        self.made.add(id(candidate))
        count = candidate.cut.collective.chunks_per_npu
        if candidate.trial == 0:
            self.first_ns[candidate.series][count] = made.exact_ns
            self._busiest_ns[candidate.series].append(made.busiest_ns)
        self._seeds_ns[*candidate.series, count].append(made.exact_ns)
        if (self._counted_ns(made), made.schedule.num_sends) < self._to_beat(candidate):
            self.best = made

    @property
    def _leader_ns(self) -> float:
        """The time of the best, with the handicaps that it may have."""
        return math.inf if self.best is None else self._counted_ns(self.best)

    def _counted_ns(self, made: TimedSchedule) -> float:
        """The time of a result with its handicaps."""
        model = made.schedule.timing.link_model
        return made.exact_ns * (TRUNCATION_HANDICAP if made.is_truncated else 1) * self.handicaps.get(model, 1.0)

    def _to_beat(self, candidate: Candidate) -> tuple[float, float]:
        """The time that a candidate has to beat to lead; at the same time, the number of sends."""
        if self.best is None:
            return math.inf, math.inf
        leader, collective = self.best.schedule, candidate.cut.collective
        worth = 1.0
        if collective.num_chunks > leader.collective.num_chunks and collective.least_sends > _SMALL:
            doublings = math.log2(collective.least_sends / max(leader.num_sends, _SMALL))
            worth = _WORTH_MORE_CHUNKS * self.effort.worth ** max(doublings, 0.0)
        return self._leader_ns * worth, leader.num_sends

    def passes_over(self, candidate: Candidate) -> bool:
        """Whether a candidate can be skipped: it cannot beat the leader, or results of its synthesizer show that it would not."""
        if self.best is None:
            return False
        to_beat_ns = self._to_beat(candidate)[0]
        least_ns = self.effort.worth * to_beat_ns - 1  # bounds are whole nanoseconds, rounded down
        return (
            candidate.cut.bound_ns > least_ns or self._gained_too_little(candidate, to_beat_ns) or candidate.bound_ns > least_ns
        )

    def _gained_too_little(self, candidate: Candidate, to_beat_ns: float) -> bool:
        """Whether results of a candidate's synthesizer show that it would not lead."""
        leader = self._leader_ns
        if candidate.cut.timing.is_blocking and self._is_behind(candidate.series[1], leader):
            return True
        loads = self._busiest_ns[candidate.series][-2:]
        if len(loads) == 2 and loads[1] > max(self.effort.steady_load * loads[0], to_beat_ns):
            return True
        times, count = self.first_ns[candidate.series], candidate.cut.collective.chunks_per_npu
        if candidate.stage == 0:
            steps_left = math.log2(self.most_chunks / max(times)) if times else 0.0
            return self._gains_no_more(list(times.values()), steps_left, to_beat_ns)
        if candidate.stage <= _IN_BETWEEN and count in times:
            return True
        if candidate.is_advised and list(times) == [1]:
            return False  # a single chunk per NPU says nothing of many: most of its time is waiting
        least_ns = min(times.values(), default=math.inf)
        if least_ns > min((_ADVISED if candidate.is_advised else self.effort.behind) * leader, _FAR * self.rival_ns):
            return True
        if candidate.stage == _IN_BETWEEN:
            near = min((other for other in times if not is_between(other)), key=lambda other: (times[other], other))
            return not near < 2 * count < 4 * near
        if candidate.is_advised:
            return False
        seeds = self._seeds_ns[*candidate.series, count]
        if len(seeds) >= _SAME_SEEDS and min(seeds) - (max(seeds) - min(seeds)) >= to_beat_ns:
            return True
        return times.get(count, math.inf) > _WORTH_SEEDS * least_ns

    def _gains_no_more(self, times: list[float], steps_left: float, to_beat_ns: float) -> bool:
        """Whether times by ascending number of chunks promise no gain from still more chunks."""
        if len(times) > _PATIENCE and min(times[-_PATIENCE:]) > self.effort.gain * min(times[:-_PATIENCE]):
            return True
        steps = min(len(times) - 1, _PATIENCE)
        if steps < 1:
            return False
        promised = times[-1] * min(times[-1] / times[-1 - steps], 1.0) ** (steps_left / steps)
        if steps == _PATIENCE:
            gained = max(before - after for before, after in pairwise(times[-1 - steps :]))
            if times[-1] - self.effort.more_gains * max(gained, 0.0) >= to_beat_ns:
                return True  # doublings gain half as much each time, where filling a pipeline is what is left
        return bool(promised > min(_BEHIND * self._leader_ns, _FAR * self.rival_ns))

    def promises(self, candidate: Candidate) -> bool:
        """Whether more chunks of a synthesizer are expected to lead: each doubling gains half as much as the one before.

        Of a synthesizer of which only the fewest chunks are known, its time in comparison to others with as few tells.
        """
        times = list(self.first_ns[candidate.series].values())
        if candidate.stage > _ADVISED_COUNTS or not times:
            return False
        if len(times) == 1:
            fewest = min(self.first_ns[candidate.series])
            return times[0] <= _NO_WORSE * min(of[fewest] for of in self.first_ns.values() if fewest in of)
        promised = max(times[-1] - max(times[-2] - times[-1], 0.0), candidate.bound_ns)
        return promised < _PROMISING * self._leader_ns

    def would_try(self, candidates: Iterable[Candidate], effort: Effort) -> bool:
        """Whether another effort would have tried some of the candidates that this one passed over."""
        harder = replace(self, effort=effort)
        return not all(id(each) in self.made or harder.passes_over(each) for each in candidates)

    def _is_behind(self, model: LinkModel, leader: float) -> bool:
        """Whether a link model falls behind another one."""
        best = [min(times.values()) for (_, other), times in self.first_ns.items() if other == model and times]
        return len(best) >= _FEW and min(best) > _MODEL_BEHIND * leader


_OVERSHOOT = 1.25
"""A candidate that examines more than what is left of a budget that was asked for, times this, is stopped."""


_LEAP = 4
"""What promises to lead may take a budget smaller by this factor for the number of chunks that is advised: often many more."""
_CHEAP = 0.1
"""Share of the spare budget that a candidate takes at most which is tried within it."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    candidate: Candidate
    allowance: Allowance
    future: Future[tuple[TimedSchedule, int]] = field(default_factory=Future)

    def make(self, topology: Topology) -> None:
        """Make the schedule, unless nobody waits for it any more."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(metered(partial(self.candidate.make, topology), self.allowance))
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
    leaderboard
        Where results are entered.
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
        own, passed_over, budget = self.leaderboard.effort, self.passed_over, self.budget
        self.leaderboard.effort = replace(EFFORTS[THOROUGH], worth=own.worth, for_leader=1.0, for_promising=1.0)
        self.passed_over, self.budget = [], share * budget
        self.run([each for each in candidates if each.work <= _CHEAP * self.budget], lambda done, total: None)
        self.leaderboard.effort, self.passed_over, self.budget = own, passed_over, budget

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
        chosen.make(self.topology)

    def _is_due(self, candidate: Candidate) -> bool:
        """Whether it is the first of its synthesizer and link model, or the one that its synthesizer advises."""
        return not self.leaderboard.first_ns.get(candidate.series) or candidate.is_advised

    def _left(self, candidate: Candidate) -> float:
        """What is left of the budget, less what will be examined of the result after the search."""
        left = self.budget - self.work - self.work_after * max(candidate.cut.collective.least_sends, self.longest)
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
        """What a candidate may examine before it is stopped. It never grows, so it may be asked early."""
        is_first = self.leaderboard.best is None
        return math.inf if is_first or not self.is_limit else _OVERSHOOT * max(self._left(candidate), 0.0)

    def _fits(self, candidate: Candidate, used: float = 0.0) -> bool:
        """Whether a candidate is the first, or fits into the budget beside the work counted and the expected work of others."""
        if not used and self.leaderboard.best is None:
            return True
        return used + self._likely_work(candidate) <= self._left(candidate)

    def _is_needless(self, candidate: Candidate) -> bool:
        return candidate.series in self.refusals or self.leaderboard.passes_over(candidate)

    def _finish(self, made: _UnderWay) -> None:
        """Enter a result, unless earlier ones make it needless or exhaust the budget: then it does not count, finished or not."""
        candidate = made.candidate
        if self._is_needless(candidate):
            made.drop()
            return
        if not self._fits(candidate):
            made.drop()
            self.passed_over.append(candidate)
            return
        most = self._most(candidate)
        made.allowance.most = most
        try:
            schedule, counted = made.future.result()
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
