"""Groups of NPUs that cut and partition bounds try: NPUs connected by fast dimensions or by fast links."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology

_MOST_SPEEDS = 8
_MOST_DIMENSIONS = 6


@lru_cache(maxsize=4)
def groupings(topology: Topology) -> tuple[NDArray[np.int64], ...]:
    """int64[num_npus] each, the group of each NPU: all different, each with at least two groups, and not all NPUs apart.

    For every subset of dimensions, a group has the NPUs that differ only in these; for every speed, the NPUs that links of at
    least this speed connect.
    """
    found = [_numbered(group) for group in (*_aligned(topology), *_connected(topology))]
    alike = {group.tobytes(): group for group in found if 0 < group.max() < topology.num_npus - 1}
    return tuple(alike.values())


def device_groups(topology: Topology, npu_group: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[num_devices], with switches: the group of all its NPUs, or -1 if a switch connects several."""
    group = np.concatenate((npu_group, np.full(topology.num_switches, -1)))
    if topology.has_switches:
        least, most = np.full(topology.num_devices, topology.num_npus), np.full(topology.num_devices, -1)
        for npus, switches in ((topology.link_src, topology.link_dst), (topology.link_dst, topology.link_src)):
            port = switches >= topology.num_npus
            np.minimum.at(least, switches[port], group[npus[port]])
            np.maximum.at(most, switches[port], group[npus[port]])
        inside = (least == most) & (np.arange(topology.num_devices) >= topology.num_npus)
        group[inside] = least[inside]
    return group


def is_transitive(topology: Topology) -> bool:
    """Whether translations of the building blocks map every NPU to every other, and no link is missing."""
    if not topology.is_regular or any(d.building_block.translations(d.size) is None for d in topology.dimensions):
        return False
    links = (d.building_block.num_links(d.size) * topology.num_npus // d.size for d in topology.dimensions)
    return topology.num_links == sum(links)


def translation_classes(topology: Topology) -> NDArray[np.int64]:
    """int64[num_links], the class of each link under the translations of a network that is transitive.

    Each class has one link out of (or into) every NPU.
    """
    found: list[NDArray[np.int64]] = []
    count = 0
    for dimension in topology.dimensions:
        classes = dimension.building_block.link_classes(dimension.size)
        assert classes is not None
        found.append(np.tile(classes + count, topology.num_npus // dimension.size))
        count += int(classes.max()) + 1
    return np.concatenate(found)


def is_symmetric(topology: Topology) -> bool:
    """Whether every link has a counterpart of the same bandwidth."""
    key = topology.link_src.astype(np.int64) * topology.num_devices + topology.link_dst
    back = topology.link_dst.astype(np.int64) * topology.num_devices + topology.link_src
    order, order_back = np.argsort(key), np.argsort(back)
    bandwidth = topology.link_bandwidth_gibps
    return np.array_equal(key[order], back[order_back]) and np.array_equal(bandwidth[order], bandwidth[order_back])


def _aligned(topology: Topology) -> list[NDArray[np.int64]]:
    npus = np.arange(topology.num_npus)
    strides = np.cumprod([1, *(dimension.size for dimension in topology.dimensions)])
    count = len(topology.dimensions)
    if count > _MOST_DIMENSIONS:
        return []
    chosen = [kept for size in range(1, count) for kept in combinations(range(count), size)]
    return [
        sum((npus // strides[index] % topology.dimensions[index].size * strides[index] for index in kept), np.zeros_like(npus))
        for kept in chosen
    ]


def _connected(topology: Topology) -> list[NDArray[np.int64]]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    speeds = np.unique(topology.link_bandwidth_gibps)[1:]
    found = []
    for speed in speeds[np.linspace(0, len(speeds) - 1, min(len(speeds), _MOST_SPEEDS)).astype(int)] if len(speeds) else ():
        fast = topology.link_bandwidth_gibps >= speed
        ends = topology.link_src[fast], topology.link_dst[fast]
        graph = coo_array((np.ones(int(fast.sum()), np.int8), ends), shape=(topology.num_devices,) * 2)
        _, label = connected_components(graph, connection="weak")
        found.append(label[: topology.num_npus].astype(np.int64))
    return found


def _numbered(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups numbered by their first NPU."""
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.ravel()]
