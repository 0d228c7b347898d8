"""Points to rows, on Dask: what is missing is computed, each key once, and kept as soon as it is there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from astra_tacos.errors import ConfigError
from astra_tacos.sweep.cluster import check_version, num_threads
from astra_tacos.sweep.outcome import DIED, ERROR, FAILED, Conditions, Outcome
from astra_tacos.sweep.point import Point
from astra_tacos.sweep.store import Store
from astra_tacos.sweep.task import compute_point, stop_points

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_S = 0.05
"""How often results are collected and points submitted: a few at a time cost Dask less than one by one."""
_COUNT_S = 2.0
"""How often workers are counted: they come and go."""
_PER_THREAD, _IN_FLIGHT = 4, 16
"""Points at the scheduler, so many and for each thread: what keeps workers busy until the next look."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Results that there are, that were there before, that failed and that are asked for; and threads of workers."""

    done: int
    reused: int
    failed: int
    total: int
    threads: int


class SweepRun:
    """Points of a sweep, and what is known of them. Points of the same key have one result.

    Attributes
    ----------
    outcomes
        By key, what need not be computed any more.
    missing
        By key, in the order of the points, what has to be.
    num_reused
        How many outcomes there were before.
    """

    def __init__(self, points: Sequence[Point], store: Store, conditions: Conditions, retry_failed: bool = False) -> None:
        self._points = points
        self._store = store
        self._conditions = conditions
        wanted: dict[str, Point] = {}
        self._key_of = [wanted.setdefault(point.key, point).key if point.error is None else None for point in points]
        rows = store.read(wanted)
        self.outcomes = {key: row.outcome for key, row in rows.items() if row.stands(conditions, retry_failed)}
        self.missing = {key: point for key, point in wanted.items() if key not in self.outcomes}
        self.num_reused = len(self.outcomes)
        self._num_failed = sum(outcome.status in FAILED for outcome in self.outcomes.values())

    def results(self) -> Iterator[tuple[Point, Outcome]]:
        """All points, in order, of which it is known what became."""
        for point, key in zip(self._points, self._key_of, strict=True):
            if key is None:
                yield point, Outcome(ERROR, point.error, {})
            elif key in self.outcomes:
                yield point, self.outcomes[key]

    def compute(self, client: Client, on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
        """Compute what is missing. However it ends, what is there then is kept, and nothing goes on behind.

        Raises
        ------
        ConfigError
            If the scheduler is lost, or a worker has another version of this package.
        """
        from distributed import as_completed

        running: dict[Future[Any], str] = {}
        finished = as_completed(loop=client.loop)
        waiting = iter(list(self.missing.items()))
        threads, counted = 0, -_COUNT_S
        try:
            while self.missing:
                if time.monotonic() - counted >= _COUNT_S:
                    threads, counted = num_threads(client), time.monotonic()
                more = dict(islice(waiting, max(_PER_THREAD * threads + _IN_FLIGHT - len(running), 0)))
                if more:
                    futures = self._submit(client, more)
                    running |= zip(futures, more, strict=True)
                    finished.update(futures)
                for future, outcome in _outcomes(client, finished.next_batch(block=False)):
                    if outcome is None:
                        finished.add(future)
                    else:
                        self._keep(running.pop(future), outcome)
                on_progress(self._progress(threads))
                if self.missing:
                    time.sleep(_LOOK_S)
        except OSError as error:
            if _is_connected(client):
                raise
            raise _lost(client) from error
        finally:
            _give_up(client, running)

    def _submit(self, client: Client, points: dict[str, Point]) -> list[Future[Any]]:
        about = json.dumps(self._conditions.to_json(), sort_keys=True)
        digest = hashlib.sha256(about.encode()).hexdigest()[:16]
        names = [f"point-{key}-{digest}" for key in points]
        requests = [point.to_request() for point in points.values()]
        return list(client.map(compute_point, list(points), requests, conditions=self._conditions, key=names, pure=True))

    def _keep(self, key: str, outcome: Outcome) -> None:
        self._store.write(key, outcome, self._conditions)
        self.outcomes[key] = outcome
        del self.missing[key]
        self._num_failed += outcome.status in FAILED

    def _progress(self, threads: int) -> Progress:
        return Progress(len(self.outcomes), self.num_reused, self._num_failed, len(self.outcomes) + len(self.missing), threads)


def _outcomes(client: Client, futures: list[Future[Any]]) -> list[tuple[Future[Any], Outcome | None]]:
    """What futures came to; None where that was lost with a worker, and Dask computes it again.

    The tasks themselves raise nothing. What went well is fetched together.
    """
    status = [future.status for future in futures]
    if "cancelled" in status:
        raise _lost(client)  # so Dask does then
    good = [future for future, how in zip(futures, status, strict=True) if how == "finished"]
    found: dict[Future[Any], Outcome] = {}
    if good:
        found |= zip(good, map(_outcome, client.gather(good)), strict=True)
    found |= {future: _failure(future) for future, how in zip(futures, status, strict=True) if how == "error"}
    return [(future, found.get(future)) for future in futures]


def _outcome(result: dict[str, Any]) -> Outcome:
    check_version(result["version"], "a worker")
    return Outcome.from_json(result)


def _failure(future: Future[Any]) -> Outcome:
    """Of a task that Dask has given up."""
    error = future.exception()
    if isinstance(error, ImportError):
        raise ConfigError(f"a worker cannot load astra_tacos ({error}): install the version there that is here")
    return Outcome(DIED, f"{type(error).__name__}: {' '.join(str(error).split())}", {})


def _lost(client: Client) -> ConfigError:
    address = client.scheduler.address if client.scheduler is not None else "Dask"
    return ConfigError(f"{address}: the scheduler was lost; what is done is kept, and the same command goes on from there")


def _is_connected(client: Client) -> bool:
    return str(client.status) == "running"


def _give_up(client: Client, running: dict[Future[Any], str]) -> None:
    """Have workers stop what nobody waits for any more."""
    if running and _is_connected(client):
        with contextlib.suppress(OSError):
            client.cancel(list(running))
            client.run(stop_points, set(running.values()))
