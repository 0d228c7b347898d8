"""What a figure of a sweep shows: its columns, one panel per task, and one point for each place in a panel."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from astra_tacos.pages.sweep_columns import HIGHER, LOWER, MEASURES, Measure, SweepColumns, measure_of
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import parse_expression

MOST_PANELS = 6
_TASK = tuple(name for name, measure in MEASURES.items() if measure.role == "task")
_NETWORK, _SIZE = "network", "size_bytes"
Number = int | float


@dataclass(frozen=True, slots=True)
class Panel:
    """The rows of a sweep with one task."""

    task: tuple[tuple[str, Any], ...]
    rows: tuple[int, ...]


def is_number(values: Sequence[Any]) -> bool:
    """Whether at least one value is not None, and all such values are numbers."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present)


def column(table: SweepColumns, name: str, option: str) -> list[Any]:
    """The values of a column.

    Raises
    ------
    ConfigError
        If there is no such column, or it has lists or no values.
    """
    if name not in table.columns:
        raise ConfigError(f"{option}: found {name!r}, expected a column of the sweep, such as {closest(table, name)}")
    values = table.columns[name]
    if any(isinstance(value, (list, tuple)) for value in values):
        raise ConfigError(f"{option}: column {name} has lists of numbers, expected a column of numbers or text")
    if all(value is None for value in values):
        raise ConfigError(f"{option}: column {name} is empty in all {table.num_rows:,} points, expected a column with values")
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
    return measure_of(name, table.kinds)


def tasks(table: SweepColumns, rows: Sequence[int], used: Sequence[str], along: Sequence[str]) -> list[Panel]:
    """One panel per task, in the order of their first rows, because results of different tasks are not compared.

    If networks are an axis, each has panels of its own, as long as there are not too many.

    Parameters
    ----------
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
    own_axes = [name for name in along if name not in MEASURES]
    is_size_told = any(_is_told_by(table, rows, _SIZE, (name,)) for name in own_axes if _SIZE in table.columns)
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
    return [Panel(task, tuple(values)) for task, values in panels.items()]


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
    ordered = sorted(values, key=lambda pair: (-pair[1] if goal == HIGHER else pair[1], pair[0]))
    return ordered[0 if goal in (LOWER, HIGHER) else (len(ordered) - 1) // 2]


def describe_reduction(table: SweepColumns, groups: Sequence[Sequence[int]], goal: int) -> str:
    """A text such as `best over seed, trials (up to 6 points each)`; empty if every place has one point."""
    most = max((len(group) for group in groups), default=0)
    if most < 2:
        return ""
    inputs = [name for name, entry in MEASURES.items() if entry.role != "result" and name != "point"]
    candidates = dict.fromkeys((*table.axes, *inputs))
    axes = [name for name in candidates if name in table.columns and _differs(table.columns[name], groups)]
    own_axes = [name for name in axes if name in table.axes]
    how = "median" if goal not in (LOWER, HIGHER) else "best"
    subject = ", ".join(own_axes or axes) or "equal points"
    return f"{how} over {subject} (up to {most:,} points each)"


def _differs(values: list[Any], groups: Sequence[Sequence[int]]) -> bool:
    return any(str(values[row]) != str(values[group[0]]) for group in groups for row in group[1:])


KINDS = ("lines", "heatmap", "pareto")
CONDITION = "size_bytes >= 65536 and collective == 'all-reduce'"
MOST_SERIES = 12
_TIME, _BUS_BANDWIDTH, _SYNTHESIZER = "time_ns", "bus_bandwidth_gbps", "synthesizer"
_COSTS = ("cost", "total_bandwidth_gbps", "num_npus")


@dataclass(frozen=True, slots=True)
class Choice:
    """The content of a figure.

    Parameters
    ----------
    kind
        One of `KINDS`.
    value
        Column that colours show, in a heat map; None in other figures.
    by
        Column whose values are the series; None for a single series.
    """

    kind: str
    x: str
    y: str
    value: str | None
    by: str | None


def choose(
    table: SweepColumns,
    kind: str | None = None,
    x: str | None = None,
    y: str | None = None,
    value: str | None = None,
    by: str | None = None,
) -> Choice:
    """Complete a choice: what the caller leaves out is taken from the sizes, costs and axes that vary in the sweep.

    Parameters
    ----------
    kind, x, y, value, by
        The fields of `Choice`; None for a default.

    Raises
    ------
    ConfigError
        If there is no such column, a figure of this kind cannot show it, or nothing varies.
    """
    for name, option in ((x, "--x"), (y, "--y"), (value, "--value"), (by, "--by")):
        if name is not None:
            column(table, name, option)
    axes = varying(table, table.axes)
    if kind is None:
        costs = varying(table, _COSTS[:1])
        is_one = len(axes) == 1 and is_number(table.columns[axes[0]])
        kind = "lines" if is_one or varying(table, (_SIZE,)) else "pareto" if costs else "heatmap" if len(axes) > 1 else "lines"
    if kind != "heatmap" and value is not None:
        raise ConfigError(f"--value: is for --kind heatmap, expected --y for --kind {kind}")
    if kind == "heatmap":
        if by is not None:
            raise ConfigError("--by: is for --kind lines and pareto, expected --x, --y and --value for --kind heatmap")
        return _heatmap(table, axes, x, y, value)
    if kind == "pareto":
        x = x or next((name for name in _COSTS if varying(table, (name,))), None)
        if x is None:
            raise ConfigError(f"--x: none of {', '.join(_COSTS)} varies in the sweep, expected a column to set against the time")
    else:
        x = x or next(iter(_longest_first(table, [name for name in (*varying(table, (_SIZE,)), *axes) if name != by])), None)
        if x is None:
            raise ConfigError("--x: no axis of the sweep varies, expected an axis with two values or more")
    y = y or (_BUS_BANDWIDTH if kind == "lines" and x == _SIZE and _has(table, _BUS_BANDWIDTH) else _TIME)
    return Choice(kind, x, y, None, by or _series(table, axes, x, y))


def _longest_first(table: SweepColumns, names: Sequence[str]) -> list[str]:
    """Distinct columns in the order in which axes of figures take them: numbers, random draws last; of these the longest.

    Sizes of which there are more than panels are the first.
    """
    counts = {name: len(set(table.columns[name]) - {None}) for name in names}

    def rank(name: str) -> tuple[bool, bool, bool, int]:
        is_draw = MEASURES.get(name, Measure(name)).role == "draw"
        return (name != _SIZE or counts[name] <= MOST_PANELS, not is_number(table.columns[name]), is_draw, -counts[name])

    return sorted(counts, key=rank)


def _has(table: SweepColumns, name: str) -> bool:
    return any(value is not None for value in table.columns.get(name, []))


def _heatmap(table: SweepColumns, axes: list[str], x: str | None, y: str | None, value: str | None) -> Choice:
    free = [name for name in axes if name not in (x, y)]
    if (x is None) + (y is None) > len(free):
        axis_names = ", ".join(axes) or "none"
        raise ConfigError(f"--kind heatmap: found {axis_names} as axes that vary, expected two; or name columns by --x and --y")
    free = _longest_first(table, free)
    x = x or free.pop(0)
    y = y or free[0]
    if value is None:
        value = _BUS_BANDWIDTH if _SIZE in (x, y) and _has(table, _BUS_BANDWIDTH) else _TIME
    return Choice("heatmap", x, y, value, None)


def _series(table: SweepColumns, axes: list[str], x: str, y: str) -> str | None:
    """The default column of the series: the synthesizer if it varies, or else an axis with few values."""
    for name in [*varying(table, (_SYNTHESIZER,)), *axes]:
        if name not in (x, y, _SIZE) and len(set(table.columns[name])) <= MOST_SERIES:
            return name
    return None


def filtered(table: SweepColumns, where: str) -> SweepColumns:
    """The points for which an expression over their columns holds; a point that lacks one of these is none of them."""
    expression = parse_expression(where, "--where", f"{CONDITION}; sizes are in bytes, and texts in quotes")
    sizes = {"size": table.columns[_SIZE]} if _SIZE in table.columns else {}
    columns = sizes | table.columns  # sweep files call the column so
    for name in sorted(expression.names - columns.keys()):
        raise ConfigError(f"--where {where!r}: {_unknown(table, where, name)}")
    kept = []
    for row in range(table.num_rows):
        names = {name: columns[name][row] for name in expression.names}
        if not any(value is None for value in names.values()) and expression.holds(names):
            kept.append(row)
    if not kept:
        raise ConfigError(f"--where: {where!r} holds for none of {table.num_rows:,} points, expected one or more")
    return SweepColumns(table.name, table.axes, {name: [values[row] for row in kept] for name, values in table.columns.items()})


def _unknown(table: SweepColumns, where: str, name: str) -> str:
    """What is wrong with a condition in which a name is no column: most often it is a text without quotes."""
    for known, values in table.columns.items():
        for value in sorted(set(map(str, values))):
            bare = re.search(rf"(?<![\w'\"-]){re.escape(value)}(?![\w'\"-])", where)
            if bare is not None and re.search(rf"\b{re.escape(name)}\b", value):
                return f"found the text {value} without quotes, expected {known} == {value!r}"
    return f"found {name!r}, expected a column of the sweep, such as {closest(table, name)}; texts need quotes"
