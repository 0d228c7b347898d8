"""Out-of-order backpropagation (Oh et al. 2022, EuroSys): weight gradients are off the critical path of the backward pass.

A compute node is free to move if nothing but collectives waits for its data, as for a gradient of weights, or one node alone that
is free itself, as for the gradient of a micro-batch to which the next one adds. Where nothing waits for its data, nobody knows
when it is needed, so it stays. Free nodes go when the longest way behind them is the longest of those that are ready; all others
keep their order. With `when=idle` they go only when nothing else is ready, so that they fill the bubbles of pipelines (Zero
Bubble Pipeline Parallelism, Qi et al. 2024, arXiv:2401.10241; the optimizer still waits for its reduction). With `share`, only
the last ones of each backward pass are free, those of the layers nearest the input (the first paper's reverse first-k
scheduling): gradients of other layers are computed, and sent, as early as before. Activations may have to be kept for longer;
memory is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from astra_tacos.planner.retime.policy import Option, Policy, Setting
from astra_tacos.planner.retime.tasks import Task, TaskGraph, relations
from astra_tacos.run.trace.schema import NodeType


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    free = free_tasks(graph)
    consumers = _consumers(graph, free)
    num_moving = 0
    for tasks in graph.ranks:
        last: Task | None = None
        computing = sorted((task for task in tasks if task.computes), key=lambda task: task.place)
        for task in computing:
            task.moves = task in free and task.parts == 1
        _hold(computing, consumers, values["share"])
        num_moving += sum(task.moves for task in computing)
        for task in computing:
            task.ctrl = [dep for dep in task.ctrl if not dep.computes or not (task.moves or dep.moves)]
            if task.moves:
                continue
            if last is not None and last not in task.deps:
                task.ctrl.append(last)
            last = task
    graph.forget()
    if not num_moving:
        return ["reorder: something computed waits for every compute node: none is a gradient of weights"]
    graph.reorders_compute, graph.moves_when_idle = True, values["when"] == "idle"
    return []


def free_tasks(graph: TaskGraph) -> dict[Task, None]:
    """Compute tasks whose data collectives alone read, or one other such task; none comes before what reads its data."""
    users = graph.users()
    free: dict[Task, None] = {}
    for vertex in reversed(relations(graph)[1]):
        if isinstance(vertex, Task) and vertex.computes:
            readers = users.get(vertex, [])
            is_last = bool(readers) and all(reader.kind == NodeType.COMM_COLL for reader in readers)
            if is_last or (len(readers) == 1 and readers[0] in free):
                free[vertex] = None
    return free


def _consumers(graph: TaskGraph, free: Mapping[Task, None]) -> dict[Task, float]:
    """For each task, the first place of its rank that waits for collectives of its data, or of sums that it is part of."""
    first: dict[Task, float] = {}
    for task in graph.tasks():
        for dep in task.data:
            if dep.kind == NodeType.COMM_COLL:
                first[dep] = min(first.get(dep, math.inf), task.place)
    consumers: dict[Task, float] = {}
    for task in graph.tasks():
        if task.kind == NodeType.COMM_COLL:
            for dep in task.data:
                consumers[dep] = min(consumers.get(dep, math.inf), first.get(task, math.inf))
    for sum_of_later in free:  # the last ones first
        for dep in sum_of_later.data:
            if dep in free:
                consumers[dep] = min(consumers.get(dep, math.inf), consumers.get(sum_of_later, math.inf))
    return consumers


def _hold(tasks: list[Task], consumers: Mapping[Task, float], share: int) -> None:
    """Let only the last so many per cent of the tasks that move in each backward pass do so, given all in their order.

    A pass ends before the first task that waits for what it computed.
    """
    passes: list[list[Task]] = []
    until = -math.inf
    for task in tasks:
        if not task.moves:
            continue
        if task.place > until:
            passes.append([])
            until = math.inf
        passes[-1].append(task)
        until = min(until, consumers.get(task, math.inf))
    for tasks_of_pass in passes:
        for task in tasks_of_pass[: len(tasks_of_pass) - len(tasks_of_pass) * min(share, 100) // 100]:
            task.moves = False


POLICY = Policy(
    "reorder",
    "gradients of weights off the critical path",
    _apply,
    {
        "share": Option("per cent", 100, "per cent of the gradients of a backward pass that move, those nearest the input"),
        "when": Option(("critical", "idle"), "critical", "when their way is the longest, or when nothing else is ready"),
    },
    lambda graph: (*({"share": share} for share in (20, 50)), {"when": "idle"}),
)
