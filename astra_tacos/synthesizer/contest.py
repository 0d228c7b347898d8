"""Who leads in a search, and which candidates need not be tried any more.

All that is decided here follows from the results entered so far, in the order of the work list: not from time or threads.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer.portfolio import Candidate

_PATIENCE = 2
_GAIN = 0.998
"""So many steps up in the number of chunks that do not make it this much faster, and a synthesizer is given no more chunks."""
_WORTH_SEEDS = 1.05
"""Other seeds are tried where the first is at most so much slower than that synthesizer's best number of chunks."""


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
        """Whether a candidate cannot be faster than the best, or its synthesizer has shown that it would not be.

        Once true of a candidate, it stays so.
        """
        if self.best is None:
            return False
        if candidate.cut.bound_ns >= self.best.collective_time_ns:
            return True
        times = self.first_ns[candidate.synthesizer]
        if candidate.trial == 0:
            reached = list(times.values())
            return len(reached) > _PATIENCE and min(reached[-_PATIENCE:]) > _GAIN * min(reached[:-_PATIENCE])
        own = times.get(candidate.cut.collective.chunks_per_npu)
        return own is None or own > _WORTH_SEEDS * min(times.values())
