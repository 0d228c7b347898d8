"""The order in which ranks issue their nodes, as far as dependencies and ids determine it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by


@dataclass(frozen=True, slots=True, eq=False)
class IssueOrder:
    """The order in which ranks issue their nodes.

    Parameters
    ----------
    order
        int64[num_nodes], rows, rank by rank; of each rank, those that never run come last.
    place
        int64[num_nodes], where in `order` a row is.
    runs
        bool[num_nodes], whether a row is in no cycle and behind none.
    """

    order: Ints
    place: Ints
    runs: Bools


def keep_dependencies(rank: Ints, first: Ints, after: Ints) -> IssueOrder:
    """An order that dependencies allow, whatever the ids: nodes that they leave unordered come breadth first.

    Parameters
    ----------
    rank
        int64[num_nodes], ascending.
    first, after
        The rows that depend on each row (CSR).
    """
    from astra_tacos.support.kernels.shared import topological_order

    place = np.full(len(rank), len(rank))
    order = topological_order(np.bincount(after, minlength=len(rank)), first, after)
    place[order] = np.arange(len(order))
    by_rank = np.lexsort((place, rank))
    runs = place < len(rank)
    place[by_rank] = np.arange(len(rank))
    return IssueOrder(by_rank, place, runs)


def find_issue_order(trace: Trace) -> IssueOrder:
    """The order in which each rank issues its nodes: the lowest id of those that are ready first."""
    from astra_tacos.run.graph import _order_kernels as kernels

    exists = trace.dep >= 0
    row = np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))[exists]
    needed = trace.dep[exists]
    next_first, after = group_by(needed, row, trace.num_nodes)
    key = np.empty(trace.num_nodes, np.int64)
    key[np.argsort(trace.node_id, kind="stable")] = np.arange(trace.num_nodes)
    waits = np.bincount(row, minlength=trace.num_nodes)
    order, num_run = kernels.issue_order(trace.rank_first, kernels.Graph(waits, next_first, after), key)
    place = np.empty(trace.num_nodes, np.int64)
    place[order] = np.arange(trace.num_nodes)
    rank = trace.rank
    return IssueOrder(order, place, place - trace.rank_first[rank] < num_run[rank])
