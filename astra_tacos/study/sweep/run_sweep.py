"""Computation of a sweep's points on Dask: each missing key is computed once, and stored as soon as it is done.

Dask's scheduler is a local one that is started here, or an existing one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import statistics
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from astra_tacos.study.sweep.limits import compute_points, end_run
from astra_tacos.study.sweep.point import DIED, ERROR, FAILED, Conditions, Outcome, Point
from astra_tacos.study.sweep.store import Store
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.installation import package_version
from astra_tacos.support.temporaries import scratch_directory

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 10
"""Seconds to wait for a scheduler."""
_LEAN = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""What Dask does for its dashboard, which is off here, and between workers, of which there is one: a tenth of a core.

Its scheduler and workers always have an HTTP server; by default on all interfaces, without a password. Without routes, and on the
loopback address, they serve nothing to nobody.
"""
_PRIVATE = {"protocol": "inproc://", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
_ADDRESS = "expected an address such as tcp://host:8786"
_LOOK_S = 0.05
"""Interval in s at which results are collected and points submitted, as Dask handles several at a time more cheaply."""
_COUNT_S = 2.0
"""Interval in s at which workers are counted, as their number may change."""


@contextlib.contextmanager
def open_client(address: str | None, workers: int | None) -> Iterator[Client]:
    """A client of the scheduler at `address`. With None, start one in this process with `workers` threads (None: one per core).

    Raises
    ------
    ConfigError
        If no scheduler answers there, or its workers have another version of this package.
    """
    with _quiet(), _local(workers or os.cpu_count() or 1) if address is None else _remote(address) as client:
        # Dask gives up waits of its own when it closes, and its loop would tell of that whenever they are collected.
        loop: Any = client.loop
        loop.asyncio_loop.set_exception_handler(lambda loop, context: None)
        yield client


def _num_threads(client: Client) -> int:
    """Number of points that the workers compute at the same time."""
    return sum(client.nthreads().values())


def num_threads_at(address: str | None) -> int:
    """The same of a scheduler, 1 where there is none yet; 0 without an address."""
    if address is None:
        return 0
    with open_client(address, None) as client:
        return max(_num_threads(client), 1)


@contextlib.contextmanager
def _local(workers: int) -> Iterator[Client]:
    import dask
    from distributed import Client, Scheduler, SpecCluster, Worker

    with scratch_directory() as scratch:  # Dask leaves folders there
        # Its threads only wait: the points are computed in processes of theirs, see `limits`.
        worker = _PRIVATE | {"nthreads": workers, "memory_limit": 0, "local_directory": str(scratch)}
        with (
            dask.config.set(_LEAN | {"temporary-directory": str(scratch)}),
            SpecCluster(
                workers={0: {"cls": Worker, "options": worker}},
                scheduler={"cls": Scheduler, "options": {**_PRIVATE, "host": None, "port": 0}},
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client


@contextlib.contextmanager
def _remote(address: str) -> Iterator[Client]:
    from distributed import Client

    class Started(Client):
        """Closes at once where it cannot be started: later its loop is gone, for which it would wait with the process."""

        def start(self, **options: Any) -> None:
            try:
                super().start(**options)  # type: ignore[no-untyped-call]
            except BaseException:
                self.close()  # type: ignore[no-untyped-call]
                raise

    try:
        _knock(address)
        client = Started(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise ConfigError(f"{address}: no Dask scheduler ({error.strerror}), {_ADDRESS}") from None
    except OSError:  # nobody, or somebody else, is there
        raise ConfigError(f"{address}: no Dask scheduler (none answers in {CONNECT_S} s), {_ADDRESS}") from None
    except Exception as error:  # each of Dask's protocols has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"{address}: no Dask scheduler ({reason}), {_ADDRESS}") from None
    with client:
        _check_workers(client)
        yield client


def _knock(address: str) -> None:
    """Connect for a moment: Dask would try again for `CONNECT_S` where nobody listens, and for ever where nobody speaks.

    Raises
    ------
    OSError
        If nothing listens there, or says nothing (a scheduler speaks first), or the host is not known.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port:
        with socket.create_connection((parts.hostname, parts.port), CONNECT_S) as connection:
            if parts.scheme == "tcp" and not connection.recv(1):
                raise ConnectionAbortedError


def _check_workers(client: Client) -> None:
    """Check that present workers have this version of the package; later workers are checked by the version in their results."""

    def version() -> str:  # nested, so that it is pickled by value: the package may be missing there
        try:
            from astra_tacos.support.installation import package_version
        except ImportError:
            return "none"
        return package_version()

    for worker, found in client.run(version).items():
        check_version(str(found), worker)


def check_version(version: str, worker: str) -> None:
    """Check that a worker has this version of the package.

    Raises
    ------
    ConfigError
        If it has another version.
    """
    if version != package_version():
        raise ConfigError(
            f"{worker}: the worker has version {version} of astra-tacos, expected {package_version()} as here: install that there"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Lost workers are Dask's business: what matters of it is said in rows and errors."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


_PER_THREAD, _IN_FLIGHT = 4, 16
"""Most tasks at the scheduler: `_PER_THREAD` per thread and `_IN_FLIGHT` more, which keeps workers busy between two intervals."""
_TASK_S, _MOST_TOGETHER, _RECENT = 0.5, 64, 64
"""Several points form a task of about `_TASK_S` s, by the times of the last `_RECENT` points, as a task costs Dask some ms."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of results done, reused from before, failed and requested; and the number of workers' threads."""

    done: int
    reused: int
    failed: int
    total: int
    threads: int


class SweepRun:
    """The points of a sweep and their results. Points of the same key have one result.

    Attributes
    ----------
    outcomes
        Known outcomes, by key.
    missing
        Points to compute, by key, in order.
    num_reused
        Number of outcomes that were known at the start.
    warnings
        Messages that were logged while points were computed, each once.
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
        self.warnings: dict[str, None] = {}
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._name = uuid.uuid4().hex
        self._num_tasks = 0
        self._num_failed = sum(outcome.status in FAILED for outcome in self.outcomes.values())

    def seconds_left(self, workers: int) -> float | None:
        """Seconds of the missing points on a number of workers, if they take as long as the known ones; None if none is known."""
        known = [outcome.results["seconds"] for outcome in self.outcomes.values() if "seconds" in outcome.results]
        if not self.missing:
            return 0.0
        return statistics.fmean(known) * len(self.missing) / min(workers, len(self.missing)) if known else None

    def results(self) -> Iterator[tuple[Point, Outcome]]:
        """All points with a known outcome, in order."""
        for point, key in zip(self._points, self._key_of, strict=True):
            if key is None:
                yield point, Outcome(ERROR, point.error, {})
            elif key in self.outcomes:
                yield point, self.outcomes[key]

    def compute(self, client: Client, on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
        """Compute the missing points. On any exit, results so far are kept, and no computation continues on the workers.

        Raises
        ------
        ConfigError
            If the scheduler is lost, or a worker has another version of this package.
        """
        from distributed import as_completed

        running: dict[Future[Any], list[str]] = {}
        finished = as_completed(loop=client.loop)
        waiting = deque(self.missing.items())
        threads, counted = 0, -_COUNT_S
        address = client.scheduler.address if client.scheduler is not None else "Dask"  # unknown once the connection is lost
        try:
            while self.missing:
                if time.monotonic() - counted >= _COUNT_S:
                    threads, counted = _num_threads(client), time.monotonic()
                groups = self._groups(waiting, threads, _PER_THREAD * threads + _IN_FLIGHT - len(running))
                if groups:
                    futures = self._submit(client, groups)
                    running |= zip(futures, map(list, groups), strict=True)
                    finished.update(futures)
                for future, outcomes in _outcomes(client, finished.next_batch(block=False)):
                    if outcomes is None:
                        finished.add(future)
                        continue
                    keys = running.pop(future)
                    self._keep(keys, [outcomes] * len(keys) if isinstance(outcomes, Outcome) else outcomes)
                done = len(self.outcomes)
                on_progress(Progress(done, self.num_reused, self._num_failed, done + len(self.missing), threads))
                if self.missing:
                    time.sleep(_LOOK_S)
        except (OSError, CancelledError) as error:
            if _is_connected(client) and isinstance(error, OSError):
                raise
            raise ConfigError(
                f"{address}: the connection to the scheduler was lost; finished points are kept, "
                "and the same command resumes the sweep"
            ) from error
        finally:
            self._end(client, running)

    def _groups(self, waiting: deque[tuple[str, Point]], threads: int, room: int) -> list[dict[str, Point]]:
        """The next points, grouped into tasks: several per task if points take little time, fewer towards the end."""
        usual = statistics.median(self._seconds) if self._seconds else _TASK_S
        most = min(_TASK_S / max(usual, 1e-3), _MOST_TOGETHER)
        groups = []
        for _ in range(room):
            size = max(1, int(min(most, len(waiting) / (_PER_THREAD * max(threads, 1)))))
            group = dict(waiting.popleft() for _ in range(min(size, len(waiting))))
            if not group:
                break
            groups.append(group)
        return groups

    def _submit(self, client: Client, groups: list[dict[str, Point]]) -> list[Future[Any]]:
        names = [f"points-{self._name}-{self._num_tasks + number}" for number in range(len(groups))]
        self._num_tasks += len(groups)
        requests = [pickle.dumps(list(group.values())) for group in groups]
        return list(client.map(compute_points, requests, conditions=self._conditions, run=self._name, key=names))

    def _keep(self, keys: list[str], outcomes: Sequence[Outcome]) -> None:
        for key, outcome in zip(keys, outcomes, strict=True):
            self._store.write(key, outcome, self._conditions)
            self.outcomes[key] = outcome
            self.warnings |= dict.fromkeys(outcome.warnings)
            del self.missing[key]
            self._num_failed += outcome.status in FAILED
            self._seconds.append(outcome.results.get("seconds", _TASK_S))

    def _end(self, client: Client, running: Iterable[Future[Any]]) -> None:
        """End all computation of this run on the workers, and its processes there."""
        if _is_connected(client):
            with contextlib.suppress(OSError):
                client.cancel(list(running))
                client.run(end_run, self._name)


def _outcomes(client: Client, futures: list[Future[Any]]) -> list[tuple[Future[Any], list[Outcome] | Outcome | None]]:
    """What the points of tasks came to, those that went well fetched together.

    One outcome stands for all points of a task that Dask has given up (tasks themselves raise nothing), None for what was lost
    with a worker, and is computed again.
    """
    status = [future.status for future in futures]
    if "cancelled" in status:
        raise CancelledError("the connection was lost")  # so Dask cancels then
    good = [future for future, how in zip(futures, status, strict=True) if how == "finished"]
    outcome_of: dict[Future[Any], list[Outcome] | Outcome] = {}
    if good:
        outcome_of |= zip(good, map(_unpacked, client.gather(good)), strict=True)
    outcome_of |= {future: _failure(future) for future, how in zip(futures, status, strict=True) if how == "error"}
    return [(future, outcome_of.get(future)) for future in futures]


def _unpacked(result: tuple[str, list[Outcome]]) -> list[Outcome]:
    check_version(result[0], "a worker")
    return result[1]


def _failure(future: Future[Any]) -> Outcome:
    """Of a task that Dask has given up."""
    error = future.exception()
    if isinstance(error, ConfigError):
        raise error
    if isinstance(error, ImportError):
        raise ConfigError(f"a worker cannot load astra_tacos ({error}): install the same version there as here")
    return Outcome(DIED, f"{type(error).__name__}: {' '.join(str(error).split())}", {})


def _is_connected(client: Client) -> bool:
    return str(client.status) == "running"
