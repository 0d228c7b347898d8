# mypy: ignore-errors
"""Kernels: in which order a rank issues its nodes, and a rough run of the whole workload that says which collective is first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I64, I64_OUT, U8, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push, sort_topologically

NO_TIME, GPU, CPU, NETWORK = 0, 1, 2, 3


class Graph(NamedTuple):
    """How many edges lead to each vertex (used up), and the vertices after each (CSR)."""

    waits: I64_OUT
    next_first: I64
    after: I64


class Vertices(NamedTuple):
    """What vertices take: time in ns and which of a rank's slots; of several that wait for it the smallest key goes first."""

    duration: I64
    slot: U8  # NO_TIME, GPU, CPU or NETWORK
    key: I64


class Members(NamedTuple):
    """The ranks of each vertex (CSR)."""

    first: I64
    rank: I64


@kernel
def issue_order(rank_first: I64, graph: Graph, key: I64):
    """Rows of each rank as it would issue them, the smallest `key` of those that are ready first; and how many of each run.

    Rows in a cycle, or behind one, fill the end of their rank's part.
    """
    waits = graph.waits
    num = len(waits)
    order = np.empty(num, np.int64)
    runs = np.zeros(len(rank_first) - 1, np.int64)
    heap_key = np.empty(num + 1, np.int64)
    heap = np.empty(num + 1, np.int64)
    for rank in range(len(rank_first) - 1):
        begin, end = rank_first[rank], rank_first[rank + 1]
        size = 0
        for row in range(begin, end):
            if waits[row] == 0:
                heap_push(heap_key, heap, 0, size, key[row], row)
                size += 1
        at = begin
        while size > 0:
            row = heap[0]
            size -= 1
            heap_drop_first(heap_key, heap, 0, size)
            order[at] = row
            at += 1
            for slot in range(graph.next_first[row], graph.next_first[row + 1]):
                waits[graph.after[slot]] -= 1
                if waits[graph.after[slot]] == 0:
                    heap_push(heap_key, heap, 0, size, key[graph.after[slot]], graph.after[slot])
                    size += 1
        runs[rank] = at - begin
        for row in range(begin, end):
            if waits[row] > 0:
                order[at] = row
                at += 1
    return order, runs


@kernel
def levels(graph: Graph, duration: I64):
    """An order that keeps all edges (shorter than the graph if that has a cycle), and the longest way from each to the end."""
    next_first, after = graph.next_first, graph.after
    num = len(duration)
    order = np.empty(num, np.int64)
    level = np.zeros(num, np.int64)
    size = sort_topologically(0, num, graph.waits, next_first, after, order)
    for place in range(size):
        vertex = order[size - 1 - place]
        longest = 0
        for slot in range(next_first[vertex], next_first[vertex + 1]):
            longest = max(longest, level[after[slot]])
        level[vertex] = longest + duration[vertex]
    return order[:size], level


@kernel
def rough_run(graph: Graph, vertices: Vertices, members: Members, num_ranks: int):
    """When each vertex starts, if a rank does one thing at a time on its GPU, its CPU and its network.

    A vertex starts when all that it waits for has ended and all its members are free; of several, the smallest key. So no
    rank holds its network for a collective that others are not ready for. Returns how many started before each, -1 for those
    that never do.
    """
    num = len(graph.waits)
    turn = np.full(num, -1, np.int64)
    started = 0
    num_entries = len(members.rank)
    # Waiting for a network: entries (vertex, member) in a list per rank.
    list_head = np.full(num_ranks, -1, np.int64)
    list_next = np.full(num_entries, -1, np.int64)
    entry_vertex = np.empty(num_entries, np.int64)
    for vertex in range(num):
        for entry in range(members.first[vertex], members.first[vertex + 1]):
            entry_vertex[entry] = vertex
    is_busy = np.zeros(num_ranks * 3, np.bool_)
    blocked = np.zeros(num, np.int64)
    # Ready for a processor: a heap for each.
    heap_first = np.zeros(num_ranks * 2 + 1, np.int64)
    for vertex in range(num):
        if vertices.slot[vertex] == GPU or vertices.slot[vertex] == CPU:
            heap_first[members.rank[members.first[vertex]] * 2 + vertices.slot[vertex]] += 1
    for place in range(1, num_ranks * 2 + 1):
        heap_first[place] += heap_first[place - 1]
    heap_key = np.empty(heap_first[-1] + 1, np.int64)
    heap = np.empty(heap_first[-1] + 1, np.int64)
    heap_size = np.zeros(num_ranks * 2, np.int64)
    touched = np.empty(2 * num + 1, np.int64)
    num_touched = 0
    could_key = np.empty(num + num_entries + 1, np.int64)
    could = np.empty(num + num_entries + 1, np.int64)
    num_could = 0
    ends_ns = np.empty(num + 1, np.int64)
    ends = np.empty(num + 1, np.int64)
    running = 0
    ready = np.empty(num + 1, np.int64)
    num_ready = 0
    for vertex in range(num):
        if graph.waits[vertex] == 0:
            ready[num_ready] = vertex
            num_ready += 1
    now = 0
    while True:
        while num_ready > 0:
            num_ready -= 1
            vertex = ready[num_ready]
            kind = vertices.slot[vertex]
            if kind == NO_TIME:
                turn[vertex] = started
                started += 1
                for way in range(graph.next_first[vertex], graph.next_first[vertex + 1]):
                    graph.waits[graph.after[way]] -= 1
                    if graph.waits[graph.after[way]] == 0:
                        ready[num_ready] = graph.after[way]
                        num_ready += 1
            elif kind == NETWORK:
                for entry in range(members.first[vertex], members.first[vertex + 1]):
                    rank = members.rank[entry]
                    list_next[entry] = list_head[rank]
                    list_head[rank] = entry
                    if is_busy[rank * 3 + 2]:
                        blocked[vertex] += 1
                if blocked[vertex] == 0:
                    heap_push(could_key, could, 0, num_could, vertices.key[vertex], vertex)
                    num_could += 1
            else:
                place = members.rank[members.first[vertex]] * 2 + kind - 1
                heap_push(heap_key, heap, heap_first[place], heap_size[place], vertices.key[vertex], vertex)
                heap_size[place] += 1
                touched[num_touched] = place
                num_touched += 1
        while num_touched > 0:
            num_touched -= 1
            place = touched[num_touched]
            which = place // 2 * 3 + place % 2
            if heap_size[place] > 0 and not is_busy[which]:
                vertex = heap[heap_first[place]]
                heap_size[place] -= 1
                heap_drop_first(heap_key, heap, heap_first[place], heap_size[place])
                is_busy[which] = True
                turn[vertex] = started
                started += 1
                heap_push(ends_ns, ends, 0, running, now + vertices.duration[vertex], vertex)
                running += 1
        while num_could > 0:
            vertex = could[0]
            num_could -= 1
            heap_drop_first(could_key, could, 0, num_could)
            if turn[vertex] >= 0 or blocked[vertex] > 0:
                continue
            turn[vertex] = started
            started += 1
            heap_push(ends_ns, ends, 0, running, now + vertices.duration[vertex], vertex)
            running += 1
            for entry in range(members.first[vertex], members.first[vertex + 1]):
                rank = members.rank[entry]
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
        now = ends_ns[0]
        while running > 0 and ends_ns[0] == now:
            vertex = ends[0]
            running -= 1
            heap_drop_first(ends_ns, ends, 0, running)
            kind = vertices.slot[vertex]
            for entry in range(members.first[vertex], members.first[vertex + 1]):
                rank = members.rank[entry]
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
                                heap_push(could_key, could, 0, num_could, vertices.key[other], other)
                                num_could += 1
                        at = list_next[at]
            for way in range(graph.next_first[vertex], graph.next_first[vertex + 1]):
                graph.waits[graph.after[way]] -= 1
                if graph.waits[graph.after[way]] == 0:
                    ready[num_ready] = graph.after[way]
                    num_ready += 1
    return turn


@kernel
def first_reached(next_first: I64, after: I64, place: I64, sources: I64, mark_first: I64, mark: I64):
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
