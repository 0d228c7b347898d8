"""Pipelining within layers: a collective, its producer and its consumer in equal pieces that overlap.

Collective matmul (Wang et al. 2023, ASPLOS), CoCoNet (Jangda et al. 2022), Centauri, Domino, FLUX and T3 do it in kernels or
compilers. With G of compute and R of communication, n pieces take max(G, R) + min(G, R) / n instead of G + R. Work is taken to
be divisible: n pieces of a compute node take as long as the node. A collective is cut if all members have one producer of its
data, and that formula gains more than the latency of its pieces costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astra_tacos.scheduler.policies.split import pieces_of
from astra_tacos.scheduler.policy import Option, Policy, Setting
from astra_tacos.scheduler.tasks import Operation, Task, TaskGraph
from astra_tacos.trace.schema import CommType

_PATTERNS = (CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL)


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    count = values["pieces"]
    users: dict[Task, list[Task]] = {}
    for task in graph.tasks():
        for dep in task.data:
            users.setdefault(dep, []).append(task)
    pieces: dict[Operation, list[Operation]] = {}
    cut: dict[Task, list[Task]] = {}
    too_short = 0
    for one in graph.operations:
        if one.pattern not in _PATTERNS or one.is_changed:
            continue
        producers = [task.data[0] for task in one.tasks if len(task.data) == 1 and task.data[0].computes]
        if len(producers) < len(one.tasks):
            continue
        consumers = [user for task in one.tasks for user in users.get(task, ()) if user.computes]
        work = [*producers, *consumers]
        if not all(_is_divisible(task, count, setting) for task in work):
            too_short += 1
            continue
        parts = pieces_of(one, count, setting)
        if len(parts) != count or not _gains(one, parts, producers, setting):
            continue
        pieces[one] = parts
        for task in work:
            if task not in cut:
                cut[task] = task.cut(count)
    notes = [f"pipeline: {too_short:,} collectives are beside compute nodes too short for {count} parts"] if too_short else []
    if not pieces:
        return [*notes, "pipeline: no collective with one producer on each member gains by it"]
    whose = {task: one for one in pieces for task in one.tasks}
    place = {task: at for one in pieces for at, task in enumerate(one.tasks)}
    for one, parts in pieces.items():
        for at, task in enumerate(one.tasks):
            for number, part in enumerate(parts):
                part.tasks[at].data = [cut[dep][number] for dep in task.data]
    for task, tasks in cut.items():
        for number, piece in enumerate(tasks):
            piece.data = [pieces[whose[dep]][number].tasks[place[dep]] if dep in whose else dep for dep in task.data]
    gone = dict(cut) | {task: [part.tasks[at] for part in pieces[one]] for one in pieces for at, task in enumerate(one.tasks)}
    kept = [one for one in graph.operations if one not in pieces]
    graph.replace(gone, kept + [part for parts in pieces.values() for part in parts])
    return notes


def _is_divisible(task: Task, count: int, setting: Setting) -> bool:
    """Whether parts of a compute node's work can be written: operations, or a microsecond for each part."""
    if task.parts > 1:
        return False
    if setting.has_roofline and setting.num_ops[task.row] > 0:
        # A part of no bytes would take no time: ASTRA-sim skips it.
        return bool(min(setting.num_ops[task.row], setting.tensor_size[task.row]) >= count)
    return bool(setting.duration_us[task.row] >= count)


def _gains(one: Operation, parts: list[Operation], producers: list[Task], setting: Setting) -> bool:
    whole, part = setting.duration_of(one), setting.duration_of(parts[0])
    hidden = min(whole, max(task.duration_ns for task in producers)) * (len(parts) - 1) // len(parts)
    return hidden > len(parts) * part - whole


POLICY = Policy(
    "pipeline",
    "collectives with their producers and consumers in pieces that overlap",
    _apply,
    {"pieces": Option("count", 4, "number of pieces")},
    lambda graph: ({"pieces": 2}, {"pieces": 8}),
)
