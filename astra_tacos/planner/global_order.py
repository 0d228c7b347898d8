"""One order of all collectives that every rank can keep, and the dependencies that make all ranks keep to it.

The nodes of a collective are merged into one vertex, and a receive waits for its send. A rough simulation of that graph, in which
a collective starts only when all its members are free and ready, gives the order. No run in that order can deadlock.

A rank runs one collective or send at a time, so each collective is made to wait for the one before it. A send has to end before a
collective that waits, through other ranks, for the message of the send: a rank that started the collective first would wait for
that message, and could not send it, because the collective occupies its network slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.planner.instances import Instances, IssueOrder
from astra_tacos.run.patterns import TAGS, pattern_name
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace, precede
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import count_before, distinct, group_by, in_ranges, row_places

if TYPE_CHECKING:
    from astra_tacos.planner.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class MergedGraph:
    """A workload with the nodes of each collective merged.

    Parameters
    ----------
    vertex
        int64[num_nodes], of each row; those past the rows are collectives.
    """

    vertex: Ints
    waits: Ints
    next_first: Ints
    after: Ints

    def order(self) -> Ints:
        """Vertices in an order in which each comes after all that it waits for, without those of cycles and behind them."""
        from astra_tacos.support.kernels.shared import topological_order

        order: Ints = topological_order(self.waits.copy(), self.next_first, self.after)
        return order

    @property
    def has_circle(self) -> bool:
        """Whether there is a cycle."""
        return len(self.order()) < len(self.waits)


def merge(trace: Trace, issue: IssueOrder, instances: Instances) -> MergedGraph:
    """The workload's dependency graph with the nodes of each collective merged into one vertex."""
    vertex = np.arange(trace.num_nodes)
    vertex[instances.nodes.row] = trace.num_nodes + instances.instance
    row = np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))
    send, receive = match_messages(trace, issue)
    after = np.concatenate((row[trace.dep >= 0], receive))
    needed = np.concatenate((trace.dep[trace.dep >= 0], send))
    runs = issue.runs[after] & issue.runs[needed]
    num = trace.num_nodes + instances.num_instances
    tail, head = np.divmod(distinct(vertex[needed[runs]] * num + vertex[after[runs]]), num)
    next_first, later = group_by(tail, head, num)
    return MergedGraph(vertex, np.bincount(head, minlength=num), next_first, later)


def match_messages(trace: Trace, issue: IssueOrder) -> tuple[Ints, Ints]:
    """Rows of sends and of the matching receives: first come, first served, among messages of one tag, ends and size.

    Ranks issue such messages in their `IssueOrder` here. In a run they may issue them in another order.
    """
    sides, kinds = _kinds(trace, issue)
    sent, received = (kind * (trace.num_nodes + 1) + count_before(kind) for kind in kinds)
    _, first, second = np.intersect1d(sent, received, assume_unique=True, return_indices=True)
    return sides[0][first], sides[1][second]


def certain_messages(trace: Trace, issue: IssueOrder) -> tuple[Ints, Ints]:
    """Rows of sends, and of receives that end no earlier than the message of the send arrives, in whatever order they are issued.

    Of n sends of one tag, ends and size, one before a chain of m others is the (n - m)-th to be issued at the latest. A receive
    behind a chain of k others is the (k + 1)-th at the earliest. So the send that it meets is issued no earlier than any that is
    the (k + 1)-th or an earlier one at the latest; the last of those counts.
    """
    from astra_tacos.planner import _order_kernels as kernels

    sides, kinds = _kinds(trace, issue)
    num_kinds = max((int(kind.max(initial=-1)) + 1 for kind in kinds), default=0)
    listed = []
    for rows, kind in zip(sides, kinds, strict=True):
        first, member = group_by(kind, rows, num_kinds)
        listed.append((first, member, *kernels.chains(issue.order, issue.place, trace.dep_first, trace.dep, first, member)))
    (first, sends, _, after), (second, receives, before, _) = listed
    count = np.diff(first)
    latest = np.repeat(count, count) - 1 - after
    wide = trace.num_nodes + 1
    due = np.repeat(np.arange(num_kinds), count) * wide + latest
    by_turn = np.argsort(due, kind="stable")
    kind = np.repeat(np.arange(num_kinds), np.diff(second))
    found = np.searchsorted(due[by_turn], kind * wide + before, side="right") - 1
    certain = np.flatnonzero(found >= first[kind])
    return sends[by_turn[found[certain]]], receives[certain]


def _kinds(trace: Trace, issue: IssueOrder) -> tuple[list[Ints], list[Ints]]:
    """The rows of sends, and of receives, in the order of issue; and the number of the tag, ends and size of each."""
    rank, keys = trace.rank, []
    in_turn = issue.order[issue.runs[issue.order]]
    sides = [in_turn[trace.kind[in_turn] == kind] for kind in (NodeType.COMM_SEND, NodeType.COMM_RECV)]
    for rows, receives in zip(sides, (False, True), strict=True):
        ends = (trace.peer[rows], rank[rows]) if receives else (rank[rows], trace.peer[rows])
        keys.append((trace.tag[rows] % TAGS, *ends, trace.size_bytes[rows]))
    _, which = row_places(*(np.concatenate(both) for both in zip(*keys, strict=True)))
    return sides, np.split(which, [len(sides[0])])


def order_instances(
    workload: Workload,
    duration_ns: Ints,
    instance_ns: Ints,
    urgency: Ints | None = None,
) -> Ints:
    """int64[num_vertices of the graph], the place of each row and collective in one order that all ranks can keep.

    Rows that are merged have no place of their own. Of collectives and sends that could start, the most urgent goes first; by
    default the one from which the longest way leads to the end.

    Parameters
    ----------
    duration_ns
        int64[num_nodes]; durations only decide on the order.
    instance_ns, urgency
        int64[num_instances].

    Raises
    ------
    ConfigError
        If ranks' dependencies contradict one another: collectives wait for each other in a circle.
    """
    from astra_tacos.planner import _order_kernels as kernels

    trace, instances, graph = workload.run.workload, workload.instances, workload.graph
    num_rows, num = trace.num_nodes, len(graph.waits)
    duration = np.concatenate((duration_ns, instance_ns)).astype(np.int64)
    duration[:num_rows][instances.nodes.row] = 0
    order, level = kernels.levels(kernels.Graph(graph.waits.copy(), graph.next_first, graph.after), duration)
    if len(order) < num:
        raise ConfigError(_circle(trace, instances, graph, order))
    slot = np.full(num, kernels.NO_TIME, np.uint8)
    slot[:num_rows][trace.kind == NodeType.COMP] = kernels.GPU
    slot[:num_rows][workload.run.columns.is_cpu_op] = kernels.CPU
    slot[:num_rows][trace.kind == NodeType.COMM_SEND] = kernels.NETWORK
    slot[:num_rows][(trace.kind == NodeType.COMM_COLL) | ~workload.issue.runs] = kernels.NO_TIME
    slot[num_rows:] = kernels.NETWORK
    # A processor takes the lowest id that is ready, a network what is most urgent; equals by id or number.
    key = np.empty(num, np.int64)
    by_id = np.argsort(trace.node_id, kind="stable")
    key[by_id] = np.arange(num_rows)
    on_network = np.flatnonzero(slot == kernels.NETWORK)
    if urgency is not None:
        level = np.concatenate((np.full(num_rows, np.iinfo(np.int64).max >> 1), urgency))
    urgent = on_network[np.lexsort((on_network, -level[on_network]))]
    key[urgent] = np.arange(len(urgent))
    members = [np.sort(np.array(instances.nodes.members[group], np.int64)) for group in instances.group.tolist()]
    member_first = np.concatenate(([0], np.cumsum([*np.ones(num_rows, np.int64), *map(len, members)]))).astype(np.int64)
    member = np.concatenate((trace.rank, *members)).astype(np.int64)
    turn: Ints = kernels.rough_run(
        kernels.Graph(graph.waits.copy(), graph.next_first, graph.after),
        kernels.Vertices(duration, slot, key),
        kernels.Members(member_first, member),
        trace.num_ranks,
    )
    return turn


def _circle(trace: Trace, instances: Instances, graph: MergedGraph, order: Ints) -> str:
    """Some collectives of a cycle of waiting."""
    stuck = np.ones(len(graph.waits), np.bool_)
    stuck[order] = False
    # Walk back along what stuck vertices wait for, until one comes twice.
    first, needed = group_by(graph.after, np.repeat(np.arange(len(stuck)), np.diff(graph.next_first)), len(stuck))
    at = int(np.flatnonzero(stuck)[0])
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(other for other in needed[first[at] : first[at + 1]].tolist() if stuck[other])
    parts = []
    for vertex in path[seen[at] :][::-1]:
        if vertex >= trace.num_nodes:
            number = vertex - trace.num_nodes
            entry = int(np.flatnonzero(instances.instance == number)[0])
            name = pattern_name(int(instances.pattern[number]))
            parts.append(f"the {name} of {trace.describe_node(int(instances.nodes.row[entry]))}")
    shown = ", then ".join(parts[:4]) or trace.describe_node(path[-1])
    more = ", ..." if len(parts) > 4 else ""
    return f"{trace.prefix}: deadlock: ranks order their collectives differently: {shown}{more}, then the first one again"


def order_dependencies(workload: Workload, order: Ints) -> tuple[Ints, Ints]:
    """Dependencies to add: rows of collective nodes, and rows that they have to wait for and do not yet.

    Groups of one wait for nobody.

    Parameters
    ----------
    order
        int64[num_nodes + num_instances], place of each vertex in an order that all ranks can keep.
    """
    trace, issue, instances = workload.run.workload, workload.issue, workload.instances
    nodes, num_rows = instances.nodes, trace.num_nodes
    several = np.flatnonzero((instances.num_members > 1)[instances.instance])
    collectives = nodes.row[several]
    place = order[num_rows + instances.instance[several]]
    turn = np.lexsort((place, nodes.rank[several]))
    collectives, place = collectives[turn], place[turn]
    rank = trace.rank[collectives]
    follows = np.flatnonzero(np.diff(rank, prepend=-1) == 0)
    before, after = collectives[follows - 1], collectives[follows]
    missing = ~precede(trace, issue.place, issue.order, before, after)
    late, needed = _late_sends(workload, order, collectives, place, (before, after))
    return np.concatenate((after[missing], late)), np.concatenate((before[missing], needed))


def _late_sends(
    workload: Workload,
    order: Ints,
    collectives: Ints,
    place: Ints,
    consecutive: tuple[Ints, Ints],
) -> tuple[Ints, Ints]:
    """Collectives that wait for a message of their own rank by way of others, and its send; `collectives` are in order."""
    from astra_tacos.planner import _order_kernels as kernels

    trace, issue, graph = workload.run.workload, workload.issue, workload.graph
    sends = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & issue.runs)
    rank = trace.rank
    first = np.searchsorted(rank[collectives], np.arange(trace.num_ranks + 1))
    # The collective after each send on its rank; ranks and places in one key.
    span = len(order) + 1
    key = rank[collectives] * span + place
    at = np.searchsorted(key, rank[sends] * span + order[sends])
    inside = at < first[rank[sends] + 1]
    sends, at = sends[inside], at[inside]
    open_ = ~precede(trace, issue.place, issue.order, sends, collectives[at])
    sends, at = sends[open_], at[open_]
    if not len(sends):
        return sends, sends
    last = first[rank[sends] + 1]
    mark_first, entries = in_ranges(at, last)
    vertex = graph.vertex
    source = np.repeat(np.arange(len(graph.waits)), np.diff(graph.next_first))
    before = np.concatenate((source, vertex[consecutive[0]]))
    after = np.concatenate((graph.after, vertex[consecutive[1]]))
    next_first, following = group_by(before, after, len(graph.waits))
    reached = kernels.first_reached(next_first, following, order, sends, mark_first, vertex[collectives[entries]])
    found = np.flatnonzero(reached >= 0)
    sends = sends[found]
    # Back from the collective to its node on this rank.
    rows = collectives[np.searchsorted(key, rank[sends] * span + order[reached[found]])]
    missing = ~precede(trace, issue.place, issue.order, sends, rows)
    return rows[missing], sends[missing]
