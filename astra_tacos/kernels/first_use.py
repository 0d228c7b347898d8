"""Compiling kernels ahead of their first use, in several processes, as numba compiles one function of a process at a time."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
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
    kernels: list[Kernel], report: Callable[[int, int], None] | None = None, processes: int | None = None
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
    """
    waiting: SimpleQueue[Kernel] = SimpleQueue()
    for kernel in kernels:
        waiting.put(kernel)
    workers: list[subprocess.Popen[str]] = []
    num_done, lock = 0, Lock()

    def count() -> None:
        nonlocal num_done
        with lock:
            num_done += 1
            if report is not None:
                report(num_done, len(kernels))

    if report is not None:
        report(0, len(kernels))
    with ThreadPoolExecutor(len(kernels) or 1) as pool:
        try:
            workers += [_start_worker() for _ in range(min(processes or os.cpu_count() or 1, len(kernels)))]
            for part in [pool.submit(_feed, worker, waiting, count) for worker in workers]:
                part.result()
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.communicate()


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


def _feed(worker: subprocess.Popen[str], waiting: SimpleQueue[Kernel], count: Callable[[], None]) -> None:
    """Give a process one kernel after another, as long as it answers."""
    assert worker.stdin is not None and worker.stdout is not None
    while True:
        try:
            kernel = waiting.get_nowait()
            worker.stdin.write(f"{kernel.name}\n")
            worker.stdin.flush()
        except (Empty, OSError):
            return
        if worker.stdout.readline() not in (_COMPILED, _FAILED):
            return
        count()


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
