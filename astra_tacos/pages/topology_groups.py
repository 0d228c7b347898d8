"""Coarsening of large networks for drawing: neighbouring NPUs are merged into one, and the links between them into one link."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.devices import SWITCH_KIND, ForwardingDevice
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.pages.topology_layout import IN_GRIDS, layout
from astra_tacos.support.arrays import Floats, Ints

MOST_DEVICES = 320
MOST_LINKS = 1_500
_MOST_GROUPS = {True: 260, False: 130}
"""Largest number of groups in a grid (True) and in a circle (False)."""
_CELLS = 12
"""Number of squares along a side of the drawing of a large graph; the NPUs in a square become one."""


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A network in which devices stand for groups of devices.

    Parameters
    ----------
    topology
        The small network; it has only those dimensions that are not inside groups.
    link
        int64[number of links of the whole network], the small network's link that stands for each of them; -1 for links inside a
        group.
    dimension
        int64[number of dimensions of the whole network], the index of each among the small network's dimensions; -1 for
        dimensions inside groups.
    """

    topology: Topology
    link: Ints
    dimension: Ints
    npus: int

    def mean(self, values: Floats) -> Floats:
        """The mean of `values` over the links that each link of the small network stands for, float64[its num_links].

        `values` is float64[number of links of the whole network].
        """
        seen = self.link >= 0
        total = np.bincount(self.link[seen], values[seen], minlength=self.topology.num_links)
        return total / np.bincount(self.link[seen], minlength=self.topology.num_links)

    @property
    def is_merged(self) -> bool:
        """Whether links or devices stand for several."""
        return len(self.link) > self.topology.num_links

    @property
    def links_of_each(self) -> int:
        """Largest number of links that one link of the small network stands for."""
        return int(np.bincount(self.link[self.link >= 0]).max())


def group(topology: Topology) -> Grouped:
    """The network itself if it is small enough to be drawn, or else a network of groups.

    Groups take in whole dimensions, from the innermost on; the last dimension, or the last rings and meshes, are cut into parts.
    """
    sizes = [dimension.size for dimension in topology.dimensions]
    if _fits(topology.num_devices, topology.num_links):
        link, dimension = np.arange(topology.num_links), np.arange(len(sizes))
        return Grouped(topology, link, dimension, 1)
    if not sizes or math.prod(sizes) != topology.num_npus:
        return _by_place(topology)
    return _by_dimension(topology, _small_sizes(topology, sizes))


def _fits(devices: int, links: int) -> bool:
    return devices <= MOST_DEVICES and links <= MOST_LINKS


def _small_sizes(topology: Topology, sizes: list[int]) -> list[int]:
    small = list(sizes)
    blocks = [dimension.building_block for dimension in topology.dimensions]
    while True:
        first = next(index for index, size in enumerate(small) if size > 1)
        last = first
        while last + 1 < len(small) and blocks[first].drawing in IN_GRIDS and blocks[last + 1].drawing in IN_GRIDS:
            last += 1
        devices, links = _count(small, sizes, blocks)
        if devices <= _MOST_GROUPS[last > first] and links <= MOST_LINKS:
            return small
        if any(size > 1 for size in small[last + 1 :]):
            small[first : last + 1] = [1] * (last + 1 - first)
        else:
            widest = max(range(first, last + 1), key=lambda index: small[index])
            small[widest] = -(-small[widest] // 2)


def _count(small: list[int], sizes: list[int], blocks: list[BuildingBlock]) -> tuple[int, int]:
    """The number of devices, and an upper bound on the number of links, of a network with `small` groups along each dimension."""
    npus = math.prod(small)
    devices, links = npus, 0
    for few, size, block in zip(small, sizes, blocks, strict=True):
        if few > 1:
            devices += npus // few * block.num_switches(size)
            links += npus // few * block.most_links_between(size, few)
    return devices, links


def _by_dimension(topology: Topology, small: list[int]) -> Grouped:
    sizes = [dimension.size for dimension in topology.dimensions]
    strides = np.cumprod([1, *sizes])[:-1]
    small_strides = np.cumprod([1, *small])[:-1]
    npus = np.arange(topology.num_npus)
    coordinates = [npus // stride % size * few // size for stride, size, few in zip(strides, sizes, small, strict=True)]
    device = np.full(topology.num_devices, -1)
    device[: topology.num_npus] = sum(c * s for c, s in zip(coordinates, small_strides, strict=True))
    switches, small_switches, small_npus = topology.num_npus, math.prod(small), math.prod(small)
    for index, dimension in enumerate(topology.dimensions):
        of_group = dimension.building_block.num_switches(dimension.size)
        if not of_group:
            continue
        members = np.flatnonzero(npus // strides[index] % sizes[index] == 0)
        count = len(members) * of_group
        if small[index] > 1:
            base = device[members]  # member 0 of the small group: its number without the coordinate of this dimension
            inner, outer = base % small_strides[index], base // (small_strides[index] * small[index])
            first = (outer * small_strides[index] + inner) * of_group
            device[switches : switches + count] = small_switches + (first[:, None] + np.arange(of_group)).ravel()
            small_switches += small_npus // small[index] * of_group
        switches += count
    kept = [index for index, few in enumerate(small) if few > 1]
    number = np.full(len(small), -1)
    number[kept] = np.arange(len(kept))
    dimensions = tuple(replace(topology.dimensions[index], size=small[index]) for index in kept)
    return _merged(topology, device, small_npus, small_switches - small_npus, dimensions, number)


def _by_place(topology: Topology) -> Grouped:
    """Group an arbitrary graph: devices of one kind in the same square of its layout become one."""
    positions = layout(topology).positions
    low, extent = positions.min(axis=0), max(float(np.ptp(positions, axis=0).max()), 1e-300)
    cell = np.minimum((positions - low) / extent * _CELLS, _CELLS - 1).astype(np.int64)
    kinds = ["", *sorted({device.kind for device in topology.forwarding}), SWITCH_KIND]
    kind = np.full(topology.num_devices, len(kinds) - 1)
    kind[: topology.num_endpoints] = 0
    kind[topology.num_endpoints : topology.num_npus] = [kinds.index(device.kind) for device in topology.forwarding]
    names, device = np.unique((kind * _CELLS + cell[:, 0]) * _CELLS + cell[:, 1], return_inverse=True)
    kept = names // (_CELLS * _CELLS)
    forwarding = tuple(ForwardingDevice(kinds[int(which)]) for which in kept[(kept > 0) & (kept < len(kinds) - 1)])
    switches = int(np.count_nonzero(kept == len(kinds) - 1))
    return _merged(topology, device.reshape(-1), len(names) - switches, switches, (), np.zeros(0, np.int64), forwarding)


def _merged(
    topology: Topology,
    device: NDArray[np.integer],
    npus: int,
    switches: int,
    dimensions: tuple[Dimension, ...],
    number: Ints,
    forwarding: tuple[ForwardingDevice, ...] = (),
) -> Grouped:
    src, dst = device[topology.link_src].astype(np.int64), device[topology.link_dst].astype(np.int64)
    count = npus + switches
    of = topology.link_dimension.astype(np.int64)
    of = number[of] if len(number) else np.full(topology.num_links, NO_DIMENSION)
    between = np.flatnonzero((src != dst) & (src >= 0) & (dst >= 0))
    keys, which = np.unique((of[between] * count + src[between]) * count + dst[between], return_inverse=True)
    which = which.reshape(-1)
    link = np.full(topology.num_links, -1)
    link[between] = which
    links_of_each = np.bincount(which, minlength=len(keys))
    small = Topology(
        topology.name,
        npus,
        switches,
        (keys // count % count).astype(np.int32),
        (keys % count).astype(np.int32),
        np.bincount(which, topology.link_bandwidth_gibps[between], minlength=len(keys)) / links_of_each,
        np.bincount(which, topology.link_latency_ns[between], minlength=len(keys)) / links_of_each,
        (keys // (count * count)).astype(np.int16),
        dimensions,
        forwarding,
    )
    members = np.bincount(device[: topology.num_endpoints])
    return Grouped(small, link, number, int(members.max()))
