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
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from astra_tacos.kernels.compiled import Kernel

_WORKER = "from astra_tacos.kernels.first_use import serve; import sys; serve(sys.stdin, sys.stdout)"
_COMPILED, _FAILED = "compiled\n", "failed\n"


def find(name: str) -> Kernel:
    """A kernel by module and name, `astra_tacos.schedule._settle_kernels:earliest_times`."""
    module, _, function = name.partition(":")
    kernel: Kernel = getattr(importlib.import_module(module), function)
    return kernel


def missing_kernels(names: Iterable[str]) -> list[Kernel]:
    """Those of some kernels (see `find`) that are not compiled yet, largest first.

    None where compiled code cannot be kept: then each process compiles what it calls.
    """
    missing = [kernel for kernel in map(find, names) if kernel.is_kept and not kernel.is_ready]
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
    kernels
        Kernels to compile.
    report
        Called with how many of them are done, and how many there are.
    processes
        How many compile at a time; by default one per core.
    later
        Kernels to compile after these, while the caller goes on; who calls one waits until it is done.
    """
    wanted = {kernel.name: kernel for kernel in (*kernels, *later)}
    for earlier in _going_on:
        wanted |= {kernel.name: kernel for kernel in earlier.take_back()}
        for name in earlier.missing:
            wanted.pop(name, None)
    compilation = _Compilation(list(wanted.values()), processes or os.cpu_count() or 1)
    try:
        compilation.wait(kernels, report)
        for kernel in kernels:
            await_kernel(kernel)
    except BaseException:
        compilation.stop()
        raise
    if compilation.missing:
        atexit.register(compilation.stop)
        _going_on.append(compilation)
    else:
        compilation.stop()


def await_kernel(kernel: Kernel) -> None:
    """Wait until a kernel is compiled, if other processes have been asked for it."""
    for compilation in _going_on:
        compilation.wait([kernel])


class _Compilation:
    """Kernels that other processes compile, the first ones first."""

    def __init__(self, kernels: list[Kernel], processes: int) -> None:
        self._waiting = deque(kernels)
        self._missing = {kernel.name for kernel in kernels}
        self._changed = Condition()
        self._workers = [_start_worker() for _ in range(min(processes, len(kernels)))]
        self._threads = [Thread(target=self._feed, args=(worker,), daemon=True) for worker in self._workers]
        self._feeding = len(self._threads)
        for thread in self._threads:
            thread.start()

    @property
    def missing(self) -> set[str]:
        """Names of kernels that are not done."""
        with self._changed:
            return set(self._missing)

    def take_back(self) -> list[Kernel]:
        """The kernels that no process has begun, which none will."""
        with self._changed:
            taken = list(self._waiting)
            self._waiting.clear()
            self._missing -= {kernel.name for kernel in taken}
            self._changed.notify_all()
        return taken

    def wait(self, kernels: list[Kernel], report: Callable[[int, int], None] | None = None) -> None:
        """Wait until some kernels are done, or nobody is left to compile them."""
        names, told = {kernel.name for kernel in kernels}, -1
        while True:
            with self._changed:
                left = len(names & self._missing)
                if left and len(names) - left <= told:
                    self._changed.wait()
                    left = len(names & self._missing)
            if report is not None:
                for done in range(told + 1, len(names) - left + 1):
                    report(done, len(names))
            told = len(names) - left
            if not left:
                return

    def stop(self) -> None:
        """End all processes."""
        self.take_back()
        for worker in self._workers:
            worker.terminate()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.communicate()

    def _feed(self, worker: subprocess.Popen[str]) -> None:
        """Give a process one kernel after another, as long as it answers."""
        assert worker.stdin is not None and worker.stdout is not None
        answers = True
        while answers:
            with self._changed:
                kernel = self._waiting.popleft() if self._waiting else None
            if kernel is None:
                break
            try:
                worker.stdin.write(f"{kernel.name}\n")
                worker.stdin.flush()
                answers = worker.stdout.readline() in (_COMPILED, _FAILED)
            except (OSError, ValueError):
                answers = False
            with self._changed:
                self._missing.discard(kernel.name)
                self._changed.notify_all()
        with self._changed:
            self._feeding -= 1
            if not self._feeding:
                self._missing.clear()
            self._changed.notify_all()


_going_on: list[_Compilation] = []


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
    from astra_tacos.kernels.quick_typing import quicken

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
