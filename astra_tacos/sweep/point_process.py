"""The process that computes points one after another; `Guard` starts and kills it.

    python -m astra_tacos.sweep.point_process SCRATCH [SYNTHESIZER...]

The process first loads the kernels of the synthesizers, and writes `{"loaded": [SYNTHESIZER, ...]}`. From then on a line on
standard input is a request. Two lines on standard output are its answer: one like the first, when the kernels of its
synthesizers are loaded, too, with those that were not, and its outcome. All are JSON; anything else that is printed goes to
standard error. The process ends when standard input ends, or when no request has come for `IDLE_S` seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any, TextIO

IDLE_S = 60.0
WENT_IDLE = 75
"""Seconds after which the process ends if no request comes, and its exit code in that case."""


def main() -> None:
    """Answer requests until standard input ends or no more come."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # the process may be killed at any moment
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep, which then ends this process
    scratch = tempfile.tempdir = sys.argv[1]
    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(requests, scratch), daemon=True).start()
    _serve(requests, answers, sys.argv[2:])
    _leave(scratch, WENT_IDLE)


def _serve(requests: SimpleQueue[str], answers: TextIO, names: Iterable[str]) -> None:
    """Load the kernels of some synthesizers, report that, then answer requests until none has come for `IDLE_S` seconds."""
    from astra_tacos.sweep.evaluate import evaluate, warm_up
    from astra_tacos.sweep.outcome import Conditions
    from astra_tacos.sweep.point import Point

    loaded: set[str] = set()

    def load(names: Iterable[str]) -> None:
        missing = [name for name in names if name not in loaded]
        warm_up(missing)
        loaded.update(missing)
        answers.write(json.dumps({"loaded": missing}) + "\n")
        answers.flush()

    load(names)
    while True:
        try:
            request: dict[str, Any] = json.loads(requests.get(timeout=IDLE_S))
        except Empty:
            return
        point = Point.from_request(request["point"])
        load(point.task.options.synthesizers)
        answer = evaluate(point, Conditions(**request["conditions"])).to_json()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read(requests: SimpleQueue[str], scratch: str) -> None:
    """Put each line of standard input into the queue, and end the process when standard input ends.

    Standard input ends when the process that asks ends, even if it was killed; nobody waits for an answer then.
    """
    for line in sys.stdin:
        requests.put(line)
    _leave(scratch, 0)


def _leave(scratch: str, code: int) -> None:
    """Remove the scratch directory and end the process at once, even if another thread is still computing."""
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code)


if __name__ == "__main__":
    main()
