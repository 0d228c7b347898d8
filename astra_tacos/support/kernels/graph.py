# mypy: ignore-errors
"""Kahn's topological sort."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.arrays import I64, I64_OUT
from astra_tacos.support.kernels.compiled import helper, kernel


@helper
def sort_topologically(begin, end, waits, next_first, after, order):
    """Put vertices `begin` to `end` - 1 into `order[begin:]`, each after all that it waits for; returns how many have a place.

    Vertices that begin without waits come first, by number; the others in the order in which their last wait ends. Edges
    `after[next_first[v] : next_first[v + 1]]` lead from v to vertices between `begin` and `end`; `waits` (how many edges lead to
    each) is used up, and stays positive for those in a cycle or behind one, which have no place (Kahn 1962).
    """
    size = begin
    for vertex in range(begin, end):
        if waits[vertex] == 0:
            order[size] = vertex
            size += 1
    at = begin
    while at < size:
        vertex = order[at]
        at += 1
        for slot in range(next_first[vertex], next_first[vertex + 1]):
            other = after[slot]
            waits[other] -= 1
            if waits[other] == 0:
                order[size] = other
                size += 1
    return size - begin


@kernel
def topological_order(waits: I64_OUT, next_first: I64, after: I64):
    """The vertices that have a place, in the order of `sort_topologically`, which also says what the arrays are."""
    order = np.empty(len(waits), np.int64)
    return order[: sort_topologically(0, len(waits), waits, next_first, after, order)]
