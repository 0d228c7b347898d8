"""The outcome of a point: the part of its row that is known after it ran."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED = "ok", "refused", "error", "timeout", "out-of-memory", "died"
STATUSES = (OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
FAILED = (ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
"""Refused is none of them: that a synthesizer cannot do something is an answer."""
GIVEN_UP = "it was given up"
"""Error of a point that was ended because one sweep no longer needs it; another sweep that does computes it again."""
RESULT_COLUMNS: dict[str, str] = {
    "predicted_ns": "int",
    "stock_ns": "int",
    "congestion_aware_ns": "int",
    "bound_ns": "int",
    "bound": "str",
    "chunked_bound_ns": "int",
    "efficiency": "float",
    "optimal": "bool",
    "algorithm_bandwidth_gbps": "float",
    "bus_bandwidth_gbps": "float",
    "num_sends": "int",
    "made_by": "str",
    "made_chunks_per_npu": "int",
    "made_seed": "int",
    "made_link_model": "str",
    "verified": "bool",
    "before_ns": "int",
    "speed_up": "float",
    "exposed_before_ns": "int",
    "exposed_ns": "int",
    "num_collectives": "int",
    "num_cases": "int",
    "time_cost": "float",
    "synthesis_seconds": "float",
    "seconds": "float",
}
"""Columns of results in order, and what is in them; where a point has none, they are null."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How points are computed, beyond what they are.

    Parameters
    ----------
    timeout_s, memory_bytes
        What a point may take at most: seconds, and resident memory of its process. None: no limit.
    with_checks
        Whether the oracle checks, and the replay times, each schedule.
    cache
        Directory of schedules that sweeps share, an absolute path; None for none.
    """

    timeout_s: float | None = None
    memory_bytes: int | None = None
    with_checks: bool = True
    cache: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it, for a request."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a point.

    Parameters
    ----------
    status
        One of `STATUSES`.
    error
        One line: why there is no result; None for "ok".
    results
        Some of `RESULT_COLUMNS`.
    warnings
        What was logged on the way: no part of the row.
    """

    status: str
    error: str | None
    results: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def is_given_up(self) -> bool:
        """Whether it says nothing of the point, only that a sweep that wanted it has ended."""
        return self.status == DIED and self.error == GIVEN_UP

    def to_json(self) -> dict[str, Any]:
        """All of it, for an answer."""
        return self.to_row() | {"warnings": self.warnings}

    def to_row(self) -> dict[str, Any]:
        """What is kept of it."""
        return {"status": self.status, "error": self.error, "results": self.results}

    @classmethod
    def from_json(cls, about: dict[str, Any]) -> Outcome:
        """What `to_json` or `to_row` described.

        Raises
        ------
        ValueError
            If that is no outcome: a file may have been torn or changed.
        """
        try:
            status, error, results = about["status"], about["error"], about["results"]
            is_one = status in STATUSES and (error is None if status == OK else isinstance(error, str))
            is_one &= all(fits(value, RESULT_COLUMNS[name]) for name, value in results.items())
        except (KeyError, TypeError, AttributeError):
            is_one = False
        if not is_one:
            raise ValueError("no outcome of a point")
        return cls(status, error, results, tuple(map(str, about.get("warnings", ()))))


def fits(value: object, kind: str) -> bool:
    """Whether a value can be in a column of that kind: "int", "float", "bool" or "str"; nothing can be in any."""
    if value is None:
        return True
    if kind in ("int", "float"):
        is_number = isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
        return is_number and (isinstance(value, float) or abs(value) < 1 << 63)  # type: ignore[arg-type]
    return isinstance(value, bool if kind == "bool" else str)
