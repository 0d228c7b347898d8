"""From a run of ASTRA-sim to a `TaskGraph`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.planner.global_order import match_messages
from astra_tacos.planner.retime.symmetry import are_alike
from astra_tacos.planner.retime.tasks import Extent, Operation, Task, TaskGraph
from astra_tacos.planner.workload import Workload
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The files of a run as messages.

    Parameters
    ----------
    heads, nodes
        The head of each rank's trace, and all nodes by their row in the workload.
    """

    heads: list[Any]
    nodes: list[Any]


def read_source(workload: Workload) -> Source:
    """Read the messages of a run's traces.

    Raises
    ------
    ConfigError
        If a file has changed since the run was read.
    """
    trace = workload.run.workload
    heads, nodes = [], []
    for rank in range(trace.num_ranks):
        path = Path(f"{trace.prefix}.{rank}.et")
        head, messages = read_messages(path)
        if [node.id for node in messages] != trace.node_id[trace.rank_first[rank] : trace.rank_first[rank + 1]].tolist():
            raise ConfigError(f"{path}: has changed since it was read, expected a file that stays as it is")
        heads.append(head)
        nodes += messages
    return Source(heads, nodes)


def read_graph(workload: Workload, source: Source, outcome: RunOutcome) -> TaskGraph:
    """The tasks of a run, those of rank 0 alone if all have the same program; durations are those of its replay.

    Raises
    ------
    ConfigError
        If a collective runs a trace of its own, or a node never runs.
    """
    run = workload.run
    trace, instances = run.workload, workload.instances
    if run.prefixes:
        raise ConfigError(
            f"{run.system.source}: collectives run custom traces ({run.prefixes[0]}), which fit one size and order only; "
            "expected a run with native ones: schedule the run that was planned, not the plan"
        )
    if not workload.issue.runs.all():
        row = int(np.argmin(workload.issue.runs))
        raise ConfigError(
            f"{trace.prefix}: {trace.describe_node(row)} never runs, as it is in a cycle of dependencies or behind one"
        )
    took = np.maximum(outcome.node_finish_ns - outcome.node_issue_ns, 0).tolist()
    kind, place, rank = trace.kind.tolist(), workload.issue.place.tolist(), trace.rank.tolist()
    num_ranks = 1 if are_alike(workload) else trace.num_ranks
    num_rows = int(trace.rank_first[num_ranks])
    tasks = [Task(rank[row], row, kind[row], place[row], took[row]) for row in range(num_rows)]
    for task, on_cpu in zip(tasks, run.columns.is_cpu_op[:num_rows].tolist(), strict=True):
        task.on_cpu = on_cpu
    for one in range(num_ranks):
        begin, end = int(trace.rank_first[one]), int(trace.rank_first[one + 1])
        row_of = {int(node): begin + at for at, node in enumerate(trace.node_id[begin:end].tolist())}
        for row in range(begin, end):
            message, task = source.nodes[row], tasks[row]
            task.data = [tasks[row_of[dep]] for dep in message.data_deps]
            others = (tasks[row_of[dep]] for dep in message.ctrl_deps)
            task.ctrl = [dep for dep in others if dep not in task.data and not (task.is_on_network and dep.is_on_network)]
    sent, received = match_messages(trace, workload.issue)
    for send, receive in zip(sent.tolist(), received.tolist(), strict=True):
        tasks[send].sends_to = tasks[receive]
        tasks[receive].duration_ns = 0
    for task in tasks:
        if task.kind == NodeType.COMM_RECV:
            task.duration_ns = 0
    operations: list[Operation] = []
    for number in range(instances.num_instances):
        group, size = int(instances.group[number]), int(instances.size_bytes[number])
        content = (Extent(number, 0, size),)
        members = instances.nodes.members[group]
        operations.append(Operation(int(instances.pattern[number]), group, size, members, content, number))
    for row, number in zip(instances.nodes.row.tolist(), instances.instance.tolist(), strict=True):
        if row < num_rows:
            tasks[row].operation = operations[number]
            operations[number].tasks.append(tasks[row])
    ranks = [tasks[int(trace.rank_first[one]) : int(trace.rank_first[one + 1])] for one in range(num_ranks)]
    return TaskGraph(ranks, [operation for operation in operations if operation.tasks])
