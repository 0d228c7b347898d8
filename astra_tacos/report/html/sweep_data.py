"""The data of a sweep's page: its columns, in as much detail as fits on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.report.figure.figure_style import SYNTHESIZER_STYLES
from astra_tacos.report.html.encoding import encode
from astra_tacos.report.html.page import MOST_DATA_BYTES
from astra_tacos.report.html.sweep_encoding import MOST_DIGITS, as_numbers, as_texts, encode_column, is_number
from astra_tacos.report.html.sweep_selection import JUDGED, select_points
from astra_tacos.report.sweep_measures import MEASURES, Measure, measure_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astra_tacos.report.sweep_columns import SweepColumns

MOST_POINTS = 200_000
"""Largest number of points on a page; with more, browsers become slow."""
_FEWEST_DIGITS = 4
_ALWAYS = ("point", "status")
_FIRST = ("predicted_ns", "efficiency", "bus_bandwidth_gbps", "speed_up", "cost", "time_cost", "total_bandwidth_gbps")
_LAST = ("error",)
_NEVER = ("key",)
_MOST_TRIES = 8
_SYMBOLS = {
    "*": "star",
    "o": "circle",
    "D": "diamond",
    "s": "square",
    "v": "triangle-down",
    "^": "triangle-up",
    "<": "triangle-left",
    ">": "triangle-right",
    "P": "cross",
    "X": "x",
    "d": "diamond-tall",
    "p": "pentagon",
    "h": "hexagon",
    "H": "hexagon2",
    "8": "octagon",
}
"""Plotly's names of the markers, by matplotlib's."""


def varying_columns(table: SweepColumns) -> tuple[list[str], dict[str, str]]:
    """Names of the columns that differ between points, axes first, and the texts of the other columns by name."""
    own = [name for name in table.columns if name not in MEASURES]
    inputs = [name for name, measure in MEASURES.items() if measure.role != "result"]
    results = [name for name, measure in MEASURES.items() if measure.role == "result" and name not in _LAST]
    ranked = dict.fromkeys((*_ALWAYS, *table.axes, *own, *_FIRST, *results, *inputs, *_LAST))
    varying, constant = [], {}
    for name in ranked:
        if name not in table.columns or name in _NEVER:
            continue
        first, differs = _first_value(table.columns[name])
        if name in _ALWAYS or name in table.axes or differs or (first is not None and _is_partial(table, name)):
            varying.append(name)
        elif first is not None:
            constant[name] = as_texts([first])[0] or ""
    return varying, {name: constant[name] for name in (*inputs, *own, *results) if name in constant}


def _first_value(values: list[Any]) -> tuple[Any, bool]:
    """The first value that is neither None nor NaN, and whether there are different ones."""
    first = None
    for value in values:
        if value is None or value != value or value is first:
            continue
        if first is None:
            first = value
        elif value != first:
            return first, True
    return first, False


def _is_partial(table: SweepColumns, name: str) -> bool:
    """Whether a column with a single value lacks it at points other than failed ones, so that its gaps carry information."""
    rows = zip(table.columns[name], table.columns["status"], strict=True)
    return any(value is None and (status == "ok" or name in _LAST) for value, status in rows)


def sweep_data(table: SweepColumns, varying: list[str]) -> dict[str, Any]:
    """The data of the page, for sweep.js.

    The data are exact if they fit; otherwise numbers are rounded to fewer and fewer digits, and at last points are left out.

    Returns
    -------
    dict
        `columns` (see `encode_column`; with name, label, unit, goal, role, and whether the name is the sweep's own), `axes`,
        `styles` (colour and Plotly's symbol by synthesizer), `num_points` of the sweep, `count` of points on the page, `digits`
        (None: exact), and `rules` by which points were selected (None: all are there).
    """
    kinds = {kind for kind in table.columns.get("kind", []) if kind is not None}
    described = [(name, measure_of(name, kinds)) for name in varying]
    rows: NDArray[np.intp] | None = None
    rules: list[str] | None = None
    if table.num_rows <= MOST_POINTS:
        for digits in (None, *range(MOST_DIGITS, _FEWEST_DIGITS - 1, -1)):
            data = _data(table, described, None, digits, None)
            if (size := len(encode(data))) <= MOST_DATA_BYTES:
                return data
        most = table.num_rows * MOST_DATA_BYTES // size
    else:
        most = MOST_POINTS
    for _ in range(_MOST_TRIES):
        rows, rules = _selected(table, varying, most)
        data = _data(table, described, rows, _FEWEST_DIGITS, rules)
        if (size := len(encode(data))) <= MOST_DATA_BYTES:
            return data
        most = int(0.95 * len(rows) * MOST_DATA_BYTES / size)
    return data  # the names of columns alone exceed the limit, which render_page reports


def _data(
    table: SweepColumns,
    described: list[tuple[str, Measure]],
    rows: NDArray[np.intp] | None,
    digits: int | None,
    rules: list[str] | None,
) -> dict[str, Any]:
    columns = []
    for name, measure in described:
        values = table.columns[name]
        encoded = encode_column(values if rows is None else [values[row] for row in rows], digits)
        role = "axis" if name in table.axes and measure.role != "task" else measure.role
        columns.append(
            {"name": name, "label": measure.label, "unit": measure.unit, "goal": measure.goal, "role": role}
            | {"own": name not in MEASURES}
            | encoded
        )
    return {
        "name": table.name,
        "num_points": table.num_rows,
        "count": table.num_rows if rows is None else len(rows),
        "columns": columns,
        "axes": [name for name in table.axes if any(name == column for column, _ in described)],
        "styles": {name: [colour, _SYMBOLS[marker]] for name, (colour, marker) in SYNTHESIZER_STYLES.items()},
        "digits": digits,
        "rules": rules,
    }


def _selected(table: SweepColumns, varying: list[str], most: int) -> tuple[NDArray[np.intp], list[str]]:
    measures = {name: as_numbers(table.columns[name]) for name in JUDGED if name in varying and is_number(table.columns[name])}
    tasks = [_codes(table.columns[name]) for name in varying if measure_of(name).role == "task"]
    task = np.zeros(table.num_rows, np.intp)
    for codes in tasks:
        task = np.unique(task * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    axes = [_codes(table.columns[name]) for name in table.axes if measure_of(name).role != "task"]
    failed = np.array([status != "ok" for status in table.columns["status"]])
    return select_points(measures, axes, task, failed, most)


def _codes(values: list[Any]) -> NDArray[np.intp]:
    number: dict[str | None, int] = {}
    return np.array([number.setdefault(text, len(number)) for text in as_texts(values)], np.intp)
