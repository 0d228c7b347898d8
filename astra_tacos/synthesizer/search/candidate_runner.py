"""Running through a work list against the clock, several candidates at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer.search.candidates import Candidate
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.topology.topology import Topology

if TYPE_CHECKING:
    from astra_tacos.synthesizer.search.stopwatch import CompilationStopwatch


@dataclass(slots=True)
class CandidateRunner:
    """Candidates are made in threads (kernels release the interpreter lock) and entered into the contest in the list's order.

    Parameters
    ----------
    budget_s
        No candidate but the first is started that is likely to end after so many seconds, compilation not counted.
    workers
        Threads; so many schedules, and one more, are in memory beside the best.
    refusals
        Filled in: synthesizers that failed, and why.
    """

    topology: Topology
    contest: Leaderboard
    budget_s: float
    workers: int
    refusals: dict[str, str] = field(default_factory=dict)
    slowness: dict[str, float] = field(default_factory=dict)
    """By synthesizer, how many times longer than guessed the last candidate took."""

    def run(self, candidates: Sequence[Candidate], on_progress: Callable[[int, int], None]) -> bool:
        """Whether the budget cut the list off before its end."""
        from astra_tacos.synthesizer.search.stopwatch import compilation_stopwatch

        ahead = 1 if self.workers == 1 else self.workers + 1
        rest = deque(candidates)
        waiting: deque[tuple[Candidate, Future[tuple[Schedule, float]]]] = deque()
        is_up = False
        with compilation_stopwatch() as compilation, ThreadPoolExecutor(self.workers) as pool:
            started = time.monotonic()
            try:
                while waiting or (rest and not is_up):
                    while rest and not is_up and len(waiting) < ahead:
                        candidate = rest[0]
                        if waiting and waiting[0][0].stage < candidate.stage:
                            break
                        if not self._is_needless(candidate):
                            left = self.budget_s - (time.monotonic() - started - compilation.seconds)
                            is_first = not waiting and self.contest.best is None
                            is_up = not is_first and candidate.seconds * self.slowness.get(candidate.synthesizer, 1) > left
                            if is_up:
                                break
                            waiting.append((candidate, pool.submit(_timed, candidate, self.topology, compilation)))
                        rest.popleft()
                    if waiting:
                        self._finish(*waiting.popleft())
                    on_progress(len(candidates) - len(rest) - len(waiting), len(candidates))
            finally:
                for _, future in waiting:
                    future.cancel()
        was_cut_off = not all(self._is_needless(candidate) for candidate in rest)
        if not was_cut_off:
            on_progress(len(candidates), len(candidates))
        return was_cut_off

    def _is_needless(self, candidate: Candidate) -> bool:
        return candidate.synthesizer in self.refusals or self.contest.passes_over(candidate)

    def _finish(self, candidate: Candidate, future: Future[tuple[Schedule, float]]) -> None:
        """Enter a result, unless those before it have made it needless: then it does not count, finished or not."""
        if self._is_needless(candidate):
            return
        try:
            schedule, seconds = future.result()
        except SynthesisError as error:
            self.refusals[candidate.synthesizer] = str(error)
            return
        self.slowness[candidate.synthesizer] = seconds / candidate.seconds
        self.contest.enter(candidate, schedule)


def _timed(candidate: Candidate, topology: Topology, compilation: CompilationStopwatch) -> tuple[Schedule, float]:
    started = time.monotonic() - compilation.seconds
    schedule = candidate.make(topology)
    return schedule, time.monotonic() - compilation.seconds - started
