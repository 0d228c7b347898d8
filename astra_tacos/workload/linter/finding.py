"""The `Check` class: a code, a severity, and the function that finds the fault; and what it finds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from astra_tacos.workload.linter.facts import Facts


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """ASTRA-sim will stall, abort or compute something else."""
    WARNING = "warning"
    """ASTRA-sim may stall, depending on timing, or ignores a setting."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a run, with its place and a remedy."""

    code: str
    severity: Severity
    message: str
    """The fault, in words."""
    remedy: str
    """What to do about the fault."""
    file: str | None = None
    rank: int | None = None
    node: int | None = None

    @property
    def where(self) -> str:
        """File and node, like `workload/w.3.et node 17`; the name of a trace's file contains the rank."""
        place = self.file or "the run"
        return place if self.node is None else f"{place} node {self.node}"


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as a check returns it, without the check's code, and without a severity unless it differs from the check's."""

    message: str
    remedy: str = ""
    file: str | None = None
    rank: int | None = None
    node: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Findings of one kind at many rows of a trace; the text of each is made only when it is shown."""

    rows: NDArray[np.int64]
    describe: Callable[[int], Found]


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
    find: Callable[[Facts], Iterable[Found | FoundRows]]

    @property
    def explanation(self) -> str:
        """Text that says what happens in ASTRA-sim, why, and what to do about it."""
        return inspect.cleandoc(self.find.__doc__ or "")
