"""The one rule by which the stages of a plan keep a candidate: it can be replayed, and is better than the best so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from astra_tacos.support.errors import AstraTacosError


class Candidate(Protocol):
    """What a stage proposes."""

    def is_better_than(self, other: Self, /) -> bool:
        """Whether it is better than another candidate of the stage."""
        ...


C = TypeVar("C", bound=Candidate)


class Acceptance(Generic[C]):
    """The best candidate so far: the first of equally good ones.

    Attributes
    ----------
    best, last
        The best candidate, and the last one that could be replayed; None before there is one.
    failures
        Why others cannot be replayed.
    """

    def __init__(self, best: C | None = None) -> None:
        self.best = best
        self.last: C | None = None
        self.failures: list[AstraTacosError] = []

    def consider(self, replayed: Callable[[], C]) -> C | None:
        """Replay a candidate, and keep it if it is the best; None if it cannot be replayed."""
        try:
            candidate = replayed()
        except AstraTacosError as error:
            self.failures.append(error)
            return None
        self.take(candidate)
        return candidate

    def take(self, candidate: C) -> bool:
        """Keep a candidate if it is the best; returns whether it is."""
        self.last = candidate
        is_best = self.best is None or candidate.is_better_than(self.best)
        if is_best:
            self.best = candidate
        return is_best
