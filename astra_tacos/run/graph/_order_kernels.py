# mypy: ignore-errors
"""Kernels: in which order a rank issues its nodes, a rough run that says which collective is first, and the longest ways."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, BOOL_OUT, I64, I64_OUT, U8, inlined, kernel
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
def chains(order: I64, place: I64, dep_first: I64, dep: I64, first: I64, row: I64):
    """Of each member of some lists (CSR), how many other members the longest chain of dependencies before it has, and after it.

    A list has rows of one rank, by their place in `order`, in which each row comes after all that it depends on.
    """
    before, after = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
    member, depth = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
    for number in range(len(first) - 1):
        begin, end = first[number], first[number + 1]
        if end - begin < 2:
            continue
        low, high = place[row[begin]], place[row[end - 1]] + 1
        for slot in range(begin, end):
            member[row[slot]] = 1
        for at in range(low, high):
            depth[order[at]] = 0
        for at in range(low, high):
            this = order[at]
            for slot in range(dep_first[this], dep_first[this + 1]):
                if dep[slot] >= 0 and place[dep[slot]] >= low:
                    depth[this] = max(depth[this], depth[dep[slot]] + member[dep[slot]])
        for slot in range(begin, end):
            before[slot] = depth[row[slot]]
        for at in range(low, high):
            depth[order[at]] = 0
        for at in range(high - 1, low - 1, -1):
            this = order[at]
            for slot in range(dep_first[this], dep_first[this + 1]):
                if dep[slot] >= 0 and place[dep[slot]] >= low:
                    depth[dep[slot]] = max(depth[dep[slot]], depth[this] + member[this])
        for slot in range(begin, end):
            after[slot] = depth[row[slot]]
            member[row[slot]] = 0
    return before, after


class Waits(NamedTuple):
    """What the node of each row waits for: its dependencies (CSR, -1 for none), a send (-1 if it is no receive), and its message.

    `duration` and `message` are in ns.
    """

    first: I64
    dep: I64
    duration: I64
    send: I64
    message: I64


class Together(NamedTuple):
    """The rows of each collective (CSR), whether all of its members wait for one another, and what it takes at least in ns.

    `first_ns`: until the first member has what it needs; `all_ns`: until all have; `in_step_ns`: the same if all begin together.
    """

    first: I64
    row: I64
    waits: BOOL
    first_ns: I64
    all_ns: I64
    in_step_ns: I64


@inlined
def _ready(row, waits, ends):
    """When all dependencies of a node have ended."""
    latest = 0
    for slot in range(waits.first[row], waits.first[row + 1]):
        if waits.dep[slot] >= 0:
            latest = max(latest, ends[waits.dep[slot]])
    return latest


@kernel
def longest_ways(order: I64, waits: Waits, together: Together):
    """The longest way through a run in ns, and the longest one if the members of collectives keep in step.

    `order` has rows, and collectives numbered after them, each after all that it waits for.
    """
    num_rows = len(waits.duration)
    end, in_step = np.zeros(num_rows, np.int64), np.zeros(num_rows, np.int64)
    longest = longest_in_step = 0
    for vertex in order:
        if vertex < num_rows:
            send = waits.send[vertex]
            for ends in (end, in_step):
                arrived = ends[send] + waits.message[vertex] if send >= 0 else 0
                ends[vertex] = max(_ready(vertex, waits, ends) + waits.duration[vertex], arrived)
            longest, longest_in_step = max(longest, end[vertex]), max(longest_in_step, in_step[vertex])
            continue
        number = vertex - num_rows
        begin, after = together.first[number], together.first[number + 1]
        first_begun, last_begun, last_in_step = np.iinfo(np.int64).max, 0, 0
        for slot in range(begin, after):
            row = together.row[slot]
            end[row] = _ready(row, waits, end)
            first_begun, last_begun = min(first_begun, end[row]), max(last_begun, end[row])
            last_in_step = max(last_in_step, _ready(row, waits, in_step))
        least = first_begun + together.first_ns[number]
        if together.waits[number]:
            least = max(least, last_begun)
        for slot in range(begin, after):
            row = together.row[slot]
            end[row] = max(end[row], least)
            in_step[row] = last_in_step + together.in_step_ns[number]
        longest = max(longest, first_begun + together.all_ns[number])
        longest_in_step = max(longest_in_step, last_in_step + together.in_step_ns[number])
    return longest, longest_in_step


class _Networks(NamedTuple):
    """Entries (vertex, member) that wait for each rank's network, in a list per rank; which networks are busy.

    `blocked`: of each vertex, on how many of its ranks the network is busy.
    """

    head: I64_OUT
    next: I64_OUT
    vertex: I64_OUT
    blocked: I64_OUT
    is_busy: BOOL_OUT


@inlined
def _heap_first(vertices, members, num_ranks):
    """Where the heap of each processor begins, two of a rank, if it has room for all vertices that need it."""
    first = np.zeros(num_ranks * 2 + 1, np.int64)
    for vertex in range(len(vertices.slot)):
        if vertices.slot[vertex] == GPU or vertices.slot[vertex] == CPU:
            first[members.rank[members.first[vertex]] * 2 + vertices.slot[vertex]] += 1
    for place in range(1, num_ranks * 2 + 1):
        first[place] += first[place - 1]
    return first


@inlined
def _empty_networks(members, num_ranks):
    num, num_entries = len(members.first) - 1, len(members.rank)
    head, following, vertex_of = np.empty(num_ranks, np.int64), np.empty(num_entries, np.int64), np.empty(num_entries, np.int64)
    for rank in range(num_ranks):
        head[rank] = -1
    for vertex in range(num):
        for entry in range(members.first[vertex], members.first[vertex + 1]):
            vertex_of[entry] = vertex
    return _Networks(head, following, vertex_of, np.zeros(num, np.int64), np.zeros(num_ranks, np.bool_))


@inlined
def _take_network(rank, networks, turn):
    """Block all that wait for a rank's network, and take what has started out of its list."""
    head, following, vertex_of, blocked, is_busy = networks
    is_busy[rank] = True
    before = -1
    at = head[rank]
    while at >= 0:
        other = vertex_of[at]
        if turn[other] >= 0:
            if before < 0:
                head[rank] = following[at]
            else:
                following[before] = following[at]
        else:
            blocked[other] += 1
            before = at
        at = following[at]


@inlined
def _leave_network(rank, networks, turn, key, could_key, could, num_could):
    """Unblock all that wait for a rank's network; returns how many could start, a heap."""
    head, following, vertex_of, blocked, is_busy = networks
    is_busy[rank] = False
    at = head[rank]
    while at >= 0:
        other = vertex_of[at]
        if turn[other] < 0:
            blocked[other] -= 1
            if blocked[other] == 0:
                heap_push(could_key, could, 0, num_could, key[other], other)
                num_could += 1
        at = following[at]
    return num_could


@inlined
def _set_free(vertex, graph, ready, num_ready):
    """Add the vertices that waited for this one last; returns how many are ready."""
    for way in range(graph.next_first[vertex], graph.next_first[vertex + 1]):
        graph.waits[graph.after[way]] -= 1
        if graph.waits[graph.after[way]] == 0:
            ready[num_ready] = graph.after[way]
            num_ready += 1
    return num_ready


@kernel
def rough_run(graph: Graph, vertices: Vertices, members: Members, num_ranks: int):
    """When each vertex starts, if a rank does one thing at a time on its GPU, its CPU and its network.

    A vertex starts when all that it waits for has ended and all its members are free; of several, the smallest key. So no
    rank holds its network for a collective that others are not ready for. Returns how many started before each, -1 for those
    that never do.
    """
    num = len(graph.waits)
    turn = np.empty(num, np.int64)
    started = now = num_ready = num_touched = num_could = running = 0
    networks = head, following, _, blocked, is_busy = _empty_networks(members, num_ranks)
    # Vertices that are ready for each processor, as heaps.
    heap_first = _heap_first(vertices, members, num_ranks)
    heap_key, heap = np.empty(heap_first[-1] + 1, np.int64), np.empty(heap_first[-1] + 1, np.int64)
    heap_size, is_working = np.zeros(num_ranks * 2, np.int64), np.zeros(num_ranks * 2, np.bool_)
    touched = np.empty(2 * num + 1, np.int64)
    could_key, could = np.empty(num + len(members.rank) + 1, np.int64), np.empty(num + len(members.rank) + 1, np.int64)
    ends_ns, ends, ready = np.empty(num + 1, np.int64), np.empty(num + 1, np.int64), np.empty(num + 1, np.int64)
    for vertex in range(num):
        turn[vertex] = -1
        if graph.waits[vertex] == 0:
            ready[num_ready] = vertex
            num_ready += 1
    while True:
        while num_ready > 0:
            num_ready -= 1
            vertex = ready[num_ready]
            kind = vertices.slot[vertex]
            if kind == NO_TIME:
                turn[vertex] = started
                started += 1
                num_ready = _set_free(vertex, graph, ready, num_ready)
            elif kind == NETWORK:
                for entry in range(members.first[vertex], members.first[vertex + 1]):
                    rank = members.rank[entry]
                    following[entry] = head[rank]
                    head[rank] = entry
                    if is_busy[rank]:
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
        while num_touched > 0 or num_could > 0:
            if num_touched > 0:
                num_touched -= 1
                place = touched[num_touched]
                if heap_size[place] == 0 or is_working[place]:
                    continue
                vertex = heap[heap_first[place]]
                heap_size[place] -= 1
                heap_drop_first(heap_key, heap, heap_first[place], heap_size[place])
                is_working[place] = True
            else:
                vertex = could[0]
                num_could -= 1
                heap_drop_first(could_key, could, 0, num_could)
                if turn[vertex] >= 0 or blocked[vertex] > 0:
                    continue
            turn[vertex] = started
            started += 1
            heap_push(ends_ns, ends, 0, running, now + vertices.duration[vertex], vertex)
            running += 1
            if vertices.slot[vertex] == NETWORK:
                for entry in range(members.first[vertex], members.first[vertex + 1]):
                    _take_network(members.rank[entry], networks, turn)
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
                if kind == NETWORK:
                    num_could = _leave_network(rank, networks, turn, vertices.key, could_key, could, num_could)
                else:
                    place = rank * 2 + kind - 1
                    is_working[place] = False
                    touched[num_touched] = place
                    num_touched += 1
            num_ready = _set_free(vertex, graph, ready, num_ready)
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
