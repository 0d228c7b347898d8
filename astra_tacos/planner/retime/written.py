"""From a task graph and an order to the run that it is: its columns in memory, and its files.

All collectives and sends of a rank are chained by control dependencies in the order of the schedule, and ids ascend in it. An
attribute (`ORIGIN_ATTRIBUTE`) says what of the run before a node was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from astra_tacos.planner.retime.list_schedule import ListSchedule
from astra_tacos.planner.retime.symmetry import Source, expanded
from astra_tacos.planner.retime.tasks import SAME_TAG, Programs, Task, TaskGraph, tasks_of
from astra_tacos.planner.run_files import write_configurations
from astra_tacos.planner.workload import Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.patterns import ORIGIN_ATTRIBUTE
from astra_tacos.run.run import NATIVE, WORKLOAD, Run, RunInputs
from astra_tacos.run.trace.node_bytes import encode_messages, set_attribute
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import members_of


class Layout(NamedTuple):
    """Where the tasks of all ranks are.

    `rank_first`: int64[num_ranks + 1], where those of each rank begin. For each of them, `at`: its place among the tasks that are
    listed; `moved`: how far the tasks of its rank are from these; `row`: its row of the run before.
    """

    rank_first: Ints
    at: Ints
    moved: Ints
    row: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """A task graph in the order in which it is written: of all ranks, or of one rank for all that have the same program.

    Parameters
    ----------
    before
        The communication that each collective and send waits for, as it is before it on its rank.
    programs
        Which ranks have which program; None if each has its own.
    """

    ranks: list[list[Task]]
    id_of: dict[Task, int]
    before: dict[Task, Task]
    programs: Programs | None = None

    def laid_out(self, trace: Trace) -> Layout:
        """Where the tasks of all ranks are, given the run before."""
        count = np.array([len(tasks) for tasks in self.ranks], np.int64)
        first = np.concatenate(([0], np.cumsum(count)))
        of_rank = np.arange(trace.num_ranks) if self.programs is None else self.programs.of_rank
        own = of_rank if self.programs is None else self.programs.first_rank[of_rank]
        rank_first, at = members_of(first, of_rank)
        begin = trace.rank_first[:-1]
        shift = np.repeat(np.stack((rank_first[:-1] - first[of_rank], begin - begin[own])), count[of_rank], axis=1)
        row = np.array([task.row for tasks in self.ranks for task in tasks], np.int64)
        return Layout(rank_first, at, shift[0], row[at] + shift[1])


def ordered(graph: TaskGraph, schedule: ListSchedule) -> Ordered:
    """Number the tasks of a graph in the order of a schedule, and chain its communication."""
    ranks: list[list[Task]] = [[] for _ in graph.ranks]
    for vertex in schedule.order:
        for task in tasks_of(vertex):
            ranks[task.rank].append(task)
    return _numbered(ranks, graph.programs)


def on_all_ranks(new: Ordered, workload: Workload) -> Ordered:
    """The same for all ranks, where some stand for others."""
    if new.programs is None:
        return new
    return _numbered(expanded(new.ranks, new.programs, workload))


def _numbered(ranks: list[list[Task]], programs: Programs | None = None) -> Ordered:
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
    return Ordered(ranks, id_of, before, programs)


def _needs_order(task: Task, later: Task) -> bool:
    """Whether nothing but the schedule says that a compute task comes after another."""
    return (task.moves or later.moves) and task not in later.deps


def run_of(ordered_graph: Ordered, run: Run) -> Run:
    """The run in memory, without files: what reading the written files would give, except for byte offsets."""
    trace, columns = run.workload, run.columns
    tasks = [task for own in ordered_graph.ranks for task in own]
    layout = ordered_graph.laid_out(trace)
    row_of = {task: place for place, task in enumerate(tasks)}
    num_deps = np.zeros(len(tasks), np.int64)
    dep: list[int] = []
    own, rows = np.array([task.row for task in tasks], np.int64), layout.row
    size, pattern = trace.size_bytes[own], columns.comm_type[own]
    duration, num_ops, tensor_size = trace.duration_us[own], columns.num_ops[own], columns.tensor_size[own]
    tag = np.full(len(tasks), SAME_TAG, np.int64)
    for place, task in enumerate(tasks):
        before = len(dep)
        dep += (row_of[other] for other in task.deps)
        if task in ordered_graph.before:
            dep.append(row_of[ordered_graph.before[task]])
        num_deps[place] = len(dep) - before
        if task.operation is not None and task.operation.is_changed:
            size[place], pattern[place] = task.operation.size_bytes, task.operation.pattern
        if task.parts > 1:
            for column in (duration, num_ops, tensor_size, *((size,) if task.tag != SAME_TAG else ())):
                column[place] = _share(int(column[place]), task)
        if task.tag != SAME_TAG:
            tag[place] = task.tag
    at, first = layout.at, np.concatenate(([0], np.cumsum(num_deps)))
    changed = replace(
        columns,
        comm_type=pattern[at],
        num_ops=num_ops[at],
        tensor_size=tensor_size[at],
        **{
            name: getattr(columns, name)[rows]
            for name in (
                "comm_priority",
                "is_cpu_op",
                "own",
                "group",
                "involved_dims",
                "involved_count",
                "wrong_type",
                "no_value",
                "byte_offset",
            )
        },
    )
    dep_first, entries = members_of(first, at)
    workload = Trace(
        trace.prefix,
        layout.rank_first,
        np.array([ordered_graph.id_of[task] for task in tasks], np.uint64)[at],
        trace.kind[rows],
        duration[at],
        size[at],
        trace.peer[rows],
        np.where(tag[at] == SAME_TAG, trace.tag[rows], tag[at]),
        dep_first,
        np.array(dep, np.int64)[entries] + np.repeat(layout.moved, np.diff(dep_first)),
        None,
        changed,
    )
    return replace(run, workload=workload, implementation=np.full(len(at), NATIVE, np.int32))


def _share(total: int, task: Task) -> int:
    """A part of a number; the parts add up to it."""
    if total < 0:
        return total
    return total * (task.part + 1) // task.parts - total * task.part // task.parts


def write_scheduled(folder: Path, inputs: RunInputs, workload: Workload, source: Source, new: Ordered, backend: Backend) -> None:
    """Write the run into an empty directory: workload, groups, system, network, memory and the script.

    Nodes keep their unknown fields and attributes.
    """
    run, new = workload.run, on_all_ranks(new, workload)
    first_of = _ids_by_instance(workload)
    (folder / WORKLOAD).mkdir()
    for rank, tasks in enumerate(new.ranks):
        messages = (_message(task, new, source, first_of[rank]) for task in tasks)
        encoded = encode_messages(source.heads[rank], messages)
        (folder / WORKLOAD / f"{inputs.workload.name}.{rank}.et").write_bytes(encoded)
    write_configurations(folder, inputs, run.groups.members, {}, run.network, {})


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
            kind = attribute.WhichOneof("value")
            if attribute.name in ("num_ops", "tensor_size", *(("comm_size",) if task.tag != SAME_TAG else ())):
                setattr(attribute, kind, _share(int(getattr(attribute, kind)), task))
            elif attribute.name == "comm_tag":
                setattr(attribute, kind, task.tag)
    elif task.operation is not None and task.operation.is_changed:
        operation = task.operation
        origin = " ".join(f"{id_of_instance[one.instance]}[{one.begin}:{one.end}]" for one in operation.content)
        node.name = f"{old.name}{operation.suffix}"
        set_attribute(node, "comm_size", "int64_val", operation.size_bytes)
        set_attribute(node, "comm_type", "int64_val", int(CommType(operation.pattern)))
    set_attribute(node, ORIGIN_ATTRIBUTE, "string_val", origin)
    return node
