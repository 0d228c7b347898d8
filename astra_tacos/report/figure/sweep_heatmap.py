"""Heat maps of a sweep: a colour for every pair of values of two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.report.figure.figure_style import colours_from
from astra_tacos.report.figure.sweep_axis import label_style, ordered, scale_of, texts
from astra_tacos.report.figure.sweep_choice import Choice
from astra_tacos.report.figure.sweep_reduction import Panel, describe_reduction, measure, numbers, representative
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.report.sweep_measures import HIGHER, LOWER, NEITHER
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_VALUES = 400
_MOST_WRITTEN = {"double": (12, 14), "single": (7, 14)}
"""Largest numbers of columns and rows for which values are written into the cells."""
_MOST_LABELS = {"double": 16, "single": 9}
_NO_VALUE = "#eeeeee"
_BETTER = {LOWER: ", lower is better", NEITHER: "", HIGHER: ", higher is better"}


def draw_heatmaps(
    figure: Figure, grid: list[Axes], table: SweepColumns, panels: list[Panel], choice: Choice, width: str
) -> tuple[list[Any], str]:
    """Draw the heat maps of all panels on one colour scale.

    Returns handles for the legend, and a text that says how the points of a cell were reduced to one.

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
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, NullFormatter

    name = choice.value or choice.y
    goal, found = measure(table, name).goal, numbers(table, name, "--value")
    x_values, y_values = ordered(table.columns[choice.x]), ordered(table.columns[choice.y])
    for option, values in (("--x", x_values), ("--y", y_values)):
        if len(values) > MOST_VALUES:
            raise ConfigError(f"{option}: found {len(values):,} values, expected at most {MOST_VALUES} in a heat map")
    x_at, y_at = ({value: at for at, value in enumerate(values)} for values in (x_values, y_values))
    places: list[list[int]] = []
    cells = np.full((len(panels), len(y_values), len(x_values)), np.nan)
    for which, panel in enumerate(panels):
        rows_at: dict[tuple[int, int], list[int]] = {}
        for row in panel.rows:
            rows_at.setdefault((y_at[table.columns[choice.y][row]], x_at[table.columns[choice.x][row]]), []).append(row)
        places += rows_at.values()
        for (down, right), rows in rows_at.items():
            cells[which, down, right] = representative([(row, found[row]) for row in rows], goal)[1]  # type: ignore[misc]
    low, high = (float(part) for part in (np.nanmin(cells), np.nanmax(cells)))
    scale = scale_of(measure(table, name), [low, high])
    norm = (LogNorm if scale.is_log else Normalize)(low / scale.divisor, high / scale.divisor)
    # Bright colours are better values, as on the page, or higher values if neither direction is better.
    shades = colours_from("viridis_r" if goal == LOWER else "viridis", 0.0, 1.0).with_extremes(bad=_NO_VALUE)
    image = None
    for place, (axes, own) in enumerate(zip(grid, cells, strict=True)):
        image = axes.imshow(own / scale.divisor, cmap=shades, norm=norm, aspect="auto", interpolation="nearest", origin="lower")
        beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
        if len(x_values) * beside <= _MOST_WRITTEN[width][0] and len(y_values) <= _MOST_WRITTEN[width][1]:
            _write(axes, own, scale, shades, norm)
        _label(axes, choice, table, x_values, y_values, width, is_first=place % beside == 0, room=1 / beside)
    handles: list[Any] = []
    if low < high:
        bar = figure.colorbar(image, ax=grid, pad=0.02, fraction=0.06)  # type: ignore[arg-type]
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: scale.text(value * scale.divisor)))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        bar.set_label(scale.label + _BETTER[goal])
        bar.outline.set_linewidth(0.5)
    else:
        handles.append(Patch(facecolor=shades(norm(low / scale.divisor)), label=f"{scale.label}: {scale.cell(low)}"))
    if np.isnan(cells).any():
        handles.append(Patch(facecolor=_NO_VALUE, edgecolor="#999999", linewidth=0.4, label="no value"))
    return handles, describe_reduction(table, places, goal)


def _write(axes: Axes, cells: Any, scale: Any, shades: Any, norm: Any) -> None:
    for (down, right), value in np.ndenumerate(cells):
        if not np.isnan(value):
            red, green, blue, _ = shades(norm(value / scale.divisor))
            colour = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
            axes.text(right, down, scale.cell(value), ha="center", va="center", fontsize=6, color=colour)


def _label(
    axes: Axes,
    choice: Choice,
    table: SweepColumns,
    x_values: list[Any],
    y_values: list[Any],
    width: str,
    is_first: bool,
    room: float,
) -> None:
    x_step, y_step = (-(-len(v) // max(int(_MOST_LABELS[width] * share), 8)) for v, share in ((x_values, room), (y_values, 1.0)))
    about = measure(table, choice.x), measure(table, choice.y)
    labels = texts(x_values, about[0])
    axes.set_xticks(range(0, len(x_values), x_step), labels[::x_step], **label_style(labels[::x_step], width, room))
    axes.set_yticks(range(0, len(y_values), y_step), texts(y_values, about[1])[::y_step] if is_first else [])
    units = [f" ({entry.unit})" if entry.unit not in ("", "bytes", "share", "ns") else "" for entry in about]
    axes.set_xlabel(about[0].label + units[0])
    if is_first:
        axes.set_ylabel(about[1].label + units[1])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
