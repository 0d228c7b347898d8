"""Symmetries of a network: rotations, which turn one digit of all NPUs' numbers, and translations of a product of dimensions.

In most fabrics the numbers of NPUs that are alike say where they are: NPU 8 n + k is the k-th of node n. Then taking every node
to the next one maps links onto links of the same kind. `find_rotations` tries the digits of NPU numbers in mixed radix and keeps
those whose rotation it can prove: that of every link there is a link that it goes to.

Translations of a network move all NPUs and map links onto links of the same kind. A product of dimensions whose building blocks
have translations has them, too, coordinate by coordinate. The translation `by` takes NPU 0 to NPU `by`, so NPUs and translations
have the same numbers. See docs/symmetric.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.network_config import Dimension, NetworkConfig, count_links_of
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints, Ints32

_ROUNDS = 8
"""Of hashing what is around an NPU; each sees one link farther."""
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MOST_KEPT = 1 << 18
"""Links of a table up to which many are kept for further networks of the same shape, and above which only the last two."""


@dataclass(frozen=True, slots=True, eq=False)
class Digit:
    """A digit of NPU numbers, `number // stride % size`, whose rotation is an automorphism.

    `powers`: int64[size, num_links], where each link goes if the digit is turned so many times.
    """

    stride: int
    size: int
    powers: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Rotations:
    """A group of automorphisms that leaves no NPU in its place but for the identity: it turns some digits.

    Elements are numbers, 0 to `order` - 1, of which 0 is the identity. An NPU is `move(element_of(npu), first_of(npu))`.
    """

    digits: tuple[Digit, ...]
    num_links: int

    @property
    def order(self) -> int:
        """Number of elements."""
        return int(np.prod([digit.size for digit in self.digits], dtype=np.int64))

    def element_of(self, npu: Ints) -> Ints:
        """The element that takes the first NPU of each orbit to `npu[i]`."""
        element, weight = np.zeros(np.shape(npu), np.int64), 1
        for digit in self.digits:
            element = element + weight * (npu // digit.stride % digit.size)
            weight *= digit.size
        return element

    def first_of(self, npu: Ints) -> Ints:
        """The first NPU of the orbit of `npu[i]`: the one whose turning digits are 0."""
        first = np.array(npu, np.int64)
        for digit in self.digits:
            first = first - digit.stride * (npu // digit.stride % digit.size)
        return first

    def move(self, element: Ints, npu: Ints) -> Ints:
        """Where `element[i]` takes `npu[i]`. Arguments broadcast."""
        return self._moved(element, npu, 1)

    def back(self, element: Ints, npu: Ints) -> Ints:
        """The NPU that `element[i]` takes to `npu[i]`. Arguments broadcast."""
        return self._moved(element, npu, -1)

    def _moved(self, element: Ints, npu: Ints, way: int) -> Ints:
        moved, rest = np.broadcast_to(npu, np.broadcast_shapes(np.shape(element), np.shape(npu))).astype(np.int64), element
        for digit in self.digits:
            rest, turns = np.divmod(rest, digit.size)
            here = moved // digit.stride % digit.size
            moved = moved + digit.stride * ((here + way * turns) % digit.size - here)
        return moved

    def move_links(self, element: Ints, link: Ints) -> Ints:
        """Where `element[i]` takes link `link[i]`. Arguments broadcast."""
        moved, rest = np.asarray(link), np.asarray(element)
        for digit in self.digits:
            rest, turns = np.divmod(rest, digit.size)
            moved = digit.powers[turns, moved]
        return moved

    def link_orbits(self) -> tuple[Ints, Ints]:
        """int64[num_links], the orbit that each link is in; and int64[num_orbits], how many links each has."""
        least = np.arange(self.num_links)
        for digit in self.digits:  # the digits' rotations commute
            least = least[digit.powers].min(axis=0)
        orbit, size = np.unique(least, return_inverse=True, return_counts=True)[1:]
        return orbit.astype(np.int64), size.astype(np.int64)


@lru_cache(maxsize=4)
def find_rotations(topology: Topology) -> Rotations:
    """The largest group of rotations that is found; of the identity alone if there is no other."""
    npus, graph = topology.num_endpoints, _Graph.of(topology)
    rotation_of: dict[tuple[int, int], Ints | None] = {}

    def turn(stride: int, size: int) -> Ints | None:
        if (stride, size) not in rotation_of:
            rotation_of[stride, size] = _rotation(graph, stride, size)
        return rotation_of[stride, size]

    divisors = [size for size in range(1, npus + 1) if npus % size == 0]
    best: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {1: (1, ())}
    for stride in divisors:
        order, chain = best[stride]
        for size in divisors[1:]:
            end = stride * size
            if npus % end:
                continue
            turns = turn(stride, size) is not None
            other = (order * size, (*chain, (stride, size))) if turns else (order, chain)
            if end not in best or (other[0], -len(other[1])) > (best[end][0], -len(best[end][1])):
                best[end] = other
    digits = []
    for stride, size in best[npus][1]:
        once = turn(stride, size)
        assert once is not None
        powers = itertools.accumulate([once] * (size - 1), lambda before, more: more[before], initial=np.arange(len(once)))
        digits.append(Digit(stride, size, np.stack(list(powers))))
    group = Rotations(tuple(digits), topology.num_links)
    return group if all(_is_back_after_a_turn(digit) for digit in digits) else Rotations((), topology.num_links)


def _is_back_after_a_turn(digit: Digit) -> bool:
    """Whether as many turns as a digit has values leave all links in their places."""
    return bool(np.array_equal(digit.powers[1][digit.powers[-1]], np.arange(digit.powers.shape[1])))


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """What all rotations of a topology are checked against.

    Parameters
    ----------
    src, dst, kind
        int64[num_links]; `kind` is equal for links of equal bandwidth and latency.
    sums
        The links out of devices and those into them, over which colours add up.
    colour
        uint64[num_devices], colours with NPUs as they are.
    order
        int64[num_links], the links by source, destination and kind.
    """

    num_npus: int
    src: Ints
    dst: Ints
    kind: Ints
    sums: tuple[_Ends, _Ends]
    colour: NDArray[np.uint64]
    order: Ints

    @classmethod
    def of(cls, topology: Topology) -> _Graph:
        """The graph of a topology."""
        src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
        kind = _kinds(topology)
        sums = _Ends.of(src, dst, kind, 0), _Ends.of(dst, src, kind, 1)
        npus, devices = topology.num_endpoints, topology.num_devices
        colour = _colours(sums, devices, np.arange(npus))
        return cls(npus, src, dst, kind, sums, colour, np.lexsort((kind, dst, src)))


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """The links at one end of devices, grouped by device: where each group begins, whose it is, and of each link the other end.

    `mark` tells links of different kinds and directions apart.
    """

    first: Ints
    device: Ints
    other: Ints
    mark: NDArray[np.uint64]

    @classmethod
    def of(cls, end: Ints, other: Ints, kind: Ints, way: int) -> _Ends:
        """Links between these ends, of these kinds, in one of the ways 0 and 1."""
        order = np.argsort(end, kind="stable")
        device, first = np.unique(end[order], return_index=True)
        return cls(first, device, other[order], (2 * kind[order] + way).astype(np.uint64))


def _rotation(graph: _Graph, stride: int, size: int) -> Ints | None:
    """Where links go if a digit is turned once; None if that is found to be no automorphism.

    A device that forwards goes to one that has the same links to where its neighbours go. Of devices that have all neighbours in
    common, the k-th goes to the k-th.
    """
    npus, devices = graph.num_npus, len(graph.colour)
    npu = np.arange(npus)
    image = npu + stride * ((npu // stride % size + 1) % size - npu // stride % size)
    here, there = graph.colour, _colours(graph.sums, devices, image)
    # A device that gets a colour because of where its NPUs go takes the place of the one that has that colour.
    place, goer = np.argsort(here[npus:], kind="stable"), np.argsort(there[npus:], kind="stable")
    if not np.array_equal(here[npus:][place], there[npus:][goer]):
        return None
    moved = np.empty(devices, np.int64)
    moved[:npus] = image
    moved[npus + goer] = npus + place
    src, dst, kind, old = graph.src, graph.dst, graph.kind, graph.order
    new = np.lexsort((kind, moved[dst], moved[src]))
    is_same = (src[old] == moved[src][new]) & (dst[old] == moved[dst][new]) & (kind[old] == kind[new])
    if not is_same.all():
        return None
    turned = np.empty(len(src), np.int64)
    turned[new] = old
    return turned


def _kinds(topology: Topology) -> Ints:
    """int64[num_links], equal for links of equal bandwidth and latency."""
    both = np.stack((topology.link_bandwidth_gibps, topology.link_latency_ns), axis=1)
    return np.unique(both, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _colours(sums: tuple[_Ends, _Ends], num_devices: int, name: Ints) -> NDArray[np.uint64]:
    """uint64[num_devices], colours of devices that tell apart what NPUs of these names they lead to, and how."""
    colour = np.zeros(num_devices, np.uint64)
    colour[: len(name)] = mixed(name.astype(np.uint64) + np.uint64(1))
    npu_colour = colour[: len(name)].copy()
    for _ in range(_ROUNDS):
        fresh = colour * np.uint64(_ODD[0])
        for ends in sums:
            fresh[ends.device] += np.add.reduceat(mixed(colour[ends.other] + ends.mark), ends.first)
        colour = mixed(fresh)
        colour[: len(name)] = npu_colour
    return colour


def mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that depend on all bits (Steele, Lea, Flood 2014: SplitMix64)."""
    value = value + np.uint64(_ODD[0])
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_ODD[1])
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_ODD[2])
    return value ^ (value >> np.uint64(31))


Npus = Ints
Shape = tuple[tuple[BuildingBlock, int], ...]
"""Blocks and sizes of dimensions: what networks that differ only in bandwidths and latencies have in common."""


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

    def _each(self, left: Npus, right: Npus, method: str) -> Npus:
        result = np.zeros(np.broadcast_shapes(np.shape(left), np.shape(right)), np.int64)
        for dimension, stride in zip(self.dimensions, self.strides, strict=True):
            translations = dimension.building_block.translations(dimension.size)
            assert translations is not None
            result += stride * getattr(translations, method)(left // stride % dimension.size, right // stride % dimension.size)
        return result


@dataclass(frozen=True, slots=True)
class LinkClass:
    """Links that translations map onto one another: one out of every NPU, and one into every NPU.

    Parameters
    ----------
    moves
        int64, members of the dimension's group that a send of member 0 over this class reaches: one, or all others through a
        switch, whose port out of member 0 and port into that member are then taken.
    """

    dimension: int
    moves: Npus = field(compare=False)
    through_switch: bool = False


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The classes of a network's links, and what their order says of each; the same for all networks of a shape.

    Parameters
    ----------
    classes
        The classes, in the order of dimensions and of the links out of member 0.
    """

    shape: Shape
    classes: tuple[LinkClass, ...]

    @cached_property
    def dimension(self) -> Ints:
        """int64[num_classes], the index of the dimension of each."""
        return np.array([link_class.dimension for link_class in self.classes], np.int64)

    @cached_property
    def is_switched(self) -> Bools:
        """bool[num_dimensions], whether sends in a dimension go through a switch."""
        through = {link_class.dimension for link_class in self.classes if link_class.through_switch}
        return np.array([index in through for index in range(len(self.shape))])

    @cached_property
    def after(self) -> tuple[Ints, Ints32]:
        """Where each class leads: `after[first[i] + m]` is the member that member m sends to over class i.

        `first` is int64[num_classes], -1 for a switch, which leads to all others.
        """
        moved, first, length = [np.empty(0, np.int64)], np.full(len(self.classes), -1, np.int64), 0
        for number, link_class in enumerate(self.classes):
            if link_class.through_switch:
                continue
            block, size = self.shape[link_class.dimension]
            translations = block.translations(size)
            assert translations is not None
            first[number] = length
            moved.append(translations.move(link_class.moves[0], np.arange(size)))
            length += size
        return first, np.concatenate(moved).astype(np.int32)

    @property
    def class_of_offset(self) -> Ints:
        """int64[num_npus], the class of links that leads from NPU 0 to each NPU, -1 where there is none."""
        sizes = [size for _, size in self.shape]
        class_of = np.full(math.prod(sizes), -1)
        for number, link_class in enumerate(self.classes):
            class_of[link_class.moves * math.prod(sizes[: link_class.dimension])] = number
        return class_of

    @cached_property
    def opposite(self) -> Ints:
        """int64[num_classes], the class of the same links in the other direction."""
        opposite = np.arange(len(self.classes))
        direct = [at for at, link_class in enumerate(self.classes) if not link_class.through_switch]
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
    """
    table = class_table(dimensions)
    classes, of_dimension = table.classes, table.dimension
    count = len(classes)
    through = np.array([link_class.through_switch for link_class in classes], np.bool_)
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
        return "switches add, expected a network only of NPUs that look alike"
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
    dimensions = topology.dimensions
    has_npus = topology.is_regular and topology.num_npus == TranslationGroup(dimensions).num_npus
    return has_npus and topology.num_links == count_links_of(dimensions)
