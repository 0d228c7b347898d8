"""The `Check` class: a code, a severity, and the function that finds the fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from astra_tacos.linter.facts import Facts
from astra_tacos.linter.finding import Found, FoundRows, Severity

Find = Callable[[Facts], Iterable[Found | FoundRows]]


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of fault that the linter looks for.

    Parameters
    ----------
    code
        A letter for the family and two digits. A code is never reused for another fault.
    severity
        Severity of the findings, except of those that have their own.
    title
        The fault in a few words.
    find
        The function that finds the fault. Its docstring is the explanation: what ASTRA-sim does, why, and the remedy.
    """

    code: str
    severity: Severity
    title: str
    find: Find

    @property
    def explanation(self) -> str:
        """Text that says what happens in ASTRA-sim, why, and what to do about it."""
        return inspect.cleandoc(self.find.__doc__ or "")
