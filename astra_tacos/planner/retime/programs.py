"""Ranks with the same program: one stands for all of them, so that scheduling takes as long for any number.

Ranks of data, tensor and expert parallelism have one program, ranks of a pipeline one a stage. Two ranks have the same program if
their nodes at one place are of the same kind, work and dependencies, belong to collectives with nodes at the same places of the
same programs, and send to and receive from nodes at the same places of the same programs. One order of the nodes of each program,
kept by all its ranks, is then an order of the whole run: a cycle of waits in the run would be one of these orders, too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.retime.tasks import Extent, Operation, Programs, Task
from astra_tacos.planner.workload import Workload
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import group_by


def programs_of(workload: Workload) -> Programs:
    """The ranks that have the same program, found by telling apart ranks until nothing does any more."""
    trace, columns, instances = workload.run.workload, workload.run.columns, workload.instances
    rank, first = trace.rank, trace.rank_first
    local = np.arange(trace.num_nodes) - first[rank]
    waits = np.diff(trace.dep_first)
    rank_columns = (
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
        numbers = []
        for rank in range(trace.num_ranks):
            key = [column[first[rank] : first[rank + 1]].tobytes() for column in of_nodes]
            if lists is not None:
                key.append(lists[trace.dep_first[first[rank]] : trace.dep_first[first[rank + 1]]].tobytes())
            numbers.append(known.setdefault(tuple(key), len(known)))
        return np.array(numbers, np.int64)

    of_rank = told_apart(*rank_columns, lists=dep)
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
    operations: dict[tuple[Operation, int], Operation] = {}
    expanded_ranks = []
    for rank, program in enumerate(programs.of_rank.tolist()):
        shift = int(trace.rank_first[rank] - trace.rank_first[programs.first_rank[program]])
        other_of = {task: task.twin(rank, task.row + shift) for task in ranks[program]}
        for task, other in other_of.items():
            other.data, other.ctrl = [other_of[dep] for dep in task.data], [other_of[dep] for dep in task.ctrl]
            if task.operation is None:
                continue
            operation = task.operation
            parts = [(own_of[rank, extent.instance], extent) for extent in operation.content]
            group = group_of[parts[0][0]]
            if (operation, group) not in operations:
                content = tuple(Extent(at, extent.begin, extent.end) for at, extent in parts)
                operations[operation, group] = replace(operation, group=group, members=members[group], content=content, tasks=[])
            other.operation = operations[operation, group]
            operations[operation, group].tasks.append(other)
        expanded_ranks.append(list(other_of.values()))
    return expanded_ranks
