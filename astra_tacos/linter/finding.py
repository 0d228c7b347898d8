"""The `Finding` class: the result of a check, and its wording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """ASTRA-sim will stall, abort or compute something else."""
    WARNING = "warning"
    """A hazard, or a setting that has no effect."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a run, with its place and a remedy."""

    code: str
    severity: Severity
    message: str
    """What was found."""
    remedy: str
    """What to do about it."""
    file: str | None = None
    rank: int | None = None
    node: int | None = None

    @property
    def where(self) -> str:
        """`workload/w.3.et node 17`: the file of a trace names the rank."""
        place = self.file or "the run"
        return place if self.node is None else f"{place} node {self.node}"


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as a check gives it: its code is the check's, and so is its severity unless it has one of its own."""

    message: str
    remedy: str = ""
    file: str | None = None
    rank: int | None = None
    node: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Findings of one kind at many rows of a trace; each is put into words only when it is shown."""

    rows: NDArray[np.int64]
    describe: Callable[[int], Found]
