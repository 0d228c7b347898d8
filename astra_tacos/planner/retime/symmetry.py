"""Runs whose ranks all have the same program: one rank stands for all of them, so that scheduling takes as long for any number.

Data, tensor and expert parallelism give such runs, pipelines do not. Rank r has node k of the same kind, work and dependencies as
rank 0, and members of a collective have it at the same place of their programs. One order of the nodes of rank 0, kept by all
ranks, is then an order of the whole run.

The time of an iteration in steady state, of a run that is several training steps.

The run's end is not a number of steps times that: nothing hides the communication of the last step. Steps are told by the names
that `generate --steps` gives to nodes: `step1_mb0_mlp_forward_layer3`. In a steady state every node comes again after the same
time. In a short run they do not quite, as nothing comes before the first step and after the last one: an iteration is the longest
time after which a compute node that all steps have comes again, the mean from the first to the last step.

From a run of ASTRA-sim to a `TaskGraph`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.global_order import match_messages
from astra_tacos.planner.retime.tasks import Extent, Operation, Task, TaskGraph
from astra_tacos.planner.workload import Workload
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.reader import read_names
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError

_NAME = re.compile(r"step([0-9]{1,6})_(.*)", re.DOTALL)
NO_STEP = -1


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of a run.

    Parameters
    ----------
    of_row
        int64[num_nodes], the step of each node that all steps of its rank have, NO_STEP for others.
    again
        int64[2, ...], rows of compute nodes in the first step, and the same nodes in the last one.
    between
        Number of steps from the first to the last one.
    """

    of_row: NDArray[np.int64]
    again: NDArray[np.int64]
    between: int

    def iteration_ns(self, rows: NDArray[np.int64], outcome: RunOutcome) -> int:
        """An iteration in ns.

        Parameters
        ----------
        rows
            int64[...], the row of the workload that each node of the replayed run was made of.
        outcome
            The replay.
        """
        end_ns = np.zeros(len(self.of_row), np.int64)
        np.maximum.at(end_ns, rows, outcome.node_finish_ns)  # of all parts of a node
        return int(np.diff(end_ns[self.again], axis=0).max(initial=0)) // self.between


def steps_of(run: Run) -> Steps:
    """The steps of a run.

    Raises
    ------
    ConfigError
        If names do not tell two or more steps.
    """
    trace = run.workload
    found: dict[tuple[int, str], dict[int, int]] = {}
    steps: set[int] = set()
    names = read_names(trace, np.arange(trace.num_nodes))
    for row, (rank, name) in enumerate(zip(trace.rank.tolist(), names, strict=True)):
        if match := _NAME.fullmatch(name):
            found.setdefault((rank, match[2]), {})[int(match[1])] = row
            steps.add(int(match[1]))
    if len(steps) < 2:
        raise ConfigError(
            f"{trace.prefix}: found {len(steps)} steps, expected names of nodes that begin with step0_, step1_ and so on, as "
            "those of generate --steps 2"
        )
    of_row = np.full(trace.num_nodes, NO_STEP, np.int64)
    again: list[tuple[int, int]] = []
    for rows in found.values():
        if len(rows) == len(steps):
            of_row[list(rows.values())] = list(rows)
            if trace.kind[rows[min(rows)]] == NodeType.COMP:
                again.append((rows[min(rows)], rows[max(rows)]))
    return Steps(of_row, np.array(again, np.int64).reshape(-1, 2).T, max(steps) - min(steps))


def are_alike(workload: Workload) -> bool:
    """Whether all ranks of a run have the same program."""
    trace, columns, instances = workload.run.workload, workload.run.columns, workload.instances
    per_rank = np.diff(trace.rank_first)
    if not len(per_rank) or (per_rank != per_rank[0]).any():
        return False
    if np.isin(trace.kind, (NodeType.COMM_SEND, NodeType.COMM_RECV)).any():
        return False
    place = workload.issue.place - np.repeat(trace.rank_first[:-1], per_rank)
    same = (
        *(trace.node_id, trace.kind, trace.duration_us, trace.size_bytes, np.diff(trace.dep_first)),
        *(columns.comm_type, columns.num_ops, columns.tensor_size, columns.is_cpu_op, place),
    )
    if not all((column.reshape(len(per_rank), -1) == column[: per_rank[0]]).all() for column in same):
        return False
    count = len(trace.dep) // len(per_rank)
    dep = trace.dep.reshape(len(per_rank), count) - trace.rank_first[:-1, None]
    if not (dep == dep[0]).all():
        return False
    nodes = instances.nodes
    local = nodes.row - trace.rank_first[nodes.rank]
    first = np.full(instances.num_instances, -1, np.int64)
    first[instances.instance] = local
    return bool((first[instances.instance] == local).all())


def instance_table(workload: Workload) -> NDArray[np.int64]:
    """int64[num_ranks, num_instances]; for ranks that are alike, the instance that each has where rank 0 has one, -1 for none."""
    trace, instances = workload.run.workload, workload.instances
    nodes = instances.nodes
    at_row = np.full(trace.num_nodes, -1, np.int64)
    at_row[nodes.row] = instances.instance
    table = np.full((trace.num_ranks, instances.num_instances), -1, np.int64)
    own = nodes.rank == 0
    for rank in range(trace.num_ranks):
        table[rank, instances.instance[own]] = at_row[nodes.row[own] + trace.rank_first[rank]]
    return table


def expanded(graph: TaskGraph, workload: Workload) -> TaskGraph:
    """A graph of rank 0 as the graph of all ranks, whose tasks have the same places in the lists of their ranks."""
    trace, instances = workload.run.workload, workload.instances
    table = instance_table(workload)
    group_of, members = instances.group.tolist(), instances.nodes.members
    ranks: list[list[Task]] = []
    operations: list[Operation] = []
    made: dict[tuple[Operation, int], Operation] = {}
    for rank in range(trace.num_ranks):
        shift = int(trace.rank_first[rank])
        other_of = {task: task.twin(rank, task.row + shift) for task in graph.ranks[0]}
        for task, other in other_of.items():
            other.data, other.ctrl = [other_of[dep] for dep in task.data], [other_of[dep] for dep in task.ctrl]
            if task.operation is None:
                continue
            one = task.operation
            numbers = [int(table[rank, extent.instance]) for extent in one.content]
            group = group_of[numbers[0]]
            if (one, group) not in made:
                content = tuple(Extent(at, each.begin, each.end) for at, each in zip(numbers, one.content, strict=True))
                own = Operation(one.pattern, group, one.size_bytes, members[group], content, one.place)
                own.urgency, own.is_changed, own.suffix = one.urgency, one.is_changed, one.suffix
                made[one, group] = own
                operations.append(own)
            other.operation = made[one, group]
            made[one, group].tasks.append(other)
        ranks.append(list(other_of.values()))
    return TaskGraph(ranks, operations, graph.credit_bytes, graph.reorders_compute, graph.moves_when_idle)


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
