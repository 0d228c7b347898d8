"""Dependencies to add on each rank, so that all ranks keep to one order of collectives.

A rank runs one collective or send at a time, so each collective waits for the one before it. A send has to end before a
collective that waits, through other ranks, for the message of the send: a rank that started the collective first would wait for
that message, and could not send it, because the collective occupies its network slot.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.collective_nodes import IssueOrder
from astra_tacos.planner.global_order import MergedGraph
from astra_tacos.planner.instances import Instances
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace, precede
from astra_tacos.support.grouping import group_by


def order_dependencies(
    trace: Trace, issue: IssueOrder, instances: Instances, graph: MergedGraph, order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dependencies to add: rows of collective nodes, and rows that they have to wait for and do not yet.

    Groups of one wait for nobody.

    Parameters
    ----------
    trace, issue, instances, graph
        The workload, how ranks issue its nodes, what belongs together, and what waits for what.
    order
        int64[num_nodes + num_instances], place of each vertex in an order that all ranks can keep.
    """
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
    late, needed = _late_sends(trace, issue, graph, order, collectives, place, (before, after))
    return np.concatenate((after[missing], late)), np.concatenate((before[missing], needed))


def _late_sends(
    trace: Trace,
    issue: IssueOrder,
    graph: MergedGraph,
    order: NDArray[np.int64],
    collectives: NDArray[np.int64],
    place: NDArray[np.int64],
    consecutive: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Collectives that wait for a message of their own rank by way of others, and its send; `collectives` are in order."""
    from astra_tacos.planner import _order_kernels as kernels

    sends = np.flatnonzero((trace.kind == NodeType.COMM_SEND) & issue.runs)
    rank = trace.rank
    first = np.searchsorted(rank[collectives], np.arange(trace.num_ranks + 1))
    # The collective after each send on its rank; ranks and places in one key.
    span = len(order) + 1
    at = np.searchsorted(rank[collectives] * span + place, rank[sends] * span + order[sends])
    inside = at < first[rank[sends] + 1]
    sends, at = sends[inside], at[inside]
    open_ = ~precede(trace, issue.place, issue.order, sends, collectives[at])
    sends, at = sends[open_], at[open_]
    if not len(sends):
        return sends, sends
    last = first[rank[sends] + 1]
    mark_first = np.concatenate(([0], np.cumsum(last - at)))
    entries = np.repeat(at - mark_first[:-1], last - at) + np.arange(mark_first[-1])
    vertex = graph.vertex
    source = np.repeat(np.arange(len(graph.waits)), np.diff(graph.next_first))
    before = np.concatenate((source, vertex[consecutive[0]]))
    after = np.concatenate((graph.after, vertex[consecutive[1]]))
    next_first, following = group_by(before, after, len(graph.waits))
    reached = kernels.first_reached(next_first, following, order, sends, mark_first, vertex[collectives[entries]])
    found = np.flatnonzero(reached >= 0)
    sends = sends[found]
    # Back from the collective to its node on this rank.
    key = rank[collectives] * span + place
    rows = collectives[np.searchsorted(key, rank[sends] * span + order[reached[found]])]
    missing = ~precede(trace, issue.place, issue.order, sends, rows)
    return rows[missing], sends[missing]
