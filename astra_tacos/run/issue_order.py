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
        int64[num_nodes], rows, rank by rank, the lowest id of those that are ready first; rows that never run come last.
    place
        int64[num_nodes], where in `order` a row is.
    runs
        bool[num_nodes], whether a row is in no cycle and behind none.
    """

    order: Ints
    place: Ints
    runs: Bools


def find_issue_order(trace: Trace) -> IssueOrder:
    """The order in which each rank issues its nodes."""
    from astra_tacos.run import _order_kernels as kernels

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
