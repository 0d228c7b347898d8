"""Cycles through all NPUs of a network of dimensions that have no link in common.

The network's edges are coloured. At first a colour is a set of cycles through some NPUs each, such as all rings of one dimension.
Around a square of which opposite edges have the same colour, the two colours are swapped, or a colour is swapped with unused
edges: that makes one cycle of two wherever the edges of a colour are in different ones. Done often enough, a colour is one cycle.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import Dimension

_NO_EDGE = -2
_UNUSED = -1
_DETOURS = 100
_TRIES = 20


def disjoint_cycles(dimensions: tuple[Dimension, ...]) -> list[NDArray[np.int32]]:
    """Edge-disjoint cycles through all NPUs, each as int32[num_npus]; none if none are found.

    Every dimension is taken for a ring, or a line if it is a mesh or has two NPUs; a single FullyConnected has more.
    """
    if len(dimensions) == 1 and dimensions[0].block == "FullyConnected" and dimensions[0].size > 2:
        return _of_full_graph(dimensions[0].size)
    grid = _Grid(dimensions)
    random = np.random.default_rng(0)
    best: list[NDArray[np.int32]] = []
    for _ in range(_DETOURS):
        while grid.merge(random, twist=False) or grid.merge(random, twist=True):
            pass
        cycles = [grid.cycle_of(colour) for colour in range(grid.num_colours)]
        best = max(best, [cycle for cycle in cycles if len(cycle) == grid.num_npus], key=len)
        if len(best) == grid.num_colours:
            break
        grid.wander(random)
    return best


def _of_full_graph(size: int) -> list[NDArray[np.int32]]:
    """Walecki's zigzags: all NPUs but one on a circle, visited 0, 1, -1, 2, -2, ..., and the last one closes the cycle."""
    hop = np.arange(size - 1)
    zigzag = np.where(hop % 2, (hop + 1) // 2, -(hop // 2))
    return [np.append((zigzag + first) % (size - 1), size - 1).astype(np.int32) for first in range((size - 1) // 2)]


class _Grid:
    """Colours of the edges from every NPU to the next one along each dimension, and which cycle of a colour an NPU is in."""

    def __init__(self, dimensions: tuple[Dimension, ...]) -> None:
        sizes = [dimension.size for dimension in dimensions]
        self.num_npus = math.prod(sizes)
        npu = np.arange(self.num_npus)
        self.place = np.stack(np.unravel_index(npu, sizes, order="F"))
        self.next = np.empty_like(self.place)
        for dimension in range(len(sizes)):
            shifted = self.place.copy()
            shifted[dimension] = (shifted[dimension] + 1) % sizes[dimension]
            self.next[dimension] = np.ravel_multi_index(tuple(shifted), sizes, order="F")
        self.colour = np.full(self.place.shape, _UNUSED)
        self.num_colours = 0
        lines = [d for d, dimension in enumerate(dimensions) if dimension.block == "Mesh" or dimension.size == 2]
        for dimension in range(len(sizes)):
            if dimension in lines:
                self.colour[dimension, self.place[dimension] == sizes[dimension] - 1] = _NO_EDGE
            else:
                self.colour[dimension] = self.num_colours
                self.num_colours += 1
        # Planes of two lines. Lines of an odd length serve along a strip, so that the even ones are left to go across.
        lines.sort(key=lambda d: (sizes[d] % 2 == 0, d))
        while len(lines) > 1 and sizes[lines[-1]] % 2 == 0:
            self._colour_strips(lines.pop(), lines.pop(0), sizes)
        self.cycle = np.array([self._label(colour) for colour in range(self.num_colours)]).reshape(-1, self.num_npus)

    def _colour_strips(self, across: int, along: int, sizes: list[int]) -> None:
        """A cycle round every strip, two NPUs wide, of the planes of two lines."""
        self.colour[along, self.colour[along] != _NO_EDGE] = self.num_colours
        at_an_end = (self.place[along] == 0) | (self.place[along] == sizes[along] - 1)
        self.colour[across, at_an_end & (self.place[across] % 2 == 0)] = self.num_colours
        self.num_colours += 1

    def _label(self, colour: int) -> NDArray[np.int64]:
        """int64[num_npus], the first NPU of each one's cycle."""
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

    def cycle_of(self, colour: int) -> NDArray[np.int32]:
        """The cycle of a colour that goes through NPU 0."""
        return np.array(_follow(self._neighbours(colour), 0), np.int32)

    @property
    def num_cycles(self) -> int:
        return sum(len(np.unique(cycle)) for cycle in self.cycle)

    def merge(self, random: np.random.Generator, *, twist: bool) -> bool:
        """Swap two colours round the first square where that makes fewer cycles of one and not more of the other, if any does.

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
        """Swap two colours somewhere without making more cycles in all."""
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

    def _squares(self, d: int, e: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """First corners of the squares along two dimensions of which opposite edges have one colour, and these two colours."""
        one, other = self.colour[d], self.colour[e]
        alike = (one == one[self.next[e]]) & (other == other[self.next[d]])
        corner = np.flatnonzero(alike & (one != other) & (one >= 0) & (other != _NO_EDGE))
        return corner, one[corner], other[corner]

    def _successors(self, colour: int) -> NDArray[np.int64]:
        """int64[num_npus], the NPU after each one, when every cycle is followed one way."""
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


def _follow(neighbours: list[list[int]], start: int) -> list[int]:
    """The cycle through an NPU."""
    cycle = [start]
    before, at = start, neighbours[start][0]
    while at != start:
        cycle.append(at)
        first, second = neighbours[at]
        before, at = at, second if first == before else first
    return cycle
