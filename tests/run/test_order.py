"""The order of collectives: against a twin in plain Python, and as ranks can keep it."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.planner.assignment import tag_ranges
from astra_tacos.run.graph import _order_kernels as kernels

Edges = list[tuple[int, int]]


def csr(num, edges):
    """How many each waits for, and who waits for it."""
    edges = sorted(edges)
    waits = np.bincount([b for _, b in edges], minlength=num).astype(np.int64)
    first = np.searchsorted([a for a, _ in edges], np.arange(num + 1)).astype(np.int64)
    return waits, first, np.array([b for _, b in edges], np.int64)


def random_edges(rng, num, chance):
    shuffled = rng.sample(range(num), num)
    return [(shuffled[i], shuffled[j]) for j in range(num) for i in range(j) if rng.random() < chance]


def naive_issue_order(num, edges, key):
    waits = [sum(b == vertex for _, b in edges) for vertex in range(num)]
    heap = [(key[vertex], vertex) for vertex in range(num) if not waits[vertex]]
    heapq.heapify(heap)
    order = []
    while heap:
        _, vertex = heapq.heappop(heap)
        order.append(vertex)
        for a, b in edges:
            if a == vertex:
                waits[b] -= 1
                if not waits[b]:
                    heapq.heappush(heap, (key[b], b))
    return order


@given(st.randoms(use_true_random=False), st.integers(1, 14), st.sampled_from((0.1, 0.3)))
@examples(20)
def test_ranks_issue_the_lowest_key_first(rng, num, chance):
    edges, key = random_edges(rng, num, chance), rng.sample(range(100), num)
    order, runs = kernels.issue_order(np.array([0, num]), kernels.Graph(*csr(num, edges)), np.array(key))
    assert order.tolist() == naive_issue_order(num, edges, key)
    assert runs.tolist() == [num]


@given(st.randoms(use_true_random=False), st.integers(2, 14), st.integers(1, 4))
@examples(20)
def test_a_rough_run_starts_everything_once_and_as_the_twin_does(rng, num, num_ranks):
    edges = random_edges(rng, num, 0.15)
    slot = [rng.choice((kernels.NO_TIME, kernels.GPU, kernels.CPU, kernels.NETWORK, kernels.NETWORK)) for _ in range(num)]
    members = [
        sorted(rng.sample(range(num_ranks), rng.randint(1, num_ranks))) if kind == kernels.NETWORK else [rng.randrange(num_ranks)]
        for kind in slot
    ]
    duration = [0 if kind == kernels.NO_TIME else rng.randint(1, 5) for kind in slot]
    key = rng.sample(range(100), num)
    first = np.concatenate(([0], np.cumsum([len(ranks) for ranks in members]))).astype(np.int64)
    turn = kernels.rough_run(
        kernels.Graph(*csr(num, edges)),
        kernels.Vertices(np.array(duration), np.array(slot, np.uint8), np.array(key)),
        kernels.Members(first, np.array([rank for ranks in members for rank in ranks])),
        num_ranks,
    )
    assert sorted(turn.tolist()) == list(range(num))
    started = naive_rough_run(num, edges, duration, slot, key, members)
    for a, b in edges:
        assert turn[a] < turn[b]
    networked = [vertex for vertex in np.argsort(turn).tolist() if slot[vertex] == kernels.NETWORK]
    assert [started[vertex] for vertex in networked] == sorted(started[vertex] for vertex in networked)
    by_time = sorted(networked, key=lambda vertex: (started[vertex], key[vertex]))
    assert networked == by_time


def naive_rough_run(num, edges, duration, slot, key, members):
    """When each vertex starts, instant by instant."""
    start: dict[int, int] = {}
    now = 0
    while len(start) < num:
        while True:
            ended = {vertex for vertex, begin in start.items() if begin + duration[vertex] <= now}
            busy = {(rank, slot[v]) for v in start if v not in ended for rank in members[v]}
            ready = [v for v in range(num) if v not in start and all(a in ended for a, b in edges if b == v)]
            free = [v for v in ready if slot[v] == kernels.NO_TIME]
            able = [v for v in ready if slot[v] != kernels.NO_TIME and not busy & {(rank, slot[v]) for rank in members[v]}]
            if not free and not able:
                break
            start[free[0] if free else min(able, key=lambda v: key[v])] = now
        now += 1
    return start


def test_tags_avoid_those_that_are_used():
    assert tag_ranges("w", np.array([-1, 7, 3]), [10, 5], 1000) == [8, 18]
    assert tag_ranges("w", np.array([995]), [10, 5], 1000) == [0, 10]
    assert tag_ranges("w", np.array([1500, 990]), [495, 400, 5], 1000) == [0, 501, 901]
    assert tag_ranges("w", np.array([-1]), [10], 1000) == [0]
    with pytest.raises(ConfigError, match="no space for 1,001 more tags"):
        tag_ranges("w", np.array([-1]), [1001], 1000)
