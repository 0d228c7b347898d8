"""Paths of personalised chunks: one for each target of NPU 0, over the fewest hops, balanced over classes of links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import members_of
from astra_tacos.synthesizer.symmetric.trees import Trees

MOST_HOPS = 40_000_000
"""More hops of NPU 0's chunks are refused, as they take too much memory."""


_PASSES, _MOST_VARIANTS, _MANY_COPIES = 8, 8, 64


@dataclass(frozen=True, slots=True)
class _MemberPaths:
    """Paths from member 0 of a dimension to its members: of each hop the class, and the member it leads to.

    Hops of member m are `first[m] .. first[m + 1]`.
    """

    first: Ints
    way: Ints
    to: Ints


def along_paths(task: SymmetricTask) -> Trees:
    """Sends of an All-to-All.

    A path takes the dimensions one after another; paths begin with different ones, so that no class waits for the others. In
    each dimension it is as short as possible. Where several paths are, those are taken by turns that together load classes
    equally.

    Raises
    ------
    SynthesisError
        If there are more than `MOST_HOPS` hops.
    """
    chunks = task.chunks_per_npu
    variants = [_shortest(task, index) for index in range(len(task.dimensions))]
    hops = sum(
        len(paths[0].way) * (task.num_npus // dimension.size) * chunks
        for paths, dimension in zip(variants, task.dimensions, strict=True)
    )
    if hops > MOST_HOPS:
        raise SynthesisError(f"{task.name}: its paths have {hops:,} hops, expected at most {MOST_HOPS:,}")
    return _scheduled(task, variants)


def _scheduled(task: SymmetricTask, variants: list[list[_MemberPaths]]) -> Trees:
    """Hops on the classes of links, the message with the longest way before it first."""
    from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

    first, way, to = _hops(task, variants)
    # How much of its path a message has before it at each hop, in a few hundred steps.
    delay_ns = task.delay_ns[way]
    total = np.concatenate(([0], np.cumsum(delay_ns)))
    chunk = np.repeat(np.arange(len(first) - 1), np.diff(first))
    left_ns = total[first[chunk + 1]] - total[:-1]
    left = (left_ns // max(1, int(delay_ns.min()), int(left_ns.max()) // 512)).astype(np.int32)
    start = np.empty(len(way), np.int64)
    kernels.order_hops(first, way.astype(np.int32), left, task.delay_ns, task.hold_ns, start)
    count_work(0.1 * len(way))
    src = np.empty_like(to)
    src[1:] = to[:-1]
    src[first[:-1]] = 0
    narrow = [column.astype(np.int32) for column in (chunk, src, to, way)]
    return Trees(narrow[0], narrow[1], narrow[2], narrow[3], start, start + delay_ns)


def _shortest(task: SymmetricTask, index: int) -> list[_MemberPaths]:
    """Paths of a dimension with the fewest hops, in as many variants as it takes to load its classes equally."""
    dimension = task.dimensions[index]
    block, size = dimension.building_block, dimension.size
    ways = [at for at, move in enumerate(task.classes) if move.dimension == index]
    if task.classes[ways[0]].through_switch:
        return [_MemberPaths(np.r_[0, np.arange(size)], np.full(size - 1, ways[0]), np.arange(1, size))]
    translations = block.translations(size)
    assert translations is not None
    distance = block.num_crossed(size, np.zeros(size, np.int64), np.arange(size))
    moves = [int(task.classes[at].moves[0]) for at in ways]
    before = [translations.offset(np.full(size, move), np.arange(size)) for move in moves]
    choices = _shortest_counts(distance, before)
    copies = task.chunks_per_npu * (task.num_npus // size)
    number = next(count for count in range(min(copies, _MOST_VARIANTS), 0, -1) if copies % count == 0 or copies > _MANY_COPIES)
    chosen = _balanced(choices * number)
    paths = []
    for variant in range(number):
        of_variant = chosen[variant * size : (variant + 1) * size]
        length = [sum(counts) for counts in of_variant]
        turned = [tuple(enumerate(counts))[:: -1 if variant % 2 else 1] for counts in of_variant]
        chosen_ways = [at for counts in turned for at, count in counts for _ in range(count)]
        to = np.array(moves, np.int64)[chosen_ways]
        first = np.concatenate(([0], np.cumsum(length)))
        step = np.arange(len(chosen_ways)) - np.repeat(first[:-1], length)
        for at in range(1, max(length)):
            rows = np.flatnonzero(step == at)
            to[rows] = translations.move(to[rows - 1], to[rows])
        paths.append(_MemberPaths(first, np.array(ways, np.int64)[chosen_ways], to))
    return paths


def _shortest_counts(distance: Ints, before: list[Ints]) -> list[list[tuple[int, ...]]]:
    """For each member, how often each class is taken, for all choices that make the fewest hops: their order does not matter.

    Parameters
    ----------
    distance
        int64[size], hops from member 0.
    before
        For each class, int64[size], the member before each member.
    """
    choices: list[list[tuple[int, ...]]] = [[] for _ in distance]
    choices[0] = [(0,) * len(before)]
    for member in np.argsort(distance, kind="stable")[1:].tolist():
        choices_of_member = set()
        for at, previous in enumerate(before):
            if distance[previous[member]] == distance[member] - 1:
                for counts in choices[int(previous[member])]:
                    choices_of_member.add((*counts[:at], counts[at] + 1, *counts[at + 1 :]))
        choices[member] = sorted(choices_of_member)
    return choices


def _balanced(choices: list[list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """One choice for each member, so that the sum of squares of what classes carry cannot be made smaller by changing one.

    At first, all members count as the mean of their choices. They are then fixed one after another.
    """
    means = [np.mean(counts, axis=0) for counts in choices]
    chosen: list[tuple[int, ...]] = [counts[0] for counts in choices]
    load = np.sum(means, axis=0)
    open_to_choice = [member for member, counts in enumerate(choices) if len(counts) > 1]
    for turn in range(_PASSES if open_to_choice else 0):
        changed = False
        for member in open_to_choice:
            now = np.array(chosen[member]) if turn else means[member]
            rest = load - now
            best = min(choices[member], key=lambda counts: (float(((rest + counts) ** 2).sum()), counts))
            if turn == 0 or ((rest + best) ** 2).sum() < (load**2).sum() - 0.5:
                chosen[member], load, changed = best, rest + best, True
        if not changed:
            break
    return chosen


def _hops(task: SymmetricTask, variants: list[list[_MemberPaths]]) -> tuple[Ints, Ints, Ints]:
    """Hops of all chunks: where those of each begin, int64[num_chunks + 1]; and of each hop its class and the NPU it leads to."""
    chunks, count = task.chunks_per_npu, len(task.dimensions)
    target = np.repeat(np.arange(1, task.num_npus), chunks)
    strides, sizes = task.group.strides, [dimension.size for dimension in task.dimensions]
    member = [target // stride % size for stride, size in zip(strides, sizes, strict=True)]
    piece = np.tile(np.arange(chunks), task.num_npus - 1)
    turn = np.sum(member, axis=0) + piece  # says with which dimension a message begins
    # Messages to a member take its paths by turns.
    coset = [target % stride + target // (stride * size) * stride for stride, size in zip(strides, sizes, strict=True)]
    which = [(residue * chunks + piece) % len(paths) for residue, paths in zip(coset, variants, strict=True)]
    length = [paths[0].first[of + 1] - paths[0].first[of] for paths, of in zip(variants, member, strict=True)]
    first = np.concatenate(([0], np.cumsum(np.sum(length, axis=0))))
    way, to = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    place, here = first[:-1].copy(), np.zeros(len(target), np.int64)
    for step in range(count):
        for index in range(count):
            rows = np.flatnonzero((turn + step) % count == index)
            for variant, paths in enumerate(variants[index]):
                some = rows[which[index][rows] == variant]
                of = member[index][some]
                begin, at = members_of(paths.first, of)
                of_hop = np.repeat(np.arange(len(some)), np.diff(begin))
                position = place[some][of_hop] + np.arange(len(at)) - begin[of_hop]
                way[position] = paths.way[at]
                to[position] = here[some][of_hop] + paths.to[at] * strides[index]
                place[some] += np.diff(begin)
            here[rows] += member[index][rows] * strides[index]
    return first, way, to
