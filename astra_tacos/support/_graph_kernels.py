"""Kernels: shortest ways (Dijkstra 1959) and strongly connected components (Tarjan 1972)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import F64, F64_2D_OUT, I32_2D_OUT, I64, I64_OUT, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push

# mypy: ignore-errors


class Edges(NamedTuple):
    """Edges by tail: `first[v]` to `first[v + 1]` are those out of vertex v; where each leads, and how long it is."""

    first: I64  # [num_vertices + 1]
    head: I64
    length: F64


@kernel
def shortest_ways(edges: Edges, source_first: I64, source: I64, limit: float, distance: F64_2D_OUT, before: I32_2D_OUT):
    """Row by row, distances from the nearest of the row's sources, and the vertex before each on its way, if `before` has rows.

    Vertices farther than `limit` keep what their entries were.
    """
    heap_keys = np.empty(len(edges.head) + len(source), np.float64)
    heap_vertices = np.empty(len(edges.head) + len(source), np.int64)
    tells_before = len(before) > 0
    for row in range(len(source_first) - 1):
        size = 0
        for at in range(source_first[row], source_first[row + 1]):
            distance[row, source[at]] = 0.0
            heap_push(heap_keys, heap_vertices, 0, size, 0.0, source[at])
            size += 1
        while size > 0:
            near = heap_keys[0]
            vertex = heap_vertices[0]
            size -= 1
            heap_drop_first(heap_keys, heap_vertices, 0, size)
            if near > distance[row, vertex]:
                continue
            for edge in range(edges.first[vertex], edges.first[vertex + 1]):
                other = edges.head[edge]
                far = near + edges.length[edge]
                if far <= limit and far < distance[row, other]:
                    distance[row, other] = far
                    if tells_before:
                        before[row, other] = np.int32(vertex)
                    heap_push(heap_keys, heap_vertices, 0, size, far, other)
                    size += 1


@kernel
def strong_groups(first: I64, head: I64, group: I64_OUT):
    """Give each vertex its group (all -1 before), groups by ascending first member; returns how many groups there are."""
    num_vertices = len(group)
    seen = np.full(num_vertices, -1, np.int64)
    lowest = np.empty(num_vertices, np.int64)
    at = first[:-1].copy()
    way = np.empty(num_vertices, np.int64)
    open_ones = np.empty(num_vertices, np.int64)
    num_seen = num_open = number = depth = 0
    for start in range(num_vertices):
        if seen[start] >= 0:
            continue
        entered = start
        while True:
            if entered >= 0:
                seen[entered] = lowest[entered] = num_seen
                num_seen += 1
                way[depth] = entered
                open_ones[num_open] = entered
                depth += 1
                num_open += 1
                entered = -1
            vertex = way[depth - 1]
            if at[vertex] < first[vertex + 1]:
                other = head[at[vertex]]
                at[vertex] += 1
                if seen[other] < 0:
                    entered = other
                elif group[other] < 0:
                    lowest[vertex] = min(lowest[vertex], seen[other])
                continue
            depth -= 1
            if lowest[vertex] == seen[vertex]:
                while True:
                    num_open -= 1
                    group[open_ones[num_open]] = number
                    if open_ones[num_open] == vertex:
                        break
                number += 1
            if depth == 0:
                break
            lowest[way[depth - 1]] = min(lowest[way[depth - 1]], lowest[vertex])
    name = np.full(number, -1, np.int64)
    named = 0
    for vertex in range(num_vertices):
        if name[group[vertex]] < 0:
            name[group[vertex]] = named
            named += 1
        group[vertex] = name[group[vertex]]
    return number
