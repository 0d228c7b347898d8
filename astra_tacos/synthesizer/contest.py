"""Who leads in a search, and which candidates need not be tried any more.

All that is decided here follows from the results entered so far, in the order of the work list: not from time or threads. What is
needless once stays so: the leader only gets faster, and a synthesizer that is given no more chunks enters no more of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer.chunking import fewest_sends
from astra_tacos.synthesizer.portfolio import Candidate

_SMALL = 100_000
_WORTH_MORE_SENDS = 0.995
"""Past so many sends, more of them than the leader has are not worth a gain of less than this: traces grow with them."""
_PATIENCE = 2
_GAIN = 0.998
"""So many steps up in the number of chunks that do not make it this much faster, and a synthesizer is given no more chunks."""
_STEPS = 4
"""Nor is it if so many more steps that gain as much as the last two would leave it behind the leader."""
_WORTH_SEEDS = 1.05
"""Other seeds are tried where the first is at most so much slower than that synthesizer's best number of chunks,"""
_SEEDS_GAIN = 1.25
"""and at most so much slower than the leader."""


@dataclass(slots=True)
class Contest:
    """The best schedule so far, by predicted time, then fewer sends, then the order of entry; and what each synthesizer reached.

    `first_ns`: by synthesizer, the times of its first seed by number of chunks, in ascending order of chunks.
    """

    best: Schedule | None = None
    entered: int = 0
    first_ns: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def enter(self, candidate: Candidate, schedule: Schedule) -> None:
        """Take note of a result."""
        self.entered += 1
        time = schedule.collective_time_ns
        if candidate.trial == 0:
            self.first_ns[candidate.synthesizer][candidate.cut.collective.chunks_per_npu] = time
        if self.best is None or (time, schedule.num_sends) < (self.best.collective_time_ns, self.best.num_sends):
            self.best = schedule

    def passes_over(self, candidate: Candidate) -> bool:
        """Whether a candidate cannot be faster than the leader, or its synthesizer has shown that it would not be."""
        if self.best is None:
            return False
        leader, cut = self.best.collective_time_ns, candidate.cut
        is_worse = fewest_sends(cut.collective) > max(_SMALL, self.best.num_sends)
        if cut.bound_ns >= leader * (_WORTH_MORE_SENDS if is_worse else 1):
            return True
        times = self.first_ns[candidate.synthesizer]
        if candidate.trial == 0:
            return _gains_no_more(list(times.values()), leader)
        own = times.get(cut.collective.chunks_per_npu)
        return own is None or own > min(_WORTH_SEEDS * min(times.values()), _SEEDS_GAIN * leader)


def _gains_no_more(times: list[int], leader: int) -> bool:
    """Whether times by ascending number of chunks promise nothing of still more chunks."""
    if len(times) > _PATIENCE and min(times[-_PATIENCE:]) > _GAIN * min(times[:-_PATIENCE]):
        return True
    steps = min(len(times) - 1, _PATIENCE)
    return steps > 0 and times[-1] * min(times[-1] / times[-1 - steps], 1.0) ** (_STEPS / steps) > leader
