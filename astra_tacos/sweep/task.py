"""What a Dask worker runs for a point."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from astra_tacos.sweep.guard import Guard
from astra_tacos.sweep.outcome import DIED, Conditions, Outcome
from astra_tacos.version import package_version

_own = threading.local()
_guards: set[Guard] = set()
_lock = threading.Lock()


def compute_point(key: str, request: dict[str, Any], conditions: Conditions) -> dict[str, Any]:
    """The outcome of a point as JSON has it, and the version of the package that computed it. Depends on its arguments alone."""
    guard = _guard()
    try:
        outcome = guard.compute(key, request, conditions)
    except Exception as error:  # no process can be started, say: the next attempt may find another worker
        guard.close()
        outcome = Outcome(DIED, f"{type(error).__name__}: {' '.join(str(error).split())}", {})
    return outcome.to_json() | {"version": package_version()}


def stop_points(keys: Collection[str]) -> None:
    """End the processes of this worker that compute one of these."""
    with _lock:
        guards = list(_guards)
    for guard in guards:
        guard.stop(keys)


def stop_all() -> None:
    """End all processes of this worker, when its threads are done with them."""
    with _lock:
        guards = list(_guards)
        _guards.clear()
    for guard in guards:
        guard.close()


def _guard() -> Guard:
    """That of this thread."""
    guard: Guard | None = getattr(_own, "guard", None)
    if guard is None:
        guard = _own.guard = Guard()
        with _lock:
            _guards.add(guard)
    return guard
