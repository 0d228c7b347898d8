"""Counting the work of a schedule while it is made: what parts of synthesizers, and settling, examine.

The unit is that of `synthesizer.work`: one send that list scheduling examines.

Counts follow from what is computed, never from a clock. What is kept for later calls (`lru_cache`) is not counted, or the count
would depend on who came first.

A maker may be stopped: where its parts count, once it has counted more than its allowance, which whoever started it may lower at
any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

_Result = TypeVar("_Result")


class OutOfWorkError(Exception):
    """A maker has counted more than it may. No error of the user's, so that nobody takes it for one and goes on."""


@dataclass(slots=True)
class Allowance:
    """How many sends a maker may examine; it is stopped when it next counts more."""

    most: float = math.inf


@dataclass(slots=True)
class _Meter:
    counted: float
    allowance: Allowance


_meter: ContextVar[_Meter | None] = ContextVar("meter", default=None)


def count_work(sends_examined: float) -> None:
    """Add to the work counted for the schedule that this thread is making.

    Raises
    ------
    OutOfWorkError
        If that is more than its allowance.
    """
    meter = _meter.get()
    if meter is None:
        return
    meter.counted += sends_examined
    if meter.counted > meter.allowance.most:
        raise OutOfWorkError


def metered(make: Callable[[], _Result], allowance: Allowance | None = None) -> tuple[_Result, int]:
    """A result, and the number of sends examined to make it; 0 if its maker counts none.

    Parameters
    ----------
    make
        Makes it.
    allowance
        What it may examine; None for any number.

    Raises
    ------
    OutOfWorkError
        If it examines more.
    """
    meter = _Meter(0.0, allowance or Allowance())
    token = _meter.set(meter)
    try:
        return make(), int(meter.counted)
    finally:
        _meter.reset(token)
