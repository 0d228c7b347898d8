"""A simulation of a task graph that decides on one order of communication which all ranks can keep.

A rank computes one task at a time, in program order unless the graph says otherwise, and takes part in one collective or one send
at a time. Of collectives and sends that could start, the most urgent one starts. Whatever the durations, a run in the resulting
order cannot deadlock: the order is one of all ranks, in which nothing comes before what it waits for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph, Vertex, relations, tasks_of
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError

Durations = Callable[[Operation], int]
Entry = tuple[tuple[float, ...], float, float, int, Vertex]
"""Urgency, since when it could start, place, a number that no other has, and the vertex."""


@dataclass(frozen=True, slots=True, eq=False)
class ListSchedule:
    """An order of all tasks."""

    order: list[Vertex]
    start_ns: dict[Vertex, int]
    end_ns: int


def levels(graph: TaskGraph, duration_of: Durations) -> dict[Vertex, int]:
    """The longest way from the start of each vertex to the end, in ns.

    Raises
    ------
    ConfigError
        If vertices wait for one another in a cycle.
    """
    after, order = relations(graph)
    level_of = graph.levels
    for vertex in reversed(order) if not level_of else ():
        longest = max(map(level_of.__getitem__, after.get(vertex, ())), default=0)
        level_of[vertex] = longest + (vertex.duration_ns if isinstance(vertex, Task) else duration_of(vertex))
    return level_of


def list_schedule(graph: TaskGraph, duration_of: Durations, sequence: Sequence[Operation] | None = None) -> ListSchedule:
    """Simulate the graph.

    Parameters
    ----------
    duration_of
        The duration of a collective in ns.
    sequence
        An order of all collectives that is kept whatever could start before; None to decide by urgency.

    Raises
    ------
    ConfigError
        If vertices wait for one another in a cycle, or the sequence contradicts dependencies.
    """
    return _Simulation(graph, duration_of, sequence).run()


class _Simulation:
    def __init__(self, graph: TaskGraph, duration_of: Durations, sequence: Sequence[Operation] | None) -> None:
        self.graph, self.duration_of = graph, duration_of
        self.after, order = relations(graph)
        self.num = len(order)
        self.waits: dict[Vertex, int] = dict.fromkeys(order, 0)
        for later in self.after.values():
            for vertex in later:
                self.waits[vertex] += 1
        self.level = levels(graph, duration_of) if graph.reorders_compute else {}
        self.turn = None if sequence is None else {operation: at for at, operation in enumerate(sequence)}
        self.next_turn = 0
        self.compute_free = [0] * len(graph.ranks)
        self.network_busy = 0  # ranks as bits, here and in what follows
        self.holds: dict[Vertex, int] = {}
        self.compute_busy = [False] * len(graph.ranks)
        self.compute_ready: list[list[tuple[float, ...]]] = [[] for _ in graph.ranks]
        self.network_ready: dict[int, list[Entry]] = {}  # by the ranks that take part: only the first can start
        self.uncommitted: list[Entry] = []
        self.committed: dict[Vertex, int] = {}
        self.committed_bytes = 0
        self.events: list[tuple[int, int, Vertex]] = []
        self.serial = 0
        self.by_serial: dict[int, Vertex] = {}
        self.start: dict[Vertex, int] = {}
        self.order: list[Vertex] = []
        self.num_done = 0
        self.now = 0

    def run(self) -> ListSchedule:
        for vertex, count in self.waits.items():
            if count == 0:
                self.make_ready(vertex)
        self.start_what_can()
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                self.end(heapq.heappop(self.events)[2])
            self.start_what_can()
        if self.num_done < self.num:
            raise ConfigError("the order of collectives contradicts their dependencies")
        return ListSchedule(self.order, self.start, self.now)

    def make_ready(self, vertex: Vertex) -> None:
        self.serial += 1
        if isinstance(vertex, Operation):
            self.offer(vertex.urgency if self.turn is None else (self.turn[vertex],), self.now, vertex)
            if self.graph.credit_bytes:
                heapq.heappush(self.uncommitted, (vertex.urgency, self.now, vertex.place, self.serial, vertex))
        elif vertex.kind == NodeType.COMM_SEND:
            self.offer(vertex.urgency, self.now, vertex)
        elif vertex.computes:
            is_late = vertex.moves and self.graph.moves_when_idle
            key = (is_late, -self.level.get(vertex, 0), vertex.place, self.serial)
            self.by_serial[self.serial] = vertex
            heapq.heappush(self.compute_ready[vertex.rank], key)
        else:
            self.begin(vertex)

    def begin(self, vertex: Vertex) -> None:
        self.start[vertex] = self.now
        self.order.append(vertex)
        duration = vertex.duration_ns if isinstance(vertex, Task) else self.duration_of(vertex)
        self.serial += 1
        heapq.heappush(self.events, (self.now + duration, self.serial, vertex))

    def end(self, vertex: Vertex) -> None:
        self.num_done += 1
        if vertex in self.holds:
            self.network_busy ^= self.holds.pop(vertex)
        elif isinstance(vertex, Task) and vertex.computes:
            self.compute_busy[vertex.rank] = False
        if vertex in self.committed:
            self.committed_bytes -= self.committed.pop(vertex)
        for later in self.after.get(vertex, ()):
            self.waits[later] -= 1
            if self.waits[later] == 0:
                self.make_ready(later)

    def start_what_can(self) -> None:
        while True:
            before = len(self.order)
            self.start_network()
            for rank, ready in enumerate(self.compute_ready):
                if ready and not self.compute_busy[rank]:
                    vertex = self.by_serial.pop(int(heapq.heappop(ready)[-1]))
                    self.compute_busy[rank] = True
                    self.begin(vertex)
            if len(self.order) == before:
                return

    def offer(self, urgency: tuple[float, ...], since: float, vertex: Vertex) -> None:
        """Let a collective or send start, the most urgent one of those of the same ranks first."""
        ranks = 0
        for task in tasks_of(vertex):
            ranks |= 1 << task.rank
        heapq.heappush(self.network_ready.setdefault(ranks, []), (urgency, since, vertex.place, self.serial, vertex))

    def start_network(self) -> None:
        self.commit()
        while True:
            first: list[tuple[Entry, int]] = []
            for ranks, ready in self.network_ready.items():
                if self.network_busy & ranks:
                    continue
                while ready and ready[0][-1] in self.start:  # started as a committed one
                    heapq.heappop(ready)
                if ready:
                    first.append((ready[0], ranks))
            has_turned = False
            for (*_, vertex), ranks in sorted(first):
                is_next = self.turn is None or isinstance(vertex, Task) or self.turn[vertex] == self.next_turn
                if self.network_busy & ranks or not is_next:
                    continue
                self.network_busy |= ranks
                self.holds[vertex] = ranks
                heapq.heappop(self.network_ready[ranks])
                self.begin(vertex)
                if self.turn is not None and isinstance(vertex, Operation):
                    self.next_turn += 1
                    has_turned = True
                    break
            if not has_turned:
                return

    def commit(self) -> None:
        """Commit the most urgent collectives while there is credit: what is committed goes before what is not."""
        while self.uncommitted and self.committed_bytes < self.graph.credit_bytes:
            vertex = heapq.heappop(self.uncommitted)[-1]
            if vertex in self.start or not isinstance(vertex, Operation):
                continue
            self.committed[vertex] = vertex.size_bytes
            self.committed_bytes += vertex.size_bytes
            self.serial += 1
            self.offer((float("-inf"),), self.serial, vertex)
