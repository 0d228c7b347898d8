"""Counting the work of a schedule while it is made: what parts of synthesizers, and settling, examine.

The unit is that of `synthesizer.work`: one send that list scheduling examines.

Counts follow from what is computed, never from a clock. What is kept for later calls (`lru_cache`) is not counted, or the count
would depend on who came first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

_Result = TypeVar("_Result")
_counted: ContextVar[float] = ContextVar("sends_examined", default=0.0)


def count_work(sends_examined: float) -> None:
    """Add to the work counted for the schedule that this thread is making."""
    _counted.set(_counted.get() + sends_examined)


def metered(make: Callable[[], _Result]) -> tuple[_Result, int]:
    """A result, and the number of sends examined to make it; 0 if its maker counts none."""
    token = _counted.set(0.0)
    try:
        return make(), int(_counted.get())
    finally:
        _counted.reset(token)
