"""A sweep as a figure for a paper: lines, a heat map of two axes, or time against cost with the Pareto front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.report.figure.figure_style import WIDTH_INCHES, save_figure, wrapped
from astra_tacos.report.figure.sweep_axis import texts
from astra_tacos.report.figure.sweep_choice import MOST_SERIES, Choice
from astra_tacos.report.figure.sweep_heatmap import draw_heatmaps
from astra_tacos.report.figure.sweep_lines import draw_lines
from astra_tacos.report.figure.sweep_pareto import draw_fronts
from astra_tacos.report.figure.sweep_reduction import Panel, column, measure, numbers, tasks
from astra_tacos.report.sweep_columns import SweepColumns
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROOT = "root"
_COMMON = ("topology", "collective", "size_bytes")


def save_sweep(table: SweepColumns, path: Path, choice: Choice, width: str = "double", note: str = "") -> None:
    """Write the figure of a sweep to a file; equal rows give equal bytes.

    Parameters
    ----------
    table
        The rows of the sweep.
    path
        File to write; its suffix names the format.
    choice
        Columns and kind of the figure.
    width
        Width of the figure, a key of `WIDTHS`.
    note
        Text under the figure that says which rows these are.
    """
    save_figure(path, lambda: draw_sweep(table, choice, width, note))


def draw_sweep(table: SweepColumns, choice: Choice, width: str = "double", note: str = "") -> Figure:
    """Draw a panel per task; a caption says how points were reduced, and how many points have no value.

    The parameters are those of `save_sweep`.

    Raises
    ------
    ConfigError
        If a column has no numbers, or there are too many series, tasks or cells to tell apart.
    """
    from matplotlib.figure import Figure

    shown = choice.value or choice.y
    needed = [(shown, "--value" if choice.value else "--y")] + ([(choice.x, "--x")] if choice.kind == "pareto" else [])
    measured = [numbers(table, name, option) for name, option in needed]
    rows = [row for row in range(table.num_rows) if all(values[row] is not None for values in measured)]
    along = {"lines": [choice.x], "heatmap": [choice.x, choice.y], "pareto": []}[choice.kind]
    used = [choice.x, *along[1:], *([choice.by] if choice.by else [])]
    if choice.by:
        _check_series(table, choice.by)
    panels = tasks(table, rows, used, along)
    columns, lines = _arrangement(len(panels), width)
    high = {"lines": 2.35, "pareto": 2.6, "heatmap": 2.3}[choice.kind]
    size = (WIDTH_INCHES[width], 0.75 + lines * (high if lines > 1 or width == "single" else high + 0.35))
    figure = Figure(figsize=size, layout="constrained")
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
    said = "; ".join(part for part in (reduced, _gaps(table, rows, shown), note) if part)
    said = wrapped(said, width, 8 / 7)
    if handles:
        label = measure(table, choice.by).label if choice.by else ""
        title = "\n".join(part for part in (said, label) if part)
        most = 6 if width == "double" else 3
        rows_of_legend = -(-len(handles) // most)
        legend: dict[str, Any] = {"ncols": -(-len(handles) // rows_of_legend), "handlelength": 2.0, "columnspacing": 1.4}
        drawn = figure.legend(handles=handles, loc="outside lower center", title=title or None, title_fontsize=7, **legend)
        drawn.get_title().set_multialignment("center")
    elif said:
        figure.supxlabel(said, fontsize=7)
    return figure


def _check_series(table: SweepColumns, by: str) -> None:
    count = len(set(column(table, by, "--by")))
    if count > MOST_SERIES:
        raise ConfigError(f"--by: column {by} has {count:,} values, expected at most {MOST_SERIES}: choose some with --where")


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
