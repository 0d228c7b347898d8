"""Ctrl-C, and SIGTERM, by which job schedulers end a job, where what is begun has to be finished."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupts:
    """Notes signals; raises the first as `KeyboardInterrupt`, but only within `raised`.

    Attributes
    ----------
    came
        Whether there was one.
    """

    def __init__(self) -> None:
        self.came = False
        self._may_raise = False

    def note(self, *_: object) -> None:
        """Handle a signal."""
        self.came = True
        if self._may_raise:
            self._may_raise = False  # one is enough: cleaning up goes on whatever comes then
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Let a signal end what is done here, also one that came before."""
        self._may_raise = True
        try:
            if self.came:
                raise KeyboardInterrupt
            yield
        finally:
            self._may_raise = False


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Have signals noted, those of the main thread: others get none."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
