"""How long a sweep will take, from a few of its points."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from astra_tacos.sweep.guard import Guard
from astra_tacos.sweep.outcome import TIMEOUT, Conditions
from astra_tacos.sweep.point import Point

_SAMPLES = 12
_SECONDS = 20.0
"""For all samples together."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of all points together, one after the other; `is_least` where a sample was cut short.

    `num_sampled` points were computed for it.
    """

    seconds: float
    num_sampled: int
    is_least: bool


def estimate(points: Mapping[str, Point], conditions: Conditions) -> Estimate:
    """Compute points at equal distances from one another, for some seconds, and keep nothing.

    Parameters
    ----------
    points
        By key, what has to be computed.
    """
    keys = list(points)
    sample = [keys[len(keys) * number // _SAMPLES] for number in range(_SAMPLES)] if len(keys) > _SAMPLES else keys
    guard = Guard()
    spent, is_least, done = 0.0, False, 0
    end: float | None = None
    try:
        for key in _far_apart(sample):
            left = _SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                break
            limit = min(left, conditions.timeout_s or left)
            outcome = guard.compute(
                key, points[key].to_request(), Conditions(limit, conditions.memory_bytes, conditions.with_checks)
            )
            spent += outcome.results.get("seconds", 0.0)
            done += 1
            is_least |= outcome.status == TIMEOUT and limit != conditions.timeout_s
            end = end or time.monotonic() + _SECONDS  # from the first on: before it, kernels may have been compiled
    finally:
        guard.close()
    return Estimate(spent / done * len(keys) if done else 0.0, done, is_least)


def _far_apart(sample: list[str]) -> list[str]:
    """In an order in which the first few are of all parts of the sweep, in case that time is up after them."""
    return sample[::3] + sample[1::3] + sample[2::3]
