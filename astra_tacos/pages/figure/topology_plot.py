"""A network as a figure for a paper: devices, and links coloured by bandwidth or by their use in a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tacos.network.composition import with_failed_links
from astra_tacos.network.topology import Topology
from astra_tacos.pages.style import WIDTH_INCHES, shape_text, wrapped
from astra_tacos.pages.topology_groups import Grouped, group
from astra_tacos.pages.topology_layout import Layout
from astra_tacos.pages.topology_picture import Shades, TopologyPicture, bandwidth_shades, topology_picture, use_shades
from astra_tacos.support.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "hexagon": "h"}
"""Matplotlib's markers of shapes."""
_SMALLEST_MARK = 3.0
"""Size of a mark in points below which its shape does not show."""
_LINE_INCHES, _PAD_INCHES = 0.15, 0.1
_NOTE_SHARE = {"double": 0.42, "single": 1.1}
"""Share of the figure's width for the notes beside or under the panel, which are set in 7 points."""
_PANEL_INCHES = {"double": 4.6, "single": 3.3}
_SIDE_INCHES = 2.3
"""Width of the colour bar and the dimensions, beside the panel of a double figure."""
_BAR_INCHES = 0.09
_WIDEST_POINTS, _THINNEST_POINTS = 2.2, 0.15
_MOST_INK = 0.35
"""Share of the drawing that links may cover."""
_FAILED_POINTS = 0.8
_DASHES = (0, (3, 1.5))
_LABEL_POINTS = 5.0
"""Diameter of a device in points, per digit, from which on its number fits into it."""


_Box = tuple[float, float, float, float]


def draw_topology(topology: Topology, width: str = "double", busy: Floats | None = None) -> Figure:
    """Draw a network; devices of a large one are merged into groups, and a note in the figure says so.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    busy
        float64[num_links], share of the time for which each link is held; None colours links by their bandwidth.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm
    from matplotlib.figure import Figure

    grouped = group(topology)
    values = topology.link_bandwidth_gibps if busy is None else np.asarray(busy, np.float64)
    shades = bandwidth_shades(topology) if busy is None else use_shades()
    picture = topology_picture(grouped.topology, grouped.mean(values), shades, grouped.npus)
    notes = [
        line for note in _notes(topology, grouped, picture, busy) for line in wrapped(note, width, _NOTE_SHARE[width]).split("\n")
    ]
    shape = shape_text(topology.describe_shape())
    if not topology.forwarding:
        shape += f", {topology.num_npus:,} NPUs"
    title = wrapped(f"{topology.name}: {shape}" if width == "double" else f"{topology.name}\n{shape}", width)
    panel, bar, text, size = _places(picture.layout, width, title.count("\n") + 1, len(notes))
    figure = Figure(figsize=size)
    axes: Any = figure.add_axes(panel)
    middle, reach = np.array((0.5, 0.5)), picture.layout.size / 2 + 0.03
    low, high = middle - reach, middle + reach
    point = float((2 * reach / (panel[2] * size[0], panel[3] * size[1])).max()) / 72  # in the drawing's units
    colours, scale = _colours(shades)
    links = _add_links(axes, grouped.topology, picture, point)
    links.set(cmap=colours, norm=scale)
    _add_devices(axes, picture, grouped.npus == 1, point)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
    beside: Any = figure.add_axes(bar)
    colour_bar = figure.colorbar(ScalarMappable(scale, colours), cax=beside, orientation="horizontal")
    at = scale.boundaries if isinstance(scale, BoundaryNorm) else None
    colour_bar.set_ticks(shades.ticks if at is None else (at[1:] + at[:-1]) / 2, labels=shades.labels)
    colour_bar.ax.minorticks_off()
    colour_bar.ax.tick_params(labelsize=6.5, width=0.5, length=2)
    colour_bar.set_label(shades.title, fontsize=7.5)
    colour_bar.outline.set_linewidth(0.5)
    for line, note in enumerate(notes):
        figure.text(text[0], text[1] - line * _LINE_INCHES / size[1], note, va="top", fontsize=7)
    figure.text(0.5, 1 - 0.09 / size[1], title, ha="center", va="top", fontsize=8)
    return figure


def _places(drawn: Layout, width: str, titles: int, notes: int) -> tuple[_Box, _Box, tuple[float, float], tuple[float, float]]:
    """The places of panel, colour bar and notes relative to the figure, and the figure's size in inches, without overlaps.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.

    Returns
    -------
    (left, bottom, width, height) of the panel and of the colour bar, (left, top) of the notes, (width, height) of the figure
    """
    wide, high = drawn.size.tolist()
    across, title = WIDTH_INCHES[width], 0.15 + titles * _LINE_INCHES
    panel_width = _PANEL_INCHES[width]
    panel_height = panel_width * min(max((high + 0.1) / (wide + 0.1), 0.25), 1.0)
    block = 0.5 + notes * _LINE_INCHES  # colour bar with its ticks and title, and the notes under it
    if width == "double":
        body = max(panel_height, block + 0.1)
        height = title + body + _PAD_INCHES
        left = across - _SIDE_INCHES - 0.05
        top = _PAD_INCHES + (body + block) / 2
        panel = (_PAD_INCHES, _PAD_INCHES + (body - panel_height) / 2, panel_width, panel_height)
        bar = (left, top - _BAR_INCHES, _SIDE_INCHES - 0.15, _BAR_INCHES)
    else:
        height = title + panel_height + 0.15 + block + _PAD_INCHES
        left, top = _PAD_INCHES + 0.2, _PAD_INCHES + block
        panel = (_PAD_INCHES, _PAD_INCHES + block + 0.15, panel_width, panel_height)
        bar = (left, top - _BAR_INCHES, panel_width - 0.4, _BAR_INCHES)
    size = (across, height)

    def relative(box: _Box) -> _Box:
        return (box[0] / size[0], box[1] / size[1], box[2] / size[0], box[3] / size[1])

    return relative(panel), relative(bar), (left / size[0], (top - 0.5) / size[1]), size


def _colours(shades: Shades) -> tuple[Colormap, Normalize]:
    from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap, LogNorm, Normalize

    colours, ticks = LinearSegmentedColormap.from_list("links", shades.colours), np.array(shades.ticks)
    if shades.scale == "steps":
        edges = np.concatenate(([ticks[0] / 2], (ticks[1:] + ticks[:-1]) / 2, [ticks[-1] * 2]))
        return colours, BoundaryNorm(edges, colours.N)
    return colours, (LogNorm if shades.scale == "log" else Normalize)(ticks[0], ticks[-1])


def _widths(topology: Topology, drawn: Layout, lines: Floats, point: float) -> Floats:
    """Line widths in points, float64[num_links]: smaller the more links there are, and for outer dimensions (long links)."""
    outer = np.maximum(topology.link_dimension.astype(np.float64), 0)
    widths = min(_WIDEST_POINTS, 0.09 * drawn.spacing / point) * 0.75**outer
    lengths = np.linalg.norm(np.diff(lines, axis=2), axis=3).sum(axis=(1, 2)) / point
    area = float(np.prod(np.maximum(drawn.size, 0.1))) / point**2
    ink = float((lengths * widths).sum()) / area
    return np.maximum(widths * min(1.0, _MOST_INK / ink), _THINNEST_POINTS)


def _add_links(axes: Axes, topology: Topology, picture: TopologyPicture, point: float) -> LineCollection:
    """Draw one curve per link; the two directions between a pair of devices run side by side, each on its right."""
    from matplotlib.collections import LineCollection

    lines = picture.layout.curves(picture.src, picture.dst)
    widths = _widths(topology, picture.layout, lines[: topology.num_links], point)
    widths = np.append(widths, np.full(picture.num_failed, np.median(widths)))
    back = set(zip(picture.dst.tolist(), picture.src.tolist(), strict=True))
    ends = zip(picture.src.tolist(), picture.dst.tolist(), strict=True)
    is_paired = np.array([pair in back for pair in ends])
    along = np.gradient(lines, axis=2)
    right = np.stack((along[..., 1], -along[..., 0]), axis=-1)
    right /= np.maximum(np.linalg.norm(right, axis=-1, keepdims=True), 1e-300)
    lines = lines + right * (np.where(is_paired, 0.62 * widths, 0.0) * point)[:, None, None, None]
    order = np.argsort(picture.values, kind="stable")  # the busiest or fastest links are drawn last, on top
    paths = [_path(lines[link]) for link in order.tolist()]
    failed = [_path(lines[link]) for link in range(len(order), len(lines))]
    if failed:
        style: dict[str, Any] = {"colors": picture.failed_colour, "linestyles": [_DASHES], "zorder": 2.5, "capstyle": "butt"}
        axes.add_collection(LineCollection(failed, linewidths=max(float(widths[-1]), _FAILED_POINTS), **style))
    collection = LineCollection(paths, linewidths=widths[order], zorder=2, capstyle="butt")
    collection.set_array(picture.values[order])
    axes.add_collection(collection)
    return collection


def _path(halves: Floats) -> Floats:
    """The points of a link, float64[n, 2], from those of its halves: the two ends if it is straight, NaN between half arcs."""
    src, inner, other, dst = halves[0, 0], halves[0, -1], halves[1, 0], halves[1, -1]
    if np.abs(inner - other).max() > 1e-9:
        return np.concatenate((halves[0], np.full((1, 2), np.nan), halves[1]))
    if np.abs(inner - (src + dst) / 2).max() < 1e-9:
        return halves[[0, 1], [0, -1]]
    return halves.reshape(-1, 2)


def _add_devices(axes: Axes, picture: TopologyPicture, are_numbered: bool, point: float) -> None:
    """Draw the marks of devices, with the numbers of NPUs if these fit; marks without numbers are dots."""
    diameter = min(max(0.42 * picture.layout.spacing / point, 1.2), 15.0)
    npus = picture.marks[0].devices
    has_labels = are_numbered and diameter >= _LABEL_POINTS * (0.55 + 0.55 * len(str(len(npus) - 1)))
    style: dict[str, Any] = {"linewidths": min(0.6, diameter / 8), "zorder": 3, "clip_on": False}
    for mark in picture.marks:
        is_npu = mark is picture.marks[0]
        face, edge = (mark.edge, mark.fill) if is_npu and not has_labels else (mark.fill, mark.edge)
        side = diameter if is_npu else min(max(diameter, _SMALLEST_MARK), 9.0)
        style["linewidths"] = min(0.6, diameter / 8) if is_npu else 0.6
        x, y = picture.layout.positions[mark.devices].T
        axes.scatter(x, y, s=side**2, marker=_MARKERS[mark.shape], color=face, edgecolors=edge, **style)
    if has_labels:
        for number, (x, y) in enumerate(picture.layout.positions[npus].tolist()):
            axes.text(x, y, str(number), ha="center", va="center_baseline", fontsize=min(diameter * 0.5, 6.5), zorder=4)


def _notes(topology: Topology, grouped: Grouped, picture: TopologyPicture, busy: Floats | None) -> list[str]:
    """The notes of a figure: its dimensions, the meaning of its marks, and what was merged."""
    notes: list[str] = []
    for index, dimension in enumerate(topology.dimensions):
        is_part = topology.link_dimension == index
        facts = f"{dimension.bandwidth_gibps:g} GiB/s, {dimension.latency_ns:g} ns"
        if busy is not None:
            facts = f"{dimension.bandwidth_gibps:g} GiB/s, {float(np.mean(busy[is_part])) if is_part.any() else 0.0:.0%} busy"
        inside = " (inside)" if grouped.dimension[index] < 0 else ""
        notes.append(f"{index}: {dimension.block} {dimension.size}, {facts}{inside}")
    if not topology.dimensions and busy is not None:
        notes.append(f"{topology.num_links:,} links, {float(np.mean(busy)):.0%} busy")
    notes.append("; ".join(mark.text for mark in picture.marks))
    if failed := with_failed_links(topology).num_links - topology.num_links:
        notes.append(f"failed links: {failed:,}{' (dashed)' if picture.num_failed else ''}")
    if grouped.is_merged:
        notes.append(f"lines: means of up to {grouped.links_of_each:,} links")
        notes.append(f"{np.count_nonzero(grouped.link < 0):,} of {topology.num_links:,} links inside groups")
    return notes
