"""What waits for what in a run: the dependency graph of all ranks, with the nodes of each collective merged into one vertex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import distinct, group_by


@dataclass(frozen=True, slots=True, eq=False)
class MergedGraph:
    """A workload with the nodes of each collective merged, in which a receive waits for its send.

    Parameters
    ----------
    vertex
        int64[num_nodes], of each row; those past the rows are collectives.
    waits
        int64[num_vertices], how many other vertices each waits for.
    next_first, after
        int64[num_vertices + 1] and int64[...], the vertices that wait for each one, ascending (CSR).
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

    def needed(self) -> tuple[Ints, Ints]:
        """int64[num_vertices + 1] and int64[...], the vertices that each one waits for, ascending (CSR)."""
        num = len(self.waits)
        return group_by(self.after, np.repeat(np.arange(num), np.diff(self.next_first)), num)


def merge(
    trace: Trace,
    runs: Bools,
    merged: tuple[Ints, Ints],
    met: tuple[Ints, Ints],
) -> MergedGraph:
    """The graph of the rows that run.

    Parameters
    ----------
    runs
        bool[num_nodes].
    merged
        Rows of collective nodes, and the number of the collective that each belongs to.
    met
        Rows of sends, and of the receives that wait for them.
    """
    rows, number = merged
    vertex = np.arange(trace.num_nodes)
    vertex[rows] = trace.num_nodes + number
    row = np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))
    send, receive = met
    after = np.concatenate((row[trace.dep >= 0], receive))
    needed = np.concatenate((trace.dep[trace.dep >= 0], send))
    both = runs[after] & runs[needed]
    num = trace.num_nodes + int(number.max(initial=-1)) + 1
    edges = distinct(vertex[needed[both]] * num + vertex[after[both]])  # which ascend by what is needed
    tail = edges // num
    head = edges - tail * num
    next_first = np.concatenate(([0], np.cumsum(np.bincount(tail, minlength=num))))
    return MergedGraph(vertex, np.bincount(head, minlength=num), next_first, head)
