"""Symmetric schedules of the collectives in which all NPUs play the same part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.synthesizer.symmetric.paths import against, along_paths
from astra_tacos.synthesizer.symmetric.trees import Trees, grow

NAME = "symmetric"
_SHORT = 256
"""Reductions are left out of account while trees grow if they are shorter than sends by this factor: sends then keep in step."""


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
    """
    if task.collective == "all-to-all":
        return _settled(task, along_paths(task))
    if not task.reduces:
        return _settled(task, grow(task))
    short = task.reduction_ns * _SHORT < int(task.delay_ns.min())
    scattered = _reversed(grow(task, 0 if short else task.reduction_ns))
    if not task.gathers:
        return _settled(task, scattered, num_reducing=task.least_rows)
    gathered = grow(task)
    # What is summed up first is gathered first.
    gathered = replace(gathered, chunk=task.chunks_per_npu - 1 - gathered.chunk)
    return _settled(task, _one_after_the_other(scattered, gathered), num_reducing=len(scattered.chunk))


def _reversed(trees: Trees) -> Trees:
    """The same sends backwards in time and from end to begin: what spread from NPU 0 is summed up there.

    The classes of links that they go over lead the other way then (see `against`), and are as fast.
    """
    last = trees.time_ns
    trees = trees.in_order(np.argsort(-trees.end_ns, kind="stable"))
    return replace(trees, src=trees.dst, dst=trees.src, start_ns=last - trees.end_ns, end_ns=last - trees.start_ns)


def _one_after_the_other(one: Trees, other: Trees) -> Trees:
    return Trees(
        np.concatenate((one.chunk, other.chunk)),
        np.concatenate((one.src, other.src)),
        np.concatenate((one.dst, other.dst)),
        np.concatenate((one.way, other.way)),
        np.concatenate((one.start_ns, other.start_ns)),
        np.concatenate((one.end_ns, other.end_ns)),
    )


def _settled(task: SymmetricTask, trees: Trees, num_reducing: int = 0) -> SymmetricSchedule:
    """The schedule with these sends in this order on every class of links, each as early as can be; the first so many reduce."""
    from astra_tacos.synthesizer.symmetric import _symmetric_kernels as kernels

    trees = trees.in_order(np.lexsort((trees.start_ns, np.arange(len(trees.chunk)) >= num_reducing)))
    reduces = np.arange(len(trees.chunk)) < num_reducing
    way = np.where(reduces, against(task)[trees.way], trees.way).astype(np.int32)
    start = np.empty(len(way), np.int64)
    places = 1 if task.collective == "all-to-all" else task.num_npus
    sends = kernels.Sends(trees.chunk, trees.src, trees.dst, way, reduces)
    kernels.earliest_starts(sends, places, task.num_chunks, task.delay_ns, task.hold_ns, task.reduction_ns, start)
    order = np.argsort(start, kind="stable")
    trees, start, way = trees.in_order(order), start[order], way[order]
    return SymmetricSchedule(task, trees.chunk, trees.src, trees.dst, reduces[order], start, start + task.delay_ns[way], NAME)
