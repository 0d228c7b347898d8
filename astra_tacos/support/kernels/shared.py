"""A binary heap, the smallest key first, in `keys[base : base + size]` with a value for each key in `values`.

Keys are numbers, or rows of four columns that are compared one column after another. A heap of bare numbers passes one
array for both. Of equal keys the order depends on the calls alone.

Bits of 64-bit words, and random ones.

Augmenting paths of a matching; nearest vertices.

Kahn's topological sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from astra_tacos.support.kernels.compiled import I64, I64_OUT, helper, inlined, kernel

# mypy: ignore-errors


def _key_at(keys, at):
    raise NotImplementedError


@overload(_key_at)
def _typed_key_at(keys, at):
    if keys.ndim == 1:
        return lambda keys, at: keys[at]
    return lambda keys, at: (keys[at, 0], keys[at, 1], keys[at, 2], keys[at, 3])


def _set_key(keys, at, key):
    raise NotImplementedError


@overload(_set_key)
def _typed_set_key(keys, at, key):
    if keys.ndim == 1:

        def set_number(keys, at, key):
            keys[at] = key

        return set_number

    def set_row(keys, at, key):
        keys[at, 0], keys[at, 1], keys[at, 2], keys[at, 3] = key

    return set_row


@inlined
def heap_push(keys, values, base, size, key, value):
    """Add an entry to a heap of `size` entries."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if _key_at(keys, base + parent) <= key:
            break
        _set_key(keys, base + at, _key_at(keys, base + parent))
        values[base + at] = values[base + parent]
        at = parent
    _set_key(keys, base + at, key)
    values[base + at] = value


@inlined
def heap_replace_first(keys, values, base, size, key, value):
    """Put an entry in the place of the first one of a heap of `size` entries."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _key_at(keys, base + child + 1) < _key_at(keys, base + child):
            child += 1
        if key <= _key_at(keys, base + child):
            break
        _set_key(keys, base + at, _key_at(keys, base + child))
        values[base + at] = values[base + child]
        at = child
    _set_key(keys, base + at, key)
    values[base + at] = value


@inlined
def heap_drop_first(keys, values, base, size):
    """Take the first entry out of a heap that has `size` entries left after that."""
    heap_replace_first(keys, values, base, size, _key_at(keys, base + size), values[base + size])


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""What a counter goes up by between two calls of `mix`."""
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U27 = np.uint64(27)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Index of the lowest set bit of a non-zero uint64."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def population(typing_context: Any, word: Any) -> Any:
    """How many bits of a uint64 are set."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def bit_length(typing_context: Any, number: Any) -> Any:
    """Bits that an int64 of 0 or more takes."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)

    return types.int64(types.int64), codegen


@inlined
def mix(z: Any) -> Any:
    """64 random bits from a counter that goes up by `GOLDEN` (splitmix64, Steele and others 2014)."""
    z = (z ^ (z >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@inlined
def below(bits: Any, bound: Any) -> Any:
    """From 64 random bits, an integer from 0 to `bound` - 1."""
    return np.int64(((bits >> _U32) * np.uint64(bound)) >> _U32)


@helper
def nearest_first(source, wanted, num_wanted, edges, ways, heap):
    """Dijkstra's algorithm, until so many wanted vertices are reached; returns how many are.

    `edges` has where those out of each vertex begin, their numbers, and by number the vertex where each leads and its length.
    `ways` is written: the distance of each vertex (more than any before), the edge into it, and wanted ones as they are reached.
    """
    first, leaving, head, length = edges
    distance, last, nearest = ways
    keys, vertices = heap
    distance[source] = 0
    heap_push(keys, vertices, 0, 0, distance[source], np.int64(source))
    size = 1
    reached = 0
    while size > 0 and reached < num_wanted:
        here = keys[0]
        vertex = vertices[0]
        size -= 1
        heap_drop_first(keys, vertices, 0, size)
        if here > distance[vertex]:
            continue
        if wanted[vertex]:
            nearest[reached] = vertex
            reached += 1
        for at in range(first[vertex], first[vertex + 1]):
            edge = leaving[at]
            there = here + length[edge]
            other = np.int64(head[edge])
            if there < distance[other]:
                distance[other] = there
                last[other] = edge
                heap_push(keys, vertices, 0, size, there, other)
                size += 1
    return reached


@helper
def augment(start, num_columns, matrix, least, matched, space):
    """Match row `start` over entries of at least `least`, by a shortest augmenting path; whether there is one.

    `matched` has the column of each row and the row of each column, -1 for none; `space` two arrays to work in, of as many
    entries as there are columns, and of one more.
    """
    column_of, row_of = matched
    before, queue = space
    for column in range(num_columns):
        before[column] = -1
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        row = queue[head]
        head += 1
        for column in range(num_columns):
            if before[column] >= 0 or matrix[row, column] < least:
                continue
            before[column] = row
            if row_of[column] >= 0:
                queue[tail] = row_of[column]
                tail += 1
                continue
            while True:
                row = before[column]
                other = column_of[row]
                column_of[row] = column
                row_of[column] = row
                if row == start:
                    return True
                column = other
    return False


# mypy: ignore-errors


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
