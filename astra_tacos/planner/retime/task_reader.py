"""From a run of ASTRA-sim to a `TaskGraph`."""

from __future__ import annotations

import numpy as np

from astra_tacos.planner.retime.programs import programs_of
from astra_tacos.planner.retime.tasks import Extent, Operation, Task, TaskGraph
from astra_tacos.planner.workload import Workload
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError


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
    for program, rank in enumerate(programs.first_rank.tolist()):
        begin, end = int(trace.rank_first[rank]), int(trace.rank_first[rank + 1])
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
