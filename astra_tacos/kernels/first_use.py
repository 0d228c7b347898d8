"""Compiling kernels ahead of their first use, in several processes, as numba compiles one function of a process at a time."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_tacos.kernels.compiled import Kernel

_WORKER = "from astra_tacos.kernels.first_use import serve; serve()"
_COMPILED = b"compiled"


def find(name: str) -> Kernel:
    """A kernel by module and name, `astra_tacos.schedule._settle_kernels:earliest_times`."""
    module, _, function = name.partition(":")
    kernel: Kernel = getattr(importlib.import_module(module), function)
    return kernel


def compile_missing(
    names: Iterable[str], report: Callable[[int, int], None] | None = None, processes: int | None = None
) -> list[str]:
    """Have kernels compiled that are not on disk yet; whoever calls them then loads them. Returns their names.

    Does nothing where compiled code cannot be kept: then each process compiles what it calls.

    Parameters
    ----------
    names
        Of kernels, see `find`.
    report
        Called with how many of them are compiled, and how many there are; not called if none is missing.
    processes
        How many compile at a time; by default one per core.
    """
    missing = [kernel for kernel in map(find, names) if kernel.is_kept and not kernel.is_ready]
    # Those that take longest first; the bytes of a function's code say roughly how long.
    missing.sort(key=lambda kernel: -kernel.size)
    if not missing:
        return []
    waiting: SimpleQueue[str] = SimpleQueue()
    for kernel in missing:
        waiting.put(kernel.name)
    workers = min(processes or os.cpu_count() or 1, len(missing))
    running: list[subprocess.Popen[bytes]] = []
    done: SimpleQueue[None] = SimpleQueue()
    if report is not None:
        report(0, len(missing))
    with ThreadPoolExecutor(workers) as pool:
        try:
            for _ in range(workers):
                running.append(_start_worker())
            for worker in running:
                pool.submit(_feed, worker, waiting, done)
            for number in range(len(missing)):
                done.get()
                if report is not None:
                    report(number + 1, len(missing))
        finally:
            _drain(waiting)
            for worker in running:
                if worker.stdin is not None:
                    worker.stdin.close()
                worker.terminate()
            for worker in running:
                worker.wait()
    return [kernel.name for kernel in missing]


def _start_worker() -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _WORKER]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def _feed(worker: subprocess.Popen[bytes], waiting: SimpleQueue[str], done: SimpleQueue[None]) -> None:
    """Give a process one kernel after another; a kernel that it fails at is left to whoever calls it."""
    assert worker.stdin is not None and worker.stdout is not None
    while True:
        try:
            name = waiting.get_nowait()
        except Empty:
            return
        try:
            worker.stdin.write(name.encode() + b"\n")
            worker.stdin.flush()
            worker.stdout.readline()
        except (OSError, ValueError):
            pass
        finally:
            done.put(None)


def _drain(waiting: SimpleQueue[str]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except Empty:
            return


def serve() -> None:
    """What a process of its own runs: compile the kernels that standard input names, one a line."""
    try:
        for line in sys.stdin.buffer:
            find(line.decode().strip()).compile()
            sys.stdout.buffer.write(_COMPILED + b"\n")
            sys.stdout.buffer.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        return
