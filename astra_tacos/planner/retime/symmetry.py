"""Ranks with the same program: one stands for all of them, so that scheduling takes as long for any number.

Ranks of data, tensor and expert parallelism have one program, ranks of a pipeline one a stage. Two ranks have the same program if
their nodes at one place are of the same kind, work and dependencies, belong to collectives with nodes at the same places of the
same programs, and send to and receive from nodes at the same places of the same programs. One order of the nodes of each program,
kept by all its ranks, is then an order of the whole run: a cycle of waits in the run would be one of these orders, too.

The time of an iteration in steady state, of a run that is several training steps.

The run's end is not a number of steps times that: nothing hides the communication of the last step. Steps are told by the names
that `generate --steps` gives to nodes: `step1_mb0_mlp_forward_layer3`. In a steady state every node comes again after the same
time. In a short run they do not quite, as nothing comes before the first step and after the last one: an iteration is the longest
time after which a compute node that all steps have comes again, the mean from the first to the last step.

From a run of ASTRA-sim to a `TaskGraph`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.retime.tasks import Extent, Operation, Programs, Task, TaskGraph
from astra_tacos.planner.workload import Workload
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by

_NAME = re.compile(r"step([0-9]{1,6})_(.*)", re.DOTALL)
NO_STEP = -1
"""Of a node that is in no step."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of a run.

    Parameters
    ----------
    of_row
        int64[num_nodes], the step of each node that all steps of its rank have, NO_STEP for others.
    again
        int64[2, ...], rows of compute nodes in the first step, and the same nodes in the last one.
    """

    of_row: Ints
    again: Ints
    between: int

    def iteration_ns(self, rows: Ints, outcome: RunOutcome) -> int:
        """An iteration in ns.

        Parameters
        ----------
        rows
            int64[...], the row of the workload that each node of the replayed run was made of.
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
    names = run.names(np.arange(trace.num_nodes))
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


def programs_of(workload: Workload) -> Programs:
    """The ranks that have the same program, found by telling apart ranks until nothing does any more."""
    trace, columns, instances = workload.run.workload, workload.run.columns, workload.instances
    rank, first = trace.rank, trace.rank_first
    local = np.arange(trace.num_nodes) - first[rank]
    waits = np.diff(trace.dep_first)
    own = (
        *(trace.node_id, trace.kind, trace.duration_us, trace.size_bytes, waits, columns.comm_type, columns.num_ops),
        *(columns.tensor_size, columns.is_cpu_op, workload.graph.issue.place - first[rank]),
    )
    dep = np.where(trace.dep < 0, trace.dep, trace.dep - np.repeat(first[rank], waits))
    messages = workload.graph.messages
    sent, received = messages.send, messages.receive
    meets = np.full(trace.num_nodes, -1, np.int64)
    meets[sent], meets[received] = received, sent
    alone = np.flatnonzero(meets < 0)
    rows = instances.nodes.row
    begin, by_instance = group_by(instances.instance, rows, instances.num_instances)
    shapes = {group: tuple(other - members[0] for other in members) for group, members in instances.nodes.members.items()}
    groups = instances.group.tolist()

    def told_apart(*of_nodes: NDArray[Any], lists: NDArray[Any] | None = None) -> Ints:
        """int64[num_ranks], numbers of ranks that have the same entries, by first rank."""
        known: dict[tuple[bytes, ...], int] = {}
        found = []
        for one in range(trace.num_ranks):
            key = [column[first[one] : first[one + 1]].tobytes() for column in of_nodes]
            if lists is not None:
                key.append(lists[trace.dep_first[first[one]] : trace.dep_first[first[one + 1]]].tobytes())
            found.append(known.setdefault(tuple(key), len(known)))
        return np.array(found, np.int64)

    of_rank = told_apart(*own, lists=dep)
    while True:
        mark = of_rank[rank] * trace.num_nodes + local
        other = mark[meets]
        other[alone] = -1
        kinds: dict[tuple[Any, ...], int] = {}
        kind = np.empty(instances.num_instances, np.int64)
        marks = mark[by_instance]
        for number, (low, high) in enumerate(pairwise(begin.tolist())):
            key = shapes[groups[number]], np.sort(marks[low:high]).tobytes()
            kind[number] = kinds.setdefault(key, number)
        number_of = np.full(trace.num_nodes, -1, np.int64)
        number_of[rows] = kind[instances.instance]
        finer = told_apart(of_rank[rank], other, number_of)
        if finer.max(initial=0) == of_rank.max(initial=0):
            return Programs(of_rank, np.unique(of_rank, return_index=True)[1], number_of)
        of_rank = finer


def expanded(ranks: list[list[Task]], programs: Programs, workload: Workload) -> list[list[Task]]:
    """The tasks of all ranks, given those of a rank of each program, at the same places of their lists."""
    trace, instances = workload.run.workload, workload.instances
    nodes, group_of, members = instances.nodes, instances.group.tolist(), instances.nodes.members
    numbers = programs.number_of[nodes.row].tolist()
    own_of = dict(zip(zip(nodes.rank.tolist(), numbers, strict=True), instances.instance.tolist(), strict=True))
    made: dict[tuple[Operation, int], Operation] = {}
    found = []
    for rank, program in enumerate(programs.of_rank.tolist()):
        shift = int(trace.rank_first[rank] - trace.rank_first[programs.first_rank[program]])
        other_of = {task: task.twin(rank, task.row + shift) for task in ranks[program]}
        for task, other in other_of.items():
            other.data, other.ctrl = [other_of[dep] for dep in task.data], [other_of[dep] for dep in task.ctrl]
            if task.operation is None:
                continue
            one = task.operation
            parts = [(own_of[rank, extent.instance], extent) for extent in one.content]
            group = group_of[parts[0][0]]
            if (one, group) not in made:
                content = tuple(Extent(at, each.begin, each.end) for at, each in parts)
                made[one, group] = replace(one, group=group, members=members[group], content=content, tasks=[])
            other.operation = made[one, group]
            made[one, group].tasks.append(other)
        found.append(list(other_of.values()))
    return found


def read_graph(workload: Workload, outcome: RunOutcome) -> TaskGraph:
    """The tasks of a run, of one rank for all that have the same program; durations are those of its replay.

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
    if not workload.graph.issue.runs.all():
        row = int(np.argmin(workload.graph.issue.runs))
        raise ConfigError(
            f"{trace.prefix}: {trace.describe_node(row)} never runs, as it is in a cycle of dependencies or behind one"
        )
    took = np.maximum(outcome.node_finish_ns - outcome.node_issue_ns, 0).tolist()
    dep_first, dep, num_data = trace.dep_first.tolist(), trace.dep.tolist(), run.columns.num_data.tolist()
    kind, place = trace.kind.tolist(), workload.graph.issue.place.tolist()
    programs = programs_of(workload)
    tasks: dict[int, Task] = {}
    ranks: list[list[Task]] = []
    for program, one in enumerate(programs.first_rank.tolist()):
        begin, end = int(trace.rank_first[one]), int(trace.rank_first[one + 1])
        for row in range(begin, end):
            tasks[row] = Task(program, row, kind[row], place[row], 0 if kind[row] == NodeType.COMM_RECV else took[row])
            tasks[row].on_cpu = bool(run.columns.is_cpu_op[row])
        for row in range(begin, end):
            task, first = tasks[row], dep_first[row]
            task.data = [tasks[at] for at in dep[first : first + num_data[row]]]
            others = (tasks[at] for at in dep[first + num_data[row] : dep_first[row + 1]])
            task.ctrl = [dep for dep in others if dep not in task.data and not (task.is_on_network and dep.is_on_network)]
        ranks.append([tasks[row] for row in range(begin, end)])
    messages = workload.graph.messages
    sent, received = messages.send, messages.receive
    first, receiver = trace.rank_first[:-1], trace.rank[received]
    alike = received - first[receiver] + first[programs.first_rank[programs.of_rank[receiver]]]
    for send, receive in zip(sent.tolist(), alike.tolist(), strict=True):
        if send in tasks:
            tasks[send].sends_to = tasks[receive]
    operations: dict[int, Operation] = {}
    for row, number in zip(instances.nodes.row.tolist(), programs.number_of[instances.nodes.row].tolist(), strict=True):
        if row not in tasks:
            continue
        if number not in operations:
            group, size = int(instances.group[number]), int(instances.size_bytes[number])
            content, members = (Extent(number, 0, size),), instances.nodes.members[group]
            operations[number] = Operation(int(instances.pattern[number]), group, size, members, content, number)
        tasks[row].operation = operations[number]
        operations[number].tasks.append(tasks[row])
    return TaskGraph(ranks, [operations[number] for number in sorted(operations)], programs=programs)
