"""Handling of Ctrl-C, and of SIGTERM from job schedulers, in commands that have to finish or clean up what they began.

Python runs a signal's handler only between two steps of Python code of the main thread: not while a kernel or a compiler runs.
The `KeyboardInterrupt` that it then raises is lost where a library calls back from C, as LLVM does. So a thread waits for
signals, too, and ends the process if the main thread does not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from astra_tacos.support import temporaries

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE_CPU_S, _GRACE_S = 1.5, 1.0
"""What the process may use, and take, to end by itself: a machine of many cores uses up the former in no time."""
_MOST_S = 20.0
"""What it may take if it only waits."""
_LOOK_S = 0.05


class Interrupts:
    """Notes signals; raises the first as `KeyboardInterrupt`, but only within `raised`.

    Attributes
    ----------
    came
        The number of the first signal, 0 if there was none.
    """

    def __init__(self) -> None:
        self.came = 0
        self._may_raise = False
        self._is_patient = False

    @property
    def exit_code(self) -> int:
        """That of a process that a signal ended, as shells have it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.came or signal.SIGINT)

    def note(self, number: int, _: object = None) -> None:
        """Handle a signal."""
        self.came = self.came or number
        if self._may_raise:
            self._may_raise = False  # one is enough: cleaning up goes on whatever comes then
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal came, also if it was raised before and got lost."""
        if self.came:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Let a signal end what is done here, also one that came before, and one that something in here has swallowed."""
        before = self._may_raise
        self._may_raise = True
        try:
            self.check()
            yield
            self.check()
        finally:
            self._may_raise = before

    @contextlib.contextmanager
    def finished(self) -> Iterator[None]:
        """Finish what is done here whatever comes, but for parts of it that are `raised`; a second signal ends the process."""
        before = self._may_raise, self._is_patient
        self._may_raise, self._is_patient = False, True
        try:
            yield
        finally:
            self._may_raise, self._is_patient = before

    def watch(self, receiver: socket.socket) -> None:
        """End the process some time after a signal (the second one in `finished`), unless the socket is closed before."""
        count = 0
        while number := _received(receiver, None):
            count += number in SIGNALS
            if count > self._is_patient:
                break
        else:
            return
        begin, cpu = time.monotonic(), time.process_time()
        while True:
            if _received(receiver, _LOOK_S) == 0:
                return
            took = time.monotonic() - begin
            if took >= _MOST_S or (took >= _GRACE_S and time.process_time() - cpu >= _GRACE_CPU_S):
                _end(self.exit_code if self.came else 128 + number)

    def tell_lost(self, lost: Any) -> None:
        """What `sys.unraisablehook` is told: ends the process, as C code that calls back may leave `watch` no time."""
        if issubclass(lost.exc_type, KeyboardInterrupt) and self.came and not self._is_patient:
            _end(self.exit_code)
        if not self.came:
            sys.__unraisablehook__(lost)

    def tell(self, *raised: Any) -> None:
        """What `sys.excepthook` is told, by C code as well: nothing is printed once a signal has come."""
        if not self.came:
            sys.__excepthook__(*raised)

    def tell_of_thread(self, raised: Any) -> None:
        """What `threading.excepthook` is told: nothing is printed once a signal has come."""
        if not self.came:
            threading.__excepthook__(raised)


_active: Interrupts | None = None


@contextlib.contextmanager
def interruptible(ends_process: bool = False) -> Iterator[Interrupts]:
    """Have signals noted, those of the main thread: others get none. One that is ignored (nohup) stays so.

    Parameters
    ----------
    ends_process
        Whether the process is to end after a signal, even if the main thread hangs.
    """
    global _active
    if _active is not None:
        yield _active
        return
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with contextlib.ExitStack() as stack:
        if ends_process:
            stack.enter_context(_watched(interrupts))
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, interrupts.note)
        _active = interrupts
        try:
            yield interrupts
        finally:
            _active = None
            for number, handler in before.items():
                if not (ends_process and interrupts.came):  # the process ends, and further signals must not hurry it
                    signal.signal(number, handler)


@contextlib.contextmanager
def _watched(interrupts: Interrupts) -> Iterator[None]:
    sender, receiver = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    sys.unraisablehook, sys.excepthook, threading.excepthook = interrupts.tell_lost, interrupts.tell, interrupts.tell_of_thread
    threading.Thread(target=interrupts.watch, args=(receiver,), daemon=True).start()
    try:
        yield
    finally:
        if not interrupts.came:  # else it is watched to its end: threads of pools are waited for after this
            sys.unraisablehook, sys.excepthook = sys.__unraisablehook__, sys.__excepthook__
            threading.excepthook = threading.__excepthook__
            signal.set_wakeup_fd(-1)
            sender.close()
        temporaries.remove_all()


def _received(receiver: socket.socket, timeout_s: float | None) -> int | None:
    """The number of a signal, 0 at the end, None if nothing came in time."""
    receiver.settimeout(timeout_s)
    try:
        content = receiver.recv(1)
    except TimeoutError:
        return None
    except OSError:
        return 0
    return content[0] if content else 0


def _end(code: int) -> None:
    """End the process, whatever its threads do."""
    temporaries.remove_all()
    with contextlib.suppress(OSError, ValueError):
        if os.isatty(2):
            os.write(2, b"\x1b[?25h\n")  # a bar had hidden the cursor
    os._exit(code)
