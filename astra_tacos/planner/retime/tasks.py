"""The `TaskGraph` class: a run as tasks of ranks, which policies change in place.

Of a run's dependencies some only fix an order: control dependencies between two communication nodes of a rank, which ASTRA-sim
runs one at a time anyway. They are left out; the schedule puts others in their place. All other dependencies stay.

Collectives take what replays of each alone on the network take, with lines between the sizes that were replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

SAME_TAG = -1
"""Of a part that keeps the tag of its message."""
_ON_NETWORK = (NodeType.COMM_COLL, NodeType.COMM_SEND)
_SIZES_PER_OCTAVE = 2
"""Of sizes that are replayed: others lie on lines between them."""


class Task:
    """A node of a rank.

    Attributes
    ----------
    rank, row
        Its rank, or the program of its rank (the place in `TaskGraph.ranks`); the row of the workload whose node it is, or is a
        part of.
    kind
        Its `NodeType`.
    part, parts
        Which one of how many equal parts of that node's work it is.
    duration_ns
        How long it takes by itself; of a send, how long the message takes.
    data, ctrl
        Tasks of the same rank that it waits for, by data and by control dependencies.
    operation
        The collective that it is a member of.
    place
        Its place in the order in which the rank issued the nodes of the run.
    on_cpu
        Whether it runs on the CPU.
    moves
        Whether its place among the compute tasks of the rank is free.
    sends_to
        Of a send, the receive of its message.
    urgency
        Of a send, as that of an `Operation`.
    tag
        Of a part of a message, its tag; SAME_TAG for that of the message.
    """

    __slots__ = (
        "ctrl",
        "data",
        "duration_ns",
        "kind",
        "moves",
        "on_cpu",
        "operation",
        "part",
        "parts",
        "place",
        "rank",
        "row",
        "sends_to",
        "tag",
        "urgency",
    )

    def __init__(self, rank: int, row: int, kind: int, place: float, duration_ns: int = 0) -> None:
        self.rank, self.row, self.kind, self.place, self.duration_ns = rank, row, kind, place, duration_ns
        self.part, self.parts = 0, 1
        self.data: list[Task] = []
        self.ctrl: list[Task] = []
        self.operation: Operation | None = None
        self.sends_to: Task | None = None
        self.moves = self.on_cpu = False
        self.urgency: tuple[float, ...] = ()
        self.tag = SAME_TAG

    @property
    def deps(self) -> list[Task]:
        """What it waits for."""
        return self.data + self.ctrl

    @property
    def computes(self) -> bool:
        """Whether it occupies the rank's GPU."""
        return self.kind == NodeType.COMP and not self.on_cpu

    @property
    def is_on_network(self) -> bool:
        """Whether it occupies the rank's network slot."""
        return self.kind in _ON_NETWORK

    def twin(self, rank: int, row: int) -> Task:
        """The same task of a rank, without dependencies and without what it belongs to."""
        other = Task(rank, row, self.kind, self.place, self.duration_ns)
        other.part, other.parts, other.moves, other.urgency = self.part, self.parts, self.moves, self.urgency
        other.on_cpu, other.tag = self.on_cpu, self.tag
        return other

    def cut(self, parts: int) -> list[Task]:
        """Equal parts of its work, each after the one before, with the same dependencies; a part of a part cannot be cut."""
        if self.parts != 1:
            raise ValueError("a part cannot be cut")
        pieces: list[Task] = []
        for part in range(parts):
            piece = self.twin(self.rank, self.row)
            piece.place += part / parts
            piece.duration_ns = self.duration_ns * (part + 1) // parts - self.duration_ns * part // parts
            piece.part, piece.parts = part, parts
            piece.data, piece.ctrl = list(self.data), list(self.ctrl)
            if pieces:
                piece.ctrl.append(pieces[-1])
            pieces.append(piece)
        return pieces


@dataclass(slots=True, eq=False)
class Extent:
    """Bytes of the input of a collective of the run.

    Parameters
    ----------
    begin, end
        First byte, and byte after the last one.
    """

    instance: int
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Operation:
    """A collective.

    Parameters
    ----------
    pattern, group, size_bytes
        Its `CommType`, communicator group, and input of a rank.
    urgency
        Of operations that could start, the one with the smallest urgency goes first; then the one that was ready first.
    is_changed
        Whether it is no collective of the run as it was.
    """

    pattern: int
    group: int
    size_bytes: int
    members: tuple[int, ...]
    content: tuple[Extent, ...]
    place: float
    tasks: list[Task] = field(default_factory=list)
    urgency: tuple[float, ...] = ()
    is_changed: bool = False
    suffix: str = ""

    @property
    def num_bytes(self) -> int:
        """Bytes of the run's collectives that it carries, without padding."""
        return sum(extent.end - extent.begin for extent in self.content)

    def like(self, pattern: int, size_bytes: int, content: Iterable[Extent], suffix: str, shift: float = 0.0) -> Operation:
        """Another operation of the same group, with a task on each member that has the same dependencies."""
        operation = Operation(int(pattern), self.group, size_bytes, self.members, tuple(content), self.place + shift)
        operation.urgency, operation.is_changed, operation.suffix = self.urgency, True, f"{self.suffix}{suffix}"
        for task in self.tasks:
            other = Task(task.rank, task.row, task.kind, task.place + shift)
            other.data, other.ctrl, other.operation = list(task.data), list(task.ctrl), operation
            operation.tasks.append(other)
        return operation


@dataclass(frozen=True, slots=True, eq=False)
class Programs:
    """Which ranks of a run have the same program.

    Parameters
    ----------
    of_rank
        int64[num_ranks], the program of each rank; programs count by their first ranks.
    first_rank
        int64[num_programs], the first rank that has each.
    number_of
        int64[num_nodes], the collective of the run that stands for each node's own, as their nodes are at the same places of the
        same programs; -1 for other nodes.
    """

    of_rank: Ints
    first_rank: Ints
    number_of: Ints


Vertex = Task | Operation
"""A task that is in no operation, or an operation."""
Relations = tuple[dict[Vertex, list[Vertex]], list[Vertex]]


@dataclass(slots=True, eq=False)
class TaskGraph:
    """The tasks of all ranks, or of one rank for all that have the same program (`symmetry`).

    Parameters
    ----------
    programs
        Which ranks have which program; None if each has its own.
    credit_bytes
        How many bytes of collectives may be committed ahead of a decision; 0 for those that could start at once.
    reorders_compute
        Whether tasks that may move take their turn by the longest way to the end.
    moves_when_idle
        Whether they do so only when no other task of the rank is ready.
    known, levels
        What `relations` and `list_schedule.levels` found; who changes dependencies of tasks of the graph forgets them.
    """

    ranks: list[list[Task]]
    operations: list[Operation]
    programs: Programs | None = None
    credit_bytes: int = 0
    reorders_compute: bool = False
    moves_when_idle: bool = False
    known: Relations | None = None
    levels: dict[Vertex, int] = field(default_factory=dict)

    def tasks(self) -> Iterator[Task]:
        """All tasks."""
        for tasks in self.ranks:
            yield from tasks

    def users(self) -> dict[Task, list[Task]]:
        """The tasks that read the data of each task."""
        users: dict[Task, list[Task]] = {}
        for task in self.tasks():
            for dep in task.data:
                users.setdefault(dep, []).append(task)
        return users

    def has(self, pattern: int) -> bool:
        """Whether a collective has that pattern."""
        return any(operation.pattern == pattern for operation in self.operations)

    def replace(self, gone: dict[Task, list[Task]], operations: list[Operation]) -> None:
        """Replace tasks by others; what waited for a task waits for all that take its place.

        Parameters
        ----------
        gone
            The tasks that take the place of each one. Their own dependencies stay as they are.
        """
        new = {task for tasks in gone.values() for task in tasks}
        for rank, tasks in enumerate(self.ranks):
            self.ranks[rank] = list(dict.fromkeys(other for task in tasks for other in gone.get(task, (task,))))
        for task in self.tasks():
            for deps in (task.data, task.ctrl):
                if not gone.keys().isdisjoint(deps):
                    dependencies = dict.fromkeys(other for dep in deps for other in gone.get(dep, (dep,)))
                    if task in new:
                        dependencies.pop(task, None)
                    deps[:] = dependencies
        self.operations = operations
        self.forget()

    def forget(self) -> None:
        """Forget what follows from dependencies, as these are changed."""
        self.known, self.levels = None, {}

    def copy(self) -> TaskGraph:
        """The same graph, of tasks and operations of its own."""
        other_of = {task: task.twin(task.rank, task.row) for task in self.tasks()}
        for task, other in other_of.items():
            other.data = [other_of[dep] for dep in task.data]
            other.ctrl = [other_of[dep] for dep in task.ctrl]
            other.sends_to = None if task.sends_to is None else other_of[task.sends_to]
        operations = []
        for operation in self.operations:
            copied = replace(operation, tasks=[other_of[task] for task in operation.tasks])
            for task in copied.tasks:
                task.operation = copied
            operations.append(copied)
        ranks = [[other_of[task] for task in tasks] for tasks in self.ranks]
        return replace(self, ranks=ranks, operations=operations, known=None, levels={})


def tasks_of(vertex: Vertex) -> list[Task]:
    """The tasks that start together."""
    return [vertex] if isinstance(vertex, Task) else vertex.tasks


def relations(graph: TaskGraph) -> Relations:
    """What waits for each vertex, and all vertices in an order in which nothing comes before what it waits for.

    Raises
    ------
    ConfigError
        If vertices wait for one another in a cycle.
    """
    if graph.known is not None:
        return graph.known
    waits: dict[Vertex, int] = {task.operation or task: 0 for task in graph.tasks()}
    later: dict[Vertex, dict[Vertex, None]] = {}
    for task in graph.tasks():
        vertex = task.operation or task
        for dep in task.deps:
            behind = later.setdefault(dep.operation or dep, {})
            if vertex not in behind:
                behind[vertex] = None
                waits[vertex] += 1
    after = {vertex: list(behind) for vertex, behind in later.items()}
    for task in graph.tasks():
        if task.sends_to is not None:
            after.setdefault(task, []).append(task.sends_to)
            waits[task.sends_to] += 1
    ready = [vertex for vertex, count in waits.items() if count == 0]
    order: list[Vertex] = []
    while ready:
        vertex = ready.pop()
        order.append(vertex)
        for behind_it in after.get(vertex, ()):
            waits[behind_it] -= 1
            if waits[behind_it] == 0:
                ready.append(behind_it)
    if len(order) < len(waits):
        raise ConfigError("collectives would wait for one another in a cycle")
    graph.known = after, order
    return graph.known


class CollectiveDurations:
    """Durations of collectives, found when they are asked for: of native ones, or of those that are given."""

    def __init__(self, run: Run, backend: Backend, collectives: SynthesizedCollectives | None = None) -> None:
        self._run, self._backend, self._collectives = run, backend, collectives
        self._group_of: dict[tuple[int, ...], int] = {}
        self._replayed: dict[tuple[int, int, int], int] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def __call__(self, operation: Operation) -> int:
        """Duration in ns, alone on the network; an estimate between two sizes that were replayed."""
        key = operation.pattern, operation.group, operation.size_bytes
        if key not in self._known:
            self._known[key] = self._estimated(operation)
        return self._known[key]

    def _estimated(self, operation: Operation) -> int:
        members, size = operation.members, max(operation.size_bytes, 1)
        shape = tuple(rank - members[0] for rank in members)
        group = self._group_of.setdefault(shape, operation.group)
        least = max(len(members), self._run.network.num_npus)
        if size <= least:
            return self._of(operation, group, least)
        step = 2.0 ** (1 / _SIZES_PER_OCTAVE)
        number = int(np.floor(np.log(size / least) / np.log(step)))
        low, high = (int(least * step**at) for at in (number, number + 1))
        if size in (low, high) or low == high:
            return self._of(operation, group, size)
        first, last = self._of(operation, group, low), self._of(operation, group, high)
        return round(first + (last - first) * (size - low) / (high - low))

    def _of(self, operation: Operation, group: int, size: int) -> int:
        key = operation.pattern, group, size
        if key not in self._replayed:
            run = self._run
            custom = None if self._collectives is None else self._collectives.trace(operation.pattern, operation.group, size)
            splits = run.system.preferred_dataset_splits if self._collectives is None else 1
            system = replace(run.system, roofline_enabled=False, preferred_dataset_splits=splits)
            members = run.groups.members.get(operation.group, operation.members)  # as the run lists them
            alone = single_collective_run(run.network, system, operation.pattern, size, custom, [members])
            self._replayed[key] = replay_run(alone, self._backend).end_ns
        return self._replayed[key]
