"""Symmetric schedules as figures for a paper: classes of links over time, and one tree of NPU 0's chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.network.network_config import Dimension, describe_dimensions
from astra_tacos.pages.links_over_time import Bars, TimePanel, send_kinds
from astra_tacos.pages.style import (
    SERIES_STYLES,
    capitalized,
    colours_from,
    new_figure,
    shape_text,
    time_text,
    time_unit,
    wrapped,
)
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 4096
"""NPUs up to which a tree is drawn; more could not be told apart."""
_MOST_LINES = 64
"""Classes up to which each has a line of its own."""
_TREE_INCHES = {"double": 5.2, "single": 3.4}
_LABELLED = 100
_STUB = 0.55
"""Length of the ends of a line around a ring, in steps of the grid."""


def draw_symmetric_timeline(schedule: SymmetricSchedule, width: str = "double") -> Figure:
    """Draw sends of NPU 0's chunks as bars, or many as shares of time.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.patches import Patch

    task, time = schedule.task, max(schedule.collective_time_ns, 1)
    unit, scale = time_unit(time / 20)
    way = schedule.link_class
    lines = len(task.classes)
    end = schedule.start_ns + task.hold_ns[way]
    figure = new_figure(width, 1.2 + 0.22 * min(max(lines, 4), _MOST_LINES))
    axes: Any = figure.subplots()
    kinds = send_kinds(schedule)
    bars = Bars(way, schedule.start_ns, end, np.where(schedule.reduces, 0, len(kinds) - 1))
    is_image = TimePanel(axes, kinds, time, scale, width).add(bars, lines, _MOST_LINES)
    note = (
        f"{schedule.num_rows:,} sends of NPU 0's chunks: the paler, the more of the time the links are idle" if is_image else ""
    )
    axes.set(xlim=(0, time / scale), ylim=(lines, 0), xlabel=f"time ({unit})")
    if lines <= _MOST_LINES:
        axes.set_yticks(np.arange(lines) + 0.5, [_class_text(task, at) for at in range(lines)], fontsize=6)
    axes.set_ylabel("classes of links")
    axes.tick_params(axis="y", length=0)
    figure.suptitle(wrapped(f"{_title(schedule)}\na line stands for one link of every NPU", width), fontsize=8)
    handles = [Patch(color=kind.colour, label=kind.label) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=note or None, title_fontsize=7, handlelength=1.4)
    return figure


def draw_tree(schedule: SymmetricSchedule, width: str = "double", chunk: int = 0) -> Figure:
    """Draw the copies of a chunk as lines between NPUs, or its sums if nothing is copied.

    NPUs lie in a grid of their coordinates, each dimension along the side that is shorter without it. NPU 0 is in the middle of
    dimensions that are rings. A line between the ends of a ring leaves at the one and enters at the other.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    chunk
        Number of the chunk among NPU 0's.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    task = schedule.task
    if not 0 <= chunk < task.num_chunks:
        raise ConfigError(f"tree: chunk {chunk}, expected 0 to {task.num_chunks - 1}, one of NPU 0's")
    if task.num_npus > MOST_NODES:
        raise ConfigError(f"tree: {task.num_npus:,} NPUs, expected at most {MOST_NODES:,} to draw")
    sends = np.flatnonzero((schedule.chunk == chunk) & ~schedule.reduces)
    gathers = len(sends) > 0
    sends = sends if gathers else np.flatnonzero(schedule.chunk == chunk)
    there, back = (schedule.dst[sends], schedule.src[sends]) if gathers else (schedule.src[sends], schedule.dst[sends])
    reached = schedule.end_ns[sends] if gathers else schedule.start_ns[sends]
    place = _places(task)
    unit, scale = time_unit(max(schedule.collective_time_ns, 1) / 20)
    inches = _TREE_INCHES[width]
    spread = np.ptp(place, axis=0) + 1
    figure = Figure(
        figsize=(inches, float(np.clip(0.8 * inches * spread[1] / spread[0], 1.6, 1.3 * inches)) + 0.8), layout="constrained"
    )
    axes: Any = figure.subplots()
    shades = Normalize(float(reached.min()) / scale, float(reached.max()) / scale)
    colours = colours_from("viridis", 0.0, 0.95)
    dimension = np.array([task.classes[at].dimension for at in schedule.link_class[sends].tolist()], np.int64)
    size = float(np.clip(inches * 72 / max(spread) * 0.45, 1.5, 13.0))
    for index, (colour, _) in zip(range(len(task.dimensions)), SERIES_STYLES * len(task.dimensions), strict=False):
        these = np.flatnonzero(dimension == index)
        ends = zip(place[back[these]], place[there[these]], strict=True)
        curves = [line for begin, end in ends for line in _lines(begin, end, _is_ring(task.dimensions[index]))]
        axes.add_collection(LineCollection(curves, colors=colour, linewidths=float(np.clip(size / 6, 0.4, 1.4)), zorder=1))
    axes.scatter(*place[there].T, c=reached / scale, norm=shades, cmap=colours, s=size**2, zorder=2, linewidths=0)
    axes.scatter(*place[:1].T, c="#cc3311", s=(1.5 * size) ** 2, marker="*", zorder=3, linewidths=0)
    if task.num_npus <= _LABELLED:
        for npu in range(1, task.num_npus):
            axes.annotate(str(npu), place[npu], ha="center", va="center", fontsize=0.45 * size, color="white", zorder=4)
    low, high = place.min(axis=0) - 1, place.max(axis=0) + 1
    axes.set(aspect="equal", xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for side in axes.spines.values():
        side.set_visible(False)
    when = "when the chunk is there" if gathers else "when the sum leaves"
    figure.colorbar(ScalarMappable(shades, colours), ax=axes, label=f"{when} ({unit})", shrink=0.75, aspect=30)
    handles: list[Any] = [Line2D([], [], color="#cc3311", marker="*", linestyle="none", label="NPU 0")]
    for index, drawn_dimension in enumerate(task.dimensions):
        handles.append(
            Line2D(
                [],
                [],
                color=SERIES_STYLES[index % len(SERIES_STYLES)][0],
                label=f"{index}: {drawn_dimension.block} {drawn_dimension.size}",
            )
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    title = f"{_title(schedule)}\nchunk {chunk} of NPU 0 and its {len(sends):,} sends, which translations move to all other NPUs"
    figure.suptitle(wrapped(title, width, 0.8 if width == "double" else 1.0), fontsize=8)
    return figure


def _places(task: SymmetricTask) -> Floats:
    """float64[num_npus, 2], where NPUs are drawn."""
    npus, place, step = np.arange(task.num_npus), np.zeros((task.num_npus, 2)), [1.0, 1.0]
    for dimension, stride in zip(task.dimensions, task.group.strides, strict=True):
        size, axis = dimension.size, int(np.argmin(step))
        member = npus // stride % size
        if _is_ring(dimension):
            member = (member + (size - 1) // 2) % size - (size - 1) // 2
        place[:, axis] += member * step[axis]
        step[axis] *= size + 0.6
    return place


def _is_ring(dimension: Dimension) -> bool:
    """Whether the members, by their numbers, are neighbours in a ring, and no others are."""
    tour = dimension.building_block.tour(dimension.size)
    is_closed = tour is not None and tour.is_closed and np.array_equal(tour.order, np.arange(dimension.size))
    return is_closed and dimension.building_block.links_per_npu(dimension.size) == 2


def _lines(begin: Floats, end: Floats, is_ring: bool) -> list[Floats]:
    """float64[n, 2] each: a line between neighbours, the two ends of one around a ring, or an arc past the NPUs in between."""
    apart = end - begin
    length = float(np.hypot(*apart))
    if is_ring and length > 1:
        out = apart / length * _STUB
        return [np.array([begin, begin - out]), np.array([end + out, end])]
    if length < 1.5:
        return [np.array([begin, end])]
    along = np.linspace(0, 1, 13)[:, None]
    aside = np.array([-apart[1], apart[0]]) * (0.12 + 0.25 / length)
    return [begin + along * apart + 2 * along * (1 - along) * aside]


def _class_text(task: SymmetricTask, at: int) -> str:
    link_class = task.classes[at]
    dimension = task.dimensions[link_class.dimension]
    if link_class.through_switch:
        return f"{dimension.block} {dimension.size}: port"
    return f"{dimension.block} {dimension.size}: 0 → {int(link_class.moves[0]) * task.group.strides[link_class.dimension]}"


def _title(schedule: SymmetricSchedule) -> str:
    task = schedule.task
    where = f"{shape_text(describe_dimensions(task.dimensions))} ({task.num_npus:,} NPUs)"
    time = time_text(schedule.collective_time_ns)
    return f"{capitalized(task.collective)} of {format_size(task.size_bytes)} on {where}, {schedule.synthesizer}: {time}"
