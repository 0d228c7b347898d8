"""Decoupling: an All-Reduce as a Reduce-Scatter early and an All-Gather late (DeAR, Zhang et al. 2023, arXiv:2302.12445).

Reduce-Scatters go in the order in which gradients become ready, and All-Gathers after the last of them, in the order in which the
next forward pass needs them, which they overlap. The optimizer runs after the All-Gather, on all ranks, as it does in the run
before: whatever waited for the All-Reduce waits for the All-Gather. Inputs are padded to a multiple of the ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from astra_tacos.planner.retime.list_schedule import levels
from astra_tacos.planner.retime.policy import Option, Policy, Setting, ancestors, readiness
from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph, relations
from astra_tacos.run.trace.schema import CommType

_EARLY, _LATE = 0.0, 1.0
_CHEAPER = 0.95
"""Of the time of whole All-Reduces: halves that take less are worth a note."""


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    candidates = [
        operation for operation in graph.operations if operation.pattern == CommType.ALL_REDUCE and len(operation.members) > 1
    ]
    wave = _waves(graph, candidates)
    count = Counter((operation.group, wave[operation]) for operation in candidates)
    chosen = [operation for operation in candidates if count[operation.group, wave[operation]] > 1]
    if not chosen:
        return ["decouple: no two All-Reduces of a group could overlap: each waits for the one before"]
    ready = readiness(graph, setting.duration_of)
    level = levels(graph, setting.duration_of)
    after = relations(graph)[0]
    halves: dict[Operation, tuple[Operation, Operation]] = {}
    gone: dict[Task, list[Task]] = {}
    for operation in chosen:
        needed = max((level[later] for later in after.get(operation, ())), default=0)
        halves[operation] = early, late = _halves(operation, setting)
        early.urgency, late.urgency = (_EARLY, ready[operation]), (_LATE, -needed)
        for place, task in enumerate(operation.tasks):
            scatter, gather = early.tasks[place], late.tasks[place]
            gather.data, gather.ctrl = [scatter], []
            graph.ranks[task.rank].append(scatter)
            gone[task] = [gather]
    if values["barrier"] == "yes":
        _bar(chosen, wave, ready, halves)
    kept = [operation for operation in graph.operations if operation not in halves]
    graph.replace(gone, kept + [half for pair in halves.values() for half in pair])
    return _cheaper(halves, setting)


def _cheaper(halves: Mapping[Operation, tuple[Operation, Operation]], setting: Setting) -> list[str]:
    """Say so where the halves alone are faster than the whole: ASTRA-sim's own All-Reduces in several dimensions send more."""
    together_ns = sum(map(setting.duration_of, halves))
    both = sum(setting.duration_of(half) for pair in halves.values() for half in pair)
    if both >= together_ns * _CHEAPER:
        return []
    return [
        f"decouple: All-Reduces alone take {together_ns:,} ns, their halves {both:,} ns: so much is gained by another algorithm, "
        "not by overlap"
    ]


def _waves(graph: TaskGraph, candidates: list[Operation]) -> dict[Operation, int]:
    """The longest chain of All-Reduces that each one waits for: those of one backward pass have the same."""
    above = ancestors(graph, candidates)
    wave: dict[Operation, int] = {}
    for operation in sorted(candidates, key=lambda operation: above[operation].bit_count()):
        earlier = (wave[other] for at, other in enumerate(candidates) if above[operation] >> at & 1)
        wave[operation] = max(earlier, default=-1) + 1
    return wave


def _halves(operation: Operation, setting: Setting) -> tuple[Operation, Operation]:
    ranks = len(operation.members)
    shard = max(-(-operation.size_bytes // ranks), setting.least_bytes)
    early = operation.like(CommType.REDUCE_SCATTER, shard * ranks, operation.content, "_reduce_scatter")
    late = operation.like(CommType.ALL_GATHER, shard, operation.content, "_all_gather", 0.5)
    return early, late


def _bar(
    chosen: list[Operation],
    wave: dict[Operation, int],
    ready: dict[Operation, int],
    halves: dict[Operation, tuple[Operation, Operation]],
) -> None:
    """Let the All-Gathers of a wave wait for its last Reduce-Scatter, behind which a rank has no other."""
    last: dict[tuple[int, int], Task] = {}
    for operation in sorted(chosen, key=lambda operation: (ready[operation], operation.place)):
        for task in halves[operation][0].tasks:
            last[task.rank, wave[operation]] = task
    for operation in chosen:
        for task in halves[operation][1].tasks:
            final = last[task.rank, wave[operation]]
            if final not in task.data:
                task.ctrl.append(final)


POLICY = Policy(
    "decouple",
    "All-Reduces as Reduce-Scatters early and All-Gathers late",
    _apply,
    {"barrier": Option(("yes", "no"), "yes", "whether All-Gathers wait for the last Reduce-Scatter")},
    lambda graph: ({"barrier": "no"},),
)
