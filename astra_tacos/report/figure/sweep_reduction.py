"""The data of a figure of a sweep: its columns, one panel per task, and one point for all points that share a place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from astra_tacos.errors import ConfigError
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.report.sweep_measures import HIGHER, LOWER, MEASURES, Measure, measure_of

MOST_PANELS = 6
_TASK = tuple(name for name, measure in MEASURES.items() if measure.role == "task")
_NETWORK, _SIZE = "network", "size_bytes"
Number = int | float


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows of a sweep that do the same task: its columns and their values, and the rows."""

    task: tuple[tuple[str, Any], ...]
    rows: tuple[int, ...]


def is_number(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are numbers."""
    found = [value for value in values if value is not None]
    return bool(found) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found)


def column(table: SweepColumns, name: str, option: str) -> list[Any]:
    """Values of a column that an option names.

    Raises
    ------
    ConfigError
        If there is no such column, it has lists, or nothing at all.
    """
    if name not in table.columns:
        raise ConfigError(f"{option}: found {name!r}, expected a column of the sweep, such as {closest(table, name)}")
    values = table.columns[name]
    if any(isinstance(value, (list, tuple)) for value in values):
        raise ConfigError(f"{option}: column {name} has lists of numbers, expected one with numbers or text")
    if all(value is None for value in values):
        raise ConfigError(f"{option}: column {name} is empty in all {table.num_rows:,} points, expected one with values")
    return values


def closest(table: SweepColumns, name: str) -> str:
    """The few columns whose names are most like one that is none; the axes if none is."""
    return ", ".join(get_close_matches(name, list(table.columns), 3, 0.5) or table.axes or list(table.columns)[:3])


def numbers(table: SweepColumns, name: str, option: str) -> list[Number | None]:
    """Values of a column of numbers that an option names; what is not finite is None.

    Raises
    ------
    ConfigError
        If it is no such column.
    """
    values = column(table, name, option)
    if not is_number(values):
        other = next(value for value in values if value is not None and not is_number([value]))
        raise ConfigError(f"{option}: column {name} has {other!r}, expected a column of numbers")
    return [None if value is None or not math.isfinite(value) else value for value in values]


def varying(table: SweepColumns, names: Sequence[str]) -> list[str]:
    """Those columns that have two values or more."""
    return [
        name
        for name in names
        if name in table.columns
        and not any(isinstance(value, (list, tuple)) for value in table.columns[name])
        and len({value for value in table.columns[name] if value is not None}) > 1
    ]


def measure(table: SweepColumns, name: str) -> Measure:
    """What a column is called, in which unit it is, and which way is better."""
    return measure_of(name, {kind for kind in table.columns.get("kind", []) if kind is not None})


def tasks(table: SweepColumns, rows: Sequence[int], used: Sequence[str], along: Sequence[str]) -> list[Panel]:
    """The rows by what they do, in order of the first: points of different tasks are no rivals, so each task has a panel.

    Networks have panels as well, if they are an axis and the panels fit.

    Parameters
    ----------
    table
        The rows of the sweep.
    rows
        Indices of the rows that the figure shows.
    used
        Columns that the figure shows anyway; a task needs no panel if it is one of these itself. That one of them tells it is not
        enough: where each synthesizer has a collective of its own, their times would look like those of rivals.
    along
        Those along which points stand side by side: one of the sweep file's own may say the size.

    Raises
    ------
    ConfigError
        If there are more tasks than panels.
    """
    own = [name for name in along if name not in MEASURES]
    is_size_told = any(_is_told_by(table, rows, _SIZE, (name,)) for name in own if _SIZE in table.columns)
    names = [name for name in varying(table, _TASK) if name not in used and not (name == _SIZE and is_size_told)]
    panels = _panels(table, rows, names)
    if _NETWORK in table.axes and not _is_told_by(table, rows, _NETWORK, (*used, *names)):
        more = _panels(table, rows, [*names, _NETWORK])
        panels = more if len(more) <= MOST_PANELS else panels
    if len(panels) > MOST_PANELS:
        raise ConfigError(
            f"sweep: {len(panels)} tasks (by {', '.join(names)}) would be as many panels, expected at most {MOST_PANELS}: "
            "choose some with --where"
        )
    return [Panel(task, tuple(own)) for task, own in panels.items()]


def _panels(table: SweepColumns, rows: Sequence[int], names: list[str]) -> dict[tuple[tuple[str, Any], ...], list[int]]:
    panels: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for row in rows:
        panels.setdefault(tuple((name, table.columns[name][row]) for name in names), []).append(row)
    return panels


def _is_told_by(table: SweepColumns, rows: Sequence[int], name: str, used: Sequence[str]) -> bool:
    """Whether a column has one value for each of those of other columns: an axis `size` tells `size_bytes`."""
    seen: dict[tuple[Any, ...], Any] = {}
    values, others = table.columns[name], [table.columns[other] for other in used]
    return all(seen.setdefault(tuple(other[row] for other in others), values[row]) == values[row] for row in rows)


def representative(values: Sequence[tuple[int, Number]], goal: int) -> tuple[int, Number]:
    """Of (row, value) pairs the best one, the first of equals; where neither way is better the lower median."""
    if goal == LOWER:
        return min(values, key=lambda pair: (pair[1], pair[0]))
    if goal == HIGHER:
        return min(values, key=lambda pair: (-pair[1], pair[0]))
    ordered = sorted(values, key=lambda pair: (pair[1], pair[0]))
    return ordered[(len(ordered) - 1) // 2]


def describe_reduction(table: SweepColumns, groups: Sequence[Sequence[int]], goal: int) -> str:
    """`best over seed, trials (up to 6 points each)`, or nothing if every place has one point."""
    most = max((len(group) for group in groups), default=0)
    if most < 2:
        return ""
    inputs = [name for name, entry in MEASURES.items() if entry.role != "result" and name != "point"]
    candidates = dict.fromkeys((*table.axes, *inputs))
    axes = [name for name in candidates if name in table.columns and _differs(table.columns[name], groups)]
    own = [name for name in axes if name in table.axes]
    how = "median" if goal not in (LOWER, HIGHER) else "best"
    what = ", ".join(own or axes) or "equal points"
    return f"{how} over {what} (up to {most:,} points each)"


def _differs(values: list[Any], groups: Sequence[Sequence[int]]) -> bool:
    return any(str(values[row]) != str(values[group[0]]) for group in groups for row in group[1:])
