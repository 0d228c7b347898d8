"""A comparison of synthesizers as a figure for a paper: time and bus bandwidth against size, with the bound."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.errors import ConfigError
from astra_tacos.files import replaced_file
from astra_tacos.report.compare_rows import CompareRow, best_bound_ns
from astra_tacos.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".pdf", ".png")
WIDTHS = ("double", "single")
"""Columns of a two-column paper: 7.16 in with the panels side by side, 3.5 in with one above the other."""

_STYLES = {
    "auto": ("#000000", "*"),
    "tacos": ("#332288", "o"),
    "trees": ("#cc6677", "D"),
    "ring": ("#117733", "s"),
    "direct": ("#88ccee", "v"),
    "halving-doubling": ("#ddaa33", "^"),
    "double-binary-tree": ("#aa4499", "<"),
    "bruck": ("#44aa99", ">"),
    "hierarchical": ("#999933", "P"),
    "themis": ("#882255", "X"),
}
"""Colour and marker by synthesizer, so that figures of one paper agree: Paul Tol's `muted`, safe for the colour-blind."""
_OTHERS = (("#666666", "h"), ("#666666", "p"), ("#666666", "d"), ("#666666", "H"))
_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure is the same everywhere
    "font.size": 7.5,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "svg.fonttype": "path",
    "svg.hashsalt": "astra_tacos",
    "savefig.dpi": 300,
}
_NO_DATE: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
_TIME_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_MOST_TICKS = 6
_TIMES = " \N{MULTIPLICATION SIGN} "


def check_plot(path: Path) -> None:
    """Check that a figure can be made and has a format that is known.

    Raises
    ------
    ConfigError
        If not, with the remedy.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(f"{path}: figures need matplotlib, which is not installed: pip install 'astra-tacos[plot]'")


def save_plot(rows: Sequence[CompareRow], path: Path, width: str = "double") -> None:
    """Draw the comparison to a file; its suffix says the format, and the same rows give the same bytes."""
    check_plot(path)
    import matplotlib

    suffix = path.suffix.lower()
    with matplotlib.rc_context(_RC), replaced_file(path) as temporary:
        _draw(rows, width).savefig(temporary, format=suffix[1:], metadata=_NO_DATE[suffix])


def _draw(rows: Sequence[CompareRow], width: str) -> Figure:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.synthesizer for row in rows))
    sizes = sorted({row.size_bytes for row in rows})
    is_wide = width == "double"
    figure = Figure(figsize=(7.16, 3.2) if is_wide else (3.5, 5.8), layout="constrained")
    panels: Any = figure.subplots(*((1, 2) if is_wide else (2, 1)), sharex=not is_wide)
    time, bandwidth = panels
    times = [row.time_ns for row in rows if row.time_ns is not None]
    unit, scale = _time_unit(times)
    handles: list[Any] = []
    spare = iter(_OTHERS * len(names))
    for place, name in enumerate(names):
        colour, marker = _STYLES.get(name) or next(spare)
        own = {row.size_bytes: row for row in rows if row.synthesizer == name}
        style: dict[str, Any] = {"color": colour, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.4}
        # Curves that coincide all show: the first is on top, those below are drawn larger.
        below = place / max(len(names) - 1, 1)
        style |= {"clip_on": False, "zorder": 4 - below, "markersize": 3.8 + 2.4 * below, "linewidth": 1.0 + 0.5 * below}
        values = [(own[size].time_ns, own[size].bus_bandwidth_gbps) if size in own else (None, None) for size in sizes]
        line = time.plot(sizes, [math.nan if ns is None else ns / scale for ns, _ in values], **style)[0]
        bandwidth.plot(sizes, [math.nan if gbps is None else gbps for _, gbps in values], **style)
        refused = all(ns is None for ns, _ in values)
        line.set_label(f"{name} (cannot)" if refused else name)
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
    if bounds:  # once the limits are known: what no schedule can reach
        time.fill_between(at, least, time.get_ylim()[0], color="#f2f2f2", linewidth=0, zorder=0)
        bandwidth.fill_between(at, most, bandwidth.get_ylim()[1], color="#f2f2f2", linewidth=0, zorder=0)
    first = rows[0]
    shard = "size of one NPU's shard" if first.collective == "all-gather" else "size"
    time.set_ylabel(f"time ({unit})")
    bandwidth.set_ylabel("bus bandwidth (GB/s)")
    for axes in (time, bandwidth) if is_wide else (bandwidth,):
        axes.set_xlabel(shard)
    where = f"{first.topology.replace(' x ', _TIMES)} ({first.num_npus} NPUs)"
    figure.suptitle(f"{_title(first.collective)} on{' ' if is_wide else chr(10)}{where}", fontsize=8)
    figure.align_ylabels()
    figure.legend(handles=handles, loc="outside lower center", ncols=_columns(len(handles), is_wide), handlelength=2.4)
    return figure


def _bounds(rows: Sequence[CompareRow]) -> dict[int, tuple[float, float]]:
    """By size, ascending, the bound in ns and the bus bandwidth that it leaves room for."""
    moved = {row.size_bytes: row.bus_bandwidth_gbps * row.time_ns for row in rows if row.bus_bandwidth_gbps and row.time_ns}
    return {size: (ns, moved[size] / ns) for size, ns in sorted(best_bound_ns(rows).items()) if ns > 0}


def _dress(axes: Axes, sizes: Sequence[int]) -> None:
    """Logarithmic axes, with sizes and plain numbers at the ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator([float(size) for size in sizes[::step]]))
    axes.xaxis.set_minor_locator(FixedLocator([float(size) for size in sizes]) if step > 1 else NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_size(round(value))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim() if axes.get_ylim()[0] > 0 else (1.0, 10.0)  # where all refused there is nothing to show
    is_short = high < 30 * low
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low, high)
    axes.grid(visible=True, which="major")
    axes.set_axisbelow(True)


def _time_unit(times_ns: Sequence[int]) -> tuple[str, float]:
    """The largest unit in which the shortest time is not below a tenth."""
    shortest = min(times_ns, default=1)
    return next(((unit, scale) for unit, scale in reversed(_TIME_UNITS) if shortest >= scale / 10), _TIME_UNITS[0])


def _columns(entries: int, is_wide: bool) -> int:
    """Legend columns, so that its rows are about equally full."""
    most = 6 if is_wide else 3
    return math.ceil(entries / math.ceil(entries / most))


def _title(collective: str) -> str:
    return "-".join(part.capitalize() for part in collective.split("-"))
