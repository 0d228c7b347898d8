"""Cycles of communicator groups: deadlocks that depend on which collective each rank happens to start first."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from astra_tacos.linter.columns import count_before
from astra_tacos.linter.run_order import Pairs

_MOST_CIRCLE_PAIRS = 128
"""Most pairs of two groups on a rank that the search for cycles uses."""


@dataclass(frozen=True, slots=True)
class Circle:
    """A cycle of groups that can wait for one another: on each rank two rows, one of a group and one of the next group."""

    groups: tuple[int, ...]
    ranks: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]


def circles(pairs: Pairs, instance_of: Mapping[int, int], number_of: Mapping[int, int]) -> list[Circle]:
    """Find cycles of groups that can deadlock, depending on which collective each rank starts first.

    Any two groups of a cycle share a single rank.

    Parameters
    ----------
    pairs
        Pairs of collectives of different groups.
    instance_of
        By row: the number of its collective.
    number_of
        By row: its place among the collectives of its group, for groups whose collectives dependencies order alike on all ranks.
    """
    edges: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    next_to: dict[int, set[tuple[int, int]]] = defaultdict(set)
    some = _some_of_each_rank(pairs)
    columns = (some.first_group, some.second_group, some.rank, some.first, some.second)
    for a, b, rank, first, second in zip(*(column.tolist() for column in columns), strict=True):
        edges[a, b, rank].append((first, second))
        edges[b, a, rank].append((second, first))
        next_to[a].add((b, rank))
        next_to[b].add((a, rank))
    neighbours = {group: sorted(near) for group, near in next_to.items()}
    found: list[Circle] = []
    covered: set[tuple[int, int, int]] = set()
    for edge in sorted(edges):
        if edge in covered or edge[0] > edge[1]:
            continue
        way = _way_back(neighbours, edge)
        if way is None:
            continue
        met = _follow([edges[step] for step in way], instance_of, number_of)
        if met is not None:
            found.append(Circle(tuple(step[0] for step in way), tuple(step[2] for step in way), met))
        covered |= {step for a, b, rank in way for step in ((a, b, rank), (b, a, rank))}
    return found


def _some_of_each_rank(pairs: Pairs) -> Pairs:
    """The first few pairs of each two groups on each rank."""
    low, high = np.minimum(pairs.first_group, pairs.second_group), np.maximum(pairs.first_group, pairs.second_group)
    return pairs.where(count_before(pairs.rank, low, high) < _MOST_CIRCLE_PAIRS)


def _way_back(neighbours: Mapping[int, list[tuple[int, int]]], edge: tuple[int, int, int]) -> list[tuple[int, int, int]] | None:
    """The shortest cycle that begins with an edge and does not visit a rank twice in a row."""
    start, second, rank = edge
    came: dict[tuple[int, int], tuple[int, int] | None] = {(second, rank): None}
    queue = deque(came)
    while queue:
        state = queue.popleft()
        group, last = state
        for other, over in neighbours[group]:
            if over == last or (other == start and over == rank):
                continue
            if other == start:
                way = [(group, start, over)]
                before = came[state]
                while before is not None:
                    way.append((before[0], state[0], state[1]))
                    state, before = before, came[before]
                return [edge, *reversed(way)]
            if (other, over) not in came:
                came[other, over] = state
                queue.append((other, over))
    return None


def _follow(
    steps: list[list[tuple[int, int]]], instance_of: Mapping[int, int], number_of: Mapping[int, int]
) -> tuple[tuple[int, int], ...] | None:
    """One pair of rows per step, such that the second collective of a pair is, or comes before, the first of the next pair."""
    for start in steps[0]:
        came = [_Arrival(start, None)]
        for step in steps[1:]:
            came = _next_arrivals(came, step, instance_of, number_of)
        for arrival in came:
            if _meets(arrival.pair[1], start[0], instance_of, number_of):
                rows: list[tuple[int, int]] = []
                at: _Arrival | None = arrival
                while at is not None:
                    rows.append(at.pair)
                    at = at.before
                return tuple(reversed(rows))
    return None


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A partial path along the cycle: its last pair of rows, and the path before that pair."""

    pair: tuple[int, int]
    before: _Arrival | None


def _next_arrivals(
    came: list[_Arrival], step: list[tuple[int, int]], instance_of: Mapping[int, int], number_of: Mapping[int, int]
) -> list[_Arrival]:
    """The paths extended by one step, one path per collective that the step leads to.

    Of ordered collectives only the first one is extended, as it comes before the most others.
    """
    numbered = [arrival for arrival in came if arrival.pair[1] in number_of]
    first = min(numbered, key=lambda arrival: number_of[arrival.pair[1]]) if numbered else None
    at = {instance_of[arrival.pair[1]]: arrival for arrival in came}
    found: dict[int, _Arrival] = {}
    for pair in step:
        arrival = at.get(instance_of[pair[0]])
        if arrival is None and first is not None and _meets(first.pair[1], pair[0], instance_of, number_of):
            arrival = first
        if arrival is not None:
            found.setdefault(instance_of[pair[1]], _Arrival(pair, arrival))
    return list(found.values())


def _meets(row: int, other: int, instance_of: Mapping[int, int], number_of: Mapping[int, int]) -> bool:
    """Whether the collective of `row` is that of `other`, of the same group, or certainly comes before it."""
    if instance_of[row] == instance_of[other]:
        return True
    return row in number_of and other in number_of and number_of[row] < number_of[other]
