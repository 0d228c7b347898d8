"""Spanning trees of NPU 0's chunks, with classes of links as the only resource."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from astra_tacos.bounds.symmetric import critical_dimensions, farthest_ns, whole_messages_ns
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import SynthesisError

if TYPE_CHECKING:
    from astra_tacos.synthesizer.symmetric._symmetric_kernels import Classes

Levels = tuple[tuple[tuple[int, ...], ...], ...]
"""Dimensions by level, the outermost first; each level's by kind, those that open up NPUs for the next kind first."""
_SPARE = 0.01
"""Share of the bound by which a deadline is beyond it, where classes differ in speed."""
_SOME = 1 << 16
_FEW = 1 << 8
_AS_GOOD, _NEARER, _NEAR = 1.0005, 1.001, 1.005
"""Schedules that take so many times the bound are not improved: of up to `_FEW` rows, of up to `_SOME`, and of more."""


class Trees(NamedTuple):
    """Sends of NPU 0's chunks, int32[n] and int64[n]; `way` is the class of links that each goes over."""

    chunk: Ints32
    src: Ints32
    dst: Ints32
    way: Ints32
    start_ns: Ints
    end_ns: Ints

    @property
    def time_ns(self) -> int:
        """When the last send has arrived."""
        return int(self.end_ns.max())

    def in_order(self, order: Ints) -> Trees:
        """The same sends in another order."""
        return Trees._make(column[order] for column in self)

    def followed_by(self, other: Trees) -> Trees:
        """These sends, then the others."""
        return Trees._make(np.concatenate((self[at], other[at])) for at in range(len(self)))


def is_as_good_as(time_ns: float, bound_ns: int, rows: int) -> bool:
    """Whether a time is so near a bound that what is left is not worth a search among schedules of so many rows."""
    return time_ns <= bound_ns * (_AS_GOOD if rows <= _FEW else _NEARER if rows <= _SOME else _NEAR)


def grow(task: SymmetricTask, gap_ns: int = 0) -> Trees:
    """The faster of two sets of trees, greedily grown; those with levels come first.

    With levels, a class of slow links brings only the first copy of a chunk into each set of NPUs that faster classes connect:
    this needs no more of the slow links than the bound for cuts does. Without levels, it may bring others, which helps where
    there are few chunks. Where classes differ in speed, nothing is sent that would arrive after the time of the port bound, or a
    little later, as long as something else can be.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached, which would be a fault of this package.
    """
    rows = task.chunks_per_npu * (task.num_npus - 1)
    grower = _Grower(task, gap_ns)
    bound = max(_bound_ns(task, grower.levels), farthest_ns(task, gap_ns))
    best: Trees | None = None
    for levels, deadline in _variants(task, grower.levels, bound):
        trees = grower.grow(levels, deadline)
        if best is None or trees.time_ns < best.time_ns:
            best = trees
        if is_as_good_as(best.time_ns, bound, rows):
            break
    assert best is not None
    return best


def _bound_ns(task: SymmetricTask, levels: Levels) -> int:
    """The time that no trees beat: that of the worst cut between parts, in whole chunks."""
    return max(
        whole_messages_ns(task.delay_ns[used], task.hold_ns[used], (parts - 1) * task.chunks_per_npu)
        for used, parts in _cuts(task, levels)
    )


def _cuts(task: SymmetricTask, levels: Levels) -> Iterator[tuple[Bools, int]]:
    """The classes that lead out of the cosets of each level, all classes, and how many cosets there are."""
    of_class = task.table.dimension
    yield np.ones(len(of_class), np.bool_), task.num_npus
    outer: list[int] = []
    for kinds in levels[:-1]:
        outer += (at for kind in kinds for at in kind)
        is_outer = np.zeros(len(task.dimensions), np.bool_)
        is_outer[outer] = True
        yield is_outer[of_class], math.prod(task.dimensions[at].size for at in outer)


def _binding_levels(task: SymmetricTask) -> Levels:
    """Dimensions by level: those that bind, then those that bind among the others, and so on."""
    rates = np.bincount(task.table.dimension, 1 / task.hold_ns, len(task.dimensions))
    left, levels = list(range(len(task.dimensions))), []
    while left:
        chosen = critical_dimensions([task.dimensions[at].size for at in left], [float(rates[at]) for at in left])
        levels.append((tuple(left[at] for at in chosen),))
        left = [at for index, at in enumerate(left) if index not in chosen]
    return tuple(levels)


def _by_speed(task: SymmetricTask, levels: Levels) -> Levels:
    """These levels, in each of which slow links first bring chunks to where faster ones cannot bring them."""
    delay = dict(zip(task.table.dimension.tolist(), task.delay_ns.tolist(), strict=True))
    levels_by_speed = []
    for kinds in levels:
        of_delay: dict[int, list[int]] = {}
        for at in (at for kind in kinds for at in kind):
            of_delay.setdefault(delay[at], []).append(at)
        levels_by_speed.append(tuple(tuple(of_delay[delay]) for delay in sorted(of_delay, reverse=True)))
    return tuple(levels_by_speed)


def _variants(task: SymmetricTask, levels: Levels, bound: int) -> list[tuple[Levels, int | None]]:
    """Levels and deadlines to try: without deadlines, also all dimensions at once; where classes differ in speed, deadlines."""
    if np.ptp(task.delay_ns) == 0:
        flat: Levels = ((tuple(range(len(task.dimensions))),),)
        return [(variant, None) for variant in dict.fromkeys((levels, flat))]
    late, by_speed = int(bound * (1 + _SPARE)), _by_speed(task, levels)
    return [(levels, late), (levels, bound)] if by_speed == levels else [(by_speed, late), (levels, late)]


class _Grower:
    """Grows trees of one task; what the kernel takes is made once for all of them.

    Attributes
    ----------
    task
        Network, collective and chunks.
    levels
        Its dimensions by level, those that bind first.
    """

    def __init__(self, task: SymmetricTask, gap_ns: int) -> None:
        self.task = task
        self.levels = _binding_levels(task)
        self._gap_ns = gap_ns
        self._order = np.argsort(task.delay_ns, kind="stable")
        self._cosets: dict[tuple[tuple[int, ...], ...], Ints32] = {}

    def grow(self, levels: Levels, deadline_ns: int | None) -> Trees:
        """One set of trees, as `grow_trees` makes it; without a deadline if that is None."""
        from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

        task, order = self.task, self._order
        rows = task.chunks_per_npu * (task.num_npus - 1)
        chunk, src, dst, way_taken = np.empty((4, rows), np.int32)
        start = np.empty(rows, np.int64)
        out = kernels.Rows(chunk, src, dst, way_taken, start)
        deadline = int(kernels.NEVER) if deadline_ns is None else deadline_ns
        cosets = self._cosets_of([kind for level in levels for kind in level])
        done = kernels.grow_trees(task.chunks_per_npu, self._classes(order, levels), cosets, deadline, self._gap_ns, out)
        if done < rows:
            raise SynthesisError(f"{task.name}: some NPU cannot be reached, expected a connected network")
        count_work(0.1 * rows)
        way = order[way_taken].astype(np.int32)
        return Trees(chunk, src, dst, way, start, start + task.delay_ns[way])

    def _classes(self, order: Ints, levels: Levels) -> Classes:
        from astra_tacos.synthesizer.symmetric._symmetric_kernels import Classes

        task, table = self.task, self.task.table
        dimension = table.dimension[order]
        stride, size = np.array(task.group.strides), np.array([dimension.size for dimension in task.dimensions])
        level, fallback = np.empty((2, len(size)), np.int64)
        number = 0
        for kinds in levels:
            for kind in kinds:
                level[list(kind)] = number
                number += 1
            fallback[[at for kind in kinds for at in kind]] = number - 1
        first, after = table.after
        return Classes(
            stride[dimension],
            size[dimension],
            first[order],
            after,
            level[dimension],
            fallback[dimension],
            task.delay_ns[order],
            task.hold_ns[order],
        )

    def _cosets_of(self, kinds: list[tuple[int, ...]]) -> Ints32:
        """int32[num_kinds, num_npus]: for each kind, the NPU of the same coset whose coordinates in later kinds are 0."""
        task, key = self.task, tuple(kinds)
        if key not in self._cosets:
            npus = np.arange(task.num_npus, dtype=np.int32)
            cosets = [npus]
            for kind in kinds[:0:-1]:
                base = cosets[-1].copy()
                for at in kind:
                    stride, size = task.group.strides[at], task.dimensions[at].size
                    base -= npus // stride % size * stride
                cosets.append(base)
            self._cosets[key] = np.array(cosets[::-1])
        return self._cosets[key]
