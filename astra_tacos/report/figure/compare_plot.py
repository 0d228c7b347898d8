"""A comparison of synthesizers as a figure for a paper: time and bus bandwidth against size, with the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from astra_tacos.report.compare_rows import NATIVE, CompareRow, best_bound_ns
from astra_tacos.report.style import capitalized, look_of, new_figure, shape_text, time_unit
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 6
_MOST_LINES = 6
_LEGEND_COLUMNS = {"double": 4, "single": 2}
"""Entries of a legend beside one another that fit, however long the names of synthesizers are."""


def draw_comparison(rows: Sequence[CompareRow], width: str) -> Figure:
    """Draw time and bus bandwidth against size, with the bounds: native, and of the others those nearest to the fastest.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    names = _drawn(rows)
    sizes = sorted({row.size_bytes for row in rows})
    is_wide = width == "double"
    figure = new_figure(width, 3.2 if is_wide else 5.8)
    panels: Any = figure.subplots(*((1, 2) if is_wide else (2, 1)), sharex=not is_wide)
    time, bandwidth = panels
    times = [row.time_ns for row in rows if row.time_ns is not None and row.synthesizer in names]
    unit, scale = time_unit(min(times, default=1))
    handles: list[Any] = []
    for place, name in enumerate(names):
        colour, marker = look_of(name)
        own = {row.size_bytes: row for row in rows if row.synthesizer == name}
        style: dict[str, Any] = {"color": colour, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.4}
        # Curves that coincide all show: the first is on top, those below are drawn larger.
        below = place / max(len(names) - 1, 1)
        style |= {"clip_on": False, "zorder": 4 - below, "markersize": 3.8 + 2.4 * below, "linewidth": 1.0 + 0.5 * below}
        values = [(own[size].time_ns, own[size].bus_bandwidth_gbps) if size in own else (None, None) for size in sizes]
        line = time.plot(sizes, [math.nan if ns is None else ns / scale for ns, _ in values], **style)[0]
        bandwidth.plot(sizes, [math.nan if gbps is None else gbps for _, gbps in values], **style)
        line.set_label(name)
        handles.append(line)
    bounds = _bounds(rows)
    if bounds:
        at = list(bounds)
        style = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 0.9, "zorder": 2}
        least, most = [ns / scale for ns, _ in bounds.values()], [gbps for _, gbps in bounds.values()]
        handles += time.plot(at, least, label="lower bound", **style)
        bandwidth.plot(at, most, **style)
    for axes in (time, bandwidth):
        _dress(axes, sizes)
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
    figure.suptitle(f"{capitalized(first.collective)} on{' ' if is_wide else chr(10)}{where}", fontsize=8)
    figure.align_ylabels()
    figure.legend(handles=handles, loc="outside lower center", ncols=_LEGEND_COLUMNS[width], handlelength=2.4)
    return figure


def _drawn(rows: Sequence[CompareRow]) -> list[str]:
    """Names of the lines, in the order of the rows."""
    least: dict[int, float] = {}
    for row in rows:
        if row.time_ns:
            least[row.size_bytes] = min(row.time_ns, least.get(row.size_bytes, row.time_ns))
    behind: dict[str, float] = {}
    for row in rows:
        if row.time_ns:
            ratio = row.time_ns / least[row.size_bytes]
            behind[row.synthesizer] = min(ratio, behind.get(row.synthesizer, ratio))
    nearest = sorted(behind, key=lambda name: (name != NATIVE, behind[name]))[:_MOST_LINES]
    return [name for name in behind if name in nearest]


def _bounds(rows: Sequence[CompareRow]) -> dict[int, tuple[float, float]]:
    """The bound in ns and the bus bandwidth in GB/s that it allows, by size in ascending order."""
    moved = {row.size_bytes: row.bus_bandwidth_gbps * row.time_ns for row in rows if row.bus_bandwidth_gbps and row.time_ns}
    return {size: (ns, moved[size] / ns) for size, ns in sorted(best_bound_ns(rows).items()) if ns > 0}


def _dress(axes: Axes, sizes: Sequence[int]) -> None:
    """Make both axes logarithmic, with sizes along x and plain numbers along y."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    step = -(-len(sizes) // _MOST_TICKS)
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
