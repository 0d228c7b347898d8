"""The process that computes points one after another; `Guard` starts and kills it.

    python -m astra_tacos.study.sweep.point_process SCRATCH [SYNTHESIZER...]

The process first loads the kernels of the synthesizers, and writes the list of these. From then on it reads requests from
standard input, each a point and conditions. Two values on standard output are its answer: the list of synthesizers whose kernels
were loaded for it, and its outcome. All are pickles; anything else that is printed goes to standard error. The process ends when
standard input ends, or when no request has come for `IDLE_S` seconds.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

IDLE_S = 60.0
WENT_IDLE = 75
"""Seconds after which the process ends if no request comes, and its exit code in that case."""


def main() -> None:
    """Answer requests until standard input ends or no more come."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # the process may be killed at any moment
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which then ends this process
    scratch = tempfile.tempdir = sys.argv[1]
    requests: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, scratch), daemon=True).start()
    _serve(requests, answers, sys.argv[2:])
    _leave(scratch, WENT_IDLE)


def _serve(requests: SimpleQueue[Any], answers: BinaryIO, names: Iterable[str]) -> None:
    """Load the kernels of some synthesizers, report that, then answer requests until none has come for `IDLE_S` seconds."""
    from astra_tacos.study.sweep.evaluate import evaluate, warm_up

    loaded: set[str] = set()

    def load(names: Iterable[str]) -> None:
        missing = [name for name in names if name not in loaded]
        warm_up(missing)
        loaded.update(missing)
        pickle.dump(missing, answers)
        answers.flush()

    load(names)
    while True:
        try:
            point, conditions = requests.get(timeout=IDLE_S)
        except Empty:
            return
        load(point.task.options.synthesizers)
        pickle.dump(evaluate(point, conditions), answers)
        answers.flush()


def _read(requests: SimpleQueue[Any], scratch: str) -> None:
    """Put each request of standard input into the queue, and end the process when standard input ends.

    Standard input ends when the process that asks ends, even if it was killed; nobody waits for an answer then.
    """
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    finally:
        _leave(scratch, 0)


def _leave(scratch: str, code: int) -> None:
    """Remove the scratch directory and end the process at once, even if another thread is still computing."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code)


if __name__ == "__main__":
    main()
