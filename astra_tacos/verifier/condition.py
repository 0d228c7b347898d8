"""The `Condition` class: what a collective has in the memory of a program before it runs, and must have after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from astra_tacos.verifier.program_form import Program
from astra_tacos.verifier.program_order import Naming, Value, compare
from astra_tacos.verifier.violation import Violation

Values = Iterable[tuple[int, Value]]
"""Locations, and the value at each."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What a collective has by location before it, and must have after it.

    Parameters
    ----------
    collective, root
        Key of `COLLECTIVES`, and the root of a rooted one.
    whole, part
        Number of chunks of the whole buffer, and of one rank's part of it (0 if the collective does not divide the buffer).
    before, after
        The value at each location that has one before a program runs, and that must have one after it.
    naming
        Names of chunks in messages.
    """

    collective: str
    root: int | None
    whole: int
    part: int
    before: Callable[[], Values]
    after: Callable[[], Values]
    naming: Naming = field(default_factory=Naming)

    def compare(self, program: Program, memory: dict[int, Value]) -> list[Violation]:
        """Violations of the values that a program leaves in memory."""
        return compare(program, memory, self.after(), self.collective, self.naming)
