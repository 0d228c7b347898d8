"""What runs in the process that computes points. `limits` starts and ends the process.

The module loads no other of this package at its top, so that `begin` sets the number of threads before NumPy is loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_tacos.study.sweep.point import Conditions, Outcome, Point
    from astra_tacos.support.plugins import Plugin

PRINTED = "printed.txt"
"""File of the scratch directory that has what the process prints."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def begin(scratch: str) -> None:
    """Prepare the process: one thread per library, and a directory for all that it writes or prints."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler of Python would wait for the end of a kernel
    tempfile.tempdir = scratch
    printed = os.open(Path(scratch, PRINTED), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.close(printed)
    threading.Thread(target=_follow, args=(scratch,), daemon=True).start()


def _follow(scratch: str) -> None:
    """End this process when the process that asks has ended, even if it was killed; nobody waits for a result then."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def load(synthesizers: Sequence[str], plugins: Sequence[Plugin]) -> int:
    """Load plugins, and the kernels of some synthesizers; returns the process's id."""
    from astra_tacos.study.sweep.evaluate import warm_up
    from astra_tacos.support.plugins import load_plugins

    load_plugins(plugins)
    warm_up(synthesizers)
    return os.getpid()


def compute(point: Point, conditions: Conditions) -> Outcome:
    """The outcome of a point."""
    from astra_tacos.study.sweep.evaluate import evaluate

    return evaluate(point, conditions)
