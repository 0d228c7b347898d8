"""Out-of-order backpropagation (Oh et al. 2022, EuroSys): weight gradients are off the critical path of the backward pass.

A compute node is free to move if only communication waits for its data, as for a gradient of weights. Free nodes go when the
longest way behind them is the longest of those that are ready; all others keep their order. With `share`, only the last ones of
each backward pass are free, those of the layers nearest the input (the paper's reverse first-k scheduling): gradients of other
layers are computed, and sent, as early as before. Activations may have to be kept for longer; memory is not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from astra_tacos.scheduler.policy import Option, Policy, Setting
from astra_tacos.scheduler.tasks import Task, TaskGraph
from astra_tacos.trace.schema import NodeType


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    stays: set[Task] = set()
    for task in graph.tasks():
        if task.kind != NodeType.COMM_COLL:
            stays.update(task.data)
    consumers = _consumers(graph)
    num_moving = 0
    for rank, tasks in enumerate(graph.ranks):
        last: Task | None = None
        for task in sorted(tasks, key=lambda task: task.place):
            if not task.computes:
                continue
            task.moves = task not in stays and task.parts == 1
        _hold(tasks, consumers, values["share"])
        num_moving += sum(task.moves for task in tasks)
        for task in sorted(graph.ranks[rank], key=lambda task: task.place):
            if not task.computes:
                continue
            task.ctrl = [dep for dep in task.ctrl if not dep.computes or not (task.moves or dep.moves)]
            if task.moves:
                continue
            if last is not None and last not in task.deps:
                task.ctrl.append(last)
            last = task
    if not num_moving:
        return ["reorder: something computed waits for every compute node: none is a gradient of weights"]
    graph.reorders_compute = True
    return []


def _consumers(graph: TaskGraph) -> dict[Task, float]:
    """For each task, the first place of its rank that waits for communication of its data."""
    first: dict[Task, float] = {}
    for task in graph.tasks():
        for dep in task.data:
            if dep.kind == NodeType.COMM_COLL:
                first[dep] = min(first.get(dep, math.inf), task.place)
    found: dict[Task, float] = {}
    for task in graph.tasks():
        if task.kind == NodeType.COMM_COLL:
            for dep in task.data:
                found[dep] = min(found.get(dep, math.inf), first.get(task, math.inf))
    return found


def _hold(tasks: list[Task], consumers: Mapping[Task, float], share: int) -> None:
    """Let only the last so many per cent of the tasks that move in each backward pass do so.

    A pass ends before the first task that waits for what it computed.
    """
    passes: list[list[Task]] = []
    until = -math.inf
    for task in sorted((task for task in tasks if task.moves), key=lambda task: task.place):
        if task.place > until:
            passes.append([])
            until = math.inf
        passes[-1].append(task)
        until = min(until, consumers.get(task, math.inf))
    for one in passes:
        for task in one[: len(one) - len(one) * min(share, 100) // 100]:
            task.moves = False


POLICY = Policy(
    "reorder",
    "gradients of weights off the critical path",
    _apply,
    {"share": Option("count", 100, "per cent of the gradients of a backward pass that move, those nearest the input")},
    lambda graph: ({"share": share} for share in (20, 50)),
)
