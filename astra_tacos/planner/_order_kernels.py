# mypy: ignore-errors
"""Kernels: in which order a rank issues its nodes, and a rough run of the whole workload that says which collective is first."""

from __future__ import annotations

import numpy as np
from numba import njit

NO_TIME, GPU, CPU, NETWORK = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def _push(heap, base, size, key, entry):
    """Add an entry to the heap `heap[base:base + size]`, the smallest `key` first."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if key[heap[base + parent]] <= key[entry]:
            break
        heap[base + at] = heap[base + parent]
        at = parent
    heap[base + at] = entry


@njit(cache=True, nogil=True)
def _pop(heap, base, size, key):
    """Take the first entry of a heap of `size` entries."""
    first = heap[base]
    last = heap[base + size - 1]
    size -= 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and key[heap[base + child + 1]] < key[heap[base + child]]:
            child += 1
        if key[last] <= key[heap[base + child]]:
            break
        heap[base + at] = heap[base + child]
        at = child
    if size > 0:
        heap[base + at] = last
    return first


@njit(cache=True, nogil=True)
def issue_order(rank_first, waits, next_first, after, key):
    """Rows of each rank as it would issue them, the smallest `key` of those that are ready first; and how many of each run.

    Rows in a cycle, or behind one, fill the end of their rank's part. `waits` is used up.
    """
    num = len(waits)
    order = np.empty(num, np.int64)
    runs = np.zeros(len(rank_first) - 1, np.int64)
    heap = np.empty(num + 1, np.int64)
    for rank in range(len(rank_first) - 1):
        begin, end = rank_first[rank], rank_first[rank + 1]
        size = 0
        for row in range(begin, end):
            if waits[row] == 0:
                _push(heap, 0, size, key, row)
                size += 1
        at = begin
        while size > 0:
            row = _pop(heap, 0, size, key)
            size -= 1
            order[at] = row
            at += 1
            for slot in range(next_first[row], next_first[row + 1]):
                waits[after[slot]] -= 1
                if waits[after[slot]] == 0:
                    _push(heap, 0, size, key, after[slot])
                    size += 1
        runs[rank] = at - begin
        for row in range(begin, end):
            if waits[row] > 0:
                order[at] = row
                at += 1
    return order, runs


@njit(cache=True, nogil=True)
def levels(waits, next_first, after, duration):
    """An order that keeps all edges (shorter than the graph if that has a circle), and the longest way from each to the end."""
    num = len(waits)
    left = np.empty(num, np.int64)
    order = np.empty(num, np.int64)
    level = np.zeros(num, np.int64)
    size = 0
    for vertex in range(num):
        left[vertex] = waits[vertex]
        if waits[vertex] == 0:
            order[size] = vertex
            size += 1
    at = 0
    while at < size:
        vertex = order[at]
        at += 1
        for slot in range(next_first[vertex], next_first[vertex + 1]):
            left[after[slot]] -= 1
            if left[after[slot]] == 0:
                order[size] = after[slot]
                size += 1
    for place in range(size):
        vertex = order[size - 1 - place]
        longest = 0
        for slot in range(next_first[vertex], next_first[vertex + 1]):
            longest = max(longest, level[after[slot]])
        level[vertex] = longest + duration[vertex]
    return order[:size], level


@njit(cache=True, nogil=True)
def rough_run(waits, next_first, after, duration, slot, key, member_first, member, num_ranks):
    """When each vertex starts, if a rank does one thing at a time on its GPU, its CPU and its network.

    A vertex starts when all that it waits for has ended and all its members are free; of several, the smallest `key`. So no
    rank holds its network for a collective that others are not ready for. `waits` is used up. Returns how many started before
    each, -1 for those that never do.
    """
    num = len(waits)
    turn = np.full(num, -1, np.int64)
    started = 0
    num_entries = len(member)
    # Waiting for a network: entries (vertex, member) in a list per rank.
    list_head = np.full(num_ranks, -1, np.int64)
    list_next = np.full(num_entries, -1, np.int64)
    entry_vertex = np.empty(num_entries, np.int64)
    for vertex in range(num):
        for entry in range(member_first[vertex], member_first[vertex + 1]):
            entry_vertex[entry] = vertex
    is_busy = np.zeros(num_ranks * 3, np.bool_)
    blocked = np.zeros(num, np.int64)
    # Ready for a processor: a heap for each.
    heap_first = np.zeros(num_ranks * 2 + 1, np.int64)
    for vertex in range(num):
        if slot[vertex] == GPU or slot[vertex] == CPU:
            heap_first[member[member_first[vertex]] * 2 + slot[vertex]] += 1
    for place in range(1, num_ranks * 2 + 1):
        heap_first[place] += heap_first[place - 1]
    heap = np.empty(heap_first[-1] + 1, np.int64)
    heap_size = np.zeros(num_ranks * 2, np.int64)
    touched = np.empty(2 * num + 1, np.int64)
    num_touched = 0
    could = np.empty(num + num_entries + 1, np.int64)
    num_could = 0
    ends = np.empty(num + 1, np.int64)
    end_ns = np.zeros(num, np.int64)
    running = 0
    ready = np.empty(num + 1, np.int64)
    num_ready = 0
    for vertex in range(num):
        if waits[vertex] == 0:
            ready[num_ready] = vertex
            num_ready += 1
    now = 0
    while True:
        while num_ready > 0:
            num_ready -= 1
            vertex = ready[num_ready]
            kind = slot[vertex]
            if kind == NO_TIME:
                turn[vertex] = started
                started += 1
                for way in range(next_first[vertex], next_first[vertex + 1]):
                    waits[after[way]] -= 1
                    if waits[after[way]] == 0:
                        ready[num_ready] = after[way]
                        num_ready += 1
            elif kind == NETWORK:
                for entry in range(member_first[vertex], member_first[vertex + 1]):
                    rank = member[entry]
                    list_next[entry] = list_head[rank]
                    list_head[rank] = entry
                    if is_busy[rank * 3 + 2]:
                        blocked[vertex] += 1
                if blocked[vertex] == 0:
                    _push(could, 0, num_could, key, vertex)
                    num_could += 1
            else:
                place = member[member_first[vertex]] * 2 + kind - 1
                _push(heap, heap_first[place], heap_size[place], key, vertex)
                heap_size[place] += 1
                touched[num_touched] = place
                num_touched += 1
        while num_touched > 0:
            num_touched -= 1
            place = touched[num_touched]
            which = place // 2 * 3 + place % 2
            if heap_size[place] > 0 and not is_busy[which]:
                vertex = _pop(heap, heap_first[place], heap_size[place], key)
                heap_size[place] -= 1
                is_busy[which] = True
                turn[vertex] = started
                started += 1
                end_ns[vertex] = now + duration[vertex]
                _push(ends, 0, running, end_ns, vertex)
                running += 1
        while num_could > 0:
            vertex = _pop(could, 0, num_could, key)
            num_could -= 1
            if turn[vertex] >= 0 or blocked[vertex] > 0:
                continue
            turn[vertex] = started
            started += 1
            end_ns[vertex] = now + duration[vertex]
            _push(ends, 0, running, end_ns, vertex)
            running += 1
            for entry in range(member_first[vertex], member_first[vertex + 1]):
                rank = member[entry]
                is_busy[rank * 3 + 2] = True
                before = -1
                at = list_head[rank]
                while at >= 0:
                    other = entry_vertex[at]
                    if turn[other] >= 0:
                        if before < 0:
                            list_head[rank] = list_next[at]
                        else:
                            list_next[before] = list_next[at]
                    else:
                        blocked[other] += 1
                        before = at
                    at = list_next[at]
        if running == 0:
            break
        now = end_ns[ends[0]]
        while running > 0 and end_ns[ends[0]] == now:
            vertex = _pop(ends, 0, running, end_ns)
            running -= 1
            kind = slot[vertex]
            for entry in range(member_first[vertex], member_first[vertex + 1]):
                rank = member[entry]
                is_busy[rank * 3 + kind - 1] = False
                if kind != NETWORK:
                    touched[num_touched] = rank * 2 + kind - 1
                    num_touched += 1
                else:
                    at = list_head[rank]
                    while at >= 0:
                        other = entry_vertex[at]
                        if turn[other] < 0:
                            blocked[other] -= 1
                            if blocked[other] == 0:
                                _push(could, 0, num_could, key, other)
                                num_could += 1
                        at = list_next[at]
            for way in range(next_first[vertex], next_first[vertex + 1]):
                waits[after[way]] -= 1
                if waits[after[way]] == 0:
                    ready[num_ready] = after[way]
                    num_ready += 1
    return turn


@njit(cache=True, nogil=True)
def first_reached(next_first, after, place, sources, mark_first, mark):
    """For each source, the first vertex of its own marks that can be reached from it, -1 if none can.

    `place` is an order that keeps all edges; `mark[mark_first[i]:mark_first[i + 1]]` are the marks of source i.
    """
    found = np.full(len(sources), -1, np.int64)
    seen = np.full(len(place), -1, np.int64)
    is_marked = np.full(len(place), -1, np.int64)
    stack = np.empty(len(place), np.int64)
    for number in range(len(sources)):
        latest = -1
        for entry in range(mark_first[number], mark_first[number + 1]):
            is_marked[mark[entry]] = number
            latest = max(latest, place[mark[entry]])
        # What comes after the best so far cannot lead to a better one.
        stack[0] = sources[number]
        size = 1
        while size > 0:
            size -= 1
            vertex = stack[size]
            for way in range(next_first[vertex], next_first[vertex + 1]):
                other = after[way]
                if seen[other] == number or place[other] > latest:
                    continue
                seen[other] = number
                if is_marked[other] == number:
                    found[number] = other
                    latest = place[other] - 1
                else:
                    stack[size] = other
                    size += 1
    return found
