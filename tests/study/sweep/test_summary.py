"""The summary of a sweep: what tells the best points from others, and why there are no results."""

from __future__ import annotations

from typing import Any

from astra_tacos.study.sweep.table import best_table, summarize


def row(point: int, time_ns: int | None = 100, error: str | None = None, status: str = "ok", **values: Any) -> dict[str, Any]:
    return {"point": point, "status": status, "error": error, "predicted_ns": time_ns, "efficiency": 0.5, **values}


def test_axes_that_vary_are_columns_whatever_the_best_have() -> None:
    rows = [row(i, 100 if i < 5 else 200, fraction=i // 5 * 0.1, draw=i % 5, kept=1) for i in range(10)]
    header, lines = best_table(summarize(rows, 10, ["fraction", "draw", "kept"])["best_time"])
    assert header == ("point", "fraction", "draw", "predicted_ns", "efficiency")
    assert [line[:3] for line in lines] == [(str(i), "0", str(i)) for i in range(5)]


def test_tasks_beyond_those_shown_are_counted() -> None:
    rows = [row(i, size_bytes=1 << i, time_cost=2.0) for i in range(15)]
    result = summarize(rows, 15, ["size_bytes"])
    assert len(result["best_time"]) == len(result["best_time_cost"]) == 12
    assert result["best_time_more"] == result["best_time_cost_more"] == 3
    assert summarize(rows[:1] * 9, 9, [])["best_time_more"] == 0


def test_refusals_are_told_after_failures() -> None:
    rows = [row(i, None, "wants a ring", "refused") for i in range(3)] + [row(3, None, "wrong", "error"), row(4)]
    result = summarize(rows, 5, [])
    assert result["errors"] == [
        {"status": "error", "error": "wrong", "points": 1},
        {"status": "refused", "error": "wants a ring", "points": 3},
    ]
    assert result["more_errors"] == 0
