"""The cheapest arborescence of a complete digraph (Chu and Liu 1965; Edmonds, "Optimum branchings", 1967), on a dense matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cheapest_arborescence(cost: NDArray[np.float64], root: int) -> NDArray[np.int64]:
    """int64[n], the parent of each node in a cheapest spanning tree out of `root`, which is its own parent.

    Parameters
    ----------
    cost
        float64[n, n], of the edge from each node to each other; infinite where there is none. The diagonal does not count.
    root
        A node from which all others can be reached.
    """
    cost = cost.copy()
    np.fill_diagonal(cost, np.inf)
    return _cheapest(cost, root)


def _cheapest(cost: NDArray[np.float64], root: int) -> NDArray[np.int64]:
    parent: NDArray[np.int64] = cost.argmin(axis=0)
    parent[root] = root
    label, cycles = _contract(parent.tolist(), root)
    if not cycles:
        return parent
    count = max(label) + 1
    group = np.array(label)
    reduced = cost.copy()
    for cycle in cycles:
        reduced[:, cycle] -= cost[parent[cycle], cycle]
    # The cheapest edge between groups, and its ends.
    order = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[order], np.arange(count + 1)).tolist()
    into, head = np.empty((len(cost), count)), np.empty((len(cost), count), np.int64)
    for number in range(count):
        nodes = order[begin[number] : begin[number + 1]]
        best = reduced[:, nodes].argmin(axis=1)
        head[:, number] = nodes[best]
        into[:, number] = reduced[np.arange(len(cost)), nodes[best]]
    between, tail = np.empty((count, count)), np.empty((count, count), np.int64)
    for number in range(count):
        nodes = order[begin[number] : begin[number + 1]]
        best = into[nodes].argmin(axis=0)
        tail[number] = nodes[best]
        between[number] = into[nodes[best], np.arange(count)]
    np.fill_diagonal(between, np.inf)
    above = _cheapest(between, label[root])
    for number in range(count):
        if number != label[root]:
            source = int(tail[above[number], number])
            parent[head[source, number]] = source
    return parent


def _contract(parent: list[int], root: int) -> tuple[list[int], list[list[int]]]:
    """The group of each node, where every cycle of parents is a group and other nodes are alone; and the cycles."""
    seen, label = [-1] * len(parent), [-1] * len(parent)
    cycles: list[list[int]] = []
    for start in range(len(parent)):
        node = start
        while seen[node] < 0 and node != root:
            seen[node] = start
            node = parent[node]
        if node != root and seen[node] == start:
            cycle = [node]
            while parent[cycle[-1]] != node:
                cycle.append(parent[cycle[-1]])
            for member in cycle:
                label[member] = len(cycles)
            cycles.append(cycle)
    count = len(cycles)
    for node, number in enumerate(label):
        if number < 0:
            label[node] = count
            count += 1
    return label, cycles
