"""Positions of the devices of a fabric in layers: NPUs in a row, the devices that join them above, those of a node below."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology

_BETWEEN_GROUPS = 0.7
"""Room between the NPUs of two nodes, in distances between neighbours of a row."""
_TALLEST, _LAYER = 0.75, 0.24
"""Height of the drawing and of a layer, at most, as a share of the width."""
_CLOSE = 0.5
"""Devices of a layer stand over the middle of their neighbours if these are apart by that share of an even spacing."""

Points = NDArray[np.float64]


def lay_out_layers(topology: Topology) -> Points | None:
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


def _layers(topology: Topology) -> NDArray[np.int64] | None:
    """int64[num_devices]: 0 for NPUs, above them 1, 2, ..., below -1, -2, ...; None if some device leads to no NPU."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    count, npus = topology.num_devices, topology.num_endpoints
    ones = np.ones(topology.num_links)
    graph = coo_array((ones, (topology.link_src, topology.link_dst)), shape=(count, count)).tocsr()
    distance = dijkstra(graph + graph.T, indices=np.arange(npus), unweighted=True, min_only=True)
    if not np.isfinite(distance).all():
        return None
    layer: NDArray[np.int64] = distance.astype(np.int64)
    _, part = connected_components(graph[npus:, npus:], directed=False)
    is_inside = [_is_inside(topology, part == which) for which in range(int(part.max()) + 1)]
    if not all(is_inside):
        layer[npus:][np.array(is_inside)[part]] *= -1
    return layer


def _is_inside(topology: Topology, own: NDArray[np.bool_]) -> bool:
    """Whether forwarding devices serve NPUs with consecutive numbers only, and not all of them."""
    npus = topology.num_endpoints
    of_part = np.concatenate((np.zeros(npus, np.bool_), own))
    ends = np.concatenate((topology.link_src[of_part[topology.link_dst]], topology.link_dst[of_part[topology.link_src]]))
    served = np.unique(ends[ends < npus])
    return len(served) < npus and int(served[-1] - served[0]) == len(served) - 1


def _npus_in_order(topology: Topology, layer: NDArray[np.int64], near: list[list[int]]) -> Points:
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
