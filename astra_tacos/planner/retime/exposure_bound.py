"""A lower bound on exposed communication: what no order, fusion, cut or pipeline of a run's communication can hide.

A rank hides communication while it computes. It cannot hide a byte of a collective behind a compute task that the collective
waits for, or that waits for the collective: these never run at the same time. So of a collective k and a compute task x, at most
the time o(k, x) is hidden, where o is 0 for such pairs, the o(k, x) of each x add up to no more than x computes, and those of
each k to no more than k occupies the rank. Let k occupy it for b(k), at least for a(k). It is exposed for b(k) - sum of o(k, x),
which is at least a(k) - min(a(k), sum of o(k, x)). So the rank communicates without computing for at least the sum of a less
the largest flow from collectives, of capacity a, to compute tasks, of capacity their durations, through the pairs that may
overlap.

Stages of a pipeline have few such pairs: between the last micro-batch of a step and the first one of the next, they wait.

The bound holds for everything that policies do. All keep dependencies on data, and control dependencies except those that they
may replace, which do not count here: between two tasks on the network, and between two compute tasks of which one is free to
move (`policies.reorder`). Pieces of a collective, and a fused one, wait for what it waited for, byte by byte, so a(k) has to be a
sum over bytes. Pieces of `policies.pipeline` overlap with pieces of the tasks beside them, so a pair that is joined by such steps
alone may overlap here, in as many pieces as one likes.

`exposed_ns` is the exposed communication of a run: how long ranks compute nothing while a collective or message runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import numpy as np

from astra_tacos.planner.retime.list_schedule import Durations
from astra_tacos.planner.retime.policies.pipeline import piecewise_dependencies
from astra_tacos.planner.retime.policies.reorder import free_tasks
from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph, relations, tasks_of
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_message_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Ints

Least = Callable[[Task], float]
"""What a task on the network occupies its rank for at least, in ns, as a sum over its bytes."""
_ALL_WAIT_FOR_ALL = (CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_TO_ALL)
_MOST_FLOW = (1 << 31) - 1
"""SciPy's maximum flow counts in int32."""
_SIZES = tuple(1 << exponent for exponent in range(12, 31, 2))


class QuickestBytes:
    """What a task on the network takes at least with certain collectives: its bytes, at the most that these reach a byte.

    All-Reduces also count as a Reduce-Scatter and an All-Gather. Messages take what they take alone on the network; pieces of one
    are sent one after another, and take no less together.
    """

    def __init__(self, run: Run, backend: Backend, duration_of: Durations) -> None:
        self._run, self._backend, self._duration_of = run, backend, duration_of
        self._a_byte: dict[tuple[int, int], float] = {}
        self._messages: dict[tuple[int, int, int], float] = {}

    def __call__(self, task: Task) -> float:
        """The time in ns."""
        operation = task.operation
        if operation is None:
            return self._message(task)
        key = operation.pattern, operation.group
        if key not in self._a_byte:
            self._a_byte[key] = min(self._whole(operation, size) / size for size in _SIZES)
        return self._a_byte[key] * operation.size_bytes

    def _message(self, task: Task) -> float:
        """The time of a message."""
        trace = self._run.workload
        sender = int(np.searchsorted(trace.rank_first, task.row, side="right")) - 1  # `Task.rank` may count programs
        key = sender, int(trace.peer[task.row]), int(trace.size_bytes[task.row])
        if key not in self._messages:
            alone = single_message_run(self._run.network, self._run.system, *key)
            self._messages[key] = float(replay_run(alone, self._backend).end_ns)
        return self._messages[key]

    def _whole(self, operation: Operation, size: int) -> int:
        """The time of so many bytes as one collective, or as two halves of it."""

        def of(pattern: int, size_bytes: int) -> int:
            return self._duration_of(operation.like(pattern, size_bytes, (), ""))

        if operation.pattern != CommType.ALL_REDUCE:
            return of(operation.pattern, size)
        halves = of(CommType.REDUCE_SCATTER, size) + of(CommType.ALL_GATHER, size // len(operation.members))
        return min(of(operation.pattern, size), halves)


def least_exposed_ns(graph: TaskGraph, least_of: Least, counted: Collection[Task] | None = None) -> list[int]:
    """Time for which each rank of a graph communicates and computes nothing, at least, in ns.

    Parameters
    ----------
    least_of
        What each task on the network occupies its rank for at least.
    counted
        The tasks on the network whose exposed time is looked at; None for all.

    Raises
    ------
    ConfigError
        If tasks wait for one another in a cycle.
    """
    order = [task for vertex in relations(graph)[1] for task in tasks_of(vertex)]
    piecewise = piecewise_dependencies(graph, graph.users())
    free = free_tasks(graph)
    exposed = []
    for tasks in graph.ranks:
        talking = [task for task in tasks if task.is_on_network and (counted is None or task in counted)]
        computing = [task for task in tasks if task.computes]
        bit = {task: 1 << at for at, task in enumerate(talking + computing)}
        before = _before(bit, order, piecewise, free)
        pairs = [
            (collective, compute)
            for collective, task in enumerate(talking)
            for compute, work in enumerate(computing)
            if not (before[task] & bit[work] or before[work] & bit[task])
        ]
        least = np.array([least_of(task) for task in talking])
        hidden = _most_hidden(least, np.array([task.duration_ns for task in computing], np.float64), pairs)
        exposed.append(max(math.floor(least.sum() - hidden), 0))
    return exposed


def _before(
    bit: dict[Task, int], order: list[Task], piecewise: set[tuple[Task, Task]], free: Collection[Task]
) -> dict[Task, int]:
    """For each task, those of some tasks that end before any piece of it starts, as bits."""
    sender = {task.sends_to: task for task in order if task.sends_to is not None}
    # Of the start and of the end of each task: what ends before, and what does so though pieces overlap.
    start_all: dict[Task, int] = {}
    start: dict[Task, int] = {}
    end_all: dict[Task, int] = {}
    end: dict[Task, int] = {}
    for task in order:
        whole = hard = 0
        for dep in _kept(task, free):
            everything = end_all[dep] | bit.get(dep, 0)
            whole |= everything
            hard |= end[dep] if (dep, task) in piecewise else everything
        if task in sender:
            everything = end_all[sender[task]] | bit.get(sender[task], 0)
            whole, hard = whole | everything, hard | everything
        start_all[task], start[task] = end_all[task], end[task] = whole, hard
        operation = task.operation
        if operation is not None and task is operation.tasks[-1] and operation.pattern in _ALL_WAIT_FOR_ALL:
            for member in operation.tasks:
                whole |= start_all[member]
                hard |= start[member]
            for member in operation.tasks:
                end_all[member], end[member] = whole, hard
    return start


def _kept(task: Task, free: Collection[Task]) -> list[Task]:
    """What a task waits for under every policy."""
    return task.data + [
        dep
        for dep in task.ctrl
        if not (task.is_on_network and dep.is_on_network)
        and not (task.computes and dep.computes and (task in free or dep in free))
    ]


def _most_hidden(
    least: np.ndarray[tuple[int], np.dtype[np.float64]],
    durations: np.ndarray[tuple[int], np.dtype[np.float64]],
    pairs: list[tuple[int, int]],
) -> float:
    """The largest flow from collectives to compute tasks, never too small: capacities are rounded up."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    if not pairs:
        return 0.0
    unit = max(float(least.sum()) / (_MOST_FLOW // 2), 1.0)
    count, work = len(least), len(durations)
    source, sink = count + work, count + work + 1
    supply, demand = (np.ceil(values / unit).astype(np.int64) for values in (least, durations))
    demand = np.minimum(demand, int(supply.sum()))
    collective, compute = np.array(pairs, np.int64).T
    rows = np.concatenate((np.full(count, source), collective, count + np.arange(work)))
    columns = np.concatenate((np.arange(count), count + compute, np.full(work, sink)))
    capacity = np.concatenate((supply, supply[collective], demand)).astype(np.int32)
    network = csr_array((capacity, (rows, columns)), shape=(sink + 1, sink + 1))
    return float(maximum_flow(network, source, sink).flow_value) * unit


def exposed_ns(run: Run, outcome: RunOutcome) -> Ints:
    """int64[num_nodes], time for which each collective or send ran while its rank's GPU computed nothing; 0 for other nodes."""
    trace, columns = run.workload, run.columns
    exposed = np.zeros(trace.num_nodes, np.int64)
    for rank in range(trace.num_ranks):
        rows = np.arange(trace.rank_first[rank], trace.rank_first[rank + 1])
        kind = trace.kind[rows]
        busy = rows[(kind == NodeType.COMP) & ~columns.is_cpu_op[rows]]
        busy = busy[np.argsort(outcome.node_issue_ns[busy], kind="stable")]
        begin, end = outcome.node_issue_ns[busy], outcome.node_finish_ns[busy]
        before = np.concatenate(([0], np.cumsum(end - begin)))

        def computed(at: Ints) -> Ints:
            """Time for which the GPU computed before each moment; it computes one node at a time."""
            place = np.searchsorted(begin, at, side="right")  # noqa: B023 (called within the turn)
            over = np.where(place > 0, np.maximum(end[np.maximum(place - 1, 0)] - at, 0), 0) if len(end) else 0  # noqa: B023
            return np.asarray(before[place] - over)  # noqa: B023

        talking = rows[np.isin(kind, (NodeType.COMM_COLL, NodeType.COMM_SEND))]
        start, stop = outcome.node_issue_ns[talking], outcome.node_finish_ns[talking]
        exposed[talking] = (stop - start) - (computed(stop) - computed(start))
    return exposed


def exposed_of_ranks(run: Run, outcome: RunOutcome) -> Ints:
    """int64[num_ranks], the same for all collectives and sends of each rank."""
    return np.add.reduceat(exposed_ns(run, outcome), run.workload.rank_first[:-1])
