"""Limits on a point: it is computed in a separate process, which is killed if it takes too much time or memory.

A thread of a Dask worker keeps one such process for all its points, because starting Python and loading the kernels takes a
second or two. It is not a `multiprocessing.Process`, because Dask's workers are daemons, which may not have child processes of
that kind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from astra_tacos.study.sweep.point import DIED, GIVEN_UP, OUT_OF_MEMORY, TIMEOUT, Conditions, Outcome, Point
from astra_tacos.support.installation import package_version
from astra_tacos.support.temporaries import create_scratch_directory, remove
from astra_tacos.support.units import format_size

_POLL_S = 0.02
"""Seconds between two measurements of the process's memory."""
_ATTEMPTS = 2
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class _Died(Exception):
    """The process ended before it answered. The argument is the cause, as text."""


class Guard:
    """Computes points in a process, one at a time.

    One thread may use a guard; only `stop` may be called from other threads.

    Parameters
    ----------
    names
        Synthesizers whose kernels the process loads before the first point. Points load what else they need.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self._process: _Process | None = None
        self._key: str | None = None

    def start(self) -> _Process:
        """Start the process, unless it runs already."""
        self._process = self._process or _Process(self._names)
        return self._process

    def wait_until_warm(self) -> None:
        """Start the process, if there is none, and wait until it has loaded its kernels.

        If the process ends before that, this method raises nothing: the next `compute` finds it ended.
        """
        with contextlib.suppress(_Died):
            self.start().wait_until_warm()

    def compute(self, key: str, point: Point, conditions: Conditions) -> Outcome:
        """Compute a point within the limits of the conditions, and return its outcome.

        If the process dies by itself, a new one computes the point again, once: the cause may not have been the point (the
        system may have run out of memory).

        Parameters
        ----------
        key
            Key of the point, by which `stop` finds it.
        point
            The point.
        conditions
            Limits and options of the computation.
        """
        cause = ""
        self._key = key
        try:
            for _ in range(_ATTEMPTS):
                try:
                    return self._ask(point, conditions)
                except _Died as death:
                    self.close()
                    cause = str(death)
                    if self._key is None:
                        return Outcome(DIED, GIVEN_UP, {})
        finally:
            self._key = None
        return Outcome(DIED, f"the process that computed it {cause}, twice", {})

    def stop(self, keys: Collection[str]) -> None:
        """Kill the process at once if it computes one of these points; the point's status becomes "died".

        This method may be called from any thread.
        """
        process = self._process
        if process is not None and self._key in keys:
            self._key = None
            process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ask(self, point: Point, conditions: Conditions) -> Outcome:
        process = self._ready(conditions)
        process.send((point, conditions))
        process.wait_until_loaded()
        begin = time.monotonic()
        while True:
            wait = _POLL_S if conditions.memory_bytes is not None else 1.0
            if conditions.timeout_s is not None:
                left = conditions.timeout_s - (time.monotonic() - begin)
                if left <= 0:
                    return self._overrun(TIMEOUT, f"took longer than {conditions.timeout_s:g} s", begin)
                wait = min(wait, left)
            outcome: Outcome | None = process.receive(wait)
            if outcome is not None:
                return outcome
            if conditions.memory_bytes is not None and process.resident_bytes() > conditions.memory_bytes:
                return self._overrun(OUT_OF_MEMORY, f"took more than {format_size(conditions.memory_bytes)}", begin)

    def _overrun(self, status: str, error: str, begin: float) -> Outcome:
        self.close()
        return Outcome(status, error, {"seconds": time.monotonic() - begin})

    def _ready(self, conditions: Conditions) -> _Process:
        """The process, after it has loaded its kernels, so that no point's time includes that.

        A new process replaces one that has ended, or that holds so much memory that a point would have too little left.
        """
        limit = conditions.memory_bytes
        process = self._process
        if process is not None and not (process.is_alive() and (limit is None or process.has_room(limit))):
            self.close()
        process = self.start()
        process.wait_until_warm()
        return process


class _Process:
    """A process of `study.sweep.point`, and a thread that reads its answers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._scratch = create_scratch_directory()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        paths = os.pathsep.join(path for path in sys.path if path)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "astra_tacos.study.sweep.point", str(self._scratch), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C on a terminal is for the sweep alone
        )
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._memory: Any = None
        self._is_warm = False
        self._warm_bytes = 0

    @property
    def pid(self) -> int:
        return self._child.pid

    def wait_until_warm(self) -> None:
        """Wait until the first kernels are loaded, which the process reports as its first answer."""
        if not self._is_warm:
            self.wait_until_loaded()
            self._is_warm = True

    def wait_until_loaded(self) -> None:
        """Wait until the process says that kernels are loaded, at its start or for a point."""
        while (answer := self.receive(60.0)) is None:
            pass
        if answer or not self._warm_bytes:
            self._warm_bytes = self.resident_bytes()

    def has_room(self, limit: int) -> bool:
        """Whether earlier points left free at least half of the memory that a new process would have free.

        `limit` is the limit of the process's memory in bytes.
        """
        return not self._is_warm or self.resident_bytes() <= (self._warm_bytes + limit) / 2

    def is_alive(self) -> bool:
        return self._child.poll() is None

    def send(self, message: object) -> None:
        stream = self._child.stdin
        assert stream is not None
        try:
            pickle.dump(message, stream)
            stream.flush()
        except OSError:
            raise _Died(self._cause()) from None

    def receive(self, timeout_s: float) -> Any:
        """The next answer, or None if none comes within `timeout_s` seconds."""
        try:
            answer = self._answers.get(timeout=timeout_s)
        except Empty:
            return None
        if answer is None:
            raise _Died(self._cause())
        return answer

    def resident_bytes(self) -> int:
        import psutil

        try:
            self._memory = self._memory or psutil.Process(self.pid)
            return int(self._memory.memory_info().rss)
        except psutil.Error:
            return 0

    def kill(self) -> None:
        self._child.kill()

    def end(self) -> None:
        """Kill the process, close its streams and remove its scratch directory."""
        self._child.kill()
        self._child.wait()
        self._reader.join()
        for stream in (self._child.stdin, self._child.stdout, self._errors):
            with contextlib.suppress(OSError):  # a request that nobody reads any more
                stream.close()  # type: ignore[union-attr]
        remove(self._scratch)

    def _read(self) -> None:
        stream = self._child.stdout
        assert stream is not None
        with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the process has died, perhaps while it wrote
            while True:
                self._answers.put(pickle.load(stream))
        self._answers.put(None)

    def _cause(self) -> str:
        """How the process ended, and the last line that it wrote to standard error."""
        code = self._child.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"ended with {name}" + (f" ({said[:200]})" if said else "")


_own = threading.local()
_guards: set[Guard] = set()
_spare: list[Guard] = []
_stopped: set[str] = set()
_lock = threading.Lock()


def compute_points(points: bytes, conditions: Conditions) -> tuple[str, list[Outcome]]:
    """Compute points one after another, as a task of Dask; returns the version of the package on the worker, and outcomes.

    Parameters
    ----------
    points
        A pickled list of keys and points, as Dask walks through any other value. The outcomes depend on them and the conditions
        alone.
    conditions
        Conditions that points have to meet.
    """
    asked: list[tuple[str, Point]] = pickle.loads(points)
    with _lock:
        _stopped.difference_update(key for key, _ in asked)
    return package_version(), [_compute(key, point, conditions) for key, point in asked]


def _compute(key: str, point: Point, conditions: Conditions) -> Outcome:
    if key in _stopped:
        return Outcome(DIED, GIVEN_UP, {})
    guard = _guard()
    try:
        return guard.compute(key, point, conditions)
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
