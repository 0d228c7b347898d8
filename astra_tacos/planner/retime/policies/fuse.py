"""Fusion: gradients that are ready one after another are reduced by one All-Reduce.

By size, a bucket is closed once it has as many bytes as its cap: PyTorch's DistributedDataParallel with 1 MiB for the first
bucket and 25 MiB for others (`torch/csrc/distributed/c10d/reducer.cpp`), Horovod and GradientFlow with one cap. By time, an
All-Reduce goes into the next one if it has not begun when the next is ready, or would have waited for less than the latency of
a collective, and always below 8,192 parameters (MG-WFBP, Shi et al. 2019, arXiv:1811.11141; `mgwfbp/dopt.py` in
lzhangbv/dear_pytorch).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from astra_tacos.planner.retime.policy import Option, Policy, Setting, ancestors, readiness
from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.graph import Graph
from astra_tacos.support.units import MAX_SIZE_BYTES

_ALWAYS_BELOW = 8192 * 4
"""Bytes of 8,192 parameters in single precision."""
_TRIED_MIB = (1, 5, 100)
"""Caps that a search tries beside the default."""


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    chosen = [
        operation for operation in graph.operations if operation.pattern == CommType.ALL_REDUCE and not operation.is_changed
    ]
    if len(chosen) < 2:
        return ["fuse: found fewer than two All-Reduces"]
    ready = readiness(graph, setting.duration_of)
    number = {operation: at for at, operation in enumerate(chosen)}
    above = ancestors(graph, chosen)
    buckets: list[list[Operation]] = []
    for group in dict.fromkeys(operation.group for operation in chosen):
        line = sorted(
            (operation for operation in chosen if operation.group == group),
            key=lambda operation: (ready[operation], operation.place),
        )
        buckets += _by_time(line, ready, setting) if values["rule"] == "mgwfbp" else _by_size(line, number, above, values)
    buckets = [part for bucket in buckets for part in _independent(bucket, number, above) if len(part) > 1]
    buckets = _without_cycles(buckets, number, above)
    if not buckets:
        return ["fuse: no two All-Reduces of a group are independent and small enough"]
    gone: dict[Task, list[Task]] = {}
    fused_away: set[Operation] = set()
    fused_operations = []
    for at, bucket in enumerate(buckets):
        fused = _fused(bucket, at)
        fused_operations.append(fused)
        fused_away |= set(bucket)
        for operation in bucket:
            gone |= {task: [other] for task, other in zip(operation.tasks, fused.tasks, strict=True)}
    graph.replace(gone, [operation for operation in graph.operations if operation not in fused_away] + fused_operations)
    return []


def _by_size(
    line: list[Operation], number: dict[Operation, int], above: dict[Operation, int], values: Mapping[str, Any]
) -> list[list[Operation]]:
    """Buckets of a least size; one that a collective depends on is closed before it, as the next step's are."""
    buckets: list[list[Operation]] = []
    bucket: list[Operation] = []
    is_first = True
    for operation in line:
        if bucket and any(above[operation] >> number[other] & 1 for other in bucket):
            buckets.append(bucket)
            bucket, is_first = [], True
        elif buckets and not bucket and any(above[operation] >> number[other] & 1 for other in buckets[-1]):
            is_first = True
        bucket.append(operation)
        cap = values["first"] if is_first and values["first"] else values["cap"]
        if sum(other.size_bytes for other in bucket) >= cap:
            buckets.append(bucket)
            bucket, is_first = [], False
    return [*buckets, bucket]


def _by_time(line: list[Operation], ready: dict[Operation, int], setting: Setting) -> list[list[Operation]]:
    buckets: list[list[Operation]] = []
    bucket = [line[0]]
    free = 0
    for operation in line[1:]:
        size = sum(other.size_bytes for other in bucket)
        probe = bucket[-1].like(CommType.ALL_REDUCE, setting.least_bytes, (), "")
        latency = setting.duration_of(probe)
        begins = max(free, ready[bucket[-1]])
        if begins >= ready[operation] or ready[operation] - begins < latency or size < _ALWAYS_BELOW:
            bucket.append(operation)
            continue
        fused = bucket[-1].like(CommType.ALL_REDUCE, size, (), "")
        free = begins + setting.duration_of(fused)
        buckets.append(bucket)
        bucket = [operation]
    return [*buckets, bucket]


def _independent(bucket: list[Operation], number: dict[Operation, int], above: dict[Operation, int]) -> list[list[Operation]]:
    """A bucket in parts in which nothing waits for anything else of the part, and which ASTRA-sim takes."""
    parts: list[list[Operation]] = [[]]
    for operation in bucket:
        is_waiting = any(above[operation] >> number[other] & 1 for other in parts[-1])
        if is_waiting or sum(other.size_bytes for other in parts[-1]) + operation.size_bytes > MAX_SIZE_BYTES:
            parts.append([])
        parts[-1].append(operation)
    return parts


def _without_cycles(
    buckets: list[list[Operation]], number: dict[Operation, int], above: dict[Operation, int]
) -> list[list[Operation]]:
    """Buckets of which none waits for itself by way of others; those that do are halved until none does.

    Of two buckets, one may have something that waits for the other, and something that the other waits for: stages of a pipeline,
    and groups of tensor parallel ranks, reduce in turns.
    """
    while True:
        place = np.arange(len(number))
        for at, bucket in enumerate(buckets):
            place[[number[operation] for operation in bucket]] = len(number) + at
        pairs = {
            (int(place[before]), int(place[number[operation]]))
            for operation, bits in above.items()
            for before in range(bits.bit_length())
            if bits >> before & 1
        }
        rows, columns = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
        count = len(number) + len(buckets)
        part = Graph.of(count, rows, columns).strong_groups()[1]
        sizes = np.bincount(part)
        cycles = [at for at in range(len(buckets)) if sizes[part[len(number) + at]] > 1]
        if not cycles:
            return buckets
        halves: list[list[Operation]] = []
        for at, bucket in enumerate(buckets):
            middle = len(bucket) // 2 if at in cycles else len(bucket)
            halves += [half for half in (bucket[:middle], bucket[middle:]) if len(half) > 1]
        buckets = halves


def _fused(bucket: list[Operation], at: int) -> Operation:
    last = bucket[-1]
    content = [extent for operation in bucket for extent in operation.content]
    fused = last.like(last.pattern, sum(operation.size_bytes for operation in bucket), content, f"_fused{at}")
    for place, task in enumerate(fused.tasks):
        same = [operation.tasks[place] for operation in bucket]
        task.data = list(dict.fromkeys(dep for task in same for dep in task.data))
        task.ctrl = [dep for dep in dict.fromkeys(dep for task in same for dep in task.ctrl) if dep not in task.data]
    return fused


def _variants(graph: TaskGraph) -> Iterator[Mapping[str, Any]]:
    """Caps that some All-Reduce does not reach alone, and buckets by time."""
    smallest = min(
        (operation.size_bytes for operation in graph.operations if operation.pattern == CommType.ALL_REDUCE), default=0
    )
    yield from ({"cap": mib << 20} for mib in _TRIED_MIB if mib << 20 > smallest)
    yield {"rule": "mgwfbp"}


POLICY = Policy(
    "fuse",
    "one All-Reduce for gradients that are ready one after another",
    _apply,
    {
        "cap": Option("size", 25 << 20, "close a bucket when it has this many bytes"),
        "first": Option("size", 0, "this limit for the first bucket of a step; by default the limit of other buckets"),
        "rule": Option(("size", "mgwfbp"), "size", "close buckets by size, or by time as MG-WFBP does"),
    },
    _variants,
)
