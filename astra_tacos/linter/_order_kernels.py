# mypy: ignore-errors
"""Kernels: which node of a rank, or of a whole run, comes before which."""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def transpose(first, target, num):
    """Edges by their other end: `target[first[i]:first[i + 1]]` holds row i's, negative ones count for nothing."""
    back_first = np.zeros(num + 1, np.int64)
    for slot in range(len(target)):
        if target[slot] >= 0:
            back_first[target[slot] + 1] += 1
    for row in range(num):
        back_first[row + 1] += back_first[row]
    fill = back_first[:-1].copy()
    back = np.empty(back_first[num], np.int64)
    for row in range(len(first) - 1):
        for slot in range(first[row], first[row + 1]):
            if target[slot] >= 0:
                back[fill[target[slot]]] = row
                fill[target[slot]] += 1
    return back_first, back


@njit(cache=True, nogil=True)
def rank_orders(rank_first, dep_first, dep, next_first, after):
    """Rows of each rank in an order that dependencies keep, and how many of each rank have a place in it.

    Rows in a cycle, or behind one, fill the end of their rank's part.
    """
    num = len(dep_first) - 1
    waits = np.zeros(num, np.int64)
    order = np.empty(num, np.int64)
    ordered = np.zeros(len(rank_first) - 1, np.int64)
    for row in range(num):
        for slot in range(dep_first[row], dep_first[row + 1]):
            if dep[slot] >= 0:
                waits[row] += 1
    for rank in range(len(rank_first) - 1):
        begin = rank_first[rank]
        size = begin
        for row in range(begin, rank_first[rank + 1]):
            if waits[row] == 0:
                order[size] = row
                size += 1
        at = begin
        while at < size:
            row = order[at]
            at += 1
            for slot in range(next_first[row], next_first[row + 1]):
                child = after[slot]
                waits[child] -= 1
                if waits[child] == 0:
                    order[size] = child
                    size += 1
        ordered[rank] = size - begin
        for row in range(begin, rank_first[rank + 1]):
            if waits[row] > 0:
                order[size] = row
                size += 1
    return order, ordered


@njit(cache=True, nogil=True)
def _doubled(array):
    """Twice as long. A loop, as assigning to a slice makes numba compile its error messages, for seconds."""
    longer = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        longer[i] = array[i]
    return longer


@njit(cache=True, nogil=True)
def unordered_pairs(rank_first, ordered, order, dep_first, dep, sort, most_words, most_pairs):
    """Pairs of one rank's tracked rows that no chain of dependencies orders.

    `sort`: int64 per row, -1 for rows that are not tracked, else equal where it makes no difference which comes first; pairs of
    equal sort are left out. Returns the pairs, and whether each rank was cut short (too many rows, or `most_pairs` found).
    """
    first_row = np.empty(1024, np.int64)
    second_row = np.empty(1024, np.int64)
    count = 0
    num_ranks = len(rank_first) - 1
    cut = np.zeros(num_ranks, np.bool_)
    place = np.empty(len(order), np.int64)
    for rank in range(num_ranks):
        begin = rank_first[rank]
        size = ordered[rank]
        tracked = 0
        for at in range(size):
            place[order[begin + at]] = at
            if sort[order[begin + at]] >= 0:
                tracked += 1
        if tracked < 2:
            continue
        words = (tracked + 63) // 64
        if words * size > most_words:
            cut[rank] = True
            continue
        rows = np.empty(tracked, np.int64)
        bits = np.zeros((size, words), np.uint64)
        number = 0
        found = 0
        for at in range(size):
            row = order[begin + at]
            for slot in range(dep_first[row], dep_first[row + 1]):
                if dep[slot] >= 0:
                    before = place[dep[slot]]
                    for word in range(words):
                        bits[at, word] |= bits[before, word]
            if sort[row] < 0:
                continue
            for word in range((number + 63) // 64):
                absent = ~bits[at, word]
                if absent == 0:
                    continue
                for bit in range(min(64, number - 64 * word)):
                    if not (absent >> np.uint64(bit)) & _ONE:
                        continue
                    other = rows[64 * word + bit]
                    if sort[other] == sort[row]:
                        continue
                    if found == most_pairs:
                        cut[rank] = True
                        break
                    if count == len(first_row):
                        first_row = _doubled(first_row)
                        second_row = _doubled(second_row)
                    first_row[count] = other
                    second_row[count] = row
                    count += 1
                    found += 1
            rows[number] = row
            bits[at, number >> 6] |= _ONE << np.uint64(number & 63)
            number += 1
    return first_row[:count], second_row[:count], cut


@njit(cache=True, nogil=True)
def precedes(rank_first, rank_of, place, order, dep_first, dep, before, after):
    """For each query, sorted by `before`'s place in `order`: does a chain of dependencies lead from `before` to `after`?

    Both are rows of one rank. 64 rows at a time are followed through the rank.
    """
    answer = np.zeros(len(before), np.bool_)
    reached = np.zeros(len(place), np.uint64)
    query = 0
    while query < len(before):
        rank = rank_of[before[query]]
        begin = query
        sources = 0
        latest = -1
        high = -1
        low = place[before[query]]
        while query < len(before) and rank_of[before[query]] == rank:
            if before[query] != latest:
                if sources == 64:
                    break
                latest = before[query]
                sources += 1
            high = max(high, place[after[query]])
            query += 1
        sources = 0
        latest = -1
        for done in range(begin, query):
            if before[done] != latest:
                latest = before[done]
                reached[latest] = _ONE << np.uint64(sources)
                sources += 1
        for at in range(low, high + 1):
            row = order[at]
            bits = reached[row]
            for slot in range(dep_first[row], dep_first[row + 1]):
                if dep[slot] >= 0 and place[dep[slot]] >= low:
                    bits |= reached[dep[slot]]
            reached[row] = bits
        sources = -1
        latest = -1
        for done in range(begin, query):
            if before[done] != latest:
                latest = before[done]
                sources += 1
            answer[done] = before[done] != after[done] and (reached[after[done]] >> np.uint64(sources)) & _ONE
        for at in range(low, high + 1):
            reached[order[at]] = 0
    return answer


@njit(cache=True, nogil=True)
def find_cycle(first, needed, stuck, start):
    """A cycle among the `stuck` vertices, each of which needs another one of them, found by going back from `start`."""
    seen = np.full(len(stuck), -1, np.int64)
    path = np.empty(len(stuck), np.int64)
    size = 0
    vertex = start
    while seen[vertex] < 0:
        seen[vertex] = size
        path[size] = vertex
        size += 1
        for slot in range(first[vertex], first[vertex + 1]):
            if needed[slot] >= 0 and stuck[needed[slot]]:
                vertex = needed[slot]
                break
    return path[seen[vertex] : size].copy()


@njit(cache=True, nogil=True)
def merged_edges(dep_first, dep, vertex, usable, send_of):
    """Edges between vertices: dependencies of usable rows, and from the send to the receive `send_of` names. By their end."""
    num = 0
    for row in range(len(vertex)):
        if usable[row]:
            num += dep_first[row + 1] - dep_first[row] + 1
    src = np.empty(num, np.int64)
    dst = np.empty(num, np.int64)
    count = 0
    for row in range(len(vertex)):
        if not usable[row]:
            continue
        for slot in range(dep_first[row], dep_first[row + 1]):
            if dep[slot] >= 0 and usable[dep[slot]]:
                src[count] = vertex[dep[slot]]
                dst[count] = vertex[row]
                count += 1
        if send_of[row] >= 0 and usable[send_of[row]]:
            src[count] = vertex[send_of[row]]
            dst[count] = vertex[row]
            count += 1
    return src[:count], dst[:count]


@njit(cache=True, nogil=True)
def merged_order(first, needed, next_first, after):
    """Vertices in an order that all edges keep, and how many have a place in it."""
    num = len(first) - 1
    waits = np.empty(num, np.int64)
    order = np.empty(num, np.int64)
    size = 0
    for vertex in range(num):
        waits[vertex] = first[vertex + 1] - first[vertex]
        if waits[vertex] == 0:
            order[size] = vertex
            size += 1
    at = 0
    while at < size:
        vertex = order[at]
        at += 1
        for slot in range(next_first[vertex], next_first[vertex + 1]):
            waits[after[slot]] -= 1
            if waits[after[slot]] == 0:
                order[size] = after[slot]
                size += 1
    return order[:size], waits


@njit(cache=True, nogil=True)
def reaches(order, first, needed, dep_first, dep, vertex, usable, send_of, source, source_first, query_row, query_own):
    """Whether each query's source vertex surely completes before its row becomes ready.

    `source`: vertices; queries `source_first[i]:source_first[i + 1]` are about source i and ask about `query_row`. Where
    `query_own` is set the question is whether the source comes before the row's vertex in any way, so also by the
    dependencies that other members of its collective have.
    """
    answer = np.zeros(len(query_row), np.bool_)
    reached = np.zeros(len(first) - 1, np.uint64)
    own = np.zeros(len(first) - 1, np.uint64)
    for begin in range(0, len(source), 64):
        end = min(begin + 64, len(source))
        for number in range(begin, end):
            own[source[number]] = _ONE << np.uint64(number - begin)
        for at in range(len(order)):
            bits = np.uint64(0)
            for slot in range(first[order[at]], first[order[at] + 1]):
                bits |= reached[needed[slot]] | own[needed[slot]]
            reached[order[at]] = bits
        for number in range(begin, end):
            bit = _ONE << np.uint64(number - begin)
            for query in range(source_first[number], source_first[number + 1]):
                row = query_row[query]
                if query_own[query]:
                    answer[query] = reached[vertex[row]] & bit
                    continue
                bits = np.uint64(0)
                for slot in range(dep_first[row], dep_first[row + 1]):
                    if dep[slot] >= 0 and usable[dep[slot]]:
                        bits |= reached[vertex[dep[slot]]] | own[vertex[dep[slot]]]
                if send_of[row] >= 0:
                    bits |= reached[vertex[send_of[row]]] | own[vertex[send_of[row]]]
                answer[query] = bits & bit
        for number in range(begin, end):
            own[source[number]] = 0
    return answer
