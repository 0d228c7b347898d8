"""The translations of a network: moves of all NPUs that map links onto links of the same kind.

A product of dimensions whose building blocks have translations has them, too, coordinate by coordinate. The translation `by`
takes NPU 0 to NPU `by`, so NPUs and translations have the same numbers. See docs/symmetric.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.topology import Topology

Npus = NDArray[np.int64]
Shape = tuple[tuple[BuildingBlock, int], ...]
"""Blocks and sizes of dimensions: what networks that differ only in bandwidths and latencies have in common."""
_MOST_KEPT = 1 << 18
"""Links of a table up to which many are kept for further networks of the same shape, and above which only the last two."""


@dataclass(frozen=True, slots=True)
class TranslationGroup:
    """The translations of a product of dimensions for which `why_no_translations` has no reason."""

    dimensions: tuple[Dimension, ...]

    @property
    def num_npus(self) -> int:
        """Number of NPUs, and of translations."""
        return math.prod(dimension.size for dimension in self.dimensions)

    @property
    def strides(self) -> tuple[int, ...]:
        """By how much NPU numbers differ from one member of a dimension's group to the next."""
        strides, product = [], 1
        for dimension in self.dimensions:
            strides.append(product)
            product *= dimension.size
        return tuple(strides)

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


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The classes of a network's links, and what their order says of each; the same for all networks of a shape.

    Parameters
    ----------
    shape
        The network's blocks and sizes.
    classes
        The classes, in the order of dimensions and of the links out of member 0.
    """

    shape: Shape
    classes: tuple[LinkClass, ...]

    @cached_property
    def dimension(self) -> NDArray[np.int64]:
        """int64[num_classes], the index of the dimension of each."""
        return np.array([each.dimension for each in self.classes], np.int64)

    @cached_property
    def is_switched(self) -> NDArray[np.bool_]:
        """bool[num_dimensions], whether sends in a dimension go through a switch."""
        through = {each.dimension for each in self.classes if each.through_switch}
        return np.array([index in through for index in range(len(self.shape))])

    @cached_property
    def after(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each class leads: `after[first[i] + m]` is the member that member m sends to over class i.

        `first` is int64[num_classes], -1 for a switch, which leads to all others.
        """
        moved, first, length = [np.empty(0, np.int64)], np.full(len(self.classes), -1, np.int64), 0
        for number, each in enumerate(self.classes):
            if each.through_switch:
                continue
            block, size = self.shape[each.dimension]
            translations = block.translations(size)
            assert translations is not None
            first[number] = length
            moved.append(translations.move(each.moves[0], np.arange(size)))
            length += size
        return first, np.concatenate(moved).astype(np.int32)

    @property
    def class_of_offset(self) -> NDArray[np.int64]:
        """int64[num_npus], the class of links that leads from NPU 0 to each NPU, -1 where there is none."""
        sizes = [size for _, size in self.shape]
        found = np.full(math.prod(sizes), -1)
        for number, each in enumerate(self.classes):
            found[each.moves * math.prod(sizes[: each.dimension])] = number
        return found

    @cached_property
    def opposite(self) -> NDArray[np.int64]:
        """int64[num_classes], the class of the same links in the other direction."""
        opposite = np.arange(len(self.classes))
        direct = [at for at, each in enumerate(self.classes) if not each.through_switch]
        number = {(self.classes[at].dimension, int(self.classes[at].moves[0])): at for at in direct}
        for index, (block, size) in enumerate(self.shape):
            translations = block.translations(size)
            assert translations is not None
            back = translations.offset(np.arange(size), np.zeros(size, np.int64))
            for (dimension, move), at in number.items():
                if dimension == index:
                    opposite[at] = number[index, int(back[move])]
        return opposite


def class_table(dimensions: Sequence[Dimension]) -> ClassTable:
    """The classes of the links of a network for which `why_not_symmetric` has no reason."""
    return table_of_shape(tuple((dimension.building_block, dimension.size) for dimension in dimensions))


@lru_cache(maxsize=128)
def _kept_table(shape: Shape) -> ClassTable:
    return _table(shape)


@lru_cache(maxsize=2)
def _large_table(shape: Shape) -> ClassTable:
    return _table(shape)


def table_of_shape(shape: Shape) -> ClassTable:
    """The classes of the links of all networks of a shape; kept, as a sweep asks for them thousands of times."""
    return _kept_table(shape) if _is_small(shape) else _large_table(shape)


@lru_cache(maxsize=1024)
def _is_small(shape: Shape) -> bool:
    return sum(block.num_links(size) for block, size in shape) <= _MOST_KEPT


def _table(shape: Shape) -> ClassTable:
    classes = []
    for index, (block, size) in enumerate(shape):
        links = block.links(size)
        for end in links.dst[links.src == 0].tolist():
            if end < size:
                classes.append(LinkClass(index, np.array([end])))
            else:
                reached = links.dst[links.src == end]
                classes.append(LinkClass(index, reached[reached != 0], through_switch=True))
    return ClassTable(shape, tuple(classes))


@lru_cache(maxsize=16)
def star(name: str, dimensions: tuple[Dimension, ...]) -> Topology:
    """The links of NPU 0 alone, as a topology with one channel per class: timing and bounds of a symmetric network need no more.

    Channel i is of class i and leads to NPU i + 1.

    Parameters
    ----------
    name
        Name of the network.
    dimensions
        Its dimensions.
    """
    table = class_table(dimensions)
    classes, of_dimension = table.classes, table.dimension
    count = len(classes)
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
        dimensions,
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
            where = f"{dimension.block} {dimension.size}"
            return f"{where} has ends or corners, or states no translations, expected a block that looks the same from every NPU"
    return None


def is_whole_product(topology: Topology) -> bool:
    """Whether a topology has all links of its dimensions, with their bandwidth and latency."""
    if not topology.is_regular:
        return False
    per_group = [d.building_block.num_links(d.size) * (topology.num_npus // d.size) for d in topology.dimensions]
    return topology.num_links == sum(per_group) and topology.num_npus == TranslationGroup(topology.dimensions).num_npus
