"""Symmetric schedules of the collectives in which all NPUs play the same part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.bounds.symmetric import chunked_symmetric_bound
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by
from astra_tacos.synthesizer.symmetric.paths import along_paths
from astra_tacos.synthesizer.symmetric.trees import Trees, grow, is_as_good_as

NAME = "symmetric"
_SHORT = 256
"""Reductions are left out of account while trees grow if they are shorter than sends by this factor: sends then keep in step."""
_MANY = 1 << 16
"""An All-Reduce of more sends of sums is made in one way only: chunks are gathered after all sums are made."""


def synthesize_symmetric(task: SymmetricTask) -> SymmetricSchedule:
    """A symmetric schedule of a collective.

    Parameters
    ----------
    task
        The network, the collective and its chunks.

    Raises
    ------
    SynthesisError
        If chunks are too small or too large for the links.

    Examples
    --------
    >>> from astra_tacos import Dimension, SymmetricTask, synthesize_symmetric
    >>> task = SymmetricTask("torus", (Dimension("Ring", 32, 50.0, 500.0),) * 2, "all-gather", 1 << 20, 1, "pipelined")
    >>> schedule = synthesize_symmetric(task)
    >>> schedule.collective_time_ns > 0
    True
    """
    if task.collective == "all-to-all":
        return _schedule(task, along_paths(task))
    gathered = grow(task)
    if not task.reduces:
        return _schedule(task, gathered)
    scattered = [_reversed(task, gathered)]
    if lengthens(task):
        scattered.append(_reversed(task, grow(task, task.reduction_ns)))
    if not task.gathers:
        schedules = [_schedule(task, trees, len(trees.chunk)) for trees in scattered]
    else:
        ways = (schedule for trees in scattered for schedule in _reduced_and_gathered(task, trees, gathered))
        schedules = list(_until_near(task, ways))
    return min(schedules, key=lambda schedule: schedule.collective_time_ns)


def _until_near(task: SymmetricTask, schedules: Iterator[SymmetricSchedule]) -> Iterator[SymmetricSchedule]:
    """These schedules up to the first that is as good as at the bound for the task's chunks."""
    bound = chunked_symmetric_bound(task).time_ns
    for schedule in schedules:
        yield schedule
        if is_as_good_as(schedule.collective_time_ns, bound, schedule.num_rows // 2):
            return


def lengthens(task: SymmetricTask) -> bool:
    """Whether reductions take so long that trees have to be grown with a view to them."""
    return task.reduction_ns * _SHORT >= int(task.delay_ns.min())


def _reversed(task: SymmetricTask, trees: Trees) -> Trees:
    """The same sends backwards in time and from end to begin: what spread from NPU 0 is summed up there."""
    last = trees.time_ns
    trees = trees.in_order(np.argsort(-trees.end_ns, kind="stable"))
    way = task.table.opposite[trees.way].astype(np.int32)
    return trees._replace(src=trees.dst, dst=trees.src, way=way, start_ns=last - trees.end_ns, end_ns=last - trees.start_ns)


def _reduced_and_gathered(task: SymmetricTask, scattered: Trees, gathered: Trees) -> Iterator[SymmetricSchedule]:
    """All-Reduces: chunks are gathered after all sums, as soon as their sum is made, or whenever no sum waits for the link.

    What is summed up first is gathered first.
    """
    rows, chunks = len(scattered.chunk), task.chunks_per_npu
    _, sums, start = _settled(task, scattered, rows)
    # Their own times, not those that were planned for them, say what comes before what is gathered.
    sums = sums._replace(start_ns=start, end_ns=start + task.delay_ns[sums.way])
    summed = np.zeros(chunks, np.int64)
    np.maximum.at(summed, sums.chunk, start + task.delay_ns[sums.way] + task.reduction_ns)
    begun = np.full(chunks, gathered.time_ns)
    np.minimum.at(begun, gathered.chunk, gathered.start_ns)
    number = np.empty(chunks, np.int32)
    number[np.argsort(begun, kind="stable")] = np.argsort(summed, kind="stable")
    wait = int(summed.max())
    after = np.full(chunks, wait)
    at_once = summed[number] - begun
    for delay in (after, at_once):
        begin = gathered.start_ns + delay[gathered.chunk]
        later = gathered._replace(chunk=number[gathered.chunk], start_ns=begin, end_ns=begin + task.delay_ns[gathered.way])
        trees = sums.followed_by(later)
        yield _schedule(task, trees, rows)
        if rows > _MANY:
            return
    yield _schedule(task, trees._replace(start_ns=_dispatched(task, trees, rows)), rows)


def _dispatched(task: SymmetricTask, trees: Trees, num_reducing: int) -> Ints:
    """int64[num_rows], starts of the sends of an All-Reduce if no link waits while it could take one, sums first."""
    from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

    order = np.lexsort((trees.start_ns, np.arange(len(trees.chunk)) >= num_reducing))
    sends = trees.in_order(order)
    copies = np.arange(len(order)) >= num_reducing
    half = task.chunks_per_npu * task.num_npus
    base = sends.chunk.astype(np.int64) * task.num_npus
    leaves = base + sends.src + np.where(copies & (sends.src != 0), half, 0)
    to = base + sends.dst + np.where(copies, half, 0)
    first, rows = group_by(leaves, np.arange(len(order)), 2 * half)
    awaits = np.bincount(to, minlength=2 * half).astype(np.int32)
    start = np.empty(len(order), np.int64)
    places = kernels.Places(awaits, first, rows.astype(np.int32), to.astype(np.int32))
    kernels.dispatch(places, sends.way, task.delay_ns, task.hold_ns, task.reduction_ns, num_reducing, start)
    given = np.empty_like(start)
    given[order] = start
    return given


def _schedule(task: SymmetricTask, trees: Trees, num_reducing: int = 0) -> SymmetricSchedule:
    reduces, trees, start = _settled(task, trees, num_reducing)
    return SymmetricSchedule(task, trees.chunk, trees.src, trees.dst, reduces, start, start + task.delay_ns[trees.way], NAME)


def _settled(task: SymmetricTask, trees: Trees, num_reducing: int) -> tuple[Bools, Trees, Ints]:
    """These sends in their order on every class of links, each as early as can be, of which the first so many reduce.

    Returns
    -------
    reduces, trees, start_ns
        Whether each send reduces, and when it starts; by their starts.
    """
    from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

    order = np.argsort(trees.start_ns, kind="stable")
    trees, reduces = trees.in_order(order), order < num_reducing
    start = np.empty(len(order), np.int64)
    places = 1 if task.collective == "all-to-all" else task.num_npus
    sends = kernels.Sends(trees.chunk, trees.src, trees.dst, trees.way, reduces)
    kernels.earliest_starts(sends, places, task.num_chunks, task.delay_ns, task.hold_ns, task.reduction_ns, start)
    order = np.argsort(start, kind="stable")
    return reduces[order], trees.in_order(order), start[order]
