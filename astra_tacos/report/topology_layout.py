"""Positions of the devices of a network in a drawing: by dimension, by layers of a fabric, or by distance for another graph.

Each dimension arranges copies of the drawing of its inner dimensions. Consecutive rings and meshes form a grid (a third one is
drawn at an angle), other blocks form a circle, and switches stand in the middle of their members. A fabric has its NPUs in a row,
the devices that join them above, and those of a node below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import Drawing
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.graph import Graph
from astra_tacos.support.grouping import count_before, row_places

_BETWEEN_GROUPS = 0.7
"""Room between the NPUs of two nodes, in distances between neighbours of a row."""
_TALLEST, _LAYER = 0.75, 0.24
"""Height of the drawing and of a layer, at most, as a share of the width."""
_CLOSE = 0.5
"""Devices of a layer stand over the middle of their neighbours if these are apart by that share of an even spacing."""

Points = Floats


def _lay_out_layers(topology: Topology) -> Points | None:
    """Positions of all devices, float64[num_devices, 2]; None where a link joins two devices of one layer.

    Forwarding devices that are joined to one another are a part. Its layers are its devices 1, 2, ... links from the nearest
    NPU. A part lies below if it serves neighbouring NPUs only and another one serves others, as the switches of a node do.
    """
    if not topology.forwarding or topology.num_switches:
        return None
    layer = _layers(topology)
    if layer is None or np.any(layer[topology.link_src] == layer[topology.link_dst]):
        return None
    near = _neighbours(topology)
    order = _npus_in_order(topology, layer, near)
    width = float(max([order.max() + 1, *np.unique(layer, return_counts=True)[1].tolist()]))
    across = np.zeros(topology.num_devices)
    across[: topology.num_endpoints] = order + (width - order.max() - 1) / 2
    depth = int(layer.max() - layer.min())
    height = width * min(_TALLEST / max(depth, 1), _LAYER)
    for sign in (1, -1):
        for level in range(1, int((sign * layer).max()) + 1):
            own = np.flatnonzero(layer == sign * level)
            inner = [[device for device in near[each] if abs(layer[device]) < level] for each in own.tolist()]
            across[own] = _places(np.array([across[devices].mean() for devices in inner]), width)
    return np.stack((across, layer * height), axis=1) / width


def _neighbours(topology: Topology) -> list[list[int]]:
    near: list[set[int]] = [set() for _ in range(topology.num_devices)]
    for src, dst in zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True):
        near[src].add(dst)
        near[dst].add(src)
    return [sorted(each) for each in near]


def _layers(topology: Topology) -> Ints | None:
    """int64[num_devices]: 0 for NPUs, above them 1, 2, ..., below -1, -2, ...; None if some device leads to no NPU."""
    npus = topology.num_endpoints
    distance = _both_ways(topology).from_nearest(np.arange(npus))
    if not np.isfinite(distance).all():
        return None
    layer: Ints = distance.astype(np.int64)
    between = (topology.link_src >= npus) & (topology.link_dst >= npus)
    src, dst = topology.link_src[between] - npus, topology.link_dst[between] - npus
    _, part = Graph.of(topology.num_devices - npus, src, dst).weak_groups()
    is_inside = [_is_inside(topology, part == which) for which in range(int(part.max()) + 1)]
    if not all(is_inside):
        layer[npus:][np.array(is_inside)[part]] *= -1
    return layer


def _both_ways(topology: Topology) -> Graph:
    src, dst = topology.link_src, topology.link_dst
    return Graph.of(topology.num_devices, np.concatenate((src, dst)), np.concatenate((dst, src)))


def _is_inside(topology: Topology, own: Bools) -> bool:
    """Whether forwarding devices serve NPUs with consecutive numbers only, and not all of them."""
    npus = topology.num_endpoints
    of_part = np.concatenate((np.zeros(npus, np.bool_), own))
    ends = np.concatenate((topology.link_src[of_part[topology.link_dst]], topology.link_dst[of_part[topology.link_src]]))
    served = np.unique(ends[ends < npus])
    return len(served) < npus and int(served[-1] - served[0]) == len(served) - 1


def _npus_in_order(topology: Topology, layer: Ints, near: list[list[int]]) -> Points:
    """float64[num_endpoints], places of the NPUs in their row: those with the same devices in the next layer are a group."""
    side = -1 if layer.min() < 0 else 1
    groups: dict[tuple[int, ...], list[int]] = {}
    for npu in range(topology.num_endpoints):
        groups.setdefault(tuple(device for device in near[npu] if layer[device] == side), []).append(npu)
    if len(groups) == topology.num_endpoints:
        groups = {(): list(range(topology.num_endpoints))}
    place, at = np.zeros(topology.num_endpoints), 0.0
    for members in groups.values():
        place[members] = at + np.arange(len(members))
        at += len(members) + _BETWEEN_GROUPS
    return place + 0.5


def _places(middle: Points, width: float) -> Points:
    """Places of a layer's devices from the middles of their neighbours: there if none are too close, else evenly spread."""
    order = np.argsort(middle.round(6), kind="stable")
    apart = _CLOSE * width / len(middle)
    if len(middle) == 1 or all(after - before >= apart for before, after in pairwise(middle[order].tolist())):
        return middle
    place = np.empty(len(middle))
    place[order] = (np.arange(len(middle)) + 0.5) * width / len(middle)
    return place


_MOST_BY_PATHS = 64
"""Number of devices up to which Kamada and Kawai's layout, which compares all pairs, is fast."""
_MOST_BY_FORCES = 300
_PIVOTS = 48
_SEED = 1
_APART = 0.01
"""How far apart devices are moved that would coincide, as a share of the drawing's extent over the root of their number."""


def _lay_out_graph(topology: Topology) -> Floats:
    """Positions of all devices, float64[num_devices, 2]: neighbours are near one another, and no two devices coincide.

    For a few devices, distances in the drawing follow those in the graph (Kamada and Kawai 1989). For more devices, forces
    between them decide; large networks are laid out by classical scaling of the distances from some devices (pivot MDS, Brandes
    and Pich 2007). The result is deterministic.
    """
    place = _by_networkx if topology.num_devices <= _MOST_BY_FORCES else _by_pivots
    return _apart(place(topology))


def _by_networkx(topology: Topology) -> Floats:
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(topology.num_devices))
    graph.add_edges_from(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    if topology.num_devices <= _MOST_BY_PATHS:
        where = networkx.kamada_kawai_layout(graph)
    else:
        where = networkx.spring_layout(graph, seed=_SEED, iterations=100)
    # The last bits depend on the machine's linear algebra; rounding removes them.
    positions = np.array([where[device] for device in range(topology.num_devices)], np.float64)
    return positions.round(6)


def _by_pivots(topology: Topology) -> Floats:
    count, graph = topology.num_devices, _both_ways(topology)
    nearest = np.full(count, np.inf)
    rows = []
    pivot = 0
    for _ in range(min(_PIVOTS, count)):  # the next pivot is the device farthest from all pivots so far
        distance = graph.from_nearest([pivot])
        rows.append(distance)
        nearest = np.minimum(nearest, distance)
        pivot = int(nearest.argmax())
    squared = np.stack(rows, axis=1) ** 2
    centred = -0.5 * (squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean())
    values, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, np.argsort(-values, kind="stable")[:2]]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(2)])  # the sign of an eigenvector is arbitrary
    positions: Floats = centred @ axes
    return (positions / max(float(np.abs(positions).max()), 1e-300)).round(6)


def _apart(positions: Floats) -> Floats:
    """The positions, float64[n, 2], with devices that coincide moved onto a small spiral around their place."""
    step = _APART * max(float(np.ptp(positions, axis=0).max()), 1.0) / np.sqrt(len(positions))
    cell = np.round(positions / step).astype(np.int64)
    _, group = row_places(*cell.T)
    together, within = np.bincount(group)[group], count_before(group)
    angle = within * (np.pi * (3 - np.sqrt(5)))  # the golden angle, so that no two devices have the same direction
    distance = np.where(together > 1, np.sqrt(within / together) * 0.45 * step, 0.0)
    snapped = np.where((together > 1)[:, None], cell * step, positions)
    moved: Floats = snapped + distance[:, None] * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return moved


IN_GRIDS = (Drawing.LINE, Drawing.RING)
"""Blocks that form a grid if several follow one another."""
_LONGEST_LINE = 12
"""Number of NPUs up to which a one-dimensional mesh is a line; a longer one is folded into rows."""
_MARGIN = 0.03
_ARC_HEIGHT = 0.36
"""Height of an arc that leads back to the start of a row, in distances between neighbours of the row."""
_BOW = 0.16
"""How far a link between groups in a circle is bent aside, as a share of its length, so as not to cover links inside groups."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A drawing of a network in the unit square, x to the right and y upwards.

    Parameters
    ----------
    positions
        float64[num_devices, 2], positions of the devices; no two are equal.
    controls
        float64[num_links, 2], the middle control point of the quadratic Bezier curve of each link. It lies half-way between the
        ends of a straight link, and aside for a link that would run through other devices (the wrap-around of a torus).
    spacing
        Smallest distance between two devices, from which the size of their symbols follows.
    """

    positions: Points
    controls: Points
    spacing: float

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the area that the devices occupy."""
        width, height = np.ptp(self.positions, axis=0).tolist()
        return width, height


@dataclass(frozen=True, slots=True)
class _Placed:
    """The copies along one dimension, and how its links and switches are drawn.

    Parameters
    ----------
    offsets
        float64[size, 2], position of each copy.
    arc
        float64[2], added to the control points of links that lead back to the start of a row; None for no arc.
    bow
        How far a link bends to its left, as a share of its length.
    switch_scale
        Scale of the pattern in which the switches stand in the middle, relative to that of the members.
    """

    offsets: Points
    arc: Points | None = None
    bow: float = 0.0
    switch_scale: float = 0.0


def layout(topology: Topology) -> Layout:
    """Positions of all devices and curves of all links; equal networks give equal bytes."""
    if topology.dimensions and _is_composed(topology):
        positions, controls = _by_dimension(topology)
    else:
        layered = _lay_out_layers(topology)
        positions = _lay_out_graph(topology) if layered is None else layered
        controls = positions[topology.link_src] / 2 + positions[topology.link_dst] / 2
    everything = np.concatenate((positions, (positions[topology.link_src] + positions[topology.link_dst]) / 4 + controls / 2))
    low, high = everything.min(axis=0), everything.max(axis=0)
    scale = (1 - 2 * _MARGIN) / max(float((high - low).max()), 1e-300)
    middle = (low + high) / 2
    positions, controls = ((points - middle) * scale + 0.5 for points in (positions, controls))
    return Layout(positions, controls, _nearest(positions))


def curves(drawn: Layout, topology: Topology, links: NDArray[np.integer], steps: int = 12) -> Points:
    """Points along the curves of some links, float64[len(links), steps + 1, 2], from source to destination.

    Parameters
    ----------
    drawn
        Layout of the network.
    topology
        The network.
    links
        Indices of the links.
    steps
        Number of line segments per curve.
    """
    at = np.linspace(0.0, 1.0, steps + 1)[None, :, None]
    src, dst = (drawn.positions[ends[links]][:, None, :] for ends in (topology.link_src, topology.link_dst))
    points: Points = (1 - at) ** 2 * src + 2 * at * (1 - at) * drawn.controls[links][:, None, :] + at**2 * dst
    return points


def _is_composed(topology: Topology) -> bool:
    """Whether the numbers of NPUs and switches are those that the dimensions give; links may be missing."""
    sizes = [dimension.size for dimension in topology.dimensions]
    npus = math.prod(sizes)
    switches = sum(npus // d.size for d in topology.dimensions if d.building_block.drawing is Drawing.STAR)
    return (npus, switches) == (topology.num_npus, topology.num_switches)


def _by_dimension(topology: Topology) -> tuple[Points, Points]:
    dimensions = topology.dimensions
    placed = _place(dimensions)
    strides = np.cumprod([1, *(dimension.size for dimension in dimensions)])
    npus = np.arange(topology.num_npus)
    parts = [p.offsets[npus // stride % d.size] for p, stride, d in zip(placed, strides[:-1], dimensions, strict=True)]
    positions = [np.sum(parts, axis=0)]
    for index, dimension in enumerate(dimensions):
        if dimension.building_block.drawing is Drawing.STAR:  # where its members are among their like, drawn small in the middle
            groups = np.flatnonzero(npus // strides[index] % dimension.size == 0)
            inner = sum((part[groups] for part in parts[:index]), np.zeros((len(groups), 2)))
            outer = sum((part[groups] for part in parts[index + 1 :]), np.zeros((len(groups), 2)))
            positions.append(inner * placed[index].switch_scale + outer)
    everything = np.concatenate(positions)
    src, dst, of = topology.link_src, topology.link_dst, topology.link_dimension
    controls = everything[src] / 2 + everything[dst] / 2
    for index, dimension in enumerate(dimensions):
        arc = placed[index].arc
        if arc is not None and dimension.size > 2:
            apart = np.abs(src.astype(np.int64) - dst) // strides[index]
            controls[(of == index) & (apart == dimension.size - 1)] += arc
        if placed[index].bow:
            own = of == index
            low, high = np.minimum(src, dst)[own], np.maximum(src, dst)[own]  # both ways along one curve
            along = everything[high] - everything[low]
            controls[own] += placed[index].bow * np.stack((-along[:, 1], along[:, 0]), axis=1)
    return everything, controls


def _place(dimensions: Sequence[Dimension]) -> list[_Placed]:
    placed: list[_Placed | None] = [None] * len(dimensions)
    width = height = 0.0  # of the drawing of the dimensions so far, which is centred on the origin
    index = 0
    while index < len(dimensions):
        run = index
        while run < len(dimensions) and run - index < 3 and dimensions[run].building_block.drawing in IN_GRIDS:
            run += 1
        if run - index > 1:
            for which, part in _grid([d.size for d in dimensions[index:run]], width, height):
                placed[index + which] = part
            index = run
        else:
            placed[index] = _alone(dimensions[index], width, height)
            index += 1
        extent = sum(np.ptp(part.offsets, axis=0) for part in placed if part is not None)
        width, height = float(extent[0]), float(extent[1])
    return [part for part in placed if part is not None]


def _gap(extent: float) -> float:
    return max(1.0, 0.45 * extent)


def _line(size: int, pitch: float) -> Points:
    return (np.arange(size, dtype=np.float64) - (size - 1) / 2) * pitch


def _grid(sizes: list[int], width: float, height: float) -> list[tuple[int, _Placed]]:
    """Place two or three rings or meshes: the longest from left to right, the next from top to bottom, a third at an angle.

    Returns the index of each dimension among `sizes` with its offsets. `width` and `height` are those of the inner drawing.
    """
    order = sorted(range(len(sizes)), key=lambda which: -sizes[which])
    parts: list[tuple[int, _Placed]] = []
    if len(sizes) == 3:
        step = np.array((0.62, 0.45)) / sizes[order[2]] * (1 + max(width, height))
        if width or height:
            step = np.array((width + _gap(width), height + _gap(height))) * 0.8
        across = _line(sizes[order[2]], 1.0)[:, None] * step
        parts.append((order[2], _Placed(across, arc=np.array((-1.0, 1.0)) * step * 0.5)))
        if width or height:
            width, height = (extent + float(np.ptp(across[:, axis])) for axis, extent in enumerate((width, height)))
    right, down = width + _gap(width), height + _gap(height)
    zeros = np.zeros
    x = np.stack((_line(sizes[order[0]], right), zeros(sizes[order[0]])), axis=1)
    y = np.stack((zeros(sizes[order[1]]), -_line(sizes[order[1]], down)), axis=1)
    parts.append((order[0], _Placed(x, arc=np.array((0.0, 2 * _ARC_HEIGHT * down)))))
    parts.append((order[1], _Placed(y, arc=np.array((2 * _ARC_HEIGHT * right, 0.0)))))
    return parts


def _alone(dimension: Dimension, width: float, height: float) -> _Placed:
    """Place a single dimension: two copies side by side, a mesh as a line or in rows, any other block as a circle.

    `width` and `height` are those of the inner drawing.
    """
    size, drawing = dimension.size, dimension.building_block.drawing
    is_switch = drawing is Drawing.STAR
    reach = math.hypot(width, height) / 2
    if drawing is Drawing.LINE and size > 2:
        return _Placed(_folded(size, width + _gap(width), height + _gap(height)))
    chord = 2 * reach + _gap(2 * reach)
    if is_switch:
        chord = max(chord, 1.8 * (2 * reach + 1) * math.sin(math.pi / size))  # room for the switches in the middle
    bow = _BOW if reach and not is_switch else 0.0
    if size == 2:
        beside = np.array(((-chord / 2, 0.0), (chord / 2, 0.0)))
        return _Placed(beside, bow=bow, switch_scale=_switch_scale(chord / 2, reach))
    radius = chord / 2 / math.sin(math.pi / size)
    start = math.pi / 2 + (math.pi / 4 if size == 4 else 0.0)  # four form an upright square, others begin at the top
    angle = start - 2 * math.pi * np.arange(size) / size
    offsets = radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return _Placed(offsets, bow=bow, switch_scale=_switch_scale(radius, reach))


def _switch_scale(radius: float, reach: float) -> float:
    """Scale of the switches' pattern relative to that of the members, so that it fits into the space that the members leave."""
    return min(0.7, 0.7 * (radius - reach) / reach) if reach else 0.0


def _folded(size: int, right: float, down: float) -> Points:
    """Positions of a line, float64[size, 2]: from left to right, or in rows whose direction alternates if it is long."""
    row = size if size <= _LONGEST_LINE else math.ceil(math.sqrt(size))
    at = np.arange(size)
    along = np.where(at // row % 2 == 0, at % row, row - 1 - at % row)
    offsets = np.stack((along * right, -(at // row) * down), axis=1)
    centred: Points = offsets - (offsets.min(axis=0) + offsets.max(axis=0)) / 2
    return centred


def _nearest(positions: Points) -> float:
    from scipy.spatial import cKDTree

    distance, _ = cKDTree(positions).query(positions, k=2)
    return float(distance[:, 1].min())
