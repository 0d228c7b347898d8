"""Line plots of a sweep: one column against another, with a line for each value of a third one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from astra_tacos.report.figure.figure_style import OTHER_STYLES, SERIES_STYLES, SYNTHESIZER_STYLES, colours_from
from astra_tacos.report.figure.sweep_axis import Scale, dress, label_style, scale_of, series_of, texts
from astra_tacos.report.figure.sweep_choice import Choice
from astra_tacos.report.figure.sweep_reduction import Panel, describe_reduction, is_number, measure, numbers, representative
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.report.sweep_measures import HIGHER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEWEST_SHADES = 4
MARKER_SCALES = {"*": 1.7}
"""Factors for markers that look smaller than others of the same size."""
_BY_NAME = ("synthesizer", "made_by")


def series_styles(name: str | None, values: Sequence[Any]) -> list[tuple[Any, str]]:
    """Colour and marker of each value of a column.

    Synthesizers have colours of their own; a column of many numbers gets colours from light to dark.
    """
    if name in _BY_NAME:
        spare = iter(OTHER_STYLES * (len(values) // len(OTHER_STYLES) + 1))
        return [SYNTHESIZER_STYLES.get(str(value)) or next(spare) for value in values]
    markers = [marker for _, marker in SERIES_STYLES]
    count = len(values)
    if (is_number(values) and count >= _FEWEST_SHADES) or count > len(SERIES_STYLES):
        shades = colours_from("viridis_r", 0.1, 1.0)
        return [(shades(place / max(count - 1, 1)), markers[place % len(markers)]) for place in range(count)]
    return list(SERIES_STYLES[:count])


def draw_lines(
    figure: Figure, grid: list[Axes], table: SweepColumns, panels: list[Panel], choice: Choice, width: str
) -> tuple[list[Any], str]:
    """Draw the lines of all panels.

    Returns handles for the legend, and a text that says how points at one place were reduced to one.

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
    goal = measure(table, choice.y).goal
    y_values = numbers(table, choice.y, "--y")
    x_values = table.columns[choice.x]
    x_is_number = is_number(x_values)
    rows = [row for panel in panels for row in panel.rows if not x_is_number or x_values[row] is not None]
    positions = series_of(x_values, rows)
    series = series_of(table.columns[choice.by], rows) if choice.by else [None]
    names = texts(series, measure(table, choice.by)) if choice.by else [""]
    styles = series_styles(choice.by, series)
    y_scale = scale_of(measure(table, choice.y), [y_values[row] for row in rows] or [1.0])  # type: ignore[misc]
    x_scale = scale_of(measure(table, choice.x), positions or [1.0]) if x_is_number else None
    handles: dict[str, Any] = {}
    places: list[list[int]] = []
    for axes, panel in zip(grid, panels, strict=True):
        rows_at: dict[tuple[Any, Any], list[int]] = {}
        drawn: list[float] = []
        for row in panel.rows:
            rows_at.setdefault((table.columns[choice.by][row] if choice.by else None, x_values[row]), []).append(row)
        for place, (value, name, (colour, marker)) in enumerate(zip(series, names, styles, strict=True)):
            points: list[tuple[float, float]] = []
            for at, position in enumerate(positions):
                if (own := rows_at.get((value, position))) is not None:
                    places.append(own)
                    best = representative([(row, y_values[row]) for row in own], goal)[1]  # type: ignore[misc]
                    points.append((position / x_scale.divisor if x_scale else at, best / y_scale.divisor))
                    drawn.append(best)
            if not points:
                continue
            below = place / max(len(series) - 1, 1)  # lines further below are larger, so that lines that coincide are all visible
            style: dict[str, Any] = {"color": colour, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.4}
            style |= {"zorder": 4 - below, "markersize": 3.8 + 2.0 * below, "linewidth": 1.0 + 0.4 * below, "clip_on": False}
            style["markersize"] *= MARKER_SCALES.get(marker, 1.0)
            style |= {} if x_scale else {"linestyle": "none"}  # no lines between values that have no order
            (line,) = axes.plot([x for x, _ in points], [y for _, y in points], label=name, **style)
            handles.setdefault(name, line)
        _dress(axes, table, choice, (x_scale, y_scale), positions, drawn, width)
    if choice.by is None:
        handles = {}
    return list(handles.values()), describe_reduction(table, places, goal)


def _dress(
    axes: Axes,
    table: SweepColumns,
    choice: Choice,
    scales: tuple[Scale | None, Scale],
    positions: list[Any],
    values: list[Any],
    width: str,
) -> None:
    from matplotlib.ticker import FixedLocator

    x_scale, y_scale = scales
    about = measure(table, choice.x)
    if x_scale:
        dress(axes, "x", x_scale, positions, width)
    else:
        labels = texts(positions, about)
        beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
        axes.xaxis.set_major_locator(FixedLocator(list(range(len(positions)))))
        axes.set_xticklabels(labels, **label_style(labels, width, 1 / beside))
        axes.set_xlim(-0.5, len(positions) - 0.5)
    dress(axes, "y", y_scale, values, width)
    if axes.get_yscale() == "linear" and min(values) >= 0:
        axes.set_ylim(0, None if measure(table, choice.y).goal != HIGHER or not y_scale.is_share else max(1.0, max(values)))
    axes.set_xlabel(x_scale.label if x_scale else about.label)
    axes.set_ylabel(y_scale.label)
