"""The number of chunks of a symmetric schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from astra_tacos.bounds.symmetric import chunked_symmetric_bound, symmetric_bounds
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.synthesizer.symmetric.symmetric import TRIES, lengthens, synthesize_symmetric
from astra_tacos.synthesizer.symmetric.trees import grow

MOST_ROWS = 4_000_000
"""Sends of NPU 0's chunks up to which more than one chunk per NPU is tried."""
_MOST_CHUNKS = 512
_FIRST_TRIES, _SHORT = 4, 1024
_PATIENCE = 4
"""No more chunks than so many times the best number so far are tried."""
_NEAR = 0.995
_MOST_TRUNCATION = 1 / (1 - MOST_TRUNCATED)
_GAIN, _GAIN_OF_MANY, _FEW = 0.999, 0.995, 100_000
"""More chunks have to make a schedule faster by this factor; by the second one, if they make more than so many sends in all."""


def best_symmetric(task: SymmetricTask, max_sends: int | None = None, tries: int = TRIES) -> SymmetricSchedule:
    """The fastest schedule of 1, 2, 3, 4, 6, 8, 12, ... chunks per NPU; unless truncation shortens the time of such chunks.

    Where reductions are short, trees decide on the number of chunks: a reduction is an All-Gather backwards.

    Parameters
    ----------
    task
        What to synthesize; its number of chunks does not matter.
    max_sends
        Most sends of all NPUs together with more than one chunk per NPU; None for no limit.
    tries
        As `synthesize_symmetric` takes it, once the number of chunks is known.

    Raises
    ------
    SynthesisError
        If even one chunk per NPU is too small or too large for the links.
    """
    best = replace(task, chunks_per_npu=1)
    time, least = _time(best), max(bound.time_ns for bound in symmetric_bounds(task))
    for finer in _finer(task, max_sends):
        if least >= time * _GAIN:
            break
        if finer.truncation > _MOST_TRUNCATION or chunked_symmetric_bound(finer).time_ns >= time * _GAIN:
            continue
        found = _time(finer)
        gain = _GAIN if finer.least_rows * finer.num_npus <= _FEW else _GAIN_OF_MANY
        if found < time * gain:
            best, time = finer, found
        elif finer.chunks_per_npu > _PATIENCE * best.chunks_per_npu:
            break
    return synthesize_symmetric(best, tries)


def _time(task: SymmetricTask) -> int:
    """How long a collective takes. Where that takes time to find out: each of its phases as long as chunks take to all NPUs."""
    if task.collective == "all-to-all" or task.least_rows <= _SHORT or (task.reduces and lengthens(task)):
        return synthesize_symmetric(task, _FIRST_TRIES).collective_time_ns
    return task.num_phases * (grow(task, 0).time_ns + task.reduction_ns * task.reduces)


def is_near_bound(schedule: SymmetricSchedule) -> bool:
    """Whether no algorithm beats a schedule by more than 0.5%, in arithmetic that truncates no more than that."""
    bound = max(bound.time_ns for bound in symmetric_bounds(schedule.task))
    return schedule.task.truncation <= _MOST_TRUNCATION and bound >= _NEAR * schedule.collective_time_ns


def _finer(task: SymmetricTask, max_sends: int | None) -> Iterator[SymmetricTask]:
    for chunks in sorted({multiple << power for multiple in (1, 3) for power in range(_MOST_CHUNKS.bit_length())} - {1}):
        try:
            finer = replace(task, chunks_per_npu=chunks)
            _ = finer.timing
        except (ConfigError, SynthesisError):  # chunks are too small
            return
        rows = finer.least_rows
        if chunks > _MOST_CHUNKS or rows > MOST_ROWS or (max_sends is not None and rows * finer.num_npus > max_sends):
            return
        yield finer
