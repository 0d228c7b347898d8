"""Out-of-order backpropagation (Oh et al. 2022, EuroSys): weight gradients are off the critical path of the backward pass.

A compute node is free to move if only communication waits for its data, as for a gradient of weights. Free nodes go when the
longest way behind them is the longest of those that are ready; all others keep their order. Activations may have to be kept for
longer; memory is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astra_tacos.scheduler.policy import Policy, Setting
from astra_tacos.scheduler.tasks import Task, TaskGraph
from astra_tacos.trace.schema import NodeType


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    stays: set[Task] = set()
    for task in graph.tasks():
        if task.kind != NodeType.COMM_COLL:
            stays.update(task.data)
    num_moving = 0
    for rank, tasks in enumerate(graph.ranks):
        last: Task | None = None
        for task in sorted(tasks, key=lambda task: task.place):
            if not task.computes:
                continue
            task.moves = task not in stays and task.parts == 1
            num_moving += task.moves
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


POLICY = Policy("reorder", "gradients of weights off the critical path", _apply)
