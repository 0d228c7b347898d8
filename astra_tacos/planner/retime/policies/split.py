"""Partitions: collectives in pieces, between which others can go.

P3 (Jayarajan et al. 2019, arXiv:1905.03960) slices parameters, ByteScheduler (Peng et al. 2019, SOSP) partitions tensors, PACE
cuts fused All-Reduces into the segments at which they can be preempted, and Lina (Li et al. 2023, USENIX ATC) makes
micro-operations of All-to-Alls, too. ASTRA-sim never preempts a collective, so a piece is what an urgent one has to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from astra_tacos.planner.retime.policy import Option, Policy, Setting, check_growth
from astra_tacos.planner.retime.tasks import Extent, Operation, Task, TaskGraph
from astra_tacos.run.trace.schema import CommType

_PATTERNS = {
    "all-reduce": (CommType.ALL_REDUCE,),
    "all-to-all": (CommType.ALL_TO_ALL,),
    "both": (CommType.ALL_REDUCE, CommType.ALL_TO_ALL),
}


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    gone: dict[Task, list[Task]] = {}
    operations: list[Operation] = []
    least = max(values["partition"], setting.least_bytes)
    cut = [
        operation
        for operation in graph.operations
        if operation.pattern in _PATTERNS[values["of"]] and operation.size_bytes > least
    ]
    check_growth(graph, sum(-(-operation.size_bytes // least) * len(operation.tasks) for operation in cut), "split")
    for operation in graph.operations:
        count = -(-operation.size_bytes // values["partition"])
        pieces = pieces_of(operation, count, setting) if operation.pattern in _PATTERNS[values["of"]] else []
        if len(pieces) < 2:
            operations.append(operation)
            continue
        operations += pieces
        gone |= {task: [piece.tasks[at] for piece in pieces] for at, task in enumerate(operation.tasks)}
    if not gone:
        return [f"split: no collective has more than {values['partition']:,} bytes"]
    graph.replace(gone, operations)
    return []


def pieces_of(operation: Operation, count: int, setting: Setting) -> list[Operation]:
    """An operation in about equal pieces, as many as asked for or fewer; [] if it cannot be cut.

    All pieces but the last one have one size, a multiple of the ranks, so that they can share a synthesized trace.

    Parameters
    ----------
    operation
        The operation, which carries no padding.
    """
    total = operation.size_bytes
    if operation.num_bytes != total:
        return []
    unit = max(len(operation.members), 1)
    size = max(-(-total // max(count, 1)), setting.least_bytes)
    size = -(-size // unit) * unit
    ends = [*range(size, total, size), total]
    if len(ends) > 1 and ends[-1] - ends[-2] < setting.least_bytes:
        del ends[-2]
    if len(ends) < 2:
        return []
    starts = [0, *ends[:-1]]
    return [
        operation.like(operation.pattern, end - begin, _content(operation, begin, end), f"_piece{at}", at / len(ends))
        for at, (begin, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _content(operation: Operation, begin: int, end: int) -> list[Extent]:
    """The part of an operation's content from one of its bytes to another."""
    extents = []
    at = 0
    for extent in operation.content:
        size = extent.end - extent.begin
        first, last = max(begin - at, 0), min(end - at, size)
        if first < last:
            extents.append(Extent(extent.instance, extent.begin + first, extent.begin + last))
        at += size
    return extents


def _variants(graph: TaskGraph) -> Iterator[Mapping[str, Any]]:
    """Parts of the largest collective."""
    largest = max((operation.size_bytes for operation in graph.operations), default=1)
    for parts in (2, 4, 8, 16):
        yield {"partition": max(-(-largest // parts), 1)}
    if graph.has(CommType.ALL_TO_ALL):
        yield {"partition": max(-(-largest // 8), 1), "of": "both"}


POLICY = Policy(
    "split",
    "collectives in pieces, so that urgent collectives can go in between",
    _apply,
    {
        "partition": Option("size", 4_000_000, "cut larger collectives into equal pieces of at most this many bytes"),
        "of": Option(tuple(_PATTERNS), "all-reduce", "what is cut"),
    },
    _variants,
    begins_search=True,
)
