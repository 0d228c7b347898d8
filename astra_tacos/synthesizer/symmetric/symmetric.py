"""Symmetric schedules of the collectives in which all NPUs play the same part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.synthesizer.symmetric.paths import along_paths
from astra_tacos.synthesizer.symmetric.trees import Trees, grow

NAME = "symmetric"
_SHORT = 256
"""Reductions are left out of account while trees grow if they are shorter than sends by this factor: sends then keep in step."""


def synthesize_symmetric(task: SymmetricTask, gathered: Trees | None = None) -> SymmetricSchedule:
    """A symmetric schedule of a collective.

    Parameters
    ----------
    task
        The network, the collective and its chunks.
    gathered
        Trees that `grow` made, without a gap; None to let it make them.

    Raises
    ------
    SynthesisError
        If chunks are too small or too large for the links.
    """
    if task.collective == "all-to-all":
        return _schedule(task, along_paths(task))
    gathered = grow(task) if gathered is None else gathered
    if not task.reduces:
        return _schedule(task, gathered)
    scattered = [_reversed(task, gathered)]
    if lengthens(task):
        scattered.append(_reversed(task, grow(task, task.reduction_ns)))
    made = [
        _reduced_and_gathered(task, trees, gathered) if task.gathers else _schedule(task, trees, len(trees.chunk))
        for trees in scattered
    ]
    return min(made, key=lambda schedule: schedule.collective_time_ns)


def lengthens(task: SymmetricTask) -> bool:
    """Whether reductions take so long that trees have to be grown with a view to them."""
    return task.reduction_ns * _SHORT >= int(task.delay_ns.min())


def _reversed(task: SymmetricTask, trees: Trees) -> Trees:
    """The same sends backwards in time and from end to begin: what spread from NPU 0 is summed up there."""
    last = trees.time_ns
    trees = trees.in_order(np.argsort(-trees.end_ns, kind="stable"))
    way = task.table.opposite[trees.way].astype(np.int32)
    return trees._replace(src=trees.dst, dst=trees.src, way=way, start_ns=last - trees.end_ns, end_ns=last - trees.start_ns)


def _reduced_and_gathered(task: SymmetricTask, scattered: Trees, gathered: Trees) -> SymmetricSchedule:
    """An All-Reduce: chunks are gathered after all sums. What is summed up first is gathered first."""
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
    begin = gathered.start_ns + int(summed.max())
    later = gathered._replace(chunk=number[gathered.chunk], start_ns=begin, end_ns=begin + task.delay_ns[gathered.way])
    return _schedule(task, sums.followed_by(later), rows)


def _schedule(task: SymmetricTask, trees: Trees, num_reducing: int = 0) -> SymmetricSchedule:
    reduces, trees, start = _settled(task, trees, num_reducing)
    return SymmetricSchedule(task, trees.chunk, trees.src, trees.dst, reduces, start, start + task.delay_ns[trees.way], NAME)


def _settled(task: SymmetricTask, trees: Trees, num_reducing: int) -> tuple[NDArray[np.bool_], Trees, NDArray[np.int64]]:
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
