# mypy: ignore-errors
"""Longest chains of dependencies."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import I64, kernel

NO_CHAIN = -1
_NEW, _OPEN, _DONE = 0, 1, 2


@kernel
def longest_chains(dep_first: I64, dep: I64, duration: I64):
    """The largest sum of durations of a chain of dependencies that ends with each node, int64[num_nodes].

    Node i depends on `dep[dep_first[i] : dep_first[i + 1]]`, negative entries on nothing. Nodes in a cycle or behind one have
    `NO_CHAIN`. This is a depth-first search without recursion.
    """
    num_nodes = len(dep_first) - 1
    chain = np.zeros(num_nodes, np.int64)
    state, slot, stack = np.zeros(num_nodes, np.uint8), dep_first[:-1].copy(), np.empty(num_nodes, np.int64)
    for root in range(num_nodes):
        if state[root] != _NEW:
            continue
        stack[0], size = root, 1
        state[root] = _OPEN
        while size:
            node = stack[size - 1]
            if slot[node] < dep_first[node + 1]:
                other = dep[slot[node]]
                slot[node] += 1
                if other >= 0 and state[other] == _NEW:
                    state[other] = _OPEN
                    stack[size] = other
                    size += 1
                continue
            size -= 1
            longest, is_behind_cycle = 0, False
            for place in range(dep_first[node], dep_first[node + 1]):
                other = dep[place]
                if other >= 0:
                    is_behind_cycle = is_behind_cycle or state[other] == _OPEN or chain[other] == NO_CHAIN
                    longest = max(longest, chain[other])
            chain[node] = NO_CHAIN if is_behind_cycle else longest + duration[node]
            state[node] = _DONE
    return chain
