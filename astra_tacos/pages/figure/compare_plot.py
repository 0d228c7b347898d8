"""A comparison of synthesizers as a figure for a paper: time and bus bandwidth against size, with the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.pages.compare_rows import NATIVE, CompareRow, best_bound_ns
from astra_tacos.pages.style import between, capitalized, look_of, new_figure, shape_text, time_unit, wrapped
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

_MOST_TICKS = {"double": 5, "single": 4}
"""Sizes along an axis that are named, so that their names do not touch."""
_MOST_LINES = 6
_MOST_CHARACTERS = 22
_LABEL_POINTS = 7.0
_LABEL_PITCH = 1.25
"""Distance between two labels at the ends of lines, in heights of a letter."""
_LABEL_AT = 1.07
"""Where labels begin, as a share of the width of a panel."""
_LABEL_SHADE = 0.35
"""Share of black in the colour of a label, or pale ones would not be read."""
_BOUND = "lower bound"


def draw_comparison(rows: Sequence[CompareRow], width: str) -> Figure:
    """Draw time and bus bandwidth against size, with the bounds: native, and of the others those that are fastest over all sizes.

    Each line has its name at its end. A remark under the panels names what has no line.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    names = _drawn(rows)
    sizes = sorted({row.size_bytes for row in rows})
    is_wide = width == "double"
    figure = new_figure(width, 3.0 if is_wide else 5.2)
    panels: Any = figure.subplots(*((1, 2) if is_wide else (2, 1)), sharex=not is_wide)
    time, bandwidth = panels
    times = [row.time_ns for row in rows if row.time_ns is not None and row.synthesizer in names]
    unit, scale = time_unit(min(times, default=1))
    for place, name in enumerate(names):
        colour, marker = look_of(name)
        row_of_size = {row.size_bytes: row for row in rows if row.synthesizer == name}
        style: dict[str, Any] = {"color": colour, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.4}
        # Curves that coincide all show: the first is on top, those below are drawn larger.
        below = place / max(len(names) - 1, 1)
        style |= {"clip_on": False, "zorder": 4 - below, "markersize": 3.8 + 2.4 * below, "linewidth": 1.0 + 0.5 * below}
        values = [
            (row_of_size[size].time_ns, row_of_size[size].bus_bandwidth_gbps) if size in row_of_size else (None, None)
            for size in sizes
        ]
        time.plot(sizes, [math.nan if ns is None else ns / scale for ns, _ in values], label=name, **style)
        bandwidth.plot(sizes, [math.nan if gbps is None else gbps for _, gbps in values], label=name, **style)
    bounds = _bounds(rows)
    if bounds:
        at = list(bounds)
        style = {"color": "#000000", "linestyle": (0, (4, 2)), "linewidth": 0.9, "zorder": 2, "label": _BOUND}
        least, most = [ns / scale for ns, _ in bounds.values()], [gbps for _, gbps in bounds.values()]
        time.plot(at, least, **style)
        bandwidth.plot(at, most, **style)
    for axes in (time, bandwidth):
        _dress(axes, sizes, _MOST_TICKS[width])
    if bounds:  # shade the area that no schedule can reach; this needs the limits of the axes
        time.fill_between(at, least, time.get_ylim()[0], color="#f2f2f2", linewidth=0, zorder=0)
        bandwidth.fill_between(at, most, bandwidth.get_ylim()[1], color="#f2f2f2", linewidth=0, zorder=0)
    first = rows[0]
    shard = "size of one NPU's shard" if first.collective == "all-gather" else "size"
    time.set_ylabel(f"time ({unit})")
    bandwidth.set_ylabel("bus bandwidth (GB/s)")
    for axes in (time, bandwidth) if is_wide else (bandwidth,):
        axes.set_xlabel(shard)
    where = f"{shape_text(first.topology)} ({first.num_npus} NPUs)"
    figure.suptitle(wrapped(f"{capitalized(first.collective)} on{' ' if is_wide else chr(10)}{where}", width), fontsize=8)
    if remark := _remark(rows, names):
        figure.supxlabel(wrapped(remark, width, 8 / 7), fontsize=7)
    figure.align_ylabels()
    _label_ends(figure, (time, bandwidth))
    return figure


def _drawn(rows: Sequence[CompareRow]) -> list[str]:
    """Names of the lines, in the order of the rows: native, and the fastest of the others by the mean ratio to the fastest.

    A synthesizer without a time counts as slow as the slowest of the size.
    """
    by_size: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.time_ns:
            by_size.setdefault(row.size_bytes, {})[row.synthesizer] = row.time_ns
    names = list(dict.fromkeys(row.synthesizer for row in rows if row.time_ns))
    behind = {
        name: sum(math.log(times.get(name, max(times.values())) / min(times.values())) for times in by_size.values())
        for name in names
    }
    best = sorted(names, key=lambda name: (name != NATIVE, behind[name]))[:_MOST_LINES]
    return [name for name in names if name in best]


def _remark(rows: Sequence[CompareRow], names: Sequence[str]) -> str:
    """What names the synthesizers without a line; empty if there are none."""
    rest = list(dict.fromkeys(row.synthesizer for row in rows if row.synthesizer not in names))
    timed = {row.synthesizer for row in rows if row.time_ns}
    groups = (
        ("slower, not drawn", [name for name in rest if name in timed]),
        ("no schedule", [name for name in rest if name not in timed]),
    )
    return "\n".join(f"{reason}: {', '.join(those)}" for reason, those in groups if those)


def _label_ends(figure: Figure, panels: Sequence[Axes]) -> None:
    """Write the name of each line beside the panel, led to by a thin line from its last point, and apart from the other names."""
    labels = [[_end_label(axes, line) for line in axes.get_lines() if np.isfinite(line.get_ydata()).any()] for axes in panels]
    figure.draw_without_rendering()  # lays out the panels beside their labels: then their heights are known
    for axes, beside in zip(panels, labels, strict=True):
        pitch = _LABEL_PITCH * _LABEL_POINTS * figure.dpi / 72 / axes.get_window_extent().height
        to_panel = axes.transData + axes.transAxes.inverted()
        ends = [float(to_panel.transform(label.xy)[1]) for label in beside]
        for label, y in zip(beside, _apart(ends, pitch), strict=True):
            label.set_position((_LABEL_AT, y))


def _end_label(axes: Axes, line: Line2D) -> Annotation:
    name, x, y = str(line.get_label()), *map(np.asarray, line.get_data())
    last = np.flatnonzero(np.isfinite(y))[-1]
    text = name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"
    dark = between((str(line.get_color()), "#000000"), _LABEL_SHADE)
    leader = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.5, "shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)}
    place: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "annotation_clip": False, "arrowprops": leader}
    return axes.annotate(text, (x[last], y[last]), (_LABEL_AT, 0.5), color=dark, fontsize=_LABEL_POINTS, **place)


def _apart(wanted: Sequence[float], pitch: float) -> list[float]:
    """The places from 0 to 1 nearest to the wanted ones (least squares) of which no two are closer than the pitch."""
    from scipy.optimize import isotonic_regression

    steps = np.arange(len(wanted)) * pitch
    order = np.argsort(wanted, kind="stable")
    places = np.empty(len(wanted))
    if len(wanted):
        places[order] = isotonic_regression(np.asarray(wanted)[order] - steps).x.clip(0, max(1 - steps[-1], 0)) + steps
    return [float(place) for place in places]


def _bounds(rows: Sequence[CompareRow]) -> dict[int, tuple[float, float]]:
    """The bound in ns and the bus bandwidth in GB/s that it allows, by size in ascending order."""
    moved = {row.size_bytes: row.bus_bandwidth_gbps * row.time_ns for row in rows if row.bus_bandwidth_gbps and row.time_ns}
    return {size: (ns, moved[size] / ns) for size, ns in sorted(best_bound_ns(rows).items()) if ns > 0}


def _dress(axes: Axes, sizes: Sequence[int], most: int) -> None:
    """Make both axes logarithmic, with sizes along x, some of them named, and plain numbers along y."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    step = -(-len(sizes) // most)
    axes.xaxis.set_major_locator(FixedLocator([float(size) for size in sizes[::step]]))
    axes.xaxis.set_minor_locator(FixedLocator([float(size) for size in sizes]) if step > 1 else NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_size(round(value))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim() if axes.get_ylim()[0] > 0 else (1.0, 10.0)  # not positive if all refused
    is_short = high < 100 * low
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low, high)
    axes.grid(visible=True, which="major")
    axes.set_axisbelow(True)
