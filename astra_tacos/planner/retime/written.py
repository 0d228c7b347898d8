"""From a task graph and an order to the run that it is.

All collectives and sends of a rank are chained by control dependencies in the order of the schedule, and ids ascend in it. An
attribute (`ORIGIN_ATTRIBUTE`) says what of the run before a node was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from astra_tacos.planner.retime.list_schedule import ListSchedule
from astra_tacos.planner.retime.programs import expanded
from astra_tacos.planner.retime.tasks import SAME_TAG, Programs, Task, TaskGraph, tasks_of
from astra_tacos.planner.workload import Workload
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.source import Labels, Source
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
        program_rank = of_rank if self.programs is None else self.programs.first_rank[of_rank]
        rank_first, at = members_of(first, of_rank)
        begin = trace.rank_first[:-1]
        shift = np.repeat(np.stack((rank_first[:-1] - first[of_rank], begin - begin[program_rank])), count[of_rank], axis=1)
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
    tasks = [task for tasks_of_rank in ordered_graph.ranks for task in tasks_of_rank]
    layout = ordered_graph.laid_out(trace)
    row_of = {task: place for place, task in enumerate(tasks)}
    num_deps, num_data = np.zeros((2, len(tasks)), np.int64)
    dep: list[int] = []
    row_of_task, rows = np.array([task.row for task in tasks], np.int64), layout.row
    size, pattern = trace.size_bytes[row_of_task], columns.comm_type[row_of_task]
    duration, num_ops, tensor_size = (
        trace.duration_us[row_of_task],
        columns.num_ops[row_of_task],
        columns.tensor_size[row_of_task],
    )
    tag = np.full(len(tasks), SAME_TAG, np.int64)
    for place, task in enumerate(tasks):
        before = len(dep)
        dep += (row_of[other] for other in task.deps)
        if task in ordered_graph.before:
            dep.append(row_of[ordered_graph.before[task]])
        num_deps[place], num_data[place] = len(dep) - before, len(task.data)
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
        num_data=num_data[at],
        **{
            name: getattr(columns, name)[rows]
            for name in (
                "comm_priority",
                "is_cpu_op",
                "own",
                "group",
                "involved_dims",
                "involved_count",
                "root",
                "carried_pattern",
                "own_group",
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


def scheduled_run(workload: Workload, new: Ordered) -> Run:
    """The run of all ranks, whose nodes say what they were made of."""
    new = on_all_ranks(new, workload)
    run = workload.run
    id_of_instance = _ids_by_instance(workload)
    tasks = [(rank, task) for rank, tasks_of_rank in enumerate(new.ranks) for task in tasks_of_rank]
    labels = [_label(task, int(run.workload.node_id[task.row]), id_of_instance[rank]) for rank, task in tasks]
    source = Source(run, new.laid_out(run.workload).row, Labels(*map(tuple, zip(*labels, strict=True))))
    return replace(run_of(new, run), system=run.system.without_traces(), source=source)


def _ids_by_instance(workload: Workload) -> list[dict[int, int]]:
    """For each rank, the id of its node of each collective."""
    trace, instances = workload.run.workload, workload.instances
    id_of: list[dict[int, int]] = [{} for _ in range(trace.num_ranks)]
    nodes = instances.nodes
    for row, rank, number in zip(nodes.row.tolist(), nodes.rank.tolist(), instances.instance.tolist(), strict=True):
        id_of[rank][number] = int(trace.node_id[row])
    return id_of


def _label(task: Task, old_id: int, id_of_instance: dict[int, int]) -> tuple[str, str]:
    """What a node was made of, and what its name has more."""
    if task.parts > 1:
        return f"{old_id}:{task.part}/{task.parts}", f"_part{task.part}"
    if task.operation is not None and task.operation.is_changed:
        content = task.operation.content
        return " ".join(
            f"{id_of_instance[extent.instance]}[{extent.begin}:{extent.end}]" for extent in content
        ), task.operation.suffix
    return str(old_id), ""
