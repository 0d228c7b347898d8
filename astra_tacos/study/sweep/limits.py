"""Limits on a point: a process of pebble computes the point, and ends if the point takes too much time or memory.

A thread of a Dask worker keeps one such process for all its points, because starting Python and loading the kernels takes a
second or two.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from multiprocessing import resource_tracker
from typing import Any, TypeVar

import psutil
from pebble import ProcessExpired, ProcessPool

from astra_tacos.study.sweep.point import DIED, OUT_OF_MEMORY, TIMEOUT, Conditions, Outcome, Point
from astra_tacos.study.sweep.point_process import PRINTED, begin, compute, load
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.installation import package_version
from astra_tacos.support.plugins import Plugin
from astra_tacos.support.temporaries import create_scratch_directory, remove
from astra_tacos.support.units import format_size

_T = TypeVar("_T")
_POLL_S = 0.02
"""Seconds between two measurements of the process's memory."""
_ATTEMPTS = 2
"""Processes for a point: the first may have died of what another did."""


class PointProcess:
    """A process that computes points one at a time, and is replaced whenever it ends."""

    def __init__(self) -> None:
        self._run = ""
        self._lock = threading.Lock()
        self._pool: ProcessPool | None = None
        self._loaded: set[str] = set()
        self._plugins: tuple[Plugin, ...] = ()

    def compute(self, run: str, point: Point, conditions: Conditions) -> Outcome:
        """Compute a point of a run of a sweep within the limits of the conditions.

        If the process dies by itself, a new one computes the point again, once: the cause may not have been the point (the
        system may have run out of memory).

        Raises
        ------
        CancelledError
            If the run has ended.
        """
        cause = ""
        with self._lock:
            self._run = run
            for _ in range(_ATTEMPTS):
                try:
                    return self._tried(point, conditions)
                except CancelledError:
                    self._close()
                    raise
                except Exception as error:  # no process can be started, say
                    cause = self._cause(error)
                    self._close()
        return Outcome(DIED, f"the process that computed it {cause}, twice", {})

    def close(self, run: str) -> None:
        """End the process, if it is idle and computed points of this run last."""
        if self._lock.acquire(blocking=False):
            try:
                if self._run == run:
                    self._close()
            finally:
                self._lock.release()

    def _tried(self, point: Point, conditions: Conditions) -> Outcome:
        if self._run in _ended:
            raise CancelledError
        limit = conditions.memory_bytes
        self._load(point, conditions.plugins)  # no point's time includes that
        begun = time.monotonic()
        try:
            outcome = self._result(compute, (point, conditions), conditions.timeout_s, limit)
        except TimeoutError:
            overrun = TIMEOUT, f"took longer than {conditions.timeout_s:g} s"
        except MemoryError:
            assert limit is not None
            overrun = OUT_OF_MEMORY, f"took more than {format_size(limit)}"
        else:
            # What points have left in the process may take at most half of the memory that a new process has free.
            if limit is not None and self._resident_bytes() > (self._warm_bytes + limit) / 2:
                self._close()
            return outcome
        self._close()
        return Outcome(*overrun, {"seconds": time.monotonic() - begun})

    def _load(self, point: Point, plugins: tuple[Plugin, ...]) -> None:
        """Start the process, if there is none, and load its plugins and the kernels that the point needs."""
        if plugins != self._plugins:
            self._close()
            self._plugins = plugins
        missing = [name for name in point.task.options.synthesizers if name not in self._loaded]
        if self._pool is None:
            self._scratch = create_scratch_directory()
            resource_tracker.ensure_running()  # whose first start would let SIGINT through
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(1, initializer=begin, initargs=(str(self._scratch),), context=context)
        elif not missing:
            return
        self._memory = psutil.Process(self._result(load, (missing, plugins)))
        self._warm_bytes = self._resident_bytes()
        self._loaded.update(missing)

    def _result(
        self, function: Callable[..., _T], arguments: Sequence[Any], timeout_s: float | None = None, most_bytes: int | None = None
    ) -> _T:
        """What a function returns in the process.

        Raises
        ------
        TimeoutError, MemoryError, CancelledError
            If the function takes longer, the process takes more memory, or the run has ended.
        ChildProcessError
            If the process ended before it could be asked.
        """
        assert self._pool is not None
        # A process that this starts never sees Ctrl-C on a terminal, which is for the sweep alone.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = self._pool.schedule(function, arguments, timeout=timeout_s)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        while not wait([future], _POLL_S).done:
            if self._run in _ended:
                raise CancelledError
            if not self._pool.active:  # of a process that ends while it is started, pebble tells nobody
                raise ChildProcessError("the process ended while it was started")
            if most_bytes is not None and self._resident_bytes() > most_bytes:
                raise MemoryError
        return future.result()

    def _resident_bytes(self) -> int:
        try:
            return int(self._memory.memory_info().rss)
        except psutil.Error:  # it has just ended
            return 0

    def _cause(self, error: Exception) -> str:
        """How the process ended, and the last line that it printed."""
        if not isinstance(error, ProcessExpired):
            return f"could not go on ({type(error).__name__}: {' '.join(str(error).split())})"
        code = error.exitcode
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        printed = (self._scratch / PRINTED).read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line.strip() for line in reversed(printed) if line.strip()), "")
        return f"ended with {name}" + (f" ({said[:200]})" if said else "")

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            remove(self._scratch)
            self._pool = None
            self._loaded.clear()


_processes: dict[int, PointProcess] = {}
"""The process of each thread, by the thread's number."""
_ended: set[str] = set()


def compute_points(points: bytes, conditions: Conditions, run: str) -> tuple[str, list[Outcome]]:
    """Compute points one after another, as a task of Dask; returns the version of the package on the worker, and outcomes.

    Parameters
    ----------
    run
        Name of the run of a sweep, by which `end_run` stops the computation.

    Raises
    ------
    ConfigError
        If the worker may not start processes.
    CancelledError
        If the run has ended.
    """
    if multiprocessing.current_process().daemon:
        raise ConfigError(
            "a worker runs under a nanny of Dask, expected one that may start processes: "
            "start `dask worker` with --no-nanny, or with DASK_DISTRIBUTED__WORKER__DAEMON=False in its environment"
        )
    process = _processes.setdefault(threading.get_ident(), PointProcess())
    return package_version(), [process.compute(run, point, conditions) for point in pickle.loads(points)]


def end_run(run: str) -> None:
    """End the processes of this worker that compute points of a run, or did so last; those that compute end by themselves."""
    _ended.add(run)
    processes = list(_processes.values())
    with ThreadPoolExecutor(len(processes) or 1) as closers:
        list(closers.map(lambda process: process.close(run), processes))
