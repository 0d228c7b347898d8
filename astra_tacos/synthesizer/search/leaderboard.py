"""The fastest result of a search so far, and the candidates that need not be tried any more.

All decisions follow from the results entered so far, in the order of the work list, and not from time or threads. A candidate
that is needless once stays so while the effort is the same: the leader only gets faster, and a synthesizer that gets no more
chunks enters no more results.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from astra_tacos.schedule.timing import TRUNCATION_HANDICAP, LinkModel
from astra_tacos.synthesizer.search.candidates import Candidate, Stage, TimedSchedule, is_between
from astra_tacos.synthesizer.search.search_options import Effort

_SMALL, _WORTH_MORE_CHUNKS = 100_000, 0.995
"""A candidate with more chunks than the leader that needs more than `_SMALL` sends has to be faster than the leader's time times
`_WORTH_MORE_CHUNKS`, and times `Effort.worth` for each doubling, as traces grow with the number of chunks."""
_PATIENCE = 2
"""A synthesizer gets no more chunks if its last so many increases of their number gained too little, see `Effort.gain`."""
_BEHIND, _FAR = 1.02, 1.25
"""A synthesizer gets no more chunks if all increases that remain, with the gain of its last two, would leave its time above the
leader's time times `_BEHIND`, or above the time of a rival that is not searched for, times `_FAR`. Nor are other numbers or other
seeds tried of a synthesizer whose best time is above the rival's time times `_FAR`."""
_WORTH_SEEDS = 1.05
"""Other seeds are tried for a number of chunks if the first seed's time is at most the synthesizer's best time times this."""
_ADVISED_BEHIND = 1.25
"""The advised number of chunks is not tried of a synthesizer whose best time is above the leader's time times this."""
_SAME_SEEDS = 4
"""No more seeds are tried of a number of chunks where so many differ by less than the fastest of them is behind the leader."""
_FEW, _MODEL_BEHIND = 4, 1.5
"""No more schedules that hold their links are made if the best of those of `_FEW` synthesizers takes `_MODEL_BEHIND` times the
leader's time: schedules whose sends queue gain more from more chunks."""
_NO_WORSE, _PROMISING = 1.5, 0.99
"""Synthesizers promise a better schedule if their fewest chunks take at most `_NO_WORSE` times what they take of any other, or if
the gains of their last chunks lead to less than the leader's time times `_PROMISING`."""


@dataclass(slots=True)
class Leaderboard:
    """The best schedule so far, by exact time, then fewer sends, then order of entry; and the results of each synthesizer.

    Among schedules of more than 100,000 sends, one of more chunks has to be 0.5% faster than the leader. A schedule that
    ASTRA-sim's truncation makes more than 0.5% faster than it is has to be 5% faster than any other.

    Parameters
    ----------
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

    def enter(self, candidate: Candidate, timed: TimedSchedule) -> None:
        """Record a result."""
        self.tried.add(candidate.synthesizer)
        self.made.add(id(candidate))
        count = candidate.cut.problem.collective.chunks_per_npu
        if candidate.trial == 0:
            self.first_ns[candidate.series][count] = timed.exact_ns
            self._busiest_ns[candidate.series].append(timed.busiest_ns)
        self._seeds_ns[*candidate.series, count].append(timed.exact_ns)
        if (self._counted_ns(timed), timed.schedule.num_sends) < self._to_beat(candidate):
            self.best = timed

    @property
    def _leader_ns(self) -> float:
        """The time of the best, with the handicaps that it may have."""
        return math.inf if self.best is None else self._counted_ns(self.best)

    def _counted_ns(self, timed: TimedSchedule) -> float:
        """The time of a result with its handicaps."""
        model = timed.schedule.timing.link_model
        return timed.exact_ns * (TRUNCATION_HANDICAP if timed.is_truncated else 1) * self.handicaps.get(model, 1.0)

    def _to_beat(self, candidate: Candidate) -> tuple[float, float]:
        """The time that a candidate has to beat to lead; at the same time, the number of sends."""
        if self.best is None:
            return math.inf, math.inf
        leader, collective = self.best.schedule, candidate.cut.problem.collective
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
        if candidate.cut.problem.timing.is_blocking and self._is_behind(candidate.series[1], leader):
            return True
        loads = self._busiest_ns[candidate.series][-2:]
        if len(loads) == 2 and loads[1] > max(self.effort.steady_load * loads[0], to_beat_ns):
            return True
        times, count = self.first_ns[candidate.series], candidate.cut.problem.collective.chunks_per_npu
        if candidate.stage == Stage.DOUBLED:
            steps_left = math.log2(self.most_chunks / max(times)) if times else 0.0
            return self._gains_no_more(list(times.values()), steps_left, to_beat_ns)
        if candidate.stage <= Stage.BETWEEN and count in times:
            return True
        if candidate.is_advised and list(times) == [1]:
            return False  # a single chunk per NPU says nothing of many: most of its time is waiting
        least_ns = min(times.values(), default=math.inf)
        if least_ns > min((_ADVISED_BEHIND if candidate.is_advised else self.effort.behind) * leader, _FAR * self.rival_ns):
            return True
        if candidate.stage == Stage.BETWEEN:
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
        if candidate.stage > Stage.ADVISED or not times:
            return False
        if len(times) == 1:
            fewest = min(self.first_ns[candidate.series])
            return times[0] <= _NO_WORSE * min(of[fewest] for of in self.first_ns.values() if fewest in of)
        promised = max(times[-1] - max(times[-2] - times[-1], 0.0), candidate.bound_ns)
        return promised < _PROMISING * self._leader_ns

    def would_try(self, candidates: Iterable[Candidate], effort: Effort) -> bool:
        """Whether another effort would have tried some of the candidates that this one passed over."""
        harder = replace(self, effort=effort)
        return not all(id(candidate) in self.made or harder.passes_over(candidate) for candidate in candidates)

    def _is_behind(self, model: LinkModel, leader: float) -> bool:
        """Whether a link model falls behind another one."""
        best = [min(times.values()) for (_, other), times in self.first_ns.items() if other == model and times]
        return len(best) >= _FEW and min(best) > _MODEL_BEHIND * leader
