"""The order of hosts in which an algorithm over all of them ends earliest, by what was measured between them.

- A ring in steps of m bytes: each step takes as long as the slowest of its pairs is held, but no less than the mean over the ring
  of latency and holding, as what goes once around waits for every pair (the largest cycle mean of the steps' graph).
- Halving-doubling of S bytes: the slowest pair of each step, S/2 bytes at distance 1, S/4 at distance 2, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.fabric.host_matrix import HostMatrix

_ALL_ORDERS_UP_TO = 8
_MOST_STARTS = 8
_MOST_TRIED = 100_000
Cost = tuple[float, float]
"""What is minimised, and what decides between equals."""


@dataclass(frozen=True, slots=True, eq=False)
class HostOrder:
    """An order of hosts, int64[hosts], and whether no other one is better."""

    order: NDArray[np.int64]
    is_best: bool


def ring_ns(matrix: HostMatrix, order: NDArray[np.int64], size_bytes: int) -> float:
    """A ring's All-Reduce of a size in this order, in ns."""
    return _ring(matrix, size_bytes)(order)[0]


def halving_doubling_ns(matrix: HostMatrix, order: NDArray[np.int64], size_bytes: int) -> float | None:
    """All-Reduce by recursive halving and doubling, in ns; None unless the number of hosts is a power of two."""
    if matrix.num_hosts & (matrix.num_hosts - 1):
        return None
    return _halving_doubling(matrix, size_bytes)(order)[0]


def _ring(matrix: HostMatrix, size_bytes: int) -> Callable[[NDArray[np.int64]], Cost]:
    held = matrix.message_ns(size_bytes / matrix.num_hosts)
    takes = held + matrix.latency_ns
    steps = 2 * (matrix.num_hosts - 1)

    def cost(order: NDArray[np.int64]) -> Cost:
        after = np.roll(order, -1)
        mean = float(takes[order, after].mean())
        return steps * max(mean, float(held[order, after].max())), mean

    return cost


def _halving_doubling(matrix: HostMatrix, size_bytes: int) -> Callable[[NDArray[np.int64]], Cost]:
    places = np.arange(matrix.num_hosts)
    steps = [
        (places ^ distance, matrix.latency_ns + matrix.message_ns(size_bytes / (2 * distance)))
        for distance in (1 << at for at in range(matrix.num_hosts.bit_length() - 1))
    ]

    def cost(order: NDArray[np.int64]) -> Cost:
        of_steps = [takes[order, order[other]] for other, takes in steps]
        return 2 * sum(float(each.max()) for each in of_steps), sum(float(each.sum()) for each in of_steps)

    return cost


ALGORITHMS = {"ring": _ring, "halving-doubling": _halving_doubling}


def find_order(
    matrix: HostMatrix,
    algorithm: str,
    size_bytes: int,
    start: NDArray[np.int64],
    allows: Callable[[NDArray[np.int64]], bool] = lambda order: True,
) -> HostOrder:
    """The best order of up to 8 hosts; of more, the best that exchanges, moves and reversals lead to from several starts.

    Parameters
    ----------
    matrix
        What was measured.
    algorithm
        Key of `ALGORITHMS`.
    size_bytes
        Size of the All-Reduce.
    start
        int64[hosts], an order that is allowed, from which a search begins, too.
    allows
        Whether an order may be taken.
    """
    cost = ALGORITHMS[algorithm](matrix, size_bytes)
    if matrix.num_hosts <= _ALL_ORDERS_UP_TO:
        orders = (np.array(order) for order in permutations(range(matrix.num_hosts)))
        return HostOrder(min((order for order in orders if allows(order)), key=cost), True)
    best = min(
        (_improved(order, cost, allows) for order in _starts(matrix, size_bytes, start) if allows(order)),
        key=cost,
    )
    return HostOrder(best, False)


def _starts(matrix: HostMatrix, size_bytes: int, start: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    yield np.arange(matrix.num_hosts)
    yield start
    takes = matrix.latency_ns + matrix.message_ns(size_bytes / matrix.num_hosts)
    for first in range(min(matrix.num_hosts, _MOST_STARTS)):
        order, left = [first], set(range(matrix.num_hosts)) - {first}
        while left:
            order.append(min(left, key=lambda host: (takes[order[-1], host], host)))
            left.remove(order[-1])
        yield np.array(order)


def _improved(
    order: NDArray[np.int64], cost: Callable[[NDArray[np.int64]], Cost], allows: Callable[[NDArray[np.int64]], bool]
) -> NDArray[np.int64]:
    """An order that no exchange, move or reversal improves, or the best one after many."""
    best, tried, improves = cost(order), 0, True
    while improves and tried < _MOST_TRIED:
        improves = False
        for changed in _changes(order):
            tried += 1
            if (found := cost(changed)) < best and allows(changed):
                order, best, improves = changed, found, True
                break
    return order


def _changes(order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for one in range(len(order)):
        for other in range(one + 1, len(order)):
            exchanged = order.copy()
            exchanged[[one, other]] = exchanged[[other, one]]
            yield exchanged
            yield np.concatenate((order[:one], order[one : other + 1][::-1], order[other + 1 :]))
            yield np.concatenate((order[:one], order[one + 1 : other + 1], order[one : one + 1], order[other + 1 :]))
            yield np.concatenate((order[:one], order[other : other + 1], order[one:other], order[other + 1 :]))
