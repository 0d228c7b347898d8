"""Spanning trees of NPU 0's chunks, with classes of links as the only resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.symmetric import critical_dimensions, farthest_ns, whole_messages_ns
from astra_tacos.errors import SynthesisError
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.schedule.work_meter import count_work

if TYPE_CHECKING:
    from astra_tacos.synthesizer.symmetric._symmetric_kernels import Classes

_SPARE = (0.0, 0.01, 0.04)
"""Deadlines beyond the bound that are tried, where classes differ in speed."""
_TRIES = 1 << 16
"""Rows up to which all deadlines are tried, even if the first trees are near the bound."""
_FEW = 1 << 8
_NEARER, _NEAR = 1.001, 1.005
"""Of more than `_FEW` rows, and of more than `_TRIES`, trees that take so many times the bound are not improved."""
_ROWS_OF_MORE = 20_000
"""Most rows of trees grown in random order, in all."""
_MOST_SORTED = 3
_WAY_TO_BEST = (0.25, 0.5, 0.75, 1.0)
"""Deadlines of these: how far beyond the bound, as a share of what the best trees are beyond it."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Sends of NPU 0's chunks, int32[n] and int64[n]; `way` is the class of links that each goes over."""

    chunk: NDArray[np.int32]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    way: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @property
    def time_ns(self) -> int:
        """When the last send has arrived."""
        return int(self.end_ns.max())

    def in_order(self, order: NDArray[np.int64]) -> Trees:
        """The same sends in another order."""
        return Trees(
            self.chunk[order], self.src[order], self.dst[order], self.way[order], self.start_ns[order], self.end_ns[order]
        )

    def followed_by(self, other: Trees) -> Trees:
        """These sends, then the others."""
        return Trees(*(np.concatenate((getattr(self, each.name), getattr(other, each.name))) for each in fields(self)))


def grow(task: SymmetricTask, tries: int, gap_ns: int = 0) -> Trees:
    """The fastest of a few sets of trees, greedily grown; those with levels come first.

    With levels, a class of slow links brings only the first copy of a chunk into each set of NPUs that faster classes connect:
    this needs no more of the slow links than the bound for cuts does. Without levels, it may bring others, which helps where
    there are few chunks. Where classes differ in speed, nothing is sent that would arrive after the time of the port bound, or a
    little later, as long as something else can be.

    Parameters
    ----------
    task
        Network, collective and chunks.
    tries
        Most trees to grow in random order where the others are not at the bound; with 0, fewer others are grown, too.
    gap_ns
        How long after its arrival a chunk can be sent on.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached, which would be a fault of this package.
    """
    rows = task.chunks_per_npu * (task.num_npus - 1)
    bound = max(bound_ns(task), farthest_ns(task, gap_ns))
    best: Trees | None = None
    for levels, deadline in _variants(task, bound, _SPARE if tries else _SPARE[1:2]):
        found = _grow(task, levels, deadline, gap_ns)
        count_work(0.1 * rows)
        if best is None or found.time_ns < best.time_ns:
            best = found
        near = _NEAR if rows > _TRIES else (1.0 if rows <= _FEW else _NEARER)
        if best.time_ns <= near * bound:
            return best
    assert best is not None
    return _improved(task, best, bound, tries, gap_ns)


def _improved(task: SymmetricTask, best: Trees, bound: int, tries: int, gap_ns: int) -> Trees:
    """The fastest of these trees and of some in random order, where they are so small that it takes no time.

    Deadlines are set between the bound and the best trees so far: what would arrive later has to wait for what may be faster.
    """
    rows = len(best.chunk)
    levels = _all_levels(task)
    for number in range(min(tries, _ROWS_OF_MORE // rows)):
        if best.time_ns <= bound:
            break
        share = _WAY_TO_BEST[(number + number // 4) % len(_WAY_TO_BEST)]
        deadline = bound + int(share * (best.time_ns - 1 - bound))
        found = _grow(task, levels[number // len(_WAY_TO_BEST) % len(levels)], deadline, gap_ns, number + 1)
        count_work(0.1 * rows)
        if found.time_ns < best.time_ns:
            best = found
    return best


def bound_ns(task: SymmetricTask) -> int:
    """The time that no trees beat: that of the worst cut between parts, in whole chunks."""
    phases = [
        whole_messages_ns(task.delay_ns[used], task.hold_ns[used], (parts - 1) * task.chunks_per_npu)
        for used, parts in _cuts(task)
    ]
    return max(phases)


def _cuts(task: SymmetricTask) -> Iterator[tuple[NDArray[np.bool_], int]]:
    """The classes that lead out of the cosets of each level, all classes, and how many cosets there are."""
    of_class = np.array([each.dimension for each in task.classes])
    inner = list(range(len(task.dimensions)))
    yield np.ones(len(of_class), np.bool_), task.num_npus
    outer: list[int] = []
    for level in levels_of(task):
        outer += level
        inner = [at for at in inner if at not in level]
        yield np.isin(of_class, outer), int(np.prod([task.dimensions[at].size for at in outer]))


def levels_of(task: SymmetricTask) -> list[tuple[int, ...]]:
    """Dimensions by level, the outermost first: those that bind, then those that bind among the others, and so on."""
    of_class = np.array([each.dimension for each in task.classes])
    rates = np.bincount(of_class, 1 / task.hold_ns, len(task.dimensions))
    left, levels = list(range(len(task.dimensions))), []
    while left:
        chosen = critical_dimensions([task.dimensions[at].size for at in left], [float(rates[at]) for at in left])
        levels.append(tuple(left[at] for at in chosen))
        left = [at for index, at in enumerate(left) if index not in chosen]
    return levels


def _all_levels(task: SymmetricTask) -> list[list[tuple[int, ...]]]:
    """Ways to sort dimensions into levels: those that bind first, none, and, of up to three dimensions, all others."""
    count = len(task.dimensions)
    found = [levels_of(task), [tuple(range(count))]]
    if 1 < count <= _MOST_SORTED:
        for numbers in product(range(count), repeat=count):
            used = sorted(set(numbers))
            found.append([tuple(at for at in range(count) if numbers[at] == number) for number in used])
    return [each for at, each in enumerate(found) if each not in found[:at]]


def _variants(task: SymmetricTask, bound: int, spares: tuple[float, ...]) -> Iterator[tuple[list[tuple[int, ...]], int | None]]:
    levels, flat = levels_of(task), [tuple(range(len(task.dimensions)))]
    alike = bool(np.ptp(task.delay_ns) == 0)
    for each in [levels, flat] if len(levels) > 1 else [flat]:
        if alike:
            yield each, None
            continue
        for spare in spares:
            yield each, int(bound * (1 + spare))
        yield each, None


def _grow(task: SymmetricTask, levels: list[tuple[int, ...]], deadline_ns: int | None, gap_ns: int, seed: int = 0) -> Trees:
    from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

    order = np.argsort(task.delay_ns, kind="stable")
    if seed & 2:
        order = np.random.default_rng(seed).permutation(len(order))
    rows = task.chunks_per_npu * (task.num_npus - 1)
    chunk, src, dst, taken = (np.empty(rows, np.int32) for _ in range(4))
    start = np.empty(rows, np.int64)
    out = kernels.Rows(chunk, src, dst, taken, start)
    deadline = int(kernels.NEVER) if deadline_ns is None else deadline_ns
    done = kernels.grow_trees(
        task.chunks_per_npu, _classes(task, order, levels), _cosets(task, levels), deadline, gap_ns, seed, out
    )
    if done < rows:
        raise SynthesisError(f"{task.name}: some NPU cannot be reached, expected a connected network")
    way = order[taken].astype(np.int32)
    return Trees(chunk, src, dst, way, start, start + task.delay_ns[way])


def _classes(task: SymmetricTask, order: NDArray[np.int64], levels: list[tuple[int, ...]]) -> Classes:
    from astra_tacos.synthesizer.symmetric._symmetric_kernels import NOTHING, Classes

    strides = np.array(task.group.strides, np.int64)
    dimension = np.array([task.classes[at].dimension for at in order], np.int64)
    size = np.array([task.dimensions[at].size for at in dimension], np.int64)
    after, first, length = [np.empty(0, np.int64)], [], 0
    for at in order.tolist():
        each = task.classes[at]
        if each.through_switch:
            first.append(NOTHING)
            continue
        block, members = task.dimensions[each.dimension], np.arange(task.dimensions[each.dimension].size)
        translations = block.building_block.translations(block.size)
        assert translations is not None
        first.append(length)
        after.append(translations.move(each.moves[0], members))
        length += len(members)
    level = np.array([next(number for number, these in enumerate(levels) if at in these) for at in dimension], np.int64)
    return Classes(
        strides[dimension],
        size,
        np.array(first, np.int64),
        np.concatenate(after).astype(np.int32),
        level,
        task.delay_ns[order],
        task.hold_ns[order],
    )


def _cosets(task: SymmetricTask, levels: list[tuple[int, ...]]) -> NDArray[np.int32]:
    """int32[num_levels, num_npus]: for each level, the NPU of the same coset whose coordinates in all later levels are 0."""
    npus = np.arange(task.num_npus)
    coset = np.empty((len(levels), task.num_npus), np.int32)
    for number in range(len(levels)):
        base = npus.copy()
        for at in (at for level in levels[number + 1 :] for at in level):
            stride, size = task.group.strides[at], task.dimensions[at].size
            base -= npus // stride % size * stride
        coset[number] = base
    return coset
