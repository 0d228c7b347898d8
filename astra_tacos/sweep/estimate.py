"""Estimate of a sweep's duration from a few of its points."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from astra_tacos.sweep.effort import guess_seconds
from astra_tacos.sweep.guard import Guard
from astra_tacos.sweep.outcome import TIMEOUT, Conditions
from astra_tacos.sweep.point import Point, synthesizers_of

_SAMPLES = 12
_SECONDS = 20.0
"""Time limit for all samples together, in seconds."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated duration of a sweep.

    Parameters
    ----------
    seconds
        Time of all points, one after another.
    start_up_s
        Time in which a worker's process starts, in seconds.
    num_sampled
        Number of points that were computed for the estimate.
    is_least
        Whether a sampled point was cut short, so that the sweep may take longer.
    """

    seconds: float
    start_up_s: float
    num_sampled: int
    is_least: bool


def estimate(points: Mapping[str, Point], conditions: Conditions) -> Estimate:
    """Compute some evenly spaced points, for at most 20 s, and scale a model by their times; no result is kept.

    Parameters
    ----------
    points
        Points that have to be computed, by key.
    conditions
        Limits and options with which points are computed.
    """
    if not points:
        return Estimate(0.0, 0.0, 0, False)
    keys = list(points)
    sample = [keys[len(keys) * number // _SAMPLES] for number in range(_SAMPLES)] if len(keys) > _SAMPLES else keys
    guard = Guard(synthesizers_of(points.values()))
    measured: dict[str, float] = {}
    is_least = False
    try:
        begin = time.monotonic()
        guard.wait_until_warm()
        start_up_s = time.monotonic() - begin
        end = begin + start_up_s + _SECONDS
        for key in _far_apart(sample):
            left = end - time.monotonic()
            if left <= 0:
                break
            limit = min(left, conditions.timeout_s or left)
            limits = Conditions(limit, conditions.memory_bytes, conditions.with_checks)
            outcome = guard.compute(key, points[key].to_request(), limits)
            measured[key] = outcome.results.get("seconds", 0.0)
            is_least |= outcome.status == TIMEOUT and limit != conditions.timeout_s
    finally:
        guard.close()
    return Estimate(guess_seconds(points.values(), measured).seconds, start_up_s, len(measured), is_least)


def _far_apart(sample: list[str]) -> list[str]:
    """The sample in an order whose first few entries come from all parts of the sweep, in case the time limit ends it early."""
    return sample[::3] + sample[1::3] + sample[2::3]
