"""The parts that kernels share, against twins in plain Python."""

from __future__ import annotations

import heapq

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from astra_tacos.support.kernels.shared import (
    GOLDEN,
    below,
    bit_length,
    heap_drop_first,
    heap_push,
    heap_replace_first,
    mix,
    population,
    topological_order,
    trailing_zeros,
)

WORDS = st.integers(0, (1 << 64) - 1)


@njit
def sort_with_numbers(keys, base):
    """Keys and the places where they were, as a heap at `base` yields them."""
    heap = np.empty(base + len(keys), np.int64)
    values = np.empty(base + len(keys), np.int64)
    for place in range(len(keys)):
        heap_push(heap, values, base, place, keys[place], place)
    order = np.empty(len(keys), np.int64)
    for size in range(len(keys) - 1, -1, -1):
        order[len(keys) - 1 - size] = values[base]
        heap_drop_first(heap, values, base, size)
    return order


@njit
def sort_rows(rows):
    keys = np.empty((len(rows), 4), np.int64)
    values = np.empty(len(rows), np.int64)
    for place in range(len(rows)):
        heap_push(keys, values, 0, place, (rows[place, 0], rows[place, 1], rows[place, 2], rows[place, 3]), place)
    order = np.empty(len(rows), np.int64)
    for size in range(len(rows) - 1, -1, -1):
        order[len(rows) - 1 - size] = values[0]
        heap_drop_first(keys, values, 0, size)
    return order


@njit
def replaced(keys, news):
    """What comes first, as one new key after another takes its place. Bare keys."""
    heap = np.empty(len(keys), np.int64)
    for place in range(len(keys)):
        heap_push(heap, heap, 0, place, keys[place], keys[place])
    firsts = np.empty(len(news), np.int64)
    for place in range(len(news)):
        firsts[place] = heap[0]
        heap_replace_first(heap, heap, 0, len(keys), news[place], news[place])
    return firsts


@njit
def bits_of(word, bound):
    return mix(word), below(word, bound), population(word), trailing_zeros(word | (np.uint64(1) << np.uint64(63)))


@njit
def length_of(number):
    return bit_length(number)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(0, 3))
def test_a_heap_yields_the_smallest_key_first(keys: list[int], base: int) -> None:
    got = sort_with_numbers(np.array(keys, np.int64), base).tolist()
    assert sorted(got) == list(range(len(keys)))
    assert [keys[place] for place in got] == sorted(keys)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 4), min_size=1, max_size=30))
def test_a_heap_of_rows_compares_one_column_after_another(rows: list[tuple[int, int, int, int]]) -> None:
    got = sort_rows(np.array(rows, np.int64)).tolist()
    assert sorted(got) == list(range(len(rows)))
    assert [rows[place] for place in got] == sorted(rows)


@settings(deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=20), st.lists(st.integers(-9, 9), max_size=20))
def test_the_first_of_a_heap_is_replaced(keys: list[int], news: list[int]) -> None:
    heap, expected = list(keys), []
    heapq.heapify(heap)
    for new in news:
        expected.append(heapq.heapreplace(heap, new))
    assert replaced(np.array(keys, np.int64), np.array(news, np.int64)).tolist() == expected


@settings(deadline=None)
@given(st.integers(1, 12), st.data())
def test_the_topological_sort_is_kahns(num: int, data: st.DataObject) -> None:
    edges = data.draw(st.lists(st.tuples(*[st.integers(0, num - 1)] * 2), max_size=3 * num, unique=True))
    edges.sort()
    first = np.searchsorted([a for a, _ in edges], np.arange(num + 1)).astype(np.int64)
    waits = np.bincount(np.array([b for _, b in edges], np.int64), minlength=num)
    order = topological_order(waits, first, np.array([b for _, b in edges], np.int64)).tolist()
    # Kahn's algorithm with a queue, in plain Python.
    left = [sum(b == vertex for _, b in edges) for vertex in range(num)]
    expected = [vertex for vertex in range(num) if not left[vertex]]
    for vertex in expected:
        for a, b in edges:
            if a == vertex:
                left[b] -= 1
                if not left[b]:
                    expected.append(b)
    assert order == expected
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(num))
    assert (len(order) == num) == nx.is_directed_acyclic_graph(graph)
    assert all((waits[vertex] > 0) == (vertex not in order) for vertex in range(num))


@settings(deadline=None)
@given(WORDS, st.integers(1, 1 << 31))
def test_bits_are_those_of_python(word: int, bound: int) -> None:
    z = word
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % (1 << 64)
    random, lower, ones, zeros = bits_of(np.uint64(word), bound)
    assert int(random) == z ^ (z >> 31)
    assert int(lower) == (word >> 32) * bound >> 32
    assert int(ones) == word.bit_count()
    high = word | 1 << 63
    assert int(zeros) == (high & -high).bit_length() - 1
    assert int(length_of(word >> 1)) == (word >> 1).bit_length()


def test_splitmix_is_the_published_generator() -> None:
    """The first numbers from seed 1234567 (https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64)."""
    counter, numbers = 1234567, []
    for _ in range(5):
        counter = (counter + int(GOLDEN)) % (1 << 64)
        numbers.append(int(bits_of(np.uint64(counter), 1)[0]))
    assert numbers == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
