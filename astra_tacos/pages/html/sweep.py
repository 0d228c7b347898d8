"""The page of a sweep: a table, a Pareto front, a heat map and lines of the rows that pass the table's filter."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from astra_tacos.pages.html.page import Section, asset, counted, escape, render_page
from astra_tacos.pages.html.sweep_data import as_texts, sweep_data, varying_columns
from astra_tacos.pages.style import time_text
from astra_tacos.pages.sweep_choice import CONDITION, filtered, is_number
from astra_tacos.pages.sweep_columns import HIGHER, MEASURES, SweepColumns, as_one_value, measure_of
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Table, Value, detail
from astra_tacos.support.rows_html import rows_html, table_html
from astra_tacos.support.units import format_size

_CRITERIA = ("time_ns", "efficiency", "time_cost", "speed_up")
_BESIDE = ("time_ns", "efficiency", "bus_bandwidth_gbps", "speed_up", "cost", "time_cost")
_NOTHING = "\u2013"
_MOST_TASKS = 24
_MOST_VALUES = 10
_MOST_FAILURES = 100
_STATUS_WORDS = {"ok": "ok", "refused": "refused by the synthesizer", "error": "with an error", "timeout": "timed out"}


def _format_value(value: Any, unit: str) -> str:
    """The text of a value, with its unit."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _NOTHING
    if isinstance(value, str | bool):
        return as_texts([value])[0] or _NOTHING
    if isinstance(value, list | tuple):
        return f"{as_texts([value])[0]} {unit}".rstrip()
    if unit == "ns":
        return time_text(value) if math.isfinite(value) else str(value)
    if unit == "bytes":
        return format_size(value)
    if unit == "share":
        return f"{value:.2%}".replace(".00%", "%")
    text = f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:,.4g}"
    return f"${text}" if unit == "$" else f"{text}\N{MULTIPLICATION SIGN}" if unit == "x" else f"{text} {unit}".rstrip()


def _statuses_text(table: SweepColumns) -> str:
    """How many points there are, by status: `45 points: 40 ok, 5 timed out`."""
    statuses = Counter(table.columns["status"])
    in_order = sorted(statuses.items(), key=lambda item: (item[0] != "ok", -item[1], item[0]))
    counts = ", ".join(f"{count:,} {_STATUS_WORDS.get(status, status)}" for status, count in in_order)
    return f"{counted(table.num_rows, 'point')}: {counts}"


def _settings_html(table: SweepColumns, constant: dict[str, str]) -> str:
    """Markup of the axes with their values, and of the columns that all points share: texts by name."""
    kinds = table.kinds
    axes = rows_html(detail(measure_of(axis, kinds).label, _values(table, axis)) for axis in table.axes)
    shared = rows_html(detail(measure_of(name, kinds).label, _constant(table, name)) for name in constant)
    varies = f'<div class="split"><div><h3>What varies</h3>{axes}</div>'
    return varies + (f"<div><h3>What all points share</h3>{shared}</div></div>" if constant else "</div>")


def _constant(table: SweepColumns, name: str) -> str:
    value = next(value for value in table.columns[name] if value is not None)
    return _format_value(value, measure_of(name).unit)


def _values(table: SweepColumns, axis: str) -> str:
    values = table.columns[axis]
    unit = measure_of(axis).unit
    distinct: list[Any] = (
        sorted({value for value in values if value is not None}) if is_number(values) else list(dict.fromkeys(values))
    )
    texts = [_format_value(value, unit) for value in distinct]
    if is_number(values) and None in values:
        texts.append("none")
    if len(texts) <= _MOST_VALUES:
        return ", ".join(texts)
    return f"{texts[0]}, {texts[1]}, … {texts[-1]} ({len(texts):,} values)"


@dataclass(frozen=True, slots=True)
class Best:
    """The best point of a task by a criterion."""

    row: int
    criterion: str
    task: tuple[Any, ...]
    ties: int


def best_points(table: SweepColumns, varying: list[str]) -> tuple[list[str], list[Best]]:
    """The columns that define tasks and vary, and the best point of each task by each criterion (the first of equal ones)."""
    tasks = [name for name in varying if measure_of(name).role == "task"]
    best: dict[tuple[tuple[Any, ...], str], int] = {}
    ties: dict[tuple[tuple[Any, ...], str], int] = {}
    for criterion in _CRITERIA:
        values = table.columns.get(criterion)
        if values is None or (criterion not in varying and criterion != "time_ns"):
            continue
        sign = -1 if MEASURES[criterion].goal == HIGHER else 1
        for row, value in enumerate(values):
            if value is None or math.isnan(value) or table.columns["status"][row] != "ok":
                continue
            place = (tuple(table.columns[name][row] for name in tasks), criterion)
            if place not in best or sign * value < sign * values[best[place]]:
                best[place], ties[place] = row, 0
            elif value == values[best[place]]:
                ties[place] += 1
    order = sorted(best, key=lambda place: (tuple(_sort_key(value) for value in place[0]), _CRITERIA.index(place[1])))
    return tasks, [Best(best[place], place[1], place[0], ties[place]) for place in order]


def _sort_key(value: Any) -> tuple[int, float, str]:
    return (0, 0.0, "") if value is None else (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def _best_html(table: SweepColumns, varying: list[str]) -> str:
    kinds = table.kinds
    tasks, best = best_points(table, varying)
    if not best:
        return '<p class="notice">No point has a result.</p>'
    rows: dict[tuple[tuple[Any, ...], int], list[str]] = {}
    for entry in best:
        label = measure_of(entry.criterion, kinds).label
        label += f" ({entry.ties:,} other{' ties' if entry.ties == 1 else 's tie'})" if entry.ties else ""
        rows.setdefault((entry.task, entry.row), []).append(label)
    all_tasks = list(dict.fromkeys(task for task, _ in rows))
    kept = set(all_tasks[:_MOST_TASKS])
    settings = [
        name for name in varying if name in table.axes and name not in tasks and len(set(as_texts(table.columns[name]))) > 1
    ]
    beside = [name for name in _BESIDE if name in table.columns and any(value is not None for value in table.columns[name])]
    header = [*(measure_of(name, kinds).label for name in tasks), "best by", "point"]
    header += [measure_of(name, kinds).label for name in (*settings, *beside)]
    body: list[tuple[Value, ...]] = []
    for (task, row), criteria in rows.items():
        if task not in kept:
            continue
        point = table.columns["point"][row]
        place = [_format_value(value, measure_of(name).unit) for name, value in zip(tasks, task, strict=True)]
        figures = [_format_value(table.columns[name][row], measure_of(name).unit) for name in (*settings, *beside)]
        body.append((*place, ", ".join(criteria), point, *figures))
    left_out = f"{len(all_tasks) - len(kept):,} more of {len(all_tasks):,} tasks are left out of this table."
    remarks = (left_out,) if len(kept) < len(all_tasks) else ()
    title = f"The best points{' of each task' if tasks else ''}"
    return f"<h3>{title}</h3>{_static(Table(title, tuple(header), body, left=('best by',), remarks=remarks), 'point')}"


def _static(table: Table, points: str) -> str:
    """Markup of a table whose column `points` has numbers of points."""
    return f'<div class="table sweep-static">{table_html(table, {points: _show})}</div>'


def _show(point: Any) -> str:
    """Markup of a button that marks a point; in print the number of the point stands in its place."""
    number = escape(point)
    return f'<button type="button" data-point="{number}">show {number}</button><span class="sweep-paper">{number}</span>'


def _failures_html(table: SweepColumns) -> str:
    """Markup of a table of failures: their number by status and message, and the values that these points have in common."""
    kinds = table.kinds
    errors = table.columns.get("error", [None] * table.num_rows)
    groups: dict[tuple[str, str], list[int]] = {}
    for row, status in enumerate(table.columns["status"]):
        if status != "ok":
            groups.setdefault((status, errors[row] or ""), []).append(row)
    if not groups:
        return "<p>Every point has a result.</p>"
    axes = {axis: as_texts(table.columns[axis]) for axis in table.axes}  # texts of many points take long
    several = [axis for axis, texts in axes.items() if len(set(texts)) > 1]
    order = sorted(groups, key=lambda key: (-len(groups[key]), key))
    body: list[tuple[Value, ...]] = []
    for key in order[:_MOST_FAILURES]:
        rows = groups[key]
        shared = [axis for axis in several if len({axes[axis][row] for row in rows}) == 1] if len(rows) > 1 else several
        values = ((axis, table.columns[axis][rows[0]]) for axis in shared)
        texts = [f"{measure_of(axis, kinds).label} {_format_value(value, measure_of(axis).unit)}" for axis, value in values]
        body.append((key[0], len(rows), key[1] or _NOTHING, ", ".join(texts) or _NOTHING, table.columns["point"][rows[0]]))
    remarks: tuple[str, ...] = ()
    if len(order) > _MOST_FAILURES:
        left = sum(len(groups[key]) for key in order[_MOST_FAILURES:])
        rarer = f"{len(order) - _MOST_FAILURES:,} rarer messages, of {left:,} points, are left out of this table."
        remarks = (rarer,)
    header = ("status", "points", "message", "in common", "first")
    return _static(Table("Points without a result", header, body, left=("message",), remarks=remarks), "first")


MOST_POINTS = 20_000
"""Largest number of points on a page; of more, a browser takes seconds to draw each one."""
_SCRIPTS = ("sweep_table.js", "sweep_choice.js", "sweep_pictures.js", "sweep.js")
_TABLE = '<div id="sweep-view" class="screen-only"></div><div id="sweep-table"></div>'
_CHOSEN = '<div id="sweep-point"></div>'
_PAPER_COLUMNS = 10
"""Number of columns of the table in print; sweep.css hides the others."""
_STYLES = "sweep.css"
_REQUIRED = ("point", "status")


def render_sweep(table: SweepColumns, source: str, title: str | None = None, where: str | None = None) -> bytes:
    """The page of a sweep, as bytes of HTML.

    Parameters
    ----------
    title
        Heading; by default the name of the sweep.
    where
        Expression that must be true for the points of the page; by default the page has all points.

    Raises
    ------
    ConfigError
        If there are no rows, more than `MOST_POINTS` are left, or a column is missing that every sweep has.
    """
    if not table.num_rows:
        raise ConfigError(f"{source}: has no rows, expected a point or more")
    for name in _REQUIRED:
        if name not in table.columns:
            raise ConfigError(f"{source}: has no column {name}, which every sweep has")
    which = "Sweep of "
    if where is not None:
        all_points = table.num_rows
        table = filtered(table, where)
        which = f"Of {counted(all_points, 'point')}, those where {where}: "
    if table.num_rows > MOST_POINTS:
        left = "" if where is None else f" where {where}"
        raise ConfigError(
            f"{source}: found {table.num_rows:,} points{left}, expected at most {MOST_POINTS:,} on a page: "
            f'choose some, as with --where "{CONDITION}"'
        )
    inputs = {name: as_one_value(values) for name, values in table.columns.items() if measure_of(name).role != "result"}
    table = replace(table, columns=table.columns | inputs)
    varying, constant = varying_columns(table)
    styles = f"<style>\n{asset(_STYLES)}</style>"
    paper = ""
    if len(varying) > _PAPER_COLUMNS:
        paper = f'<p class="note sweep-paper">On paper: the first {_PAPER_COLUMNS} of {len(varying)} columns.</p>'
    sections = [
        Section(
            "front",
            "Pareto front",
            _picture("front") + '<div id="front-list"><h3>Points on the front</h3><div id="front-table"></div></div>',
            "Points for which no other point is better in one of two figures without being worse in the other.",
        ),
        Section("best", "Best points", _best_html(table, varying), "The best point by each figure, whatever the filters say."),
        Section(
            "heatmap",
            "Heat map",
            _picture("heat"),
            "A figure over any two columns. Where several points share a cell, it shows one of them, or their median.",
        ),
        Section(
            "lines",
            "Lines",
            _picture("lines"),
            "One line for each value of a column; where several points share a place on a line, the best of them.",
        ),
        Section(
            "points",
            "Points",
            f"{_TABLE}{paper}{_CHOSEN}",
            "Columns that differ between points. The filters under the headings apply to every picture; "
            "a row that is chosen (Enter or a click) is marked in all of them.",
        ),
        Section(
            "failures",
            "Failures",
            _failures_html(table),
            "Points without a result, by status and message, whatever the filters say.",
        ),
        Section(
            "settings", "Settings", _settings_html(table, constant), "The axes of the sweep, and what all points have in common."
        ),
    ]
    if any(is_number(table.columns[axis]) for axis in table.axes if axis in varying):  # first against what was swept
        sections.insert(0, sections.pop([section.id for section in sections].index("lines")))
    sections[0] = replace(sections[0], html=styles + sections[0].html)
    subtitle = which + _statuses_text(table)
    return render_page(title or table.name, subtitle, sections, sweep_data(table, varying), _SCRIPTS)


def _picture(name: str) -> str:
    """Markup of the places where sweep.js puts the controls, the description and the chart of a picture."""
    scope = f'<p class="sweep-scope" id="{name}-scope"></p>'
    return f'<div class="sweep-controls" id="{name}-controls"></div>{scope}<div id="{name}-chart"></div>'
