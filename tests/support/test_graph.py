"""Shortest ways and groups of random graphs are those of NetworkX."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.support.graph import NONE_BEFORE, Graph


@st.composite
def graphs(draw):
    """A graph with parallel edges, edges of length 0 and loops, and the same for NetworkX."""
    size = draw(st.integers(1, 9))
    vertex = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex, st.integers(0, 5)), max_size=30))
    tail, head, length = np.array(edges, np.int64).reshape(-1, 3).T
    same = networkx.DiGraph()
    same.add_nodes_from(range(size))
    for source, target, weight in edges:
        least = min(weight, same.get_edge_data(source, target, {"weight": weight})["weight"])
        same.add_edge(source, target, weight=least)
    return Graph.of(size, tail, head, length), same


@given(graphs(), st.integers(0, 12))
def test_distances_and_ways(pair, limit):
    graph, same = pair
    distance, before = graph.ways()
    expected = np.full((graph.size, graph.size), np.inf)
    for source, lengths in networkx.all_pairs_dijkstra_path_length(same):
        expected[source, list(lengths)] = list(lengths.values())
    assert (distance == expected).all()
    assert (expected == graph.turned.distances().T).all()
    assert (graph.distances(limit=limit) == np.where(expected <= limit, expected, np.inf)).all()
    sources = np.arange(0, graph.size, 2)
    assert (graph.distances(sources) == expected[sources]).all()
    assert (graph.from_nearest(sources) == expected[sources].min(axis=0)).all()
    for source in range(graph.size):
        for vertex in range(graph.size):
            if vertex == source or np.isinf(expected[source, vertex]):
                assert before[source, vertex] == NONE_BEFORE
            else:
                last = int(before[source, vertex])
                assert expected[source, last] + same.edges[last, vertex]["weight"] == expected[source, vertex]


@given(graphs())
def test_groups(pair):
    graph, same = pair
    number, group = graph.strong_groups()
    expected = sorted(map(sorted, networkx.strongly_connected_components(same)))
    assert [np.flatnonzero(group == each).tolist() for each in range(number)] == expected


@pytest.mark.parametrize("size", [1, 5000])
def test_long_ways(size):
    tail = np.arange(size)
    graph = Graph.of(size, tail, (tail + 1) % size)
    assert graph.distances([0])[0].tolist() == tail.tolist()
    assert graph.strong_groups()[0] == 1
    assert Graph.of(size, tail[:-1], tail[1:]).strong_groups()[0] == size
