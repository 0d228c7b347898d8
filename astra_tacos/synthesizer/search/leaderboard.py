"""The leaderboard of a search: the fastest result so far, and the candidates that need not be tried any more.

All decisions here follow from the results entered so far, in the order of the work list, and not from time or threads. A
candidate that is needless once stays so: the leader only gets faster, and a synthesizer that gets no more chunks enters no more
of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from astra_tacos.schedule.timing import TRUNCATION_HANDICAP, LinkModel
from astra_tacos.synthesizer.search.candidates import Candidate, TimedSchedule, is_between

_IN_BETWEEN = 2
"""Number of the stage (`Candidate.stage`) that tries numbers of chunks between powers of two."""
_SMALL = 100_000
_WORTH_MORE_CHUNKS = 0.995
"""A candidate with more chunks than the leader that needs more than `_SMALL` sends has to be faster than the leader's time times
`_WORTH_MORE_CHUNKS`, as traces grow with the number of chunks."""
_PATIENCE = 2
_GAIN = 0.998
"""A synthesizer gets no more chunks if its last `_PATIENCE` increases of their number all left its time above its earlier best
time times `_GAIN`."""
_BEHIND = 1.02
"""It gets no more chunks, either, if with the gain of the last two increases, all remaining ones would leave its time above the
leader's time times this."""
_WORTH_SEEDS = 1.05
"""Other seeds are tried for a number of chunks if the first seed's time is at most the synthesizer's best time times this."""
_SEEDS_GAIN = 1.25
"""Neither they nor numbers of chunks in between are tried of a synthesizer that is this much behind the leader."""
_SAME_SEEDS = 4
"""No more seeds are tried of a number of chunks where so many took equally long."""
_MODEL_BEHIND = 1.5
"""No more schedules that hold their links are made if the best of those of `_FEW` synthesizers is this much behind the leader.
The others gain more from more chunks."""
_FEW = 4


@dataclass(slots=True)
class Leaderboard:
    """The best schedule so far, by exact time, then fewer sends, then order of entry; and the results of each synthesizer.

    Among schedules of more than 100,000 sends, one of more chunks has to be 0.5% faster than the leader. A schedule that
    ASTRA-sim's truncation makes more than 0.5% faster than it is has to be 5% faster than any other.

    Parameters
    ----------
    most_chunks
        Largest number of chunks per NPU in the work list.
    handicaps
        By link model, what its times are multiplied by before they are compared; 1 where nothing is said.
    first_ns
        By synthesizer and link model, the times of its first seed by number of chunks, in the order of entry: ascending in
        each stage.
    """

    most_chunks: int
    handicaps: Mapping[LinkModel, float] = field(default_factory=dict)
    best: TimedSchedule | None = None
    entered: int = 0
    tried: set[str] = field(default_factory=set)
    """Synthesizers of which there was a result."""
    first_ns: dict[tuple[str, LinkModel], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    _seeds_ns: dict[tuple[str, LinkModel, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By synthesizer, link model and number of chunks, the times of all seeds so far."""

    def enter(self, candidate: Candidate, made: TimedSchedule) -> None:
        """Record a result."""
        self.entered += 1
        self.tried.add(candidate.synthesizer)
        count = candidate.cut.collective.chunks_per_npu
        if candidate.trial == 0:
            self.first_ns[candidate.series][count] = made.exact_ns
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
        costs_more = collective.num_chunks > leader.collective.num_chunks and collective.least_sends > _SMALL
        return self._leader_ns * (_WORTH_MORE_CHUNKS if costs_more else 1), leader.num_sends

    def passes_over(self, candidate: Candidate) -> bool:
        """Whether a candidate can be skipped: it cannot beat the leader, or results of its synthesizer show that it would not."""
        if self.best is None:
            return False
        if candidate.bound_ns + 1 > self._to_beat(candidate)[0]:  # bounds are whole nanoseconds, rounded down
            return True
        leader = self._leader_ns
        if candidate.cut.timing.is_blocking and self._is_behind(candidate.series[1], leader):
            return True
        times, count = self.first_ns[candidate.series], candidate.cut.collective.chunks_per_npu
        if candidate.stage == 0:
            steps_left = math.log2(self.most_chunks / max(times)) if times else 0.0
            return _gains_no_more(list(times.values()), steps_left, leader)
        if candidate.stage <= _IN_BETWEEN and count in times:
            return True
        if candidate.is_advised and list(times) == [1]:
            return False  # a single chunk per NPU says nothing of many: most of its time is waiting
        if not times or min(times.values()) > _SEEDS_GAIN * leader:
            return True
        if candidate.stage == _IN_BETWEEN:
            near = min((other for other in times if not is_between(other)), key=lambda other: (times[other], other))
            return not near < 2 * count < 4 * near
        if candidate.is_advised:
            return False
        seeds = self._seeds_ns[*candidate.series, count]
        if len(seeds) >= _SAME_SEEDS and min(seeds) == max(seeds):
            return True
        return times.get(count, math.inf) > _WORTH_SEEDS * min(times.values())

    def _is_behind(self, model: LinkModel, leader: float) -> bool:
        """Whether a link model falls behind another one."""
        best = [min(times.values()) for (_, other), times in self.first_ns.items() if other == model and times]
        return len(best) >= _FEW and min(best) > _MODEL_BEHIND * leader


def _gains_no_more(times: list[float], steps_left: float, leader: float) -> bool:
    """Whether times by ascending number of chunks promise no gain from still more chunks."""
    if len(times) > _PATIENCE and min(times[-_PATIENCE:]) > _GAIN * min(times[:-_PATIENCE]):
        return True
    steps = min(len(times) - 1, _PATIENCE)
    return steps > 0 and times[-1] * min(times[-1] / times[-1 - steps], 1.0) ** (steps_left / steps) > _BEHIND * leader
