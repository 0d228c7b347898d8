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
"""Points that agree in these have the same task, so that times tell which is better."""
_ERRORS = 5


def summarize(rows: Sequence[dict[str, Any]], num_points: int, axes: Sequence[str]) -> dict[str, Any]:
    """Counts by status, the best points and the first errors and refusals, ready for JSON.

    Parameters
    ----------
    rows
        Of the points whose outcome is known, in order.
    num_points
        How many there are, known or not.
    axes
        Columns of the axes; those in which rows differ tell points from one another.
    """
    counts = Counter(row["status"] for row in rows)
    result: dict[str, Any] = {
        "points": num_points,
        "statuses": {status: counts[status] for status in STATUSES if counts[status]},
    }
    varying = [name for name in axes if len({row.get(name) for row in rows}) > 1]
    for name, column in (("best_time", "predicted_ns"), ("best_time_cost", "time_cost")):
        result[name], result[f"{name}_more"] = _best(rows, column, varying)
    messages = Counter((row["status"], row["error"]) for row in rows if row["status"] != OK)
    listed = sorted(messages.items(), key=lambda message: message[0][0] == REFUSED)  # failures first
    result["errors"] = [{"status": status, "error": error, "points": count} for (status, error), count in listed[:_ERRORS]]
    result["more_errors"] = max(len(messages) - _ERRORS, 0)
    return result


def _best(rows: Sequence[dict[str, Any]], column: str, axes: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Of one task the best few points; of several, the best point of each, and of how many more there is one."""
    ranked = sorted((row for row in rows if row.get(column) is not None), key=lambda row: (row[column], row["point"]))
    firsts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ranked:
        firsts.setdefault(tuple(row.get(name) for name in _COMPARABLE), row)
    best = list(firsts.values())[:_MOST_KINDS] if len(firsts) > 1 else ranked[:_BEST]
    names = ["point", *axes, "predicted_ns", "efficiency", *(["cost", "time_cost"] if column == "time_cost" else [])]
    more = len(firsts) - len(best) if len(firsts) > 1 else 0
    return [{name: row.get(name) for name in names} for row in best], more


def best_table(best: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and lines of such points; columns without values are left out."""
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
