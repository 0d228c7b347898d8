"""Summary of a finished sweep in a few figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from astra_tacos.sweep.outcome import OK, REFUSED, STATUSES
from astra_tacos.units import format_size

_BEST = 5
_MOST_KINDS = 12
_COMPARABLE = ("kind", "collective", "size_bytes", "workload")
"""Points with equal values in these columns have the same task, so that their times can be compared."""
_ERRORS = 5


def summarize(rows: Sequence[dict[str, Any]], num_points: int, axes: Sequence[str]) -> dict[str, Any]:
    """Counts by status, the best points, and the first errors and refusals, as values that JSON can represent.

    Parameters
    ----------
    rows
        Rows of the points whose outcome is known, in order.
    num_points
        Number of all points.
    axes
        Columns of the axes; the best points are listed with those in which rows differ.
    """
    counts = Counter(row["status"] for row in rows)
    result: dict[str, Any] = {
        "points": num_points,
        "statuses": {status: counts[status] for status in STATUSES if counts[status]},
    }
    result["below_bound"] = sum(
        1 for row in rows if None not in (row.get("predicted_ns"), row.get("bound_ns")) and row["predicted_ns"] < row["bound_ns"]
    )
    varying = [name for name in axes if len({row.get(name) for row in rows}) > 1]
    for name, column in (("best_time", "predicted_ns"), ("best_time_cost", "time_cost")):
        result[name], result[f"{name}_more"] = _best(rows, column, varying)
    messages = Counter((row["status"], row["error"]) for row in rows if row["status"] != OK)
    listed = sorted(messages.items(), key=lambda message: message[0][0] == REFUSED)  # failures first
    result["errors"] = [{"status": status, "error": error, "points": count} for (status, error), count in listed[:_ERRORS]]
    result["more_errors"] = max(len(messages) - _ERRORS, 0)
    return result


def _best(rows: Sequence[dict[str, Any]], column: str, axes: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """The rows with the smallest values of a column, reduced to a few columns, and the number of tasks that are left out.

    If all rows have the same task, these are the best `_BEST` rows; otherwise the best row of each task.
    """
    ranked = sorted((row for row in rows if row.get(column) is not None), key=lambda row: (row[column], row["point"]))
    firsts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ranked:
        firsts.setdefault(tuple(row.get(name) for name in _COMPARABLE), row)
    best = list(firsts.values())[:_MOST_KINDS] if len(firsts) > 1 else ranked[:_BEST]
    names = ["point", *axes, "predicted_ns", "efficiency", *(["cost", "time_cost"] if column == "time_cost" else [])]
    more = len(firsts) - len(best) if len(firsts) > 1 else 0
    return [{name: row.get(name) for name in names} for row in best], more


def best_table(best: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of text of a table of the best points, as `summarize` returns them, without empty columns."""
    names = [name for name in best[0] if any(row[name] is not None for row in best)]
    return tuple(names), [tuple(_text(name, row[name]) for name in names) for row in best]


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "size_bytes":
        return format_size(value)
    if name == "efficiency":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
