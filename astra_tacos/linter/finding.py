"""The `Finding` class: the result of a check, and its wording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


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
