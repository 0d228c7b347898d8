"""The translations of a network: moves of all NPUs that map links onto links of the same kind.

A product of dimensions whose building blocks have translations has them, too, coordinate by coordinate. The translation `by`
takes NPU 0 to NPU `by`, so NPUs and translations have the same numbers. See docs/symmetric.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import Dimension, NetworkConfig
from astra_tacos.topology.topology import Topology

Npus = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TranslationGroup:
    """The translations of a product of dimensions for which `why_no_translations` has no reason."""

    dimensions: tuple[Dimension, ...]

    @property
    def num_npus(self) -> int:
        """Number of NPUs, and of translations."""
        return int(np.prod([dimension.size for dimension in self.dimensions]))

    @property
    def strides(self) -> tuple[int, ...]:
        """By how much NPU numbers differ from one member of a dimension's group to the next."""
        sizes = [dimension.size for dimension in self.dimensions]
        return tuple(int(np.prod(sizes[:index])) for index in range(len(sizes)))

    def move(self, npu: Npus, by: Npus) -> Npus:
        """Where `npu[i]` goes in the translation by `by[i]`. Arguments broadcast."""
        return self._each(npu, by, "move")

    def offset(self, src: Npus, dst: Npus) -> Npus:
        """Where `dst[i]` goes in the translation that takes `src[i]` to NPU 0. Arguments broadcast."""
        return self._each(src, dst, "offset")

    def _each(self, one: Npus, other: Npus, method: str) -> Npus:
        result = np.zeros(np.broadcast_shapes(np.shape(one), np.shape(other)), np.int64)
        for dimension, stride in zip(self.dimensions, self.strides, strict=True):
            translations = dimension.building_block.translations(dimension.size)
            assert translations is not None
            result += stride * getattr(translations, method)(one // stride % dimension.size, other // stride % dimension.size)
        return result


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links that translations map onto one another: one out of every NPU, and one into every NPU.

    Parameters
    ----------
    dimension
        Index of the dimension that they belong to.
    moves
        int64, members of the dimension's group that a send of member 0 over this class reaches: one, or all others through a
        switch, whose port out of member 0 and port into that member are then taken.
    through_switch
        Whether it is the ports of a switch.
    """

    dimension: int
    moves: Npus = field(compare=False)
    through_switch: bool = False


def link_classes(dimensions: Sequence[Dimension]) -> tuple[LinkClass, ...]:
    """The classes of a network's links, in the order of dimensions and of the links out of member 0."""
    classes = []
    for index, dimension in enumerate(dimensions):
        size, links = dimension.size, dimension.building_block.links(dimension.size)
        for end in links.dst[links.src == 0].tolist():
            if end < size:
                classes.append(LinkClass(index, np.array([end])))
            else:
                reached = links.dst[links.src == end]
                classes.append(LinkClass(index, reached[reached != 0], through_switch=True))
    return tuple(classes)


def star(name: str, dimensions: Sequence[Dimension], classes: Sequence[LinkClass]) -> Topology:
    """The links of NPU 0 alone, as a topology with one channel per class: timing and bounds of a symmetric network need no more.

    Channel i is of class i and leads to NPU i + 1.

    Parameters
    ----------
    name
        Name of the network.
    dimensions
        Its dimensions.
    classes
        Its `link_classes`.
    """
    count = len(classes)
    of_dimension = np.array([each.dimension for each in classes], np.int64)
    switch = count + 1 + np.arange(count)
    through = np.array([each.through_switch for each in classes], np.bool_)
    number = np.cumsum(through) - 1
    switch = np.where(through, count + 1 + number, np.arange(1, count + 1))
    src = np.concatenate((np.zeros(count, np.int64), switch[through]))
    dst = np.concatenate((switch, np.flatnonzero(through) + 1))
    dimension = np.concatenate((of_dimension, of_dimension[through]))
    return Topology(
        name,
        count + 1,
        int(through.sum()),
        src.astype(np.int32),
        dst.astype(np.int32),
        np.array([d.bandwidth_gibps for d in dimensions], np.float64)[dimension],
        np.array([d.latency_ns for d in dimensions], np.float64)[dimension],
        dimension.astype(np.int16),
        tuple(dimensions),
    )


def why_no_translations(network: NetworkConfig) -> str | None:
    """The reason why a network, as described, does not look the same from every NPU; None if it does."""
    if not network.dimensions:
        return "the network is a list of links, expected a product of dimensions"
    if network.reducing:
        return "switches add, expected a network of NPUs that look alike and nothing else"
    if network.failed_links or network.link_overrides:
        return "links failed or differ from their dimension's, expected a network that looks the same from every NPU"
    return why_not_symmetric(network.dimensions)


def why_not_symmetric(dimensions: Sequence[Dimension]) -> str | None:
    """The reason why a product of dimensions does not look the same from every NPU; None if it does."""
    if not dimensions:
        return "the network is a list of links, expected a product of dimensions"
    for dimension in dimensions:
        if dimension.building_block.translations(dimension.size) is None:
            return f"{dimension.block} {dimension.size} has ends or corners, expected a block that looks the same from every NPU"
    return None


def is_whole_product(topology: Topology) -> bool:
    """Whether a topology has all links of its dimensions, with their bandwidth and latency."""
    if not topology.is_regular:
        return False
    per_group = [d.building_block.num_links(d.size) * (topology.num_npus // d.size) for d in topology.dimensions]
    return topology.num_links == sum(per_group) and topology.num_npus == TranslationGroup(topology.dimensions).num_npus
