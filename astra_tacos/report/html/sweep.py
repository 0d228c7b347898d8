"""The page of a sweep: a table, Pareto fronts, heat maps and lines of the rows that pass the table's filter."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from astra_tacos.report.html.page import Section, escape, render_page
from astra_tacos.report.html.sweep_data import sweep_data, varying_columns
from astra_tacos.report.html.sweep_headline import failures_html, headline_html
from astra_tacos.report.sweep_measures import as_one_value, measure_of
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from astra_tacos.report.sweep_columns import SweepColumns

_SCRIPTS = ("sweep_model.js", "sweep_controls.js", "sweep_pictures.js", "sweep_grids.js", "sweep.js")
_TABLE = '<div id="sweep-view" class="screen-only"></div><div id="sweep-table"></div>'
_CHOSEN = '<div id="sweep-point"></div>'
_PAPER_COLUMNS = 10
"""Number of columns of the table in print; sweep.css hides the others."""
_STYLES = "sweep.css"
_REQUIRED = ("point", "status")


def render_sweep(table: SweepColumns, source: str, title: str | None = None) -> bytes:
    """The page of a sweep, as bytes of HTML.

    Parameters
    ----------
    table
        Rows of the sweep.
    source
        Name of the file with all rows, which the page mentions.
    title
        Heading; by default the name of the sweep.

    Raises
    ------
    ConfigError
        If there are no rows, or a column is missing that every sweep has.
    """
    if not table.num_rows:
        raise ConfigError(f"{source}: has no rows, expected a point or more")
    for name in _REQUIRED:
        if name not in table.columns:
            raise ConfigError(f"{source}: has no column {name}, which every sweep has")
    inputs = {name: as_one_value(values) for name, values in table.columns.items() if measure_of(name).role != "result"}
    table = replace(table, columns=table.columns | inputs)
    varying, constant = varying_columns(table)
    data = sweep_data(table, varying)
    styles = files("astra_tacos.report.html").joinpath("assets", _STYLES).read_text(encoding="utf-8")
    overview = f"<style>\n{styles}</style>" + headline_html(table, varying, constant) + _detail_note(data, table.num_rows, source)
    sections = [
        Section("overview", "Overview", overview),
        Section(
            "points",
            "Points",
            f"{_TABLE}{_paper_note(len(varying))}{_CHOSEN}",
            "Columns that differ between points. The filters under the headings apply to every picture below; "
            "a row that is chosen (Enter or a click) is marked in all of them.",
        ),
        Section(
            "front",
            "Pareto front",
            _picture("front") + '<div id="front-list"><h3>Points on the front</h3><div id="front-table"></div></div>',
            "Points for which no other point is better in one of two figures without being worse in the other.",
        ),
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
            "failures",
            "Failures",
            failures_html(table),
            "Points without a result, by status and message, over the whole sweep.",
        ),
    ]
    subtitle = f"Sweep of {table.num_rows:,} point{'s' * (table.num_rows > 1)}"
    return render_page(title or table.name, subtitle, sections, data, _SCRIPTS)


def _paper_note(num_columns: int) -> str:
    if num_columns <= _PAPER_COLUMNS:
        return ""
    return f'<p class="note sweep-paper">On paper: the first {_PAPER_COLUMNS} of {num_columns} columns.</p>'


def _picture(name: str) -> str:
    """Markup of the places where sweep.js puts the controls, the description and the chart of a picture."""
    scope = f'<p class="sweep-scope" id="{name}-scope"></p>'
    return f'<div class="sweep-controls" id="{name}-controls"></div>{scope}<div id="{name}-chart"></div>'


def _detail_note(data: Mapping[str, object], num_rows: int, source: str) -> str:
    """Markup of a note that says what the page leaves out, and which file has it; empty if nothing is left out."""
    rules, digits = data["rules"], data["digits"]
    parts = []
    if isinstance(rules, list):
        parts.append(
            f"{data['count']:,} of {num_rows:,} points are on this page, chosen in this order: {'; '.join(rules)}. "
            "The figures in this section and under Failures are of all points; medians are of those on the page."
        )
    if digits is not None:
        parts.append(f"Numbers of many different values are rounded to {digits} significant digits.")
    if not parts:
        return ""
    return f'<p class="notice" id="sweep-detail">{escape(" ".join(parts))} All of it is in {escape(source)}.</p>'
