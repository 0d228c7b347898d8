"""A replay over time as a figure for a paper: the state of every rank, before and after a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.report.figure.bars_over_time import TimePanel
from astra_tacos.report.figure.figure_style import WIDTH_INCHES, wrapped
from astra_tacos.report.links_over_time import Bars
from astra_tacos.report.rank_states import STATES, find_segments
from astra_tacos.report.style import RANK_STATES, shape_text, time_text, time_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from astra_tacos.run.recording import Recording

MOST_RANKS = 300
"""Number of ranks up to which bars are drawn; for more, shares of time are drawn instead."""


def draw_rank_timeline(recording: Recording, width: str = "double") -> Figure:
    """Draw a panel for the run before the plan, if the recording has it, and one for the run after it, on one time axis.

    Parameters
    ----------
    recording
        The recorded run.
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = [(name, replay, find_segments(recording.nodes, replay)) for name, replay in recording.replays]
    end_ns = max(replay.run_end_ns for _, replay, _ in shown)
    unit, scale = time_unit(max(end_ns, 1) / 20)
    figure = Figure(figsize=(WIDTH_INCHES[width], 1.0 + 1.45 * len(shown)), layout="constrained")
    panels: Any = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    note = ""
    for axes, (name, replay, segments) in zip(panels, shown, strict=True):
        ranks = len(replay.finish_ns)
        bars = Bars(segments.rank, segments.start_ns, segments.end_ns, segments.state)
        shared = TimePanel(axes, RANK_STATES, max(end_ns, 1), scale, width).add(bars, ranks, MOST_RANKS)
        of = f" of up to {shared:,} ranks" if shared > 1 else ""
        note = f"colours are mixed by the share of time{of}" if shared else note
        facts = f"{time_text(replay.run_end_ns)}, exposed communication {time_text(int(replay.exposed_comm_ns.max()))}"
        axes.set_title(f"{name}: {facts}" if name else facts, loc="left", fontsize=7.5)
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
