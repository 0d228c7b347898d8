"""The data of a sweep's page: its columns, exact or in as much detail as fits on the page.

sweep_model.js reads the encoding of a column: `codes`, which are indices of `values`; plain `numbers`; `steps` between numbers
that ascend by whole amounts; or `planes` and `exponents` of decimals. If points do not fit, those stay that matter most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.report.html.page import MOST_DATA_BYTES, encode
from astra_tacos.report.style import MADE_BY, look_of
from astra_tacos.report.sweep_columns import MEASURES, Measure, SweepColumns, measure_of, pareto_front
from astra_tacos.support.arrays import Bools, Floats, Ints

MOST_DIGITS = 6
"""Largest number of digits that fits into the three bytes of a mantissa."""
_INFINITE, _MISSING = 127, -128
_LARGEST_EXPONENT = 120
_MANTISSA_OFFSET = 1 << 23
_LARGEST_EXACT = 1 << 53


def is_number(values: list[Any]) -> bool:
    """Whether all values of a column are None or numbers that a browser represents exactly."""
    kinds = {type(value) for value in values}
    if not kinds <= {type(None), int, float}:
        return False
    return int not in kinds or all(abs(value) <= _LARGEST_EXACT for value in values if type(value) is int)


def as_numbers(values: list[Any]) -> Floats:
    """A column of numbers as float64[n], with NaN for None."""
    return np.array([math.nan if value is None else value for value in values], np.float64)


def as_texts(values: list[Any]) -> list[str | None]:
    """The values of a column as texts, lists with commas between their entries; None stays None."""
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join("-" if entry is None else f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value)
    return str(value)


def encode_column(values: list[Any], digits: int | None) -> dict[str, Any]:
    """Encode one column for the page, as described above.

    Parameters
    ----------
    values
        Values of the points on the page.
    digits
        Number of significant digits to which a column of many different numbers is rounded; None for no rounding.
    """
    if not is_number(values):
        return _coded_texts(as_texts(values))
    numbers = as_numbers(values)
    steps = np.diff(numbers, prepend=0.0)
    if np.all((steps >= 0) & (steps < 1 << 31) & (steps == np.rint(steps))):  # numbers of points
        return {"type": "number", "steps": steps.astype(np.int32)}
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if len(distinct) <= max(16, len(numbers) // 16):
        codes = np.searchsorted(distinct, numbers)
        codes[np.isnan(numbers)] = len(distinct)
        return {"type": "number", "values": distinct, "codes": codes.astype(_code_type(len(distinct)))}
    if digits is not None:
        return {"type": "number"} | _decimals(numbers, digits)
    finite = numbers[np.isfinite(numbers)]
    whole = len(finite) == len(numbers) and bool(np.all(finite == np.rint(finite))) and bool(np.all(np.abs(finite) < 2**31))
    return {"type": "number", "numbers": numbers.astype(np.int32) if whole else numbers}


def _coded_texts(texts: list[str | None]) -> dict[str, Any]:
    distinct = {text: code for code, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([len(distinct) if text is None else distinct[text] for text in texts], _code_type(len(distinct)))
    return {"type": "text", "values": list(distinct), "codes": codes}


def _code_type(largest: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32


def _decimals(numbers: Floats, digits: int) -> dict[str, Any]:
    mantissas, exponents = _rounded(numbers, digits)
    shifted = (mantissas + _MANTISSA_OFFSET).astype(np.uint32)
    # Bytes of equal significance stand together, because they compress better than whole numbers one after another.
    planes = [((shifted >> shift) & 0xFF).astype(np.uint8) for shift in (0, 8, 16)]
    return {"planes": planes, "exponents": exponents.astype(np.int8)}


def _rounded(numbers: Floats, digits: int) -> tuple[Ints, Ints]:
    """Mantissas and powers of ten, int64[n] each, of rounded numbers; powers of whole numbers are at least 0."""
    usable = np.isfinite(numbers) & (np.abs(numbers) > 10.0**-_LARGEST_EXPONENT)
    safe = np.where(usable, numbers, 1.0)
    exponents = np.floor(np.log10(np.abs(safe))).astype(np.int64) - digits + 1
    exponents = np.where(safe == np.rint(safe), np.maximum(exponents, 0), exponents)
    mantissas = np.rint(_scaled(safe, -exponents)).astype(np.int64)
    carried = np.abs(mantissas) >= 10**digits
    mantissas, exponents = np.where(carried, mantissas // 10, mantissas), exponents + carried
    mantissas = np.where(usable, mantissas, np.sign(np.nan_to_num(numbers)).astype(np.int64) * np.isinf(numbers))
    special = np.where(np.isnan(numbers), _MISSING, np.where(np.isinf(numbers), _INFINITE, 0))
    return mantissas, np.where(usable, exponents, special)


def _scaled(numbers: Floats, powers: Ints) -> Floats:
    scale = 10.0 ** np.abs(powers)  # positive powers are exact up to 22, negative ones never are
    with np.errstate(over="ignore"):
        return np.where(powers < 0, numbers / scale, numbers * scale)


def round_to(numbers: Floats, digits: int) -> Floats:
    """The numbers that a page shows after they were rounded to this many significant digits, float64[n]."""
    mantissas, exponents = _rounded(numbers, digits)
    values = _scaled(mantissas.astype(np.float64), exponents)
    return np.where(np.isfinite(numbers), values, numbers)


JUDGED = (
    "time_ns",
    "cost",
    "time_cost",
    "total_bandwidth_gbps",
    "efficiency",
    "bus_bandwidth_gbps",
    "speed_up",
    "exposed_ns",
)
"""Measures by which points are selected."""
_EXTREMES = "the best and the worst point of each cell of"
_MOST_CELLS = 40_000
_MOST_FRONT_GROUPS = 2_000


def _select_points(
    measures: dict[str, Floats],
    axes: list[NDArray[np.intp]],
    tasks: NDArray[np.intp],
    failed: Bools,
    most: int,
) -> tuple[NDArray[np.intp], list[str]]:
    """Select at most `most` of n points.

    Parameters
    ----------
    measures
        Columns out of `JUDGED`, float64[n], NaN for no value.
    axes
        For each axis, the main ones first, the number of each point's value: intp[n] from 0.
    tasks
        Number of each point's task, intp[n] from 0; points of different tasks are not compared.
    failed
        Whether each point failed, bool[n].
    most
        Largest number of points.

    Returns
    -------
    (indices of the points, intp[<= most] in ascending order; the rules by which they were selected, in words)
    """
    lower = {name: values * (-MEASURES[name].goal or 1) for name, values in measures.items()}
    taken = np.zeros(len(tasks), bool)
    rules: list[str] = []
    pairs = list(combinations(axes, 2)) or [(tasks, axis) for axis in axes] or [(tasks, tasks)]
    stages: list[tuple[str, Callable[[], NDArray[np.intp]]]] = [
        ("every point on the front of any two measures", lambda: _fronts(lower, tasks)),
        (f"{_EXTREMES} the two main axes, by each measure", lambda: _cells(lower, pairs[:1], tasks, failed)),
        (f"{_EXTREMES} any two axes, by each measure", lambda: _cells(lower, pairs[1:], tasks, failed)),
    ]
    for rule, rows_of in stages:
        rows = np.setdiff1d(rows_of(), np.flatnonzero(taken))
        room = most - int(taken.sum())
        taken[_spread(rows, room)] = True
        rules.append(rule if len(rows) <= room else f"{rule} ({room:,} of {len(rows):,})")
        if len(rows) >= room:
            return np.flatnonzero(taken), rules
    rest = np.flatnonzero(~taken)
    room = most - int(taken.sum())
    taken[_spread(rest, room)] = True
    if len(rest):
        rules.append(f"{min(room, len(rest)):,} of the other {len(rest):,}, drawn by chance, the same each time")
    return np.flatnonzero(taken), rules


def _spread(rows: NDArray[np.intp], room: int) -> NDArray[np.intp]:
    """At most `room` of the rows, in an arbitrary but fixed order; every n-th row would coincide with axes of a grid."""
    if len(rows) <= room:
        return rows
    mixed = rows.astype(np.uint64)
    for _ in range(2):  # an integer hash: multiplications spread low bits upwards, shifts bring high bits down
        mixed = ((mixed ^ (mixed >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0xFFFFFFFF)
    return rows[np.argsort(mixed, kind="stable")[:room]]


def _fronts(lower: dict[str, Floats], tasks: NDArray[np.intp]) -> NDArray[np.intp]:
    order = np.argsort(tasks, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(tasks[order])) + 1)[:_MOST_FRONT_GROUPS]
    rows = [group[pareto_front(lower[a][group], lower[b][group])] for a, b in combinations(lower, 2) for group in groups]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.intp)


def _cells(
    lower: dict[str, Floats],
    pairs: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    tasks: NDArray[np.intp],
    failed: Bools,
) -> NDArray[np.intp]:
    orders = [np.argsort(values, kind="stable")[: int(np.sum(~np.isnan(values)))] for values in lower.values()]
    orders.append(np.flatnonzero(failed))  # else a cell with failures only would look empty
    rows = [np.zeros(0, np.intp)]
    for first, second in pairs:
        cells = (tasks * (int(first.max()) + 1) + first) * (int(second.max()) + 1) + second
        if int(cells.max(initial=0)) >= _MOST_CELLS:
            continue
        for order in orders:
            for rank in (order, order[::-1]):
                found = np.full(int(cells.max()) + 1, -1, np.intp)
                found[cells[rank[::-1]]] = rank[::-1]  # where several rows share a cell, the first in the order is written last
                rows.append(found[found >= 0])
    return np.unique(np.concatenate(rows))


MOST_POINTS = 200_000
"""Largest number of points on a page; with more, browsers become slow."""
_FEWEST_DIGITS = 4
_ALWAYS = ("point", "status")
_FIRST = ("time_ns", "efficiency", "bus_bandwidth_gbps", "speed_up", "cost", "time_cost", "total_bandwidth_gbps")
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
    described = [(name, measure_of(name, table.kinds)) for name in varying]
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
        "styles": {name: [colour, _SYMBOLS[marker]] for name, (colour, marker) in _looks(table).items()},
        "digits": digits,
        "rules": rules,
    }


def _looks(table: SweepColumns) -> dict[str, tuple[str, str]]:
    names = {str(value) for name in MADE_BY for value in table.columns.get(name, []) if value is not None}
    return {name: look_of(name) for name in sorted(names)}


def _selected(table: SweepColumns, varying: list[str], most: int) -> tuple[NDArray[np.intp], list[str]]:
    measures = {name: as_numbers(table.columns[name]) for name in JUDGED if name in varying and is_number(table.columns[name])}
    tasks = [_codes(table.columns[name]) for name in varying if measure_of(name).role == "task"]
    task = np.zeros(table.num_rows, np.intp)
    for codes in tasks:
        task = np.unique(task * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    axes = [_codes(table.columns[name]) for name in table.axes if measure_of(name).role != "task"]
    failed = np.array([status != "ok" for status in table.columns["status"]])
    return _select_points(measures, axes, task, failed, most)


def _codes(values: list[Any]) -> NDArray[np.intp]:
    number: dict[str | None, int] = {}
    return np.array([number.setdefault(text, len(number)) for text in as_texts(values)], np.intp)
