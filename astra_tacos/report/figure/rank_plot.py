"""A replay over time as a figure for a paper: the state of every rank, before and after a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.report.figure.figure_style import RANK_STATES, WIDTH_INCHES, save_figure, shape_text, time_unit, wrapped
from astra_tacos.report.links_over_time import coverage
from astra_tacos.report.rank_states import STATES, Segments, find_segments
from astra_tacos.support.units import format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from astra_tacos.run.recording import Recording

MOST_VECTOR_BARS = 1_000
MOST_BARS = 100_000
MOST_RANKS = 300
"""Number of bars and of ranks up to which bars are drawn; for more, shares of time are drawn instead."""
_BINS = {"double": 1500, "single": 700}
_BAR_HEIGHT = 0.86


def save_rank_timeline(recording: Recording, path: Path, width: str = "double") -> None:
    """Write the figure of a recording to a file; equal recordings give equal bytes.

    Parameters
    ----------
    recording
        The recorded run.
    path
        File to write; its suffix names the format.
    width
        Width of the figure, a key of `WIDTHS`.

    Raises
    ------
    ConfigError
        If the suffix names no format or the file cannot be written.
    """
    save_figure(path, lambda: draw_rank_timeline(recording, width))


def draw_rank_timeline(recording: Recording, width: str = "double") -> Figure:
    """Draw a panel for the run before the plan, if the recording has it, and one for the run after it, on one time axis."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    replays = [("before", recording.before), ("after", recording.after)]
    shown = [(name, replay, find_segments(recording.nodes, replay)) for name, replay in replays if replay is not None]
    end_ns = max(replay.run_end_ns for _, replay, _ in shown)
    unit, scale = time_unit(max(end_ns, 1) / 20)
    figure = Figure(figsize=(WIDTH_INCHES[width], 1.0 + 1.45 * len(shown)), layout="constrained")
    panels: Any = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    note = ""
    for axes, (name, replay, segments) in zip(panels, shown, strict=True):
        note = _add_ranks(axes, segments, max(end_ns, 1), scale, width) or note
        ranks = len(replay.finish_ns)
        facts = f"{_text(replay.run_end_ns)}, exposed communication {_text(int(replay.exposed_comm_ns.max()))}"
        axes.set_title(f"{name}: {facts}" if len(shown) > 1 else facts, loc="left", fontsize=7.5)
        axes.set(ylabel="rank", ylim=(ranks, 0))
        axes.axvline(replay.run_end_ns / scale, color="black", linewidth=0.7, linestyle=(0, (3, 2)), zorder=4, clip_on=False)
        step = max(1, -(-ranks // 8))
        axes.set_yticks(np.arange(0, ranks, step) + 0.5, [str(rank) for rank in range(0, ranks, step)])
    panels[-1].set(xlim=(0, end_ns / scale or 1.0), xlabel=f"time ({unit})")
    shape = f" ({shape_text(recording.shape)})" if recording.shape else ""
    shape = shape if width == "double" else shape.replace(" ", "\n", 1)
    title = f"{len(recording.after.finish_ns):,} ranks on {recording.network}{shape}"
    figure.suptitle(wrapped(title, width), fontsize=8)
    used = sorted({int(state) for _, _, segments in shown for state in np.unique(segments.state)})
    handles = [Patch(facecolor=RANK_STATES[state], label=STATES[state]) for state in used]
    legend: dict[str, Any] = {"title": note or None, "title_fontsize": 7, "handlelength": 1.2, "columnspacing": 1.2}
    legend |= {"ncols": len(handles)} if width == "double" else {"ncols": 2, "fontsize": 6.5}
    figure.legend(handles=handles, loc="outside lower center", **legend)
    return figure


def _text(time_ns: int) -> str:
    return format_time(time_ns).replace(" us", " µs")


def _add_ranks(axes: Axes, segments: Segments, end_ns: int, scale: float, width: str) -> str:
    """Draw one row per rank, as bars or as shares of time, and return a caption (empty for bars).

    Parameters
    ----------
    axes
        The panel.
    segments
        States of the ranks.
    end_ns
        End of the time axis.
    scale
        Length of the time unit in ns.
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    ranks, count = len(segments.rank_first) - 1, len(segments.state)
    if ranks <= MOST_RANKS and count <= MOST_BARS:
        for state, colour in enumerate(RANK_STATES):
            own = np.flatnonzero(segments.state == state)
            begin, end = segments.start_ns[own] / scale, segments.end_ns[own] / scale
            at = segments.rank[own] + (1 - _BAR_HEIGHT) / 2
            corners = np.stack((begin, at, begin, at + _BAR_HEIGHT, end, at + _BAR_HEIGHT, end, at), axis=1).reshape(-1, 4, 2)
            style: dict[str, Any] = {"edgecolors": "none", "rasterized": count > MOST_VECTOR_BARS, "zorder": 2}
            axes.add_collection(PolyCollection(list(corners), facecolors=[colour], **style))
        return ""
    lines, bins = min(ranks, MOST_RANKS), _BINS[width]
    line = np.arange(ranks) * lines // ranks
    image = np.ones((lines, bins, 3))
    for state, colour in enumerate(RANK_STATES):
        own = segments.state == state
        at = line[segments.rank[own]]
        start, end = segments.start_ns[own] * (bins / end_ns), segments.end_ns[own] * (bins / end_ns)
        share = coverage(at, start, end, (lines, bins)) / np.bincount(line)[:, None]
        image -= share[:, :, None] * (1 - np.array(to_rgb(colour)))
    extent = (0.0, end_ns / scale, float(ranks), 0.0)
    axes.imshow(np.clip(image, 0, 1), extent=extent, aspect="auto", interpolation="nearest", zorder=1)
    of = f" of up to {-(-ranks // lines):,} ranks" if ranks > lines else ""
    return f"colours are mixed by the share of time{of}"
