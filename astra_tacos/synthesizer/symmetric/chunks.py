"""The number of chunks of a symmetric schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from astra_tacos.bounds.symmetric import chunked_symmetric_bound, symmetric_bounds
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask, exact_symmetric_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS, round_counts
from astra_tacos.synthesizer.symmetric.symmetric import lengthens, synthesize_symmetric
from astra_tacos.synthesizer.symmetric.trees import grow

MOST_ROWS = 4_000_000
"""Sends of NPU 0's chunks up to which more than one chunk per NPU is tried."""
_MOST_CHUNKS = 512
_SHORT = 1024
"""Rows up to which a schedule is made at once, to tell how long a number of chunks takes."""
_MOST_EXACT = 1 << 13
"""Messages of an All-to-All up to which chunks are tried that are so short that truncation counts."""
_PATIENCE = 2
"""After so many numbers of chunks that are no better, no more are tried in that direction."""
_WORSE = 1.1
"""No numbers of chunks are looked at beyond one whose bound is so many times the least: their latencies add up."""
_NEAR = 0.995
_MOST_TRUNCATION = 1 / (1 - MOST_TRUNCATED)
_MANY = 100_000
_GAINS = ((20_000, 0.9999), (_MANY, 0.999), (MAX_SENDS, 0.998), (math.inf, 0.995))
"""More chunks have to make a schedule faster by these factors, if they make up to so many sends in all."""


def best_symmetric(task: SymmetricTask, max_sends: int | None = None) -> SymmetricSchedule:
    """The fastest schedule of 1, 2, 3, 4, 6, 8, 12, ... chunks per NPU; unless truncation shortens the time of such chunks.

    The search begins with the number that the bound for whole chunks promises most of, goes on to more chunks while these help,
    then to fewer that do as well. Where reductions are short, trees decide: a reduction is an All-Gather backwards.

    Parameters
    ----------
    task
        What to synthesize; its number of chunks does not matter.
    max_sends
        Most sends of all NPUs together with more than one chunk per NPU; None for no limit.

    Raises
    ------
    SynthesisError
        If even one chunk per NPU is too small or too large for the links.
    """
    schedule = _best(task, max_sends, math.inf)
    assert schedule is not None
    return schedule


def fastest_symmetric(tasks: Sequence[SymmetricTask], max_sends: int | None, chooses_chunks: bool) -> SymmetricSchedule:
    """The fastest schedule of tasks that differ in their link model; of equally fast ones that of the first.

    Tasks whose bound is beyond what another takes are not synthesized.

    Parameters
    ----------
    max_sends
        As `best_symmetric` takes it.
    chooses_chunks
        Whether to find the best number of chunks, instead of keeping that of the tasks.

    Raises
    ------
    SynthesisError
        If chunks are too small or too large for the links, in any of the tasks.
    """
    schedules: list[SymmetricSchedule] = []
    for task in sorted(tasks, key=lambda task: chunked_symmetric_bound(task).time_ns):
        below = min((found_schedule.collective_time_ns for found_schedule in schedules), default=math.inf)
        schedule = _best(task, max_sends, below) if chooses_chunks else _below(task, below)
        schedules += [] if schedule is None else [schedule]
    models = [task.link_model for task in tasks]
    return min(
        schedules, key=lambda found_schedule: (found_schedule.collective_time_ns, models.index(found_schedule.task.link_model))
    )


def _below(task: SymmetricTask, below_ns: float) -> SymmetricSchedule | None:
    """The schedule of a task in its chunks, or None if the bound says that it takes longer than `below_ns`."""
    return synthesize_symmetric(task) if chunked_symmetric_bound(task).time_ns <= below_ns else None


def near_bound(task: SymmetricTask, max_sends: int | None, worth: float = 1.0) -> SymmetricSchedule | None:
    """A schedule close to the bound over all algorithms, None if there is none; found out early where bounds say so.

    Parameters
    ----------
    task, max_sends
        As `best_symmetric` takes them; with None the task's number of chunks is kept.
    worth
        The schedule is close if the bound is at least this share of its time, and 99.5% at most. From 100,000 sends on, a
        doubling of their number has to bring the time down to this share.

    Raises
    ------
    SynthesisError
        If chunks are too small or too large for the links.
    """
    below = max(bound.time_ns for bound in symmetric_bounds(task)) / min(worth, _NEAR)
    schedule = _below(task, below) if max_sends is None else _best(task, max_sends, below, worth)
    return schedule if schedule is not None and is_near_bound(schedule, worth) else None


@lru_cache(maxsize=2)  # who does not take it as it is asks again in a search, of either link model
def _best(task: SymmetricTask, max_sends: int | None, below_ns: float, worth: float = 1.0) -> SymmetricSchedule | None:
    """`best_symmetric`, or None if the bound says of every number of chunks that it takes longer than `below_ns`."""
    least = max(bound.time_ns for bound in symmetric_bounds(task))
    counts = _counts(task, max_sends, least, worth)
    likely, fewer, more = next(counts), list[_Count](), list[_Count]()
    while least < likely.bound_ns * likely.gain:
        count = next(counts, None)
        if count is None or count.bound_ns > _WORSE * likely.bound_ns:
            break
        more.append(count)
        if count.bound_ns < likely.bound_ns * count.gain:
            fewer += [likely, *more[:-1]]
            likely, more = count, []
    if likely.bound_ns * likely.gain > below_ns:
        return None
    best = _Tried(likely)
    failures = 0
    for count in chain(more, counts):
        if least >= best.time_ns * count.gain or failures == _PATIENCE or count.bound_ns > _WORSE * best.time_ns:
            break
        if count.bound_ns < best.time_ns * count.gain:
            trial = _Tried(count)
            best, failures = (trial, 0) if trial.time_ns < best.time_ns * count.gain else (best, failures + 1)
    failures, longest = 0, best.time_ns / best.count.gain
    for count in reversed(fewer):
        if failures < _PATIENCE and count.bound_ns <= longest:
            trial = _Tried(count)
            best, failures = (trial, 0) if trial.time_ns <= longest else (best, failures + 1)
    return best.schedule


@dataclass(frozen=True, slots=True)
class _Count:
    """A task in some number of chunks, the time that no schedule of these beats, and by what factor it has to be faster."""

    task: SymmetricTask
    bound_ns: int
    gain: float


def _counts(task: SymmetricTask, max_sends: int | None, least_ns: int, worth: float) -> Iterator[_Count]:
    """Numbers of chunks, the least first, without those that truncation makes seem fast: faster than any algorithm is."""
    for chunks in round_counts(_MOST_CHUNKS):
        cut = replace(task, chunks_per_npu=1) if chunks == 1 else _cut(task, chunks, max_sends)
        if cut is None:
            return
        is_whole = chunks == 1 or cut.truncation <= _MOST_TRUNCATION
        # Of a small All-to-All a schedule is made at once, whose exact time says what truncation hides.
        if is_whole or (cut.collective == "all-to-all" and cut.least_rows <= _MOST_EXACT):
            bound_ns = chunked_symmetric_bound(cut).time_ns
            if is_whole or bound_ns >= (1 - MOST_TRUNCATED) * least_ns:
                sends = cut.least_rows * cut.num_npus
                gain = next(gain for most, gain in _GAINS if sends <= most)
                gain *= math.sqrt(worth) if sends > _MANY else 1  # two numbers of chunks are one doubling
                yield _Count(cut, bound_ns, gain)


def _cut(task: SymmetricTask, chunks: int, max_sends: int | None) -> SymmetricTask | None:
    """The task in so many chunks, None if these are too many or too small."""
    try:
        finer = replace(task, chunks_per_npu=chunks)
        _ = finer.timing
    except (ConfigError, SynthesisError):
        return None
    rows = finer.least_rows
    if rows > MOST_ROWS or (max_sends is not None and rows * finer.num_npus > max_sends):
        return None
    return finer


class _Tried:
    """A number of chunks, and how long the collective takes in so many.

    Where that takes time to find out, that is each of its phases as long as chunks take to all NPUs.
    """

    def __init__(self, count: _Count) -> None:
        self.count = count
        task = count.task
        self._schedule: SymmetricSchedule | None = None
        if task.collective == "all-to-all" or task.least_rows <= _SHORT or (task.reduces and lengthens(task)):
            self._schedule = synthesize_symmetric(task)
            self.time_ns: float = self._schedule.collective_time_ns
            exact_ns = max(self._schedule.collective_time_ns, math.ceil(exact_symmetric_ns(self._schedule)))
            if task.chunks_per_npu > 1 and self.time_ns < (1 - MOST_TRUNCATED) * exact_ns:
                self.time_ns = math.inf
            elif task.truncation > _MOST_TRUNCATION:
                self.time_ns = exact_ns
        else:
            self.time_ns = task.num_phases * (grow(task).time_ns + task.reduction_ns * task.reduces)

    @property
    def schedule(self) -> SymmetricSchedule:
        """The schedule in this number of chunks."""
        return synthesize_symmetric(self.count.task) if self._schedule is None else self._schedule


def is_near_bound(schedule: SymmetricSchedule, worth: float = 1.0) -> bool:
    """Whether no algorithm gets below a share `worth` (99.5% at most) of a schedule's time, nor does ASTRA-sim by truncation."""
    bound = max(bound.time_ns for bound in symmetric_bounds(schedule.task))
    time_ns, exact_ns = schedule.collective_time_ns, exact_symmetric_ns(schedule)
    return bound >= min(worth, _NEAR) * max(time_ns, exact_ns) and time_ns >= (1 - MOST_TRUNCATED) * exact_ns
