"""Positions of the devices of a network in a drawing: by dimension, by layers of a fabric, or by networkx for another graph.

Each dimension arranges copies of the drawing of its inner dimensions. Consecutive rings and meshes form a grid (a third one is
drawn at an angle), and a link around a ring is two half arcs at the borders of the grid. The members of switches stand side by
side, and the switches in a layer of their own above or below them. Other blocks form a circle. A fabric has its NPUs in a row,
the devices that join them above, and those of a node below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import Drawing
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.graph import Graph

Points = Floats
IN_GRIDS = (Drawing.LINE, Drawing.RING)
"""Blocks that form a grid if several follow one another."""
_LONGEST_LINE = 12
"""Number of NPUs up to which a one-dimensional mesh is a line; a longer one is folded into rows."""
_MARGIN = 0.03
_ARC_REACH, _ARC_HEIGHT = 0.42, 0.36
"""How far a half arc leads beyond the border of a grid, and aside from its row, in distances between neighbours."""
_BOW = 0.16
"""How far a link between groups in a circle is bent aside, as a share of its length, so as not to cover links inside groups."""
_BETWEEN_GROUPS = 0.7
"""Room between the NPUs of two nodes, in distances between neighbours of a row."""
_TALLEST, _LAYER = 0.75, 0.24
"""Height of the drawing and of a layer, at most, as a share of the width."""
_ARC_IN_LAYER = 0.4
"""Height of an arc between two devices of one layer, as a share of their distance; at most of the height of a layer."""
_STEPS = 12
"""Number of straight pieces of half a curve."""
_CLOSE = 0.5
"""Devices of a layer stand over the middle of their neighbours if these are apart by that share of an even spacing."""
_MOST_BY_PATHS, _MOST_BY_FORCES = 64, 300
"""Numbers of devices up to which networkx lays out by distances in the graph, and by forces: both compare all pairs."""
_REACH = 0.4
"""Radius of a community in a large graph, as a share of the smallest distance between the middles of two."""
_SEED = 1


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A drawing of a network in the unit square, x to the right and y upwards, its middle in the middle of the square.

    Parameters
    ----------
    positions
        float64[num_devices, 2], positions of the devices; no two are equal.
    sender_half, receiver_half
        float64[num_links, 4], x and y of the control point and of the inner end of a quadratic Bezier curve: the half of a link
        that begins at its sender, and the half that ends at its receiver. Both inner ends are one point, but for a link around a
        ring that is drawn as a grid: these are half arcs beyond the opposite borders.
    size
        float64[2], width and height of the area that devices and curves occupy.
    spacing
        Smallest distance between two devices, from which the size of their symbols follows.
    """

    positions: Points
    sender_half: Floats
    receiver_half: Floats
    size: Floats
    spacing: float

    def curves(self, src: NDArray[np.integer], dst: NDArray[np.integer], steps: int = _STEPS) -> Floats:
        """Points along the two halves of the links, whose ends are `src` and `dst`: float64[num_links, 2, steps + 1, 2]."""
        return _curves(self.positions[src], self.positions[dst], self.sender_half, self.receiver_half, steps)


def _curves(src: Points, dst: Points, sender_half: Floats, receiver_half: Floats, steps: int) -> Floats:
    at = np.linspace(0.0, 1.0, steps + 1)[:, None]
    halves = []
    for end, half in ((src, sender_half), (dst, receiver_half)):
        outer, control, inner = (part[:, None, :] for part in (end, half[:, :2], half[:, 2:]))
        halves.append((1 - at) ** 2 * outer + 2 * at * (1 - at) * control + at**2 * inner)
    return np.stack((halves[0], halves[1][:, ::-1]), axis=1)


def layout(topology: Topology) -> Layout:
    """Positions of all devices and curves of all links; equal networks give equal bytes."""
    from scipy.spatial import cKDTree

    if topology.dimensions and _is_composed(topology):
        positions, halves = _by_dimension(topology)
    else:
        layered = _by_layers(topology)
        positions, bend = (_by_links(topology), 0.0) if layered is None else layered
        halves = _halves(positions, topology, bend)
    ends = positions[topology.link_src], positions[topology.link_dst]
    everything = np.concatenate((positions, _curves(*ends, *halves, _STEPS).reshape(-1, 2)))
    low, size = everything.min(axis=0), np.ptp(everything, axis=0)
    scale = (1 - 2 * _MARGIN) / max(float(size.max()), 1e-300)

    def scaled(points: Floats) -> Floats:
        moved: Floats = ((points.reshape(-1, 2) - low - size / 2) * scale + 0.5).reshape(points.shape)
        return moved

    positions = scaled(positions)
    nearest, _ = cKDTree(positions).query(positions, k=2)
    return Layout(positions, scaled(halves[0]), scaled(halves[1]), size * scale, float(nearest[:, 1].min()))


def _halves(positions: Points, topology: Topology, bend: Points | float) -> tuple[Floats, Floats]:
    """The halves of links that are straight, or bent: `bend`, float64[num_links, 2], leads from middle to control point."""
    src, dst = positions[topology.link_src], positions[topology.link_dst]
    control = (src + dst) / 2 + bend
    middle = (src + dst) / 4 + control / 2
    return np.hstack(((src + control) / 2, middle)), np.hstack(((dst + control) / 2, middle))


@dataclass(frozen=True, slots=True)
class _Placed:
    """The copies along one dimension, and how its links and switches are drawn.

    Parameters
    ----------
    offsets
        float64[size, 2], position of each copy.
    out, aside
        float64[2], where half arcs of links around a ring lead: out beyond the last copy, and then aside.
    bow
        How far a link bends to its left, as a share of its length.
    switches
        float64[number of NPUs of a copy, 2], positions of the switches, each of which joins like NPUs of the copies.
    """

    offsets: Points
    out: Points | None = None
    aside: Points | tuple[float, float] = (0.0, 0.0)
    bow: float = 0.0
    switches: Points | None = None


def _is_composed(topology: Topology) -> bool:
    """Whether the numbers of NPUs and switches are those that the dimensions give; links may be missing."""
    npus = math.prod(dimension.size for dimension in topology.dimensions)
    switches = sum(npus // d.size for d in topology.dimensions if d.building_block.drawing is Drawing.STAR)
    return (npus, switches) == (topology.num_npus, topology.num_switches)


def _by_dimension(topology: Topology) -> tuple[Points, tuple[Floats, Floats]]:
    dimensions, npus = topology.dimensions, np.arange(topology.num_npus)
    placed = _place(dimensions)
    strides = np.cumprod([1, *(dimension.size for dimension in dimensions)])[:-1]
    parts = np.array([p.offsets[npus // stride % d.size] for p, stride, d in zip(placed, strides, dimensions, strict=True)])
    positions = [parts.sum(axis=0)]
    for index, (part, dimension, stride) in enumerate(zip(placed, dimensions, strides, strict=True)):
        if part.switches is not None:
            groups = npus // stride % dimension.size == 0
            positions.append(part.switches[npus[groups] % stride] + parts[index + 1 :, groups].sum(axis=0))
    where = np.concatenate(positions)
    src, dst = topology.link_src, topology.link_dst
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    along = where[high] - where[low]  # both ways along one curve
    bend = np.zeros_like(along)
    for index, part in enumerate(placed):
        inside = topology.link_dimension == index
        bend[inside] = part.bow * np.stack((-along[inside, 1], along[inside, 0]), axis=1)
    halves = _halves(where, topology, bend)
    for index, (part, dimension, stride) in enumerate(zip(placed, dimensions, strides, strict=True)):
        if part.out is not None and dimension.size > 2:
            around = (topology.link_dimension == index) & ((high - low) // stride == dimension.size - 1)
            for half, end, other in zip(halves, (src, dst), (dst, src), strict=True):
                away = np.where(end > other, 1.0, -1.0)[around, None] * part.out
                control = where[end[around]] + away
                half[around] = np.hstack((control, control + part.aside))
    return where, halves


def _place(dimensions: Sequence[Dimension]) -> list[_Placed]:
    """How the copies along each dimension are placed, from the innermost on: up to three rings and meshes as one grid."""
    placed: list[_Placed] = []
    low = high = np.zeros(2)  # of the drawing so far
    while len(placed) < len(dimensions):
        rest = dimensions[len(placed) :]
        run = next((at for at, d in enumerate(rest[:3]) if d.building_block.drawing not in IN_GRIDS), len(rest[:3]))
        if rest[0].building_block.drawing is Drawing.STAR:
            inner = math.prod(dimension.size for dimension in dimensions[: len(placed)])
            beyond = sum(dimension.building_block.drawing is Drawing.STAR for dimension in rest[1:])
            more = [_star(rest[0].size, inner, low, high, is_above=beyond % 2 == 0)]
        else:
            more = _grid([d.size for d in rest[:run]], high - low) if run > 1 else [_alone(rest[0], high - low)]
        for part in more:
            low, high = low + part.offsets.min(axis=0), high + part.offsets.max(axis=0)
            if part.switches is not None:
                low, high = np.minimum(low, part.switches.min(axis=0)), np.maximum(high, part.switches.max(axis=0))
        placed += more
    return placed


def _star(size: int, inner: int, low: Floats, high: Floats, *, is_above: bool) -> _Placed:
    """Copies side by side, and their switches in a row above or below; layers of nested switches lie on alternate sides.

    Parameters
    ----------
    inner, low, high
        Number of NPUs of a copy, and the corners of its drawing.
    """
    offsets = _line(size, np.array((_pitch(high[0] - low[0]), 0.0)))
    width = high[0] - low[0] + np.ptp(offsets[:, 0])
    height = max(1.0, _LAYER * width)
    switches = _line(inner, np.array((width / inner, 0.0)))
    switches += ((low[0] + high[0]) / 2, high[1] + height if is_above else low[1] - height)
    return _Placed(offsets, switches=switches)


def _pitch(extent: Any) -> Any:
    """Distance between the middles of two drawings of a width or height."""
    return extent + np.maximum(1.0, 0.45 * extent)


def _line(size: int, step: Any) -> Points:
    """Points at equal steps, float64[size, 2], around the origin."""
    points: Points = (np.arange(size) - (size - 1) / 2)[:, None] * np.asarray(step)
    return points


def _grid(sizes: list[int], inner: Floats) -> list[_Placed]:
    """Rings or meshes: the longest from left to right, the next from top to bottom, a third at an angle, closest together.

    `inner` is the width and height of the inner drawing.
    """
    order = sorted(range(len(sizes)), key=lambda which: -sizes[which])
    slant = _pitch(inner) * 0.8 if inner.any() else np.array((0.62, 0.45)) / sizes[order[-1]]
    right, down = _pitch(inner + np.abs(slant) * (sizes[order[2]] - 1) if inner.any() and len(sizes) == 3 else inner)
    steps = ((right, 0.0), (0.0, -down), slant)
    gap = np.maximum(1.0, 0.45 * inner)  # between two copies
    out = ((gap[0], 0.0), (0.0, -gap[1]), slant)
    aside = ((0.0, _ARC_HEIGHT * gap[1]), (_ARC_HEIGHT * gap[0], 0.0), np.array((-0.5, 0.5)) * slant)
    parts = {
        which: _Placed(_line(sizes[which], step), _ARC_REACH * np.asarray(beyond), beside)
        for which, step, beyond, beside in zip(order, steps, out, aside, strict=False)
    }
    return [parts[which] for which in range(len(sizes))]


def _alone(dimension: Dimension, inner: Floats) -> _Placed:
    """A single dimension: two copies side by side, a mesh as a line or in rows, any other block as a circle.

    `inner` is the width and height of the inner drawing.
    """
    size, drawing = dimension.size, dimension.building_block.drawing
    if drawing is Drawing.LINE and size > 2:
        row, at = size if size <= _LONGEST_LINE else math.ceil(math.sqrt(size)), np.arange(size)
        along = np.where(at // row % 2 == 0, at % row, row - 1 - at % row)  # the direction of rows alternates
        return _Placed(np.stack((along, -(at // row)), axis=1) * _pitch(inner))
    reach = float(np.hypot(*inner)) / 2
    radius = float(_pitch(2 * reach)) / 2 / math.sin(math.pi / size)
    start = {2: math.pi, 4: 3 * math.pi / 4}.get(
        size, math.pi / 2
    )  # two side by side, four an upright square, others from the top
    angle = start - 2 * math.pi * np.arange(size) / size
    return _Placed(radius * np.stack((np.cos(angle), np.sin(angle)), axis=1), bow=_BOW if reach else 0.0)


def _by_layers(topology: Topology) -> tuple[Points, Points] | None:
    """Positions of all devices of a fabric, float64[num_devices, 2], and how far links are bent, float64[num_links, 2].

    Links between layers are straight, those between two devices of one layer are arcs. None if nothing forwards, or some device
    leads to no NPU.
    """
    layer = None if topology.num_switches or not topology.forwarding else _layers(topology)
    if layer is None:
        return None
    src, dst = _both_ways(topology)
    row = _row(topology, layer)
    width = max(float(row.max()) + 0.5, *np.unique(layer, return_counts=True)[1].tolist())
    across = np.zeros(topology.num_devices)
    across[: topology.num_endpoints] = row + (width - row.max() - 0.5) / 2
    for level in sorted(set(layer.tolist()) - {0}, key=abs):
        members = np.flatnonzero(layer == level)
        inner = (layer[src] == level) & (abs(layer[dst]) < abs(level))
        middle = np.bincount(src[inner], across[dst[inner]], members[-1] + 1)[members] / np.bincount(src[inner])[members]
        order = np.argsort(middle.round(6), kind="stable")
        even = (np.arange(len(members)) + 0.5) * width / len(members)
        is_apart = np.all(np.diff(middle[order]) >= _CLOSE * width / len(members))
        across[members[order]] = middle[order] if is_apart else even
    height = min(_TALLEST / max(int(np.ptp(layer)), 1), _LAYER)
    where = np.stack((across / width, layer * height), axis=1)
    ends = topology.link_src, topology.link_dst
    apart, of = np.abs(where[ends[0], 0] - where[ends[1], 0]), layer[ends[0]]
    rise = np.minimum(_ARC_IN_LAYER * apart, height) * 2 * (of == layer[ends[1]])
    return where, np.stack((np.zeros(topology.num_links), np.where(of > 0, rise, -rise)), axis=1)


def _both_ways(topology: Topology) -> tuple[Ints, Ints]:
    """The two ends of every link, int64[2 * num_links] each, once in each order."""
    ends = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    return np.concatenate(ends), np.concatenate(ends[::-1])


def _layers(topology: Topology) -> Ints | None:
    """int64[num_devices]: 0 for NPUs, above them 1, 2, ..., below -1, -2, ...; None if some device leads to no NPU.

    Forwarding devices that are joined to one another are a part. Its layers are its devices 1, 2, ... links from the nearest
    NPU. A part lies below if it serves neighbouring NPUs only and another one serves others, as the switches of a node do.
    """
    npus, (src, dst) = topology.num_endpoints, _both_ways(topology)
    distance = Graph.of(topology.num_devices, src, dst).from_nearest(np.arange(npus))
    if not np.isfinite(distance).all():
        return None
    layer: Ints = distance.astype(np.int64)
    between = (src >= npus) & (dst >= npus)
    _, part = Graph.of(topology.num_devices - npus, src[between] - npus, dst[between] - npus).weak_groups()
    is_inside = np.zeros(int(part.max()) + 1, np.bool_)
    down = (src >= npus) & (dst < npus)
    for which in range(len(is_inside)):
        served = np.unique(dst[down][part[src[down] - npus] == which])
        is_inside[which] = len(served) < npus and int(served[-1] - served[0]) == len(served) - 1
    layer[npus:][is_inside[part] & ~is_inside.all()] *= -1
    return layer


def _row(topology: Topology, layer: Ints) -> Floats:
    """float64[num_endpoints], places of the NPUs in their row: those with the same devices in the next layer are a group."""
    npus, (src, dst) = topology.num_endpoints, _both_ways(topology)
    groups: dict[tuple[int, ...], list[int]] = {}
    for npu in range(npus):
        near = dst[src == npu]
        groups.setdefault(tuple(np.unique(near[layer[near] == (-1 if layer.min() < 0 else 1)]).tolist()), []).append(npu)
    gap = _BETWEEN_GROUPS if len(groups) < npus else 0.0
    place = np.zeros(npus)
    for number, members in enumerate(groups.values()):
        place[members] = np.arange(len(members)) + sum(map(len, list(groups.values())[:number])) + gap * number + 0.5
    return place


def _by_links(topology: Topology) -> Points:
    """Positions of all devices, float64[num_devices, 2], from networkx: neighbours are near one another.

    In a large network, each community of devices (Louvain) is a small circle around its place among the others.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(topology.num_devices))
    graph.add_edges_from(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    if topology.num_devices <= _MOST_BY_FORCES:
        return _by_networkx(graph)
    partitions = networkx.community.louvain_partitions(graph, seed=_SEED)  # from many communities to few
    circles = next((parts for parts in partitions if len(parts) <= _MOST_BY_FORCES), [set(graph)])
    community = {device: number for number, members in enumerate(circles) for device in members}
    joined = networkx.empty_graph(len(circles))
    joined.add_edges_from((community[src], community[dst]) for src, dst in graph.edges if community[src] != community[dst])
    middle = _by_networkx(joined)
    reach = _REACH * min((float(np.hypot(*(a - b))) for a, b in combinations(middle, 2)), default=1.0)
    positions = np.zeros((topology.num_devices, 2))
    for centre, members in zip(middle, circles, strict=True):
        places = networkx.circular_layout(sorted(members), scale=reach, center=centre)
        positions[list(places)] = list(places.values())
    return positions


def _by_networkx(graph: Any) -> Points:
    """Positions of the vertices 0, 1, ... of a graph."""
    import networkx

    if len(graph) <= _MOST_BY_PATHS:
        where = networkx.kamada_kawai_layout(graph)
    else:
        where = networkx.spring_layout(graph, seed=_SEED, iterations=100)
    # The last bits depend on the machine's linear algebra; rounding removes them.
    return np.array([where[vertex] for vertex in range(len(graph))], np.float64).round(6)
