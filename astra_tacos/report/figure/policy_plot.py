"""Bars of the end of a run by scheduling policy, split into compute, exposed communication and idle time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astra_tacos.report.figure.figure_style import WIDTH_INCHES, wrapped
from astra_tacos.report.policy_times import PARTS, PolicyTime
from astra_tacos.report.style import time_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME_SHARE = 0.42
_BAR_INCHES, _LINE_INCHES, _GAP_INCHES = 0.15, 0.13, 0.09


def draw_policies(rows: Sequence[PolicyTime], width: str, note: str) -> Figure:
    """Draw a bar for each row.

    Parameters
    ----------
    rows
        What to draw, from top to bottom.
    width
        Width of the figure, a key of `WIDTHS`.
    note
        Title of the figure.
    """
    from matplotlib.figure import Figure

    names = [wrapped(row.name.replace(",", ", "), width, _NAME_SHARE) for row in rows]
    place, height = _places([name.count("\n") + 1 for name in names])
    figure = Figure(figsize=(WIDTH_INCHES[width], 0.9 + height), layout="constrained")
    axes = figure.subplots()
    unit, scale = time_unit(max(row.end_ns for row in rows))
    left = [0.0] * len(rows)
    for (label, colour), values in zip(PARTS, zip(*(row.parts_ns for row in rows), strict=True), strict=True):
        axes.barh(
            place, [value / scale for value in values], left=left, height=_BAR_INCHES, color=colour, label=label, linewidth=0
        )
        left = [one + value / scale for one, value in zip(left, values, strict=True)]
    first = rows[0].end_ns
    # Four digits of the longest, so that all have as many decimals.
    decimals = max(3 - math.floor(math.log10(max(row.end_ns for row in rows) / scale or 1.0)), 0)
    for at, row in enumerate(rows):
        text = f" {row.end_ns / scale:,.{decimals}f}" + ("" if at == 0 else f" ({first / max(row.end_ns, 1):.2f}x)")
        axes.text(left[at], place[at], text, va="center", fontsize=6.5, fontweight="bold" if row.is_chosen else "normal")
    axes.set_yticks(place, names)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.is_chosen else "normal")
    axes.set_ylim(height, 0)
    axes.set_xlim(0, 1.16 * max(left))
    axes.set_xlabel(f"end of the run ({unit}), mean over ranks; bold: the one that was written")
    axes.tick_params(axis="y", length=0)
    if note:
        figure.suptitle(wrapped(note, width), fontsize=8)
    figure.legend(loc="outside lower center", ncols=len(PARTS), handlelength=1.2)
    return figure


def _places(lines: Sequence[int]) -> tuple[list[float], float]:
    """Middles of the rows that names of so many lines need, and the height of all of them, in inches."""
    place, height = [], 0.0
    for count in lines:
        own = count * _LINE_INCHES + _GAP_INCHES
        place.append(height + own / 2)
        height += own
    return place, height
