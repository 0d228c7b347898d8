"""The Dask task that computes points."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from typing import Any

from astra_tacos.sweep.guard import Guard
from astra_tacos.sweep.outcome import DIED, GIVEN_UP, Conditions, Outcome
from astra_tacos.version import package_version

_own = threading.local()
_guards: set[Guard] = set()
_spare: list[Guard] = []
_stopped: set[str] = set()
_lock = threading.Lock()


def compute_points(requests: str, conditions: Conditions) -> dict[str, Any]:
    """Compute points one after another; returns their outcomes, and the version of the package on the worker.

    Parameters
    ----------
    requests
        A JSON list with the key and the request of each: a text, as Dask walks through any other value. The outcomes depend on
        them and the conditions alone.
    conditions
        Conditions that points have to meet.
    """
    points: list[tuple[str, dict[str, Any]]] = json.loads(requests)
    with _lock:
        _stopped.difference_update(key for key, _ in points)
    outcomes = [_compute(key, request, conditions).to_json() for key, request in points]
    return {"version": package_version(), "outcomes": outcomes}


def _compute(key: str, request: dict[str, Any], conditions: Conditions) -> Outcome:
    if key in _stopped:
        return Outcome(DIED, GIVEN_UP, {})
    guard = _guard()
    try:
        return guard.compute(key, request, conditions)
    except Exception as error:  # no process can be started, say: the next attempt may find another worker
        guard.close()
        return Outcome(DIED, f"{type(error).__name__}: {' '.join(str(error).split())}", {})


def start_processes(count: int, names: Sequence[str]) -> None:
    """Start `count` processes in advance, so that they load their libraries before the first points arrive.

    They also load the kernels of the synthesizers `names`.
    """
    guards = [Guard(names) for _ in range(count)]
    with _lock:
        _guards.update(guards)
        _spare.extend(guards)
    for guard in guards:
        guard.start()


def stop_points(keys: Collection[str]) -> None:
    """End the processes of this worker that compute points with these keys, and refuse to start such points."""
    with _lock:
        _stopped.update(keys)
        guards = list(_guards)
    for guard in guards:
        guard.stop(keys)


def stop_all() -> None:
    """End all processes of this worker, after its threads have finished with them."""
    with _lock:
        guards = list(_guards)
        _guards.clear()
        _spare.clear()
    for guard in guards:
        guard.close()


def _guard() -> Guard:
    """The guard of the current thread."""
    guard: Guard | None = getattr(_own, "guard", None)
    if guard is None:
        with _lock:
            guard = _own.guard = _spare.pop() if _spare else Guard()
            _guards.add(guard)
    return guard
