"""From a task graph and an order to the run that it is: its columns in memory, and its files.

All collectives and sends of a rank are chained by control dependencies in the order of the schedule, and ids ascend in it. A node
has an attribute `astra_tacos_from` that says what of the run it was made of: `17` is node 17, `17:1/4` the second of four equal
parts of its work, and `17[0:4096] 23[0:100]` bytes of the inputs of collectives 17 and 23.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.planner.run_files import WORKLOAD, RunInputs, write_configurations
from astra_tacos.planner.workload import Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.scheduler.list_schedule import ListSchedule
from astra_tacos.scheduler.reading import Source
from astra_tacos.scheduler.tasks import Task, TaskGraph, tasks_of
from astra_tacos.trace.node_bytes import set_attribute
from astra_tacos.trace.node_messages import encode_messages
from astra_tacos.trace.schema import CommType
from astra_tacos.trace.trace import Trace

FROM = "astra_tacos_from"
"""Attribute of a node of a scheduled run: the nodes of the run before that it was made of."""


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """A task graph in the order in which it is written.

    Parameters
    ----------
    graph
        The tasks.
    ranks
        Tasks of each rank by id.
    id_of
        The id of each task.
    before
        The communication that each collective and send waits for, as it is before it on its rank.
    end_ns
        Estimate of the end of the run.
    """

    graph: TaskGraph
    ranks: list[list[Task]]
    id_of: dict[Task, int]
    before: dict[Task, Task]
    end_ns: int


def ordered(graph: TaskGraph, schedule: ListSchedule) -> Ordered:
    """Number the tasks of a graph in the order of a schedule, and chain its communication."""
    ranks: list[list[Task]] = [[] for _ in graph.ranks]
    for vertex in schedule.order:
        for task in tasks_of(vertex):
            ranks[task.rank].append(task)
    id_of = {task: number for tasks in ranks for number, task in enumerate(tasks)}
    before: dict[Task, Task] = {}
    for tasks in ranks:
        last: Task | None = None
        last_compute: Task | None = None
        for task in tasks:
            if task.is_on_network:
                if last is not None and last not in task.deps:
                    before[task] = last
                last = task
            elif task.computes and last_compute is not None and _needs_order(last_compute, task):
                before[task] = last_compute
            if task.computes:
                last_compute = task
    return Ordered(graph, ranks, id_of, before, schedule.end_ns)


def _needs_order(task: Task, later: Task) -> bool:
    """Whether nothing but the schedule says that a compute task comes after another."""
    return (task.moves or later.moves) and task not in later.deps


def run_of(ordered_graph: Ordered, run: Run) -> Run:
    """The run in memory, without files: what reading the written files would give, except for byte offsets."""
    trace, columns = run.workload, run.columns
    tasks = [task for own in ordered_graph.ranks for task in own]
    rows = np.array([task.row for task in tasks], np.int64)
    rank_first = np.cumsum([0, *(len(own) for own in ordered_graph.ranks)]).astype(np.int64)
    row_of = {task: place for place, task in enumerate(tasks)}
    dep_first = np.zeros(len(tasks) + 1, np.int64)
    dep: list[int] = []
    size, pattern = trace.size_bytes[rows], columns.comm_type[rows]
    duration, num_ops, tensor_size = trace.duration_us[rows], columns.num_ops[rows], columns.tensor_size[rows]
    for place, task in enumerate(tasks):
        dep += (row_of[other] for other in task.deps)
        if task in ordered_graph.before:
            dep.append(row_of[ordered_graph.before[task]])
        dep_first[place + 1] = len(dep)
        if task.operation is not None and task.operation.is_changed:
            size[place], pattern[place] = task.operation.size_bytes, task.operation.pattern
        if task.parts > 1:
            for column in (duration, num_ops, tensor_size):
                column[place] = _share(int(column[place]), task)
    changed = replace(
        columns,
        comm_type=pattern,
        num_ops=num_ops,
        tensor_size=tensor_size,
        **{
            name: getattr(columns, name)[rows]
            for name in (
                *("comm_priority", "is_cpu_op", "own", "group", "involved_dims", "involved_count", "wrong_type", "no_value"),
                "byte_offset",
            )
        },
    )
    ids = np.array([ordered_graph.id_of[task] for task in tasks], np.uint64)
    workload = Trace(
        trace.prefix,
        rank_first,
        ids,
        trace.kind[rows],
        duration,
        size,
        trace.peer[rows],
        trace.tag[rows],
        dep_first,
        np.array(dep, np.int64),
        None,
        changed,
    )
    return replace(run, workload=workload, implementation=np.full(len(tasks), NATIVE, np.int32))


def _share(total: int, task: Task) -> int:
    """A part of a number; the parts add up to it."""
    if total < 0:
        return total
    return total * (task.part + 1) // task.parts - total * task.part // task.parts


def write_scheduled(folder: Path, inputs: RunInputs, workload: Workload, source: Source, new: Ordered, backend: Backend) -> None:
    """Write the run into an empty directory: workload, groups, system, network, memory and the script.

    Nodes keep their unknown fields and attributes.

    Parameters
    ----------
    folder
        Empty directory to write into.
    inputs
        Files of the run before.
    workload, source
        The run before, and its messages.
    new
        The tasks in their order.
    backend
        The model that the script runs.
    """
    run = workload.run
    first_of = _ids_by_instance(workload)
    (folder / WORKLOAD).mkdir()
    for rank, tasks in enumerate(new.ranks):
        messages = (_message(task, new, source, first_of[rank]) for task in tasks)
        encoded = encode_messages(source.heads[rank], messages)
        (folder / WORKLOAD / f"{inputs.workload.name}.{rank}.et").write_bytes(encoded)
    write_configurations(folder, inputs, run.groups.members, {}, backend, backend.needs(len(run.network.dimensions)), {})


def _ids_by_instance(workload: Workload) -> list[dict[int, int]]:
    """For each rank, the id of its node of each collective."""
    trace, instances = workload.run.workload, workload.instances
    found: list[dict[int, int]] = [{} for _ in range(trace.num_ranks)]
    nodes = instances.nodes
    for row, rank, number in zip(nodes.row.tolist(), nodes.rank.tolist(), instances.instance.tolist(), strict=True):
        found[rank][number] = int(trace.node_id[row])
    return found


def _message(task: Task, new: Ordered, source: Source, id_of_instance: dict[int, int]) -> object:
    old = source.nodes[task.row]
    node = type(old)()
    node.CopyFrom(old)
    node.id = new.id_of[task]
    del node.data_deps[:]
    del node.ctrl_deps[:]
    node.data_deps.extend(new.id_of[dep] for dep in task.data)
    node.ctrl_deps.extend(new.id_of[dep] for dep in task.ctrl if dep not in task.data)
    if task in new.before:
        node.ctrl_deps.append(new.id_of[new.before[task]])
    origin = str(old.id)
    if task.parts > 1:
        origin = f"{old.id}:{task.part}/{task.parts}"
        node.name = f"{old.name}_part{task.part}"
        node.duration_micros = _share(int(old.duration_micros), task)
        for attribute in node.attr:
            if attribute.name in ("num_ops", "tensor_size"):
                kind = attribute.WhichOneof("value")
                setattr(attribute, kind, _share(int(getattr(attribute, kind)), task))
    elif task.operation is not None and task.operation.is_changed:
        operation = task.operation
        origin = " ".join(f"{id_of_instance[one.instance]}[{one.begin}:{one.end}]" for one in operation.content)
        node.name = f"{old.name}{operation.suffix}"
        set_attribute(node, "comm_size", "int64_val", operation.size_bytes)
        set_attribute(node, "comm_type", "int64_val", int(CommType(operation.pattern)))
    set_attribute(node, FROM, "string_val", origin)
    return node
