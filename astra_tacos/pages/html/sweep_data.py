"""The data of a sweep's page: its table by column, with what sweep.js has to know of each column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from astra_tacos.pages.sweep_choice import is_number
from astra_tacos.pages.sweep_columns import MEASURES, SweepColumns, measure_of
from astra_tacos.pages.sweep_looks import CELLS, LOG_FROM, series_looks

_LARGEST_EXACT = 1 << 53
"""Largest integer up to which a browser holds every one."""


def as_texts(values: list[Any]) -> list[str | None]:
    """The values of a column as texts, lists with commas between their entries; None stays None."""
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join("-" if entry is None else f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value)
    return str(value)


_ALWAYS = ("point", "status")
_FIRST = ("time_ns", "efficiency", "bus_bandwidth_gbps", "speed_up", "cost", "time_cost", "total_bandwidth_gbps")
_LAST = ("error",)
_NEVER = ("key",)
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
    own_columns = [name for name in table.columns if name not in MEASURES]
    inputs = [name for name, measure in MEASURES.items() if measure.role != "result"]
    results = [name for name, measure in MEASURES.items() if measure.role == "result" and name not in _LAST]
    ranked = dict.fromkeys((*_ALWAYS, *table.axes, *own_columns, *_FIRST, *results, *inputs, *_LAST))
    varying, constant = [], {}
    for name in ranked:
        if name not in table.columns or name in _NEVER:
            continue
        first, differs = _first_value(table.columns[name])
        if name in _ALWAYS or name in table.axes or differs or (first is not None and _is_partial(table, name)):
            varying.append(name)
        elif first is not None:
            constant[name] = as_texts([first])[0] or ""
    return varying, {name: constant[name] for name in (*inputs, *own_columns, *results) if name in constant}


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

    Returns
    -------
    dict
        `name`; `axes` that vary; `columns` with name, label, unit, goal, role, type ("number" or "text"), `values` (numbers as
        float64[n], with NaN for none; texts as a list, with None), `looks` (colour and Plotly's symbol of each distinct value, in
        order; empty for many), and whether the name is the sweep's `own`; `look` of points that are one series; `cells`, colours
        of a heat map; `log_from`, the ratio from which on a scale is logarithmic.
    """
    return {
        "name": table.name,
        "axes": [name for name in table.axes if name in varying],
        "columns": [_column(table, name) for name in varying],
        "look": _looks(None, [])[0],
        "log_from": LOG_FROM,
        "cells": CELLS,
    }


_MOST_SERIES = 40
"""Distinct values of a column up to which they can be told apart as series."""


def _looks(name: str | None, values: list[Any]) -> list[tuple[str, str]]:
    looks = [(colour, _SYMBOLS[marker]) for colour, marker in series_looks(name, values).values()]
    return looks if len(looks) <= _MOST_SERIES else []


def _column(table: SweepColumns, name: str) -> dict[str, Any]:
    measure, values = measure_of(name, table.kinds), table.columns[name]
    data = {"name": name, "label": measure.label, "unit": measure.unit, "goal": measure.goal, "role": measure.role}
    data["own"] = name not in MEASURES
    if is_number(values) and all(abs(value) <= _LARGEST_EXACT for value in values if isinstance(value, int)):
        column = np.array([math.nan if v is None else v for v in values], np.float64)
        return data | {"type": "number", "values": column, "looks": _looks(name, column[~np.isnan(column)].tolist())}
    texts = as_texts(values)
    return data | {"type": "text", "values": texts, "looks": _looks(name, [text for text in texts if text is not None])}
