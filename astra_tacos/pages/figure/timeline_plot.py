"""Timelines as figures for a paper: the links of a schedule, or the ranks of a run before and after a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.pages.links_over_time import (
    Bars,
    ChunkSends,
    LinkRows,
    TimePanel,
    bars_of,
    device_label,
    link_rows,
    mixed,
    send_kinds,
    sends_of_chunk,
)
from astra_tacos.pages.rank_states import STATES, find_segments
from astra_tacos.pages.style import (
    capitalized,
    new_figure,
    shape_text,
    time_text,
    time_unit,
    wrapped,
)
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from astra_tacos.run.recording import Recording


MOST_ROWS = 700
"""Number of rows up to which bars are drawn; for more, shares of time are drawn instead."""
_LABELLED_ROWS = {"double": 36, "single": 24}
_HEIGHT_INCHES = {"double": 3.5, "single": 3.3}
_PALE = 0.22
"""Strength of the colours of sends that are not highlighted."""
_LEAST_SHARE = (0.0025, 0.006)
"""Least width and height of a highlighted bar, as shares of the panel's width and height."""
_MOST_TREE_LINES = 400
"""Number of lines from send to send up to which they are drawn; more could not be told apart."""


def draw_timeline(schedule: Schedule, width: str = "double", chunk: int | None = None) -> Figure:
    """Draw sends as bars or, for large schedules, as shares of time in pixels; a caption says so.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    chunk
        A chunk whose sends are highlighted, with lines from each arrival to the sends that depend on it; None for no chunk.
    """
    from matplotlib.patches import Patch

    if not schedule.num_sends:
        raise ConfigError("timeline: the schedule has no sends, expected some to draw")
    rows = link_rows(schedule.topology, with_down_links=False)
    unit, scale = time_unit(schedule.collective_time_ns / 20)
    figure = new_figure(width, _HEIGHT_INCHES[width])
    axes: Any = figure.subplots()
    panel = TimePanel(axes, send_kinds(schedule), schedule.collective_time_ns, scale, width)
    links = panel.add(bars_of(schedule, rows), rows.num_rows, MOST_ROWS, 1.0 if chunk is None else _PALE)
    of = f"of up to {links:,} links" if links > 1 else "of a link"
    note = f"{schedule.num_sends:,} sends: the paler, the more of the time {of} is idle" if links else ""
    title = _title(schedule, width)
    if chunk is not None:
        chunk_sends = sends_of_chunk(schedule, rows, chunk)
        least = schedule.collective_time_ns / scale * _LEAST_SHARE[0], rows.num_rows * _LEAST_SHARE[1]
        panel.add_bars(chunk_sends.bars, 1.0, least)
        _add_tree(axes, chunk_sends, scale)
        title += f"\nchunk {chunk:,}: {len(chunk_sends.done_ns):,} sends"
    _dress(axes, rows, schedule, width)
    axes.set(xlim=(0, schedule.collective_time_ns / scale), ylim=(rows.num_rows, 0), xlabel=f"time ({unit})")
    figure.suptitle(wrapped(title, width), fontsize=8)
    kinds = [Patch(color=kind.colour, label=kind.label) for kind in panel.kinds]
    if chunk is not None:
        kinds.append(Patch(color=mixed("#777777", _PALE), label="other chunks"))
    figure.legend(handles=kinds, loc="outside lower center", ncols=4, title=note or None, title_fontsize=7, handlelength=1.4)
    return figure


def _add_tree(axes: Axes, chunk_sends: ChunkSends, scale: float) -> None:
    """Lines from where a send of the chunk ends to the sends that wait for it."""
    from matplotlib.collections import LineCollection

    waits, source = chunk_sends.waits, chunk_sends.source
    at = chunk_sends.bars.row + 0.5
    if len(source) > _MOST_TREE_LINES:
        return
    lines = np.stack(
        (chunk_sends.done_ns[source] / scale, at[source], chunk_sends.bars.start_ns[waits] / scale, at[waits]), axis=1
    )
    style: dict[str, Any] = {"colors": "#222222", "linewidths": 0.5 if len(lines) < 60 else 0.3, "zorder": 4}
    axes.add_collection(LineCollection(list(lines.reshape(-1, 2, 2)), **style))


def _dress(axes: Axes, rows: LinkRows, schedule: Schedule, width: str) -> None:
    """Label the rows by group and, if there is room, by link."""
    topology = schedule.topology
    middles = [group.first + group.count / 2 for group in rows.groups]
    names = [shape_text("\n".join(filter(None, (group.name, group.facts)))) for group in rows.groups]
    axes.tick_params(axis="y", length=0)
    if rows.num_rows <= _LABELLED_ROWS[width]:
        ends = zip(topology.link_src[rows.link].tolist(), topology.link_dst[rows.link].tolist(), strict=True)
        labels = [f"{device_label(topology, src)} → {device_label(topology, dst)}" for src, dst in ends]
        axes.set_yticks(np.arange(rows.num_rows) + 0.5, labels, fontsize=5.5 if rows.num_rows > 20 else 6.5)
        axes.set_ylabel("link")
        beside = axes.secondary_yaxis("right")
        beside.tick_params(axis="y", length=0)
        beside.set_yticks(middles, names)
        beside.spines["right"].set_visible(False)
    else:
        axes.set_yticks(middles, names)
        axes.set_ylabel("links by dimension" if topology.dimensions else "links by bandwidth")
    for group in rows.groups[1:]:
        axes.axhline(group.first, color="black", linewidth=0.6, zorder=5)


def _title(schedule: Schedule, width: str) -> str:
    topology, collective = schedule.topology, schedule.collective
    subject = f"{capitalized(collective.name)} of {format_size(collective.size_bytes)}"
    where = f"{shape_text(topology.describe_shape())} ({topology.num_endpoints:,} NPUs)"
    maker = f"{schedule.synthesizer}: {time_text(schedule.collective_time_ns)}"
    if width == "double":
        return f"{subject} on {where}, {maker}"
    return f"{subject}, {maker}\n{where}"


MOST_RANKS = 300
"""Number of ranks up to which bars are drawn; for more, shares of time are drawn instead."""


def draw_rank_timeline(recording: Recording, width: str = "double") -> Figure:
    """Draw a panel for the run before the plan, if the recording has it, and one for the run after it, on one time axis.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.patches import Patch

    shown = [(name, replay, find_segments(recording.nodes, replay)) for name, replay in recording.replays]
    end_ns = max(replay.run_end_ns for _, replay, _ in shown)
    unit, scale = time_unit(max(end_ns, 1) / 20)
    figure = new_figure(width, 1.0 + 1.45 * len(shown))
    panels: Any = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    note = ""
    for axes, (name, replay, segments) in zip(panels, shown, strict=True):
        ranks = len(replay.finish_ns)
        bars = Bars(segments.rank, segments.start_ns, segments.end_ns, segments.state)
        shared = TimePanel(axes, STATES, max(end_ns, 1), scale, width).add(bars, ranks, MOST_RANKS)
        of = f" of up to {shared:,} ranks" if shared > 1 else ""
        note = f"colours are mixed by the share of time{of}" if shared else note
        facts = f"{time_text(replay.run_end_ns)}, exposed communication {time_text(int(replay.exposed_comm_ns.max()))}"
        axes.set_title(f"{name}: {facts}" if name else facts, loc="left", fontsize=7.5)
        axes.set(ylabel="rank", ylim=(ranks, 0))
        axes.axvline(replay.run_end_ns / scale, color="black", linewidth=0.7, linestyle=(0, (3, 2)), zorder=4, clip_on=False)
        step = max(1, -(-ranks // 8))
        axes.set_yticks(np.arange(0, ranks, step) + 0.5, list(map(str, recording.nodes.numbers[::step])))
    panels[-1].set(xlim=(0, end_ns / scale or 1.0), xlabel=f"time ({unit})")
    shape = f" ({shape_text(recording.shape)})" if recording.shape else ""
    shape = shape if width == "double" else shape.replace(" ", "\n", 1)
    title = f"{recording.nodes.title} on {recording.network}{shape}"
    figure.suptitle(wrapped(title, width), fontsize=8)
    used = sorted({int(state) for _, _, segments in shown for state in np.unique(segments.state)})
    handles = [Patch(facecolor=STATES[state].colour, label=STATES[state].label) for state in used]
    legend: dict[str, Any] = {"title": note or None, "title_fontsize": 7, "handlelength": 1.2, "columnspacing": 1.2}
    legend |= {"ncols": len(handles)} if width == "double" else {"ncols": 2, "fontsize": 6.5}
    figure.legend(handles=handles, loc="outside lower center", **legend)
    return figure
