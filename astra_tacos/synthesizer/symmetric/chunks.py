"""The number of chunks of a symmetric schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from astra_tacos.bounds.symmetric import chunked_symmetric_bound, symmetric_bounds
from astra_tacos.errors import ConfigError, SynthesisError
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric

MOST_ROWS = 4_000_000
"""Sends of NPU 0's chunks up to which more than one chunk per NPU is tried."""
_MOST_CHUNKS = 512
_FIRST_TRIES = 4
_GAIN, _GAIN_OF_MANY, _FEW = 0.999, 0.995, 100_000
"""More chunks have to make a schedule faster by this factor; by the second one, if they make more than so many sends in all."""


def best_symmetric(task: SymmetricTask, max_sends: int | None = None) -> SymmetricSchedule:
    """The fastest schedule of 1, 2, 3, 4, 6, 8, 12, ... chunks per NPU; unless truncation shortens the time of such chunks.

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
    best = synthesize_symmetric(replace(task, chunks_per_npu=1), _FIRST_TRIES)
    least = max(bound.time_ns for bound in symmetric_bounds(task))
    for finer in _finer(task, max_sends):
        if least >= best.collective_time_ns * _GAIN:
            break
        if finer.truncation > 1 / (1 - MOST_TRUNCATED):
            continue
        if chunked_symmetric_bound(finer).time_ns >= best.collective_time_ns * _GAIN:
            continue
        found = synthesize_symmetric(finer, _FIRST_TRIES)
        gain = _GAIN if finer.least_rows * finer.num_npus <= _FEW else _GAIN_OF_MANY
        if found.collective_time_ns < best.collective_time_ns * gain:
            best = found
    if least < best.collective_time_ns * _GAIN:
        best = min((best, synthesize_symmetric(best.task)), key=lambda made: made.collective_time_ns)
    return best


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
