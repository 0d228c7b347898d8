"""How a long task says what it does, to whoever wants to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

OnProgress = Callable[[int, int], None]
Progress = Callable[[str], AbstractContextManager[OnProgress]]
"""Entered with what is being done; gives a function that takes how much of it is done, and how much there is."""


@contextmanager
def silent(what: str) -> Iterator[OnProgress]:
    """Show nothing."""
    yield lambda done, total: None
