# mypy: ignore-errors
"""Kernels: what comes before what in a graph of operations."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.arrays import I64, I64_OUT
from astra_tacos.support.kernels.compiled import helper, kernel

READ = 0
ADD = 1
WRITE = 2

_BATCH = 64
_NEAR = 48
_UNKNOWN = 2


@kernel
def topological_order(first: I64, successor: I64, waits_for: I64_OUT):
    """Operations in an order that every edge keeps, and how many there are; those behind a cycle are left out.

    `first`, `successor`: edges by their origin; `waits_for`: number of edges into each operation (used up).
    """
    order = np.empty(len(waits_for), np.int64)
    size = 0
    for op in range(len(waits_for)):
        if waits_for[op] == 0:
            order[size] = op
            size += 1
    at = 0
    while at < size:
        op = order[at]
        at += 1
        for slot in range(first[op], first[op + 1]):
            after = successor[slot]
            waits_for[after] -= 1
            if waits_for[after] == 0:
                order[size] = after
                size += 1
    return order, size


@kernel
def conflicts(location: I64, op: I64, mode: I64, pair_first: I64_OUT, pair_second: I64_OUT):
    """Pairs of accesses (row numbers) that must be ordered; returns how many. Pairs beyond the arrays' length are only counted.

    Rows are sorted by location, then by one topological order. A read has to come after the write before it and the additions
    since; an addition after that write and the reads since; a write after all of them. Other pairs follow.
    """
    count = 0
    room = len(pair_first)
    begin = 0
    written = -1
    for row in range(len(location)):
        if row and location[row] != location[row - 1]:
            begin = row
            written = -1
        found = False
        for other in range(max(begin, written + 1), row):
            if mode[row] != WRITE and mode[other] == mode[row]:
                continue
            found = True
            if op[other] != op[row]:
                if count < room:
                    pair_first[count] = other
                    pair_second[count] = row
                count += 1
        if not found and written >= 0 and op[written] != op[row]:
            if count < room:
                pair_first[count] = written
                pair_second[count] = row
            count += 1
        if mode[row] == WRITE:
            written = row
    return count


@helper
def _near(first, predecessor, origin, target, stack):
    """1 if `target` comes after `origin`, 0 if not, `_UNKNOWN` if that takes a longer search. Numbers are topological."""
    size = 1
    stack[0] = target
    at = 0
    while at < size:
        for slot in range(first[stack[at]], first[stack[at] + 1]):
            before = predecessor[slot]
            if before == origin:
                return 1
            if before < origin:
                continue
            known = False
            for seen in range(size):
                if stack[seen] == before:
                    known = True
                    break
            if known:
                continue
            if size == _NEAR:
                return _UNKNOWN
            stack[size] = before
            size += 1
        at += 1
    return 0


@kernel
def comes_before(first: I64, predecessor: I64, origin: I64, target: I64):
    """uint8 for each query: 1 if there is a path from `origin` to `target`.

    Operations are numbered topologically; `first`, `predecessor`: edges by their end; queries are sorted by `origin`. What a
    short search leaves open is settled for 64 origins at a time, by passing bits along all edges between the first of them
    and the last target.
    """
    answer = np.empty(len(origin), np.uint8)
    stack = np.empty(_NEAR, np.int64)
    for query in range(len(origin)):
        answer[query] = _near(first, predecessor, origin[query], target[query], stack)
    reached = np.zeros(len(first), np.uint64)
    own = np.zeros(len(first), np.uint64)
    query = 0
    while query < len(origin):
        if answer[query] != _UNKNOWN:
            query += 1
            continue
        begin = query
        low = origin[query]
        high = low
        sources = 0
        latest = -1
        while query < len(origin):
            if answer[query] == _UNKNOWN:
                if origin[query] != latest:
                    if sources == _BATCH:
                        break
                    latest = origin[query]
                    own[latest] = np.uint64(1) << np.uint64(sources)
                    sources += 1
                high = max(high, target[query])
            query += 1
        for op in range(low, high + 1):
            bits = own[op]
            for slot in range(first[op], first[op + 1]):
                if predecessor[slot] >= low:
                    bits |= reached[predecessor[slot]]
            reached[op] = bits
        for done in range(begin, query):
            if answer[done] == _UNKNOWN:
                answer[done] = 1 if reached[target[done]] & own[origin[done]] else 0
        for done in range(begin, query):
            own[origin[done]] = np.uint64(0)
    return answer
