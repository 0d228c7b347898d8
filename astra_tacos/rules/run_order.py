"""Waiting between the nodes of all ranks of a run, and the points where a rank may choose an order that deadlocks.

A rank runs one collective or send at a time (`workload/HardwareResource.cc`): the node that is ready first, and of several ready
nodes the one with the lowest id. All ranks of a collective wait for one another, so two collectives that ranks start in different
orders deadlock.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from astra_tacos.rules import _order_kernels as kernels
from astra_tacos.rules.collective_nodes import Collectives
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.graph.merged_graph import merge
from astra_tacos.run.graph.messages import Messages
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import count_before, distinct

_MOST_WORDS = 1 << 25
"""Most 64-bit words per rank for the bits that say which collectives and sends come before which nodes."""
_MOST_PAIRS = 1 << 12
"""Most pairs per rank."""
_MOST_STEPS = 1 << 31
"""Most visits of edges while the order is followed through other ranks."""

SEND_GROUP = -1
"""In place of the id of a group, for messages."""
_MOST_CYCLE_PAIRS = 128
"""Most pairs of two groups on a rank that the search for cycles uses."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of nodes of one rank that it may start in either order.

    Parameters
    ----------
    first, second
        int64[n], rows of the two nodes.
    rank, first_group, second_group
        int64[n], the rank of both nodes, and their communicator groups, SEND_GROUP for a send.
    first_waits, second_waits
        bool[n], whether that node completes only after the other one, because of dependencies through other ranks.
    """

    first: Ints
    second: Ints
    rank: Ints
    first_group: Ints
    second_group: Ints
    first_waits: Bools
    second_waits: Bools

    def __len__(self) -> int:
        return len(self.first)

    def where(self, mask: Bools) -> Pairs:
        """The pairs that a mask (bool[n]) selects."""
        return Pairs(*(getattr(self, name)[mask] for name in self.__slots__))


@dataclass(frozen=True, slots=True, eq=False)
class RunOrder:
    """The order of the nodes of a run across ranks, and its deadlocks.

    Parameters
    ----------
    deadlocks
        Cycles of rows, each of which waits for the previous one, the first for the last.
    pairs
        Pairs of nodes that a rank may start in either order.
    place
        int64[num_nodes], the place of each row in an order that keeps every certain order between rows.
    """

    deadlocks: tuple[tuple[int, ...], ...]
    never: int
    pairs: Pairs
    place: Ints
    short_ranks: Ints
    followed: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """The run as one graph, in which the nodes of a collective are merged into one vertex."""

    rows: kernels.Rows
    edges: kernels.Graph
    stuck: Bools


def order_run(view: TraceView, collectives: Collectives, messages: Messages, loose: list[int], sent: Ints) -> RunOrder:
    """Find the order of nodes in a whole run, its deadlocks, and the pairs of nodes that are unordered.

    Parameters
    ----------
    loose
        Implementations (`Collectives.run`) in which not every rank waits for every other one.
    """
    waits = ~np.isin(collectives.run, np.array(loose, np.int64))
    sure = _graph(view, collectives, collectives.certain & waits, messages, messages.certain)
    deadlocks, never = _deadlocks(view, sure)
    graph = _graph(view, collectives, waits, messages, np.ones(len(messages.send), np.bool_))
    if graph.stuck.any():  # nodes whose collective is uncertain were merged wrongly
        graph = sure
    pairs, short_ranks, followed = _free_pairs(view, collectives, graph, sent)
    place = np.full(len(graph.edges.first) - 1, len(graph.edges.order))
    place[graph.edges.order] = np.arange(len(graph.edges.order))
    return RunOrder(deadlocks, never, pairs, place[graph.rows.vertex], short_ranks, followed)


def _graph(view: TraceView, collectives: Collectives, merged: Bools, messages: Messages, sure: Bools) -> _Graph:
    trace, send, receive = view.trace, messages.send[sure], messages.receive[sure]
    graph = merge(trace, view.runs, (collectives.row[merged], collectives.instance[merged]), (send, receive))
    send_of = np.full(trace.num_nodes, -1, np.int64)
    send_of[receive] = send
    rows = kernels.Rows(trace.dep_first, trace.dep, graph.vertex, view.runs, send_of)
    order, num = graph.order(), len(graph.waits)
    stuck = np.ones(num, np.bool_)
    stuck[order] = False
    return _Graph(rows, kernels.Graph(order, *graph.needed()), stuck)


def _deadlocks(view: TraceView, graph: _Graph) -> tuple[tuple[tuple[int, ...], ...], int]:
    """One cycle, if there is any, and the number of rows that never start."""
    never = int(np.count_nonzero(graph.stuck[graph.rows.vertex] & graph.rows.usable))
    if not never:
        return (), 0
    cycle = kernels.find_cycle(graph.edges.first, graph.edges.needed, graph.stuck, np.flatnonzero(graph.stuck)[0])[::-1]
    member: dict[int, list[int]] = defaultdict(list)
    wanted = np.isin(graph.rows.vertex, cycle)
    for row in np.flatnonzero(wanted).tolist():
        member[graph.rows.vertex[row]].append(row)
    chain: list[int] = []
    for before, after in zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True):
        chain += _link(view, graph, member[before], member[after])
    return (tuple(dict.fromkeys(chain)),), never


def _link(view: TraceView, graph: _Graph, before: list[int], after: list[int]) -> list[int]:
    """The two rows that make one vertex depend on another: the needed row and the row that needs it."""
    trace, inside = view.trace, set(before)
    for row in after:
        needs = trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]].tolist()
        for need in [*needs, graph.rows.send_of[row]]:
            if need in inside:
                return [need, row]
    return [before[0], after[0]]


def _free_pairs(view: TraceView, collectives: Collectives, graph: _Graph, sent: Ints) -> tuple[Pairs, Ints, bool]:
    trace = view.trace
    sort = np.full(trace.num_nodes, -1, np.int64)
    sort[sent] = 0
    sort[collectives.row] = collectives.sort + 1
    group = np.full(trace.num_nodes, SEND_GROUP, np.int64)
    group[collectives.row] = collectives.group
    orders = kernels.RankOrders(trace.rank_first, view.ordered, view.issue.order, trace.dep_first, trace.dep)
    first, second, cut = kernels.unordered_pairs(orders, sort, _MOST_WORDS, _MOST_PAIRS)
    free = ~graph.stuck[graph.rows.vertex[first]] & ~graph.stuck[graph.rows.vertex[second]]
    first, second = first[free], second[free]
    followed = len(first) == 0 or (len(distinct(graph.rows.vertex[first])) // 64 + 1) * len(graph.edges.needed) * 2 <= _MOST_STEPS
    first_waits = second_waits = np.zeros(len(first), np.bool_)
    if followed and len(first):
        # Whether one completes before the other is ready, and (own) before the collective of the other completes.
        is_own = np.repeat((False, False, True, True), len(first))
        before, after = np.concatenate((first, second) * 2), np.concatenate((second, first) * 2)
        vertex = graph.rows.vertex[before]
        turn = np.argsort(vertex, kind="stable")
        source, source_first = np.unique(vertex[turn], return_index=True)
        answer = np.empty(len(before), np.bool_)
        queries = kernels.Queries(source, np.append(source_first, len(before)), after[turn], is_own[turn])
        answer[turn] = kernels.reaches(graph.edges, graph.rows, queries)
        forward, backward, second_waits, first_waits = answer.reshape(4, -1)
        free = ~forward & ~backward
        first, second, first_waits, second_waits = first[free], second[free], first_waits[free], second_waits[free]
    pairs = Pairs(first, second, view.rank[first], group[first], group[second], first_waits, second_waits)
    return pairs, np.flatnonzero(cut), followed


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of groups that can wait for one another: on each rank two rows, one of a group and one of the next group."""

    groups: tuple[int, ...]
    ranks: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]


def cycles(pairs: Pairs, instance_of: Mapping[int, int], number_of: Mapping[int, int]) -> list[Cycle]:
    """Find cycles of groups that can deadlock, depending on which collective each rank starts first.

    Any two groups of a cycle share a single rank.

    Parameters
    ----------
    number_of
        By row: its place among the collectives of its group, for groups whose collectives dependencies order alike on all ranks.
    """
    edges: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    next_to: dict[int, set[tuple[int, int]]] = defaultdict(set)
    low, high = np.minimum(pairs.first_group, pairs.second_group), np.maximum(pairs.first_group, pairs.second_group)
    some = pairs.where(count_before(pairs.rank, low, high) < _MOST_CYCLE_PAIRS)
    columns = (some.first_group, some.second_group, some.rank, some.first, some.second)
    for a, b, rank, first, second in zip(*(column.tolist() for column in columns), strict=True):
        edges[a, b, rank].append((first, second))
        edges[b, a, rank].append((second, first))
        next_to[a].add((b, rank))
        next_to[b].add((a, rank))
    neighbours = {group: sorted(near) for group, near in next_to.items()}
    found_cycles: list[Cycle] = []
    covered: set[tuple[int, int, int]] = set()
    for edge in sorted(edges):
        if edge in covered or edge[0] > edge[1]:
            continue
        way = _way_back(neighbours, edge)
        if way is None:
            continue
        met = _follow([edges[step] for step in way], instance_of, number_of)
        if met is not None:
            found_cycles.append(Cycle(tuple(step[0] for step in way), tuple(step[2] for step in way), met))
        covered |= {step for a, b, rank in way for step in ((a, b, rank), (b, a, rank))}
    return found_cycles


def _way_back(neighbours: Mapping[int, list[tuple[int, int]]], edge: tuple[int, int, int]) -> list[tuple[int, int, int]] | None:
    """The shortest cycle that begins with an edge and does not visit a rank twice in a row."""
    start, second, rank = edge
    came: dict[tuple[int, int], tuple[int, int] | None] = {(second, rank): None}
    queue = deque(came)
    while queue:
        state = queue.popleft()
        group, last = state
        for other, over in neighbours[group]:
            if over == last or (other == start and over == rank):
                continue
            if other == start:
                way = [(group, start, over)]
                before = came[state]
                while before is not None:
                    way.append((before[0], state[0], state[1]))
                    state, before = before, came[before]
                return [edge, *reversed(way)]
            if (other, over) not in came:
                came[other, over] = state
                queue.append((other, over))
    return None


_Path = tuple[tuple[int, int], ...]
"""A partial path along the cycle: a pair of rows of each step."""


def _follow(steps: list[list[tuple[int, int]]], instance_of: Mapping[int, int], number_of: Mapping[int, int]) -> _Path | None:
    """One pair of rows per step, such that the second collective of a pair is, or comes before, the first of the next pair.

    A step extends one path per collective that it leads to. Of ordered collectives only the first one is extended, as it comes
    before the most others.
    """

    def meets(row: int, other: int) -> bool:
        """Whether the collective of `row` is that of `other`, or of the same group and certainly before it."""
        if instance_of[row] == instance_of[other]:
            return True
        return row in number_of and other in number_of and number_of[row] < number_of[other]

    for start in steps[0]:
        paths: list[_Path] = [(start,)]
        for step in steps[1:]:
            at = {instance_of[path[-1][1]]: path for path in paths}
            numbered = [path for path in paths if path[-1][1] in number_of]
            first = min(numbered, key=lambda path: number_of[path[-1][1]], default=None)
            path_to: dict[int, _Path] = {}
            for pair in step:
                path = at.get(instance_of[pair[0]])
                if path is None and first is not None and meets(first[-1][1], pair[0]):
                    path = first
                if path is not None:
                    path_to.setdefault(instance_of[pair[1]], (*path, pair))
            paths = list(path_to.values())
        for path in paths:
            if meets(path[-1][1], start[0]):
                return path
    return None
