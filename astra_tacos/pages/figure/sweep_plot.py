"""A sweep as a figure for a paper: lines, a heat map of two axes, or time against cost with the Pareto front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.pages.figure.sweep_axis import Scale, dress, label_style, scale_of, series_of, texts
from astra_tacos.pages.style import legend_columns, new_figure, wrapped
from astra_tacos.pages.sweep_choice import (
    MOST_SERIES,
    Choice,
    Panel,
    column,
    describe_reduction,
    is_number,
    measure,
    numbers,
    representative,
    tasks,
)
from astra_tacos.pages.sweep_columns import HIGHER, LOWER, NEITHER, Measure, SweepColumns, pareto_front
from astra_tacos.pages.sweep_looks import CELLS, ordered, series_looks
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MARKER_SCALES = {"*": 1.7}
"""Factors for markers that look smaller than others of the same size."""


def _series(table: SweepColumns, choice: Choice, rows: Sequence[int]) -> list[tuple[Any, str, str, str]]:
    """Value, name, colour and marker of each series of some rows; one without a name if there is no column of series."""
    values = series_of(table.columns[choice.by], rows) if choice.by else [None]
    names = texts(values, measure(table, choice.by)) if choice.by else [""]
    looks = series_looks(choice.by, table.columns[choice.by] if choice.by else ())
    return [(value, name, *looks[value]) for value, name in zip(values, names, strict=True)]


def draw_lines(
    figure: Figure, grid: list[Axes], table: SweepColumns, panels: list[Panel], choice: Choice, width: str
) -> tuple[list[Any], str]:
    """Draw the lines of all panels.

    Returns handles for the legend, and a text that says how points at one place were reduced to one.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    goal = measure(table, choice.y).goal
    y_values = numbers(table, choice.y, "--y")
    x_values = table.columns[choice.x]
    x_is_number = is_number(x_values)
    rows = [row for panel in panels for row in panel.rows if not x_is_number or x_values[row] is not None]
    positions = series_of(x_values, rows)
    series = _series(table, choice, rows)
    y_scale = scale_of(measure(table, choice.y), [y_values[row] for row in rows] or [1.0])  # type: ignore[misc]
    x_scale = scale_of(measure(table, choice.x), positions or [1.0]) if x_is_number else None
    handles: dict[str, Any] = {}
    places: list[list[int]] = []
    for axes, panel in zip(grid, panels, strict=True):
        rows_at: dict[tuple[Any, Any], list[int]] = {}
        drawn: list[float] = []
        for row in panel.rows:
            rows_at.setdefault((table.columns[choice.by][row] if choice.by else None, x_values[row]), []).append(row)
        for place, (value, name, colour, marker) in enumerate(series):
            points: list[tuple[float, float]] = []
            for at, position in enumerate(positions):
                if (measured_rows := rows_at.get((value, position))) is not None:
                    places.append(measured_rows)
                    best = representative([(row, y_values[row]) for row in measured_rows], goal)[1]  # type: ignore[misc]
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
    x_measure = measure(table, choice.x)
    if x_scale:
        dress(axes, "x", x_scale, positions, width)
    else:
        labels = texts(positions, x_measure)
        beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
        axes.xaxis.set_major_locator(FixedLocator(list(range(len(positions)))))
        axes.set_xticklabels(labels, **label_style(labels, width, 1 / beside))
        axes.set_xlim(-0.5, len(positions) - 0.5)
    dress(axes, "y", y_scale, values, width)
    if axes.get_yscale() == "linear" and min(values) >= 0:
        axes.set_ylim(0, None if measure(table, choice.y).goal != HIGHER or not y_scale.is_share else max(1.0, max(values)))
    axes.set_xlabel(x_scale.label if x_scale else x_measure.label)
    axes.set_ylabel(y_scale.label)


_MOST_VECTOR_POINTS = 2_000


def draw_fronts(
    figure: Figure, grid: list[Axes], table: SweepColumns, panels: list[Panel], choice: Choice, width: str
) -> tuple[list[Any], str]:
    """Draw all points of each panel, coloured by series, and the Pareto front of each panel.

    Returns handles for the legend, and a text that says what the front is.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.lines import Line2D

    measures = measure(table, choice.x), measure(table, choice.y)
    x_values, y_values = numbers(table, choice.x, "--x"), numbers(table, choice.y, "--y")
    rows = [row for panel in panels for row in panel.rows]
    series = _series(table, choice, rows)
    scales = [
        scale_of(entry, [values[row] for row in rows] or [1.0])  # type: ignore[misc]
        for entry, values in zip(measures, (x_values, y_values), strict=True)
    ]
    is_many = len(rows) > _MOST_VECTOR_POINTS
    for axes, panel in zip(grid, panels, strict=True):
        x, y = (np.array([values[row] for row in panel.rows], np.float64) for values in (x_values, y_values))
        front = pareto_front(*(-v if entry.goal == HIGHER else v for v, entry in zip((x, y), measures, strict=True)))
        x, y = x / scales[0].divisor, y / scales[1].divisor
        of = [table.columns[choice.by][row] for row in panel.rows] if choice.by else [None] * len(panel.rows)
        for value, _, colour, marker in series:
            is_shown = np.array([entry == value for entry in of], bool)
            for part, alpha, size in ((is_shown & ~front, 0.5, 12.0), (is_shown & front, 1.0, 24.0)):
                style: dict[str, Any] = {
                    "color": [colour],
                    "marker": marker,
                    "s": size * MARKER_SCALES.get(marker, 1.0) ** 2,
                    "linewidths": 0.3,
                    "edgecolors": "white",
                }
                axes.scatter(x[part], y[part], alpha=alpha, zorder=3 if size < 20 else 4, rasterized=is_many, **style)
        order = np.flatnonzero(front)[np.lexsort((y[front], x[front]))]
        axes.plot(x[order], y[order], color="black", linewidth=0.8, drawstyle=_step(measures), zorder=2)
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
        for _, name, colour, marker in series
        if choice.by
    ]
    handles.append(Line2D([], [], color="black", linewidth=0.8, label="Pareto front"))
    words = ["higher" if entry.goal == HIGHER else "lower" for entry in measures]
    return handles, f"front: no other point has {words[0]} {measures[0].label} and {words[1]} {measures[1].label}"


def _step(measures: tuple[Measure, Measure]) -> str:
    """Matplotlib's `drawstyle` of the front: between two points the line keeps the y of the point whose x is worse."""
    return "steps-post" if measures[0].goal != HIGHER else "steps-pre"


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
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, NullFormatter

    name = choice.value or choice.y
    goal, figures = measure(table, name).goal, numbers(table, name, "--value")
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
            cells[which, down, right] = representative([(row, figures[row]) for row in rows], goal)[1]  # type: ignore[misc]
    low, high = (float(part) for part in (np.nanmin(cells), np.nanmax(cells)))
    scale = scale_of(measure(table, name), [low, high])
    norm = (LogNorm if scale.is_log else Normalize)(low / scale.divisor, high / scale.divisor)
    # Bright colours are better values, or lower values if neither direction is better.
    colours = CELLS[::-1] if goal == HIGHER else CELLS
    shades = LinearSegmentedColormap.from_list("cells", colours).with_extremes(bad=_NO_VALUE)
    image = None
    for axes, cells_of_panel in zip(grid, cells, strict=True):
        image = axes.imshow(
            cells_of_panel / scale.divisor, cmap=shades, norm=norm, aspect="auto", interpolation="nearest", origin="lower"
        )
        beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
        if len(x_values) * beside <= _MOST_WRITTEN[width][0] and len(y_values) <= _MOST_WRITTEN[width][1]:
            _write(axes, cells_of_panel, scale)
        _label(axes, choice, table, x_values, y_values, width)
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


def _write(axes: Axes, cells: Any, scale: Scale) -> None:
    for (down, right), value in np.ndenumerate(cells):
        if not np.isnan(value):
            axes.text(right, down, scale.cell(value), ha="center", va="center", fontsize=6, color="black")


def _label(axes: Axes, choice: Choice, table: SweepColumns, x_values: list[Any], y_values: list[Any], width: str) -> None:
    place = axes.get_subplotspec()
    assert place is not None
    room, is_first = 1 / place.get_gridspec().ncols, place.is_first_col()
    x_step, y_step = (-(-len(v) // max(int(_MOST_LABELS[width] * share), 8)) for v, share in ((x_values, room), (y_values, 1.0)))
    measures = measure(table, choice.x), measure(table, choice.y)
    labels = texts(x_values, measures[0])
    axes.set_xticks(range(0, len(x_values), x_step), labels[::x_step], **label_style(labels[::x_step], width, room))
    axes.set_yticks(range(0, len(y_values), y_step), texts(y_values, measures[1])[::y_step] if is_first else [])
    units = [f" ({entry.unit})" if entry.unit not in ("", "bytes", "share", "ns") else "" for entry in measures]
    axes.set_xlabel(measures[0].label + units[0])
    if is_first:
        axes.set_ylabel(measures[1].label + units[1])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


_ROOT, _SYNTHESIZER = "root", "synthesizer"
_COMMON = ("topology", "collective", "size_bytes")


def draw_sweep(table: SweepColumns, choice: Choice, width: str = "double", note: str = "") -> Figure:
    """Draw a panel per task; a caption says how points were reduced, and how many points have no value.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.

    Raises
    ------
    ConfigError
        If a column has no numbers, or there are too many series, tasks or cells to tell apart.
    """
    shown = choice.value or choice.y
    needed = [(shown, "--value" if choice.value else "--y")] + ([(choice.x, "--x")] if choice.kind == "pareto" else [])
    measured = [numbers(table, name, option) for name, option in needed]
    rows = [row for row in range(table.num_rows) if all(values[row] is not None for values in measured)]
    along = {"lines": [choice.x], "heatmap": [choice.x, choice.y], "pareto": []}[choice.kind]
    used = [choice.x, *along[1:], *([choice.by] if choice.by else [])]
    if choice.by and (count := len(set(column(table, choice.by, "--by")))) > MOST_SERIES:
        raise ConfigError(
            f"--by: column {choice.by} has {count:,} values, expected at most {MOST_SERIES}: choose some with --where"
        )
    panels = tasks(table, rows, used, along)
    columns, lines = _arrangement(len(panels), width)
    high = {"lines": 2.35, "pareto": 2.6, "heatmap": 2.3}[choice.kind]
    figure = new_figure(width, 0.75 + lines * (high if lines > 1 or width == "single" else high + 0.35))
    grid: Any = figure.subplots(lines, columns, squeeze=False).ravel()
    for empty in grid[len(panels) :]:
        empty.axis("off")
    draw: dict[str, Callable[..., tuple[list[Any], str]]] = {
        "lines": draw_lines,
        "heatmap": draw_heatmaps,
        "pareto": draw_fronts,
    }
    handles, reduced = draw[choice.kind](figure, list(grid[: len(panels)]), table, panels, choice, width)
    for axes, panel in zip(grid, panels, strict=False):
        if panel.task:
            axes.set_title(_task_text(table, panel), fontsize=7.5)
    figure.suptitle(wrapped(_title(table), width), fontsize=8)
    said = "; ".join(part for part in (reduced, _gaps(table, rows, shown), _constant(table), note) if part)
    said = wrapped(said, width, 8 / 7)
    if handles:
        label = measure(table, choice.by).label if choice.by else ""
        title = "\n".join(part for part in (said, label) if part)
        legend: dict[str, Any] = {"ncols": legend_columns(len(handles), width), "handlelength": 2.0, "columnspacing": 1.4}
        drawn = figure.legend(handles=handles, loc="outside lower center", title=title or None, title_fontsize=7, **legend)
        drawn.get_title().set_multialignment("center")
    elif said:
        figure.supxlabel(said, fontsize=7)
    return figure


def _arrangement(panels: int, width: str) -> tuple[int, int]:
    """Number of columns and of rows in which the panels are arranged."""
    beside = {"double": (1, 2, 3, 2, 3, 3), "single": (1, 1, 1, 2, 2, 2)}
    columns = beside[width][panels - 1]
    return columns, -(-panels // columns)


def _title(table: SweepColumns) -> str:
    """The sweep's name, and the topology, collective and size that all points have in common."""
    facts = []
    for name in _COMMON:
        values = set(table.columns.get(name, []))
        if len(values) == 1 and None not in values:
            facts.append(texts(list(values), measure(table, name))[0])
    return ": ".join(part for part in (table.name, ", ".join(facts)) if part)


def _constant(table: SweepColumns) -> str:
    """A text that names the synthesizer and the axes whose value all points share, but for those in the title."""
    facts = []
    for name in dict.fromkeys((_SYNTHESIZER, *table.axes)):
        first, *others = table.columns.get(name, [None])
        if name not in _COMMON and not (
            first is None or isinstance(first, (list, tuple)) or any(other != first for other in others)
        ):
            facts.append(f"{measure(table, name).label} {texts([first], measure(table, name))[0]}")
    return f"constant: {', '.join(facts)}" if facts else ""


def _task_text(table: SweepColumns, panel: Panel) -> str:
    named = {name: texts([value], measure(table, name))[0] for name, value in panel.task if name != _ROOT or value is not None}
    return ", ".join(f"root {text}" if name == _ROOT else text for name, text in named.items())


def _gaps(table: SweepColumns, rows: list[int], shown: str) -> str:
    """A text that says how many points are not in the figure, by status; empty if all are."""
    kept = set(rows)
    missing = [row for row in range(table.num_rows) if row not in kept]
    if not missing:
        return ""
    status = table.columns.get("status", ["ok"] * table.num_rows)
    counts = Counter(str(status[row]) for row in missing)
    why = ", ".join(f"{counts[name]:,} {'without one' if name == 'ok' else name}" for name in sorted(counts))
    return f"{len(missing):,} of {table.num_rows:,} points have no {measure(table, shown).label} ({why})"
