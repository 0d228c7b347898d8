"""Hamiltonian cycles through all NPUs of a network of dimensions, no two of which share a link.

The edges of the network are coloured. At first each colour is a set of cycles through some of the NPUs, such as all rings of one
dimension. A step takes a square whose opposite edges have the same colour, and swaps its two colours, or swaps a colour with
unused edges. If the edges of a colour are in different cycles, the swap joins the two cycles. After enough steps a colour is one
cycle.

Directed Hamiltonian cycles of an arbitrary graph, which share a link only where it is faster than others.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from astra_tacos.network.blocks.building_block import NO_MEMBER
from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints, Ints32

_NO_EDGE = -2
_UNUSED = -1
_DETOURS = 100
_TRIES = 20


def disjoint_cycles(dimensions: tuple[Dimension, ...]) -> list[Ints32]:
    """Edge-disjoint cycles through all NPUs, each as int32[num_npus]; none if none are found.

    They follow the axes of the building blocks, rings and lines; there are none where a block has no axes. A block that is the
    whole network may know more.
    """
    if len(dimensions) == 1:
        known = dimensions[0].building_block.disjoint_cycles(dimensions[0].size)
        if known is not None:
            return [cycle.astype(np.int32) for cycle in known]
    after = _axes(dimensions)
    if not after:
        return []
    grid = _Grid(after)
    random = np.random.default_rng(0)
    best: list[Ints32] = []
    for _ in range(_DETOURS):
        while grid.merge(random, twist=False) or grid.merge(random, twist=True):
            pass
        cycles = [grid.cycle_of(colour) for colour in range(grid.num_colours)]
        best = max(best, [cycle for cycle in cycles if len(cycle) == grid.num_npus], key=len)
        if len(best) == grid.num_colours:
            break
        grid.wander(random)
    return best


def _axes(dimensions: tuple[Dimension, ...]) -> list[Ints]:
    """For each axis of all dimensions, int64[num_npus]: the next NPU, `NO_MEMBER` at the end of a line; none if unknown."""
    npu, stride = np.arange(math.prod(dimension.size for dimension in dimensions)), 1
    after: list[Ints] = []
    for dimension in dimensions:
        axes = dimension.building_block.axes(dimension.size)
        if axes is None:
            return []
        place = npu // stride % dimension.size
        after += [np.where(axis[place] == NO_MEMBER, NO_MEMBER, npu + (axis[place] - place) * stride) for axis in axes]
        stride *= dimension.size
    return after


class _Grid:
    """Colours of the edges from every NPU to the next one along each axis, and the cycle of each colour that an NPU is on."""

    def __init__(self, after: list[Ints]) -> None:
        self.num_npus = len(after[0])
        self.next = np.stack(after)
        self.colour = np.full(self.next.shape, _UNUSED)
        self.num_colours = 0
        lines: list[_Line] = []
        for axis, following in enumerate(after):
            if (following == NO_MEMBER).any():
                line = _Line.along(axis, following)
                self.next[axis, line.is_end] = line.start[line.is_end]
                self.colour[axis, line.is_end] = _NO_EDGE
                lines.append(line)
            else:
                self.colour[axis] = self.num_colours
                self.num_colours += 1
        # Planes of two lines. Lines of odd length run along a strip, so that those of even length can cross it.
        lines.sort(key=lambda line: (line.size % 2 == 0, line.axis))
        while len(lines) > 1 and lines[-1].size % 2 == 0:
            self._colour_strips(lines.pop(), lines.pop(0))
        self.cycle = np.array([self._label(colour) for colour in range(self.num_colours)]).reshape(-1, self.num_npus)

    def _colour_strips(self, across: _Line, along: _Line) -> None:
        """Colour the planes of two lines: one cycle round every strip that is two NPUs wide."""
        self.colour[along.axis, ~along.is_end] = self.num_colours
        at_an_end = (along.place == 0) | along.is_end
        self.colour[across.axis, at_an_end & (across.place % 2 == 0)] = self.num_colours
        self.num_colours += 1

    def _label(self, colour: int) -> Ints:
        """int64[num_npus], a label of each NPU's cycle: the lowest NPU on it."""
        neighbours = self._neighbours(colour)
        label = np.full(self.num_npus, -1)
        for npu in range(self.num_npus):
            if label[npu] < 0:
                label[_follow(neighbours, npu)] = npu
        return label

    def _neighbours(self, colour: int) -> list[list[int]]:
        """The two neighbours of every NPU in a colour."""
        dimension, npu = np.nonzero(self.colour == colour)
        other = self.next[dimension, npu]
        order = np.argsort(np.concatenate((npu, other)), kind="stable")
        neighbours: list[list[int]] = np.concatenate((other, npu))[order].reshape(-1, 2).tolist()
        return neighbours

    def cycle_of(self, colour: int) -> Ints32:
        """The cycle of a colour that goes through NPU 0."""
        return np.array(_follow(self._neighbours(colour), 0), np.int32)

    @property
    def num_cycles(self) -> int:
        return sum(len(np.unique(cycle)) for cycle in self.cycle)

    def merge(self, random: np.random.Generator, *, twist: bool) -> bool:
        """Swap two colours round the first square where one colour then has fewer cycles and the other not more; report success.

        With `twist`, the other may be a single cycle that the swap leads round the square the other way.
        """
        leads_to = (
            np.array([self._successors(colour) for colour in range(self.num_colours)]) if twist and self.num_colours else None
        )
        for d, e in itertools.permutations(range(len(self.next)), 2):
            corner, one, other = self._squares(d, e)
            right, up = self.next[d, corner], self.next[e, corner]
            fits = self.cycle[one, corner] != self.cycle[one, up]
            if leads_to is None:
                fits &= (other == _UNUSED) | (self.cycle[other, corner] != self.cycle[other, right])
            else:
                fits &= (other >= 0) & ((leads_to[other, corner] == up) == (leads_to[other, right] == self.next[e, right]))
            if fits.any():
                self._swap(d, e, int(random.choice(corner[fits])))
                return True
        return False

    def wander(self, random: np.random.Generator) -> None:
        """Swap two colours round a random square without increasing the total number of cycles."""
        d, e = random.choice(len(self.next), 2, replace=False)
        corners, _, other = self._squares(d, e)
        before = self.num_cycles
        for corner in random.permutation(corners[other >= 0])[:_TRIES].tolist():
            colours = self.colour[d, corner], self.colour[e, corner]
            kept = self.cycle.copy()
            self._swap(d, e, corner)
            for colour in colours:
                self.cycle[colour] = self._label(colour)
            if self.num_cycles <= before:
                return
            self._swap(d, e, corner)
            self.cycle = kept

    def _squares(self, d: int, e: int) -> tuple[Ints, Ints, Ints]:
        """First corners of the squares along two dimensions whose opposite edges have one colour, and the two colours of each."""
        one, other = self.colour[d], self.colour[e]
        alike = (one == one[self.next[e]]) & (other == other[self.next[d]])
        corner = np.flatnonzero(alike & (one != other) & (one >= 0) & (other != _NO_EDGE))
        return corner, one[corner], other[corner]

    def _successors(self, colour: int) -> Ints:
        """int64[num_npus], the next NPU on each NPU's cycle, in one direction."""
        neighbours = self._neighbours(colour)
        after = np.empty(self.num_npus, np.int64)
        for start in np.unique(self.cycle[colour]).tolist():
            cycle = _follow(neighbours, start)
            after[cycle] = np.roll(cycle, -1)
        return after

    def _swap(self, d: int, e: int, corner: int) -> None:
        right, up = self.next[d, corner], self.next[e, corner]
        one, other = self.colour[d, corner], self.colour[e, corner]
        self.colour[d, [corner, up]] = other
        self.colour[e, [corner, right]] = one
        for colour, ends in ((one, (corner, up)), (other, (corner, right))):
            if colour >= 0:
                first, second = self.cycle[colour, list(ends)]
                self.cycle[colour, self.cycle[colour] == second] = first


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """An axis that consists of lines of one length: the position of every NPU on its line, and the first NPU of that line."""

    axis: int
    size: int
    place: Ints
    start: Ints

    @property
    def is_end(self) -> Bools:
        """bool[num_npus], whether a line ends there."""
        is_end: Bools = self.place == self.size - 1
        return is_end

    @classmethod
    def along(cls, axis: int, after: Ints) -> _Line:
        """The lines of an axis, of which the NPU after each one is given."""
        start = np.flatnonzero(~np.isin(np.arange(len(after)), after))
        place, first = np.empty((2, len(after)), np.int64)
        at, size = start, 0
        while len(at):
            place[at], first[at] = size, start
            size += 1
            at = after[at]
            at = at[at != NO_MEMBER]
        return cls(axis, size, place, first)


def _follow(neighbours: list[list[int]], start: int) -> list[int]:
    """The cycle through an NPU."""
    cycle = [start]
    before, at = start, neighbours[start][0]
    while at != start:
        cycle.append(at)
        first, second = neighbours[at]
        before, at = at, second if first == before else first
    return cycle


_ATTEMPTS = 30
_MOST_STEPS = 20_000
"""Of one attempt; all together may take twice as many."""
_MOST_TIMES = 4


def search_cycles(topology: Topology) -> list[Ints32]:
    """Hamiltonian cycles found one after another by a limited search; each also in reverse where its links are free.

    A link that is k times as fast as the slowest one, up to 4, may be in k of them.
    """
    times = _times(topology)
    most = min(np.bincount(ends, times).min() for ends in (topology.channel_src, topology.channel_dst))
    best: list[list[int]] = []
    steps_left = 2 * _MOST_STEPS
    for attempt in range(_ATTEMPTS):
        search = _Search(topology, np.random.default_rng(attempt), min(_MOST_STEPS, steps_left))
        best = max(best, search.cycles(), key=len)
        steps_left -= search.steps
        if len(best) == most or steps_left <= 0:
            break
    return [np.array(cycle, np.int32) for cycle in best]


def _times(topology: Topology) -> Ints:
    """int64[num_channels], the number of cycles that may use each channel."""
    bandwidth = topology.link_bandwidth_gibps[topology.channel_link]
    times: Ints = np.minimum(bandwidth / bandwidth.min(), _MOST_TIMES).astype(np.int64)
    return times


class _Search:
    """Depth-first search by Warnsdorff's rule: next comes the NPU with the fewest free successors, ties are broken at random."""

    def __init__(self, topology: Topology, random: np.random.Generator, most_steps: int) -> None:
        self.successors: list[dict[int, int]] = [{} for _ in range(topology.num_npus)]
        columns = topology.channel_src.tolist(), topology.channel_dst.tolist(), _times(topology).tolist()
        for src, dst, times in zip(*columns, strict=True):
            self.successors[src][dst] = times
        self.preference = random.permutation(topology.num_npus).tolist()
        self.most_steps = most_steps
        self.steps = 0

    def cycles(self) -> list[list[int]]:
        found: list[list[int]] = []
        while cycle := self._cycle():
            for way in (cycle, cycle[::-1]):
                hops = list(zip(way, way[1:] + way[:1], strict=True))
                if all(dst in self.successors[src] for src, dst in hops):
                    found.append(way)
                    for src, dst in hops:
                        self.successors[src][dst] -= 1
                        if not self.successors[src][dst]:
                            del self.successors[src][dst]
        return found

    def _cycle(self) -> list[int]:
        """A cycle over the remaining links, empty if none is found within the limit."""
        path = [0]
        is_free = [True] * len(self.successors)
        is_free[0] = False
        ahead = [self._ways_on(0, is_free)]
        while path and self.steps < self.most_steps:
            self.steps += 1
            if ahead[-1]:
                npu = ahead[-1].pop()
                path.append(npu)
                is_free[npu] = False
                ahead.append(self._ways_on(npu, is_free))
                if len(path) == len(self.successors) and 0 in self.successors[npu]:
                    return path
            else:
                ahead.pop()
                is_free[path.pop()] = True
        return []

    def _ways_on(self, npu: int, is_free: list[bool]) -> list[int]:
        """Free successors of an NPU, the best last."""
        free = [after for after in self.successors[npu] if is_free[after]]
        ways = {after: sum(is_free[further] for further in self.successors[after]) for after in free}
        return sorted(free, key=lambda after: (-ways[after], self.preference[after]))
