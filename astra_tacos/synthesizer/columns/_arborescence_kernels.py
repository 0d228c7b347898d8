# mypy: ignore-errors
"""Kernels: one step of the cheapest arborescence of a complete digraph: the cheapest edge into each node, and cycles as one node.

Of equally cheap edges the first one counts, as NumPy's `argmin` has it.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import F64_2D_OUT, I64, I64_2D_OUT, I64_OUT, kernel

_NONE = -1


@kernel
def find_groups(cost: F64_2D_OUT, root: int, parent: I64_OUT, group: I64_OUT) -> int:
    """The cheapest parent of each node, and the group of each node: every cycle of parents is a group, other nodes are alone.

    Parameters
    ----------
    cost
        float64[n, n], of the edge from each node to each other.
    root
        Its own parent.
    parent, group
        int64[n], the result; groups of cycles come first.

    Returns
    -------
    num_groups
        How many there are: n if there is no cycle.
    """
    count = len(parent)
    for node in range(count):
        parent[node] = 0
        group[node] = _NONE
    for other in range(1, count):
        for node in range(count):
            if cost[other, node] < cost[parent[node], node]:
                parent[node] = other
    parent[root] = root
    seen = np.full(count, _NONE, np.int64)
    num_groups = np.int64(0)
    for start in range(count):
        node = np.int64(start)
        while seen[node] == _NONE and node != root:
            seen[node] = start
            node = parent[node]
        if node != root and seen[node] == start:
            member = node
            while group[member] == _NONE:
                group[member] = num_groups
                member = parent[member]
            num_groups += 1
    for node in range(count):
        if group[node] == _NONE:
            group[node] = num_groups
            num_groups += 1
    return num_groups


@kernel
def contract(cost: F64_2D_OUT, parent: I64, group: I64, between: F64_2D_OUT, tail: I64_2D_OUT, head: I64_2D_OUT) -> None:
    """The cheapest edge from each group to each other, and its ends.

    An edge into a node of a cycle costs what it costs more than the one of the cycle, which it takes the place of.

    Parameters
    ----------
    cost
        float64[n, n], overwritten.
    parent, group
        As `find_groups` says.
    between, tail
        float64 and int64[num_groups, num_groups], the cost of these edges, and where each begins.
    head
        int64[n, num_groups], where the cheapest edge from each node to each group ends.
    """
    count, num_groups = len(parent), len(between)
    for node in range(count):
        if parent[node] != node and group[parent[node]] == group[node]:
            less = cost[parent[node], node]
            for other in range(count):
                cost[other, node] -= less
    for number in range(num_groups):
        for other in range(num_groups):
            tail[number, other] = _NONE
    for node in range(count):
        for number in range(num_groups):
            head[node, number] = _NONE
        for other in range(count):
            number = group[other]
            if head[node, number] == _NONE or cost[node, other] < cost[node, head[node, number]]:
                head[node, number] = other
        own = group[node]
        for number in range(num_groups):
            least = cost[node, head[node, number]]
            if tail[own, number] == _NONE or least < between[own, number]:
                tail[own, number] = node
                between[own, number] = least
    for number in range(num_groups):
        between[number, number] = np.inf
