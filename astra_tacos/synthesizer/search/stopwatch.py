"""How long numba has been compiling, so that a budget of time means the same on the first use as later. Imports numba."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.event import Listener, install_listener

_COMPILING = "numba:compile"


class CompilationStopwatch(Listener):
    """Seconds during which some thread was compiling."""

    def __init__(self) -> None:
        self._depth = 0
        self._since = 0.0
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """Up to now, with a compilation that goes on."""
        return self._before + (time.monotonic() - self._since if self._depth else 0.0)

    def on_start(self, event: Any) -> None:
        """Called by numba; functions that others call compile within them, one thread at a time."""
        if self._depth == 0:
            self._since = time.monotonic()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Called by numba."""
        self._depth -= 1
        if self._depth == 0:
            self._before += time.monotonic() - self._since


@contextmanager
def compilation_stopwatch() -> Iterator[CompilationStopwatch]:
    """One that runs within the block."""
    stopwatch = CompilationStopwatch()
    with install_listener(_COMPILING, stopwatch):
        yield stopwatch
