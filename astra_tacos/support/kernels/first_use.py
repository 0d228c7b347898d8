"""Compiling kernels ahead of their first use, in several processes, as numba compiles one function of a process at a time."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from astra_tacos.support.kernels.compiled import Kernel

_WORKER = "from astra_tacos.support.kernels.first_use import serve; import sys; serve(sys.stdin, sys.stdout)"
_COMPILED, _FAILED = "compiled\n", "failed\n"


def find(name: str) -> Kernel:
    """A kernel by module and name, `astra_tacos.schedule._settle_kernels:earliest_times`."""
    module, _, function = name.partition(":")
    kernel: Kernel = getattr(importlib.import_module(module), function)
    return kernel


def kernels_of(names: Iterable[str]) -> list[Kernel]:
    """Kernels of some names, which `find` takes, and all kernels of some modules, `astra_tacos.schedule._settle_kernels`."""
    from astra_tacos.support.kernels.compiled import Kernel

    known: dict[str, Kernel] = {}
    for name in names:
        if ":" in name:
            known[name] = find(name)
            continue
        of_module = [value for value in vars(importlib.import_module(name)).values() if isinstance(value, Kernel)]
        known |= {kernel.name: kernel for kernel in of_module if kernel.__module__ == name}
    return list(known.values())


def missing_kernels(names: Iterable[str]) -> list[Kernel]:
    """The kernels of some names that are not compiled yet, as `kernels_of` takes them, largest first.

    None where compiled code cannot be kept: then each process compiles what it calls.
    """
    missing = [kernel for kernel in kernels_of(names) if kernel.is_kept and not kernel.is_ready]
    return sorted(missing, key=lambda kernel: (-kernel.size, kernel.name))


def compile_kernels(
    kernels: list[Kernel],
    report: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    later: Iterable[Kernel] = (),
) -> None:
    """Compile kernels in separate processes, which cache them on disk; later calls load them from there.

    A kernel that fails to compile is skipped (its first call fails). In all, this takes as long as the processes need for their
    share, or as the first kernel takes.

    Parameters
    ----------
    report
        Called with how many of them are done, and how many there are.
    processes
        How many compile at a time; by default one per core.
    later
        Kernels to compile after these, while the caller goes on; who calls one waits until it is done.
    """
    global _going_on
    compilation = _going_on or _Compilation()
    try:
        compilation.ask(kernels, list(later), processes or os.cpu_count() or 1)
        compilation.wait(kernels, report)
    except BaseException:
        compilation.stop()
        raise
    if not compilation.is_done:
        if _going_on is None:
            atexit.register(compilation.stop)
        _going_on = compilation
    else:
        _going_on = None
        atexit.unregister(compilation.stop)
        compilation.stop()


def await_kernel(kernel: Kernel) -> None:
    """Wait until a kernel is compiled, if other processes have been asked for it."""
    if _going_on is not None:
        _going_on.wait([kernel])


class _Compilation:
    """Kernels that other processes compile, the first ones first."""

    def __init__(self) -> None:
        self._waiting: deque[Kernel] = deque()
        self._missing: set[str] = set()
        self._changed = Condition()
        self._workers: list[subprocess.Popen[str]] = []
        self._threads: list[Thread] = []
        self._is_stopped = False
        self._feeding = 0

    @property
    def is_done(self) -> bool:
        """Whether no kernels are missing."""
        with self._changed:
            return not self._missing

    def ask(self, kernels: list[Kernel], later: list[Kernel], processes: int) -> None:
        """Have kernels compiled before those that no process has begun, and others after them."""
        with self._changed:
            begun = self._missing - {kernel.name for kernel in self._waiting}
            ordered = {kernel.name: kernel for kernel in (*kernels, *self._waiting, *later)}
            self._waiting = deque(kernel for name, kernel in ordered.items() if name not in begun)
            self._missing = begun | set(ordered)
            lacking = min(processes, len(self._missing)) - self._feeding
            self._feeding += max(lacking, 0)
            self._changed.notify_all()
        for _ in range(lacking):
            worker = _start_worker()
            thread = Thread(target=self._feed, args=(worker,), daemon=True)
            self._workers.append(worker)
            self._threads.append(thread)
            thread.start()

    def wait(self, kernels: list[Kernel], report: Callable[[int, int], None] | None = None) -> None:
        """Wait until some kernels are done, or nobody is left to compile them."""
        names, reported = {kernel.name for kernel in kernels}, -1
        while True:
            with self._changed:
                left = len(names & self._missing)
                if left and len(names) - left <= reported:
                    self._changed.wait()
                    left = len(names & self._missing)
            if report is not None:
                for done in range(reported + 1, len(names) - left + 1):
                    report(done, len(names))
            reported = len(names) - left
            if not left:
                return

    def stop(self) -> None:
        """End all processes."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.terminate()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.wait()

    def _next(self) -> Kernel | None:
        """What to compile next, as soon as there is something; None if nothing is missing any more."""
        with self._changed:
            while not self._waiting and self._missing and not self._is_stopped:
                self._changed.wait()
            return None if self._is_stopped or not self._waiting else self._waiting.popleft()

    def _feed(self, worker: subprocess.Popen[str]) -> None:
        """Give a process one kernel after another, as long as it answers."""
        assert worker.stdin is not None and worker.stdout is not None
        answers = True
        while answers and (kernel := self._next()) is not None:
            try:
                worker.stdin.write(f"{kernel.name}\n")
                worker.stdin.flush()
                answers = worker.stdout.readline() in (_COMPILED, _FAILED)
            except OSError:
                answers = False
            with self._changed:
                self._missing.discard(kernel.name)
                self._changed.notify_all()
        with self._changed:
            self._feeding -= 1
            if not self._feeding:
                self._waiting.clear()
                self._missing.clear()
            self._changed.notify_all()
        with suppress(OSError):
            worker.stdin.close()
        worker.stdout.close()


_going_on: _Compilation | None = None


def _start_worker() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in sys.path),
            "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # numba colours thousands of messages that nobody sees
        },
        encoding="utf-8",
    )


def serve(questions: TextIO, answers: TextIO) -> None:
    """What a process of its own runs: compile the kernels that it is asked for, one a line."""
    from astra_tacos.support.kernels.numba_patches import quicken

    gc.disable()  # the compiler makes many objects, few of them garbage
    quicken()
    try:
        for line in questions:
            answers.write(_answer(line.strip()))
            answers.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _answer(name: str) -> str:
    try:
        find(name).compile()
    except Exception:  # whoever calls the kernel meets it again
        return _FAILED
    return _COMPILED
