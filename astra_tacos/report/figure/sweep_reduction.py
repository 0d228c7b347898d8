"""The data of a figure of a sweep: its columns, one panel per task, and one point for each place in a panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.report.sweep_measures import HIGHER, LOWER, MEASURES, Measure, measure_of
from astra_tacos.support.errors import ConfigError

MOST_PANELS = 6
_TASK = tuple(name for name, measure in MEASURES.items() if measure.role == "task")
_NETWORK, _SIZE = "network", "size_bytes"
Number = int | float


@dataclass(frozen=True, slots=True)
class Panel:
    """The rows of a sweep with one task.

    Parameters
    ----------
    task
        Columns that define the task, with their values.
    rows
        Indices of the rows.
    """

    task: tuple[tuple[str, Any], ...]
    rows: tuple[int, ...]


def is_number(values: Sequence[Any]) -> bool:
    """Whether at least one value is not None, and all such values are numbers."""
    found = [value for value in values if value is not None]
    return bool(found) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found)


def column(table: SweepColumns, name: str, option: str) -> list[Any]:
    """The values of a column.

    Parameters
    ----------
    table
        The rows of the sweep.
    name
        Name of the column.
    option
        The option that names the column, for errors.

    Raises
    ------
    ConfigError
        If there is no such column, or it has lists or no values.
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
    """Up to three columns with names similar to `name`, as text; the axes if no name is similar."""
    return ", ".join(get_close_matches(name, list(table.columns), 3, 0.5) or table.axes or list(table.columns)[:3])


def numbers(table: SweepColumns, name: str, option: str) -> list[Number | None]:
    """The values of a column of numbers, with None for those that are not finite. The parameters are those of `column`.

    Raises
    ------
    ConfigError
        If there is no such column, or it has other values than numbers.
    """
    values = column(table, name, option)
    if not is_number(values):
        other = next(value for value in values if value is not None and not is_number([value]))
        raise ConfigError(f"{option}: column {name} has {other!r}, expected a column of numbers")
    return [None if value is None or not math.isfinite(value) else value for value in values]


def varying(table: SweepColumns, names: Sequence[str]) -> list[str]:
    """Those of some columns that have at least two different values and no lists."""
    return [
        name
        for name in names
        if name in table.columns
        and not any(isinstance(value, (list, tuple)) for value in table.columns[name])
        and len({value for value in table.columns[name] if value is not None}) > 1
    ]


def measure(table: SweepColumns, name: str) -> Measure:
    """The measure of a column: its label, its unit, and which values are better."""
    return measure_of(name, {kind for kind in table.columns.get("kind", []) if kind is not None})


def tasks(table: SweepColumns, rows: Sequence[int], used: Sequence[str], along: Sequence[str]) -> list[Panel]:
    """One panel per task, in the order of their first rows, because results of different tasks are not compared.

    If networks are an axis, each has panels of its own, as long as there are not too many.

    Parameters
    ----------
    table
        The rows of the sweep.
    rows
        Indices of the rows that the figure shows.
    used
        Columns that the figure shows; they do not divide the rows into panels. A column whose values merely follow from these
        does: if each synthesizer had a collective of its own, their times must not stand in one panel.
    along
        Columns along which points stand side by side. If the sweep file has an axis of its own among them that determines the
        size, the size does not divide the rows.

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
    """Whether the values of other columns determine that of a column, as an axis `size` determines `size_bytes`."""
    seen: dict[tuple[Any, ...], Any] = {}
    values, others = table.columns[name], [table.columns[other] for other in used]
    return all(seen.setdefault(tuple(other[row] for other in others), values[row]) == values[row] for row in rows)


def representative(values: Sequence[tuple[int, Number]], goal: int) -> tuple[int, Number]:
    """The best of some (row, value) pairs, the first of equal ones; the lower median if neither direction is better."""
    if goal == LOWER:
        return min(values, key=lambda pair: (pair[1], pair[0]))
    if goal == HIGHER:
        return min(values, key=lambda pair: (-pair[1], pair[0]))
    ordered = sorted(values, key=lambda pair: (pair[1], pair[0]))
    return ordered[(len(ordered) - 1) // 2]


def describe_reduction(table: SweepColumns, groups: Sequence[Sequence[int]], goal: int) -> str:
    """A text such as `best over seed, trials (up to 6 points each)`; empty if every place has one point.

    Parameters
    ----------
    table
        The rows of the sweep.
    groups
        Rows of the points at each place.
    goal
        Which values are better.
    """
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
