# mypy: ignore-errors
"""Kernels: the order that dependencies give the nodes of a rank, or of a whole run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, I64, helper, kernel

_ONE = np.uint64(1)


@helper
def _doubled(array):
    """The array with twice the room. It copies in a loop: numba takes seconds to compile the error messages of a slice."""
    longer = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        longer[i] = array[i]
    return longer


class RankOrders(NamedTuple):
    """The rows of each rank in an order that keeps their dependencies (CSR; negative entries are none).

    `ordered` says how many of a rank's rows have a place in the order; the others are in cycles or behind them.
    """

    rank_first: I64
    ordered: I64
    order: I64
    dep_first: I64
    dep: I64


@kernel
def unordered_pairs(ranks: RankOrders, sort: I64, most_words: int, most_pairs: int):
    """Pairs of tracked rows of one rank that no chain of dependencies orders.

    `sort` is int64 per row: -1 for rows that are not tracked, else equal for interchangeable rows; pairs of equal sort are left
    out. Returns the pairs, and per rank whether its search was cut short (too many rows, or `most_pairs` pairs found).
    """
    first_row = np.empty(1024, np.int64)
    second_row = np.empty(1024, np.int64)
    count = 0
    order, dep_first, dep = ranks.order, ranks.dep_first, ranks.dep
    num_ranks = len(ranks.ordered)
    cut = np.zeros(num_ranks, np.bool_)
    place = np.empty(len(order), np.int64)
    for rank in range(num_ranks):
        begin = ranks.rank_first[rank]
        size = ranks.ordered[rank]
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
        num_pairs = 0
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
                    if num_pairs == most_pairs:
                        cut[rank] = True
                        break
                    if count == len(first_row):
                        first_row = _doubled(first_row)
                        second_row = _doubled(second_row)
                    first_row[count] = other
                    second_row[count] = row
                    count += 1
                    num_pairs += 1
            rows[number] = row
            bits[at, number >> 6] |= _ONE << np.uint64(number & 63)
            number += 1
    return first_row[:count], second_row[:count], cut


@kernel
def find_cycle(first: I64, needed: I64, stuck: BOOL, start: int):
    """A cycle among the `stuck` vertices, each of which needs another stuck one: found by following needs from `start`."""
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


class Rows(NamedTuple):
    """Nodes of a run: dependencies (CSR; negative entries are none), and the vertex that each node is merged into.

    Also whether each node is usable, and the send whose message a receive waits for (-1 if none).
    """

    dep_first: I64
    dep: I64
    vertex: I64
    usable: BOOL
    send_of: I64


class Graph(NamedTuple):
    """The vertices outside cycles in topological order, and the vertices that each vertex needs (CSR)."""

    order: I64
    first: I64
    needed: I64


class Queries(NamedTuple):
    """Queries `source_first[i] : source_first[i + 1]` ask whether vertex `source[i]` comes before a row.

    With `own` unset: whether it certainly completes before the row becomes ready. With `own` set: whether it comes before the
    row's vertex at all, so also through dependencies of other members of the row's collective.
    """

    source: I64
    source_first: I64
    row: I64
    own: BOOL


@kernel
def reaches(graph: Graph, rows: Rows, queries: Queries):
    """bool per query, the answers. One pass over the graph follows 64 sources, one bit each."""
    answer = np.zeros(len(queries.row), np.bool_)
    reached = np.zeros(len(graph.first) - 1, np.uint64)
    own = np.zeros(len(graph.first) - 1, np.uint64)
    for begin in range(0, len(queries.source), 64):
        end = min(begin + 64, len(queries.source))
        for number in range(begin, end):
            own[queries.source[number]] = _ONE << np.uint64(number - begin)
        for at in range(len(graph.order)):
            bits = np.uint64(0)
            for slot in range(graph.first[graph.order[at]], graph.first[graph.order[at] + 1]):
                bits |= reached[graph.needed[slot]] | own[graph.needed[slot]]
            reached[graph.order[at]] = bits
        for number in range(begin, end):
            bit = _ONE << np.uint64(number - begin)
            for query in range(queries.source_first[number], queries.source_first[number + 1]):
                row = queries.row[query]
                if queries.own[query]:
                    answer[query] = reached[rows.vertex[row]] & bit
                    continue
                bits = np.uint64(0)
                for slot in range(rows.dep_first[row], rows.dep_first[row + 1]):
                    if rows.dep[slot] >= 0 and rows.usable[rows.dep[slot]]:
                        bits |= reached[rows.vertex[rows.dep[slot]]] | own[rows.vertex[rows.dep[slot]]]
                if rows.send_of[row] >= 0:
                    bits |= reached[rows.vertex[rows.send_of[row]]] | own[rows.vertex[rows.send_of[row]]]
                answer[query] = bits & bit
        for number in range(begin, end):
            own[queries.source[number]] = 0
    return answer
