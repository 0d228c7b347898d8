"""Scatter plots of a sweep, one measure against another, with the Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.report.figure.sweep_axis import dress, scale_of, series_of, texts
from astra_tacos.report.figure.sweep_choice import Choice
from astra_tacos.report.figure.sweep_lines import MARKER_SCALES, series_styles
from astra_tacos.report.figure.sweep_reduction import Panel, measure, numbers
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.report.sweep_measures import HIGHER, Measure, pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_VECTOR_POINTS = 2_000


def draw_fronts(
    figure: Figure, grid: list[Axes], table: SweepColumns, panels: list[Panel], choice: Choice, width: str
) -> tuple[list[Any], str]:
    """Draw all points of each panel, coloured by series, and the Pareto front of each panel.

    Returns handles for the legend, and a text that says what the front is.

    Parameters
    ----------
    figure
        The figure.
    grid
        Axes of the panels.
    table
        The rows of the sweep.
    panels
        Points of each panel.
    choice
        Columns of the figure.
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.lines import Line2D

    about = measure(table, choice.x), measure(table, choice.y)
    x_values, y_values = numbers(table, choice.x, "--x"), numbers(table, choice.y, "--y")
    rows = [row for panel in panels for row in panel.rows]
    series = series_of(table.columns[choice.by], rows) if choice.by else [None]
    names = texts(series, measure(table, choice.by)) if choice.by else ["points"]
    styles = series_styles(choice.by, series)
    scales = [
        scale_of(entry, [values[row] for row in rows] or [1.0])  # type: ignore[misc]
        for entry, values in zip(about, (x_values, y_values), strict=True)
    ]
    is_many = len(rows) > _MOST_VECTOR_POINTS
    for axes, panel in zip(grid, panels, strict=True):
        x, y = (np.array([values[row] for row in panel.rows], np.float64) for values in (x_values, y_values))
        front = pareto_front(*(-v if entry.goal == HIGHER else v for v, entry in zip((x, y), about, strict=True)))
        x, y = x / scales[0].divisor, y / scales[1].divisor
        of = [table.columns[choice.by][row] for row in panel.rows] if choice.by else [None] * len(panel.rows)
        for value, (colour, marker) in zip(series, styles, strict=True):
            own = np.array([entry == value for entry in of], bool)
            for part, alpha, size in ((own & ~front, 0.5, 12.0), (own & front, 1.0, 24.0)):
                style: dict[str, Any] = {
                    "color": [colour],
                    "marker": marker,
                    "s": size * MARKER_SCALES.get(marker, 1.0) ** 2,
                    "linewidths": 0.3,
                    "edgecolors": "white",
                }
                axes.scatter(x[part], y[part], alpha=alpha, zorder=3 if size < 20 else 4, rasterized=is_many, **style)
        order = np.flatnonzero(front)[np.lexsort((y[front], x[front]))]
        axes.plot(x[order], y[order], color="black", linewidth=0.8, drawstyle=_step(about), zorder=2)
        for which, scale, values in (("x", scales[0], x), ("y", scales[1], y)):
            dress(axes, which, scale, (values * scale.divisor).tolist(), width)
        axes.set(xlabel=scales[0].label, ylabel=scales[1].label)
    handles = [
        Line2D(
            [],
            [],
            color=colour,
            marker=marker,
            linestyle="none",
            markersize=5 * MARKER_SCALES.get(marker, 1.0),
            markeredgecolor="white",
            label=name,
        )
        for name, (colour, marker) in zip(names, styles, strict=True)
        if choice.by
    ]
    handles.append(Line2D([], [], color="black", linewidth=0.8, label="Pareto front"))
    words = ["higher" if entry.goal == HIGHER else "lower" for entry in about]
    return handles, f"front: no other point has {words[0]} {about[0].label} and {words[1]} {about[1].label}"


def _step(about: tuple[Measure, Measure]) -> str:
    """Matplotlib's `drawstyle` of the front: between two points the line keeps the y of the point whose x is worse."""
    return "steps-post" if about[0].goal != HIGHER else "steps-pre"
