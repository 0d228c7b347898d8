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
        A letter for the family and two digits; codes are never given to something else.
    severity
        Of its findings, unless one has its own.
    title
        What it says, in a few words.
    find
        Looks for it. Its docstring is the explanation: what ASTRA-sim does, why, and what to do about it.
    """

    code: str
    severity: Severity
    title: str
    find: Find

    @property
    def explanation(self) -> str:
        """What happens in ASTRA-sim, why, and the remedy."""
        return inspect.cleandoc(self.find.__doc__ or "")
