"""The outcome of a point: the part of its row that is known after it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED = "ok", "refused", "error", "timeout", "out-of-memory", "died"
STATUSES = (OK, REFUSED, ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
FAILED = (ERROR, TIMEOUT, OUT_OF_MEMORY, DIED)
"""Statuses of points that failed. "refused" is not among them: that a synthesizer cannot do something is a result."""
GIVEN_UP = "it was given up"
"""Error of a point that was stopped because its sweep ended; another sweep that needs the point computes it again."""
RESULT_COLUMNS: dict[str, str] = {
    "predicted_ns": "int",
    "stock_ns": "int",
    "congested_ns": "int",
    "packets_ns": "int",
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
    "comm_cores": "int",
    "comm_memory_gbps": "float",
    "driven_gbps": "float",
    "time_cost": "float",
    "synthesis_seconds": "float",
    "seconds": "float",
}
"""Columns of results in order, with their types; a column is null where a point has no such result."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Limits and options with which points are computed; they are no part of the points' keys.

    Parameters
    ----------
    timeout_s, memory_bytes
        Largest number of seconds for a point, and of bytes of resident memory for its process. None: no limit.
    with_checks
        Whether the oracle checks each schedule and the replay confirms its time.
    cache
        Absolute path of a directory of schedules that sweeps share; None for no cache.
    """

    timeout_s: float | None = None
    memory_bytes: int | None = None
    with_checks: bool = True
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a point.

    Parameters
    ----------
    status
        One of `STATUSES`.
    error
        One line that says why there is no result; None for "ok".
    results
        Values of some of `RESULT_COLUMNS`, by name.
    warnings
        Warnings that were logged during the computation; they are no part of the row.
    """

    status: str
    error: str | None
    results: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def is_given_up(self) -> bool:
        """Whether the point was stopped because its sweep ended; such an outcome says nothing about the point."""
        return self.status == DIED and self.error == GIVEN_UP

    def to_row(self) -> dict[str, Any]:
        """The fields that are stored, by name: all but the warnings."""
        return {"status": self.status, "error": self.error, "results": self.results}

    @classmethod
    def from_row(cls, about: dict[str, Any]) -> Outcome:
        """The outcome from which `to_row` made these values.

        Raises
        ------
        ValueError
            If the values are no outcome, as when a file is incomplete or was changed.
        """
        try:
            status, error, results = about["status"], about["error"], about["results"]
            is_one = status in STATUSES and (error is None) == (status == OK) and fits(error, "str")
            is_one &= all(fits(value, RESULT_COLUMNS[name]) for name, value in results.items())
        except (KeyError, TypeError, AttributeError):
            is_one = False
        if not is_one:
            raise ValueError("no outcome of a point")
        return cls(status, error, results)


def fits(value: object, kind: str) -> bool:
    """Whether a column of this kind ("int", "float", "bool" or "str") can hold the value; every column can hold None."""
    if value is None:
        return True
    if kind in ("int", "float"):
        is_number = isinstance(value, int if kind == "int" else (int, float)) and not isinstance(value, bool)
        return is_number and (isinstance(value, float) or abs(value) < 1 << 63)  # type: ignore[arg-type]
    return isinstance(value, bool if kind == "bool" else str)
