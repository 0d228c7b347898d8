"""One order of all collectives that every rank can keep, and the dependencies that make all ranks keep to it.

The nodes of a collective are merged into one vertex, and a receive waits for its send. A rough simulation of that graph, in which
a collective starts only when all its members are free and ready, gives the order. No run in that order can deadlock.

A rank runs one collective or send at a time, so each collective is made to wait for the one before it. A send has to end before a
collective that waits, through other ranks, for the message of the send: a rank that started the collective first would wait for
that message, and could not send it, because the collective occupies its network slot.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.run.graph.instances import Instances
from astra_tacos.run.graph.merged_graph import MergedGraph
from astra_tacos.run.graph.run_graph import RunGraph
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace, precede
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by, in_ranges


def order_instances(
    graph: RunGraph,
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
        If ranks' dependencies contradict one another: collectives wait for each other in a cycle.
    """
    from astra_tacos.run.graph import _order_kernels as kernels

    trace, instances, merged = graph.run.workload, graph.instances, graph.merged
    num_rows, num = trace.num_nodes, len(merged.waits)
    duration = np.concatenate((duration_ns, instance_ns)).astype(np.int64)
    duration[:num_rows][instances.nodes.row] = 0
    order, level = kernels.levels(kernels.Graph(merged.waits.copy(), merged.next_first, merged.after), duration)
    if len(order) < num:
        raise ConfigError(_cycle(trace, instances, merged, order))
    slot = np.full(num, kernels.NO_TIME, np.uint8)
    slot[:num_rows][trace.kind == NodeType.COMP] = kernels.GPU
    slot[:num_rows][graph.run.columns.is_cpu_op] = kernels.CPU
    slot[:num_rows][trace.kind == NodeType.COMM_SEND] = kernels.NETWORK
    slot[:num_rows][(trace.kind == NodeType.COMM_COLL) | ~graph.issue.runs] = kernels.NO_TIME
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
    in_order = {group: np.sort(np.array(ranks, np.int64)) for group, ranks in instances.nodes.members.items()}
    members = [in_order[group] for group in instances.group.tolist()]
    member_first = np.concatenate(([0], np.cumsum([*np.ones(num_rows, np.int64), *map(len, members)]))).astype(np.int64)
    member = np.concatenate((trace.rank, *members)).astype(np.int64)
    turn: Ints = kernels.rough_run(
        kernels.Graph(merged.waits.copy(), merged.next_first, merged.after),
        kernels.Vertices(duration, slot, key),
        kernels.Members(member_first, member),
        trace.num_ranks,
    )
    return turn


def _cycle(trace: Trace, instances: Instances, graph: MergedGraph, order: Ints) -> str:
    """Some collectives of a cycle of waiting."""
    stuck = np.ones(len(graph.waits), np.bool_)
    stuck[order] = False
    # Walk back along what stuck vertices wait for, until one comes twice.
    first, needed = graph.needed()
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


def order_dependencies(graph: RunGraph, order: Ints) -> tuple[Ints, Ints]:
    """Dependencies to add: rows of collective nodes, and rows that they have to wait for and do not yet.

    Groups of one wait for nobody.

    Parameters
    ----------
    order
        int64[num_nodes + num_instances], place of each vertex in an order that all ranks can keep.
    """
    trace, issue, instances = graph.run.workload, graph.issue, graph.instances
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
    late, needed = _late_sends(graph, order, collectives, place, (before, after))
    return np.concatenate((after[missing], late)), np.concatenate((before[missing], needed))


def _late_sends(
    graph: RunGraph,
    order: Ints,
    collectives: Ints,
    place: Ints,
    consecutive: tuple[Ints, Ints],
) -> tuple[Ints, Ints]:
    """Collectives that wait for a message of their own rank by way of others, and its send; `collectives` are in order."""
    from astra_tacos.run.graph import _order_kernels as kernels

    trace, issue, merged = graph.run.workload, graph.issue, graph.merged
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
    vertex = merged.vertex
    source = np.repeat(np.arange(len(merged.waits)), np.diff(merged.next_first))
    before = np.concatenate((source, vertex[consecutive[0]]))
    after = np.concatenate((merged.after, vertex[consecutive[1]]))
    next_first, following = group_by(before, after, len(merged.waits))
    reached = kernels.first_reached(next_first, following, order, sends, mark_first, vertex[collectives[entries]])
    reached_sends = np.flatnonzero(reached >= 0)
    sends = sends[reached_sends]
    # Back from the collective to its node on this rank.
    rows = collectives[np.searchsorted(key, rank[sends] * span + order[reached[reached_sends]])]
    missing = ~precede(trace, issue.place, issue.order, sends, rows)
    return rows[missing], sends[missing]
