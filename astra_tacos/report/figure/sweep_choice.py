"""The columns of a sweep that a figure shows: those that the user names, or else defaults that depend on the sweep."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tacos.report.figure.sweep_reduction import closest, column, is_number, varying
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import parse_expression

KINDS = ("lines", "heatmap", "pareto")
CONDITION = "size_bytes >= 65536 and collective == 'all-reduce'"
MOST_SERIES = 12
_SIZE, _TIME, _BUS_BANDWIDTH, _SYNTHESIZER = "size_bytes", "predicted_ns", "bus_bandwidth_gbps", "synthesizer"
_COSTS = ("cost", "total_bandwidth_gbps", "num_npus")


@dataclass(frozen=True, slots=True)
class Choice:
    """The content of a figure.

    Parameters
    ----------
    kind
        One of `KINDS`.
    x, y
        Columns of the axes.
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
    table
        The rows of the sweep.
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
        kind = "lines" if varying(table, (_SIZE,)) else "pareto" if costs else "heatmap" if len(axes) > 1 else "lines"
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
        numeric = [name for name in axes if name != by and is_number(table.columns[name])]
        x = x or next(iter([*varying(table, (_SIZE,)), *numeric, *(name for name in axes if name != by)]), None)
        if x is None:
            raise ConfigError("--x: no axis of the sweep varies, expected one that does")
    y = y or (_BUS_BANDWIDTH if kind == "lines" and x == _SIZE and _has(table, _BUS_BANDWIDTH) else _TIME)
    return Choice(kind, x, y, None, by or _series(table, axes, x, y))


def _has(table: SweepColumns, name: str) -> bool:
    return any(value is not None for value in table.columns.get(name, []))


def _heatmap(table: SweepColumns, axes: list[str], x: str | None, y: str | None, value: str | None) -> Choice:
    free = [name for name in axes if name not in (x, y)]
    if (x is None) + (y is None) > len(free):
        found = ", ".join(axes) or "none"
        raise ConfigError(f"--kind heatmap: found {found} as axes that vary, expected two; or name columns by --x and --y")
    if x is None:  # numbers read better from left to right
        x = next((name for name in free if is_number(table.columns[name])), free[0])
        free.remove(x)
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
    for name in sorted(expression.names - table.columns.keys()):
        raise ConfigError(f"--where {where!r}: {_unknown(table, where, name)}")
    kept = []
    for row in range(table.num_rows):
        names = {name: table.columns[name][row] for name in expression.names}
        if not any(value is None for value in names.values()) and expression.holds(names):
            kept.append(row)
    if not kept:
        raise ConfigError(f"--where: {where!r} holds for none of {table.num_rows:,} points, expected one or more")
    return SweepColumns(table.name, table.axes, {name: [values[row] for row in kept] for name, values in table.columns.items()})


def _unknown(table: SweepColumns, where: str, name: str) -> str:
    """What is wrong with a condition in which a name is no column: most often it is a text without quotes."""
    for known, values in table.columns.items():
        for value in sorted({value for value in values if isinstance(value, str)}):
            bare = re.search(rf"(?<![\w'\"-]){re.escape(value)}(?![\w'\"-])", where)
            if bare is not None and re.search(rf"\b{re.escape(name)}\b", value):
                return f"found the text {value} without quotes, expected {known} == {value!r}"
    return f"found {name!r}, expected a column of the sweep, such as {closest(table, name)}; texts need quotes"
