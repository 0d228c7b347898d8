"""A model of how long the communication of a run takes, given where its ranks are: bytes over bandwidth, level by level.

A group that has y_1 members within each block of the first dimension, y_2 such blocks in each of the second, and so on,
takes for an All-Reduce of S bytes 2 S (y_d - 1) / (y_1 ... y_d) over the bandwidth that a member has in dimension d, and twice
y_d - 1 times its latency, summed over the dimensions: Reduce-Scatter inside first (the hierarchical algorithm that P2 calls
reduce-allreduce-broadcast). What is scored is the most that a rank takes for all its collectives and messages one after another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import Dimension
from astra_tacos.support.units import bytes_per_ns

_WHOLE = frozenset({"broadcast", "reduce"})
_ROOT_HAS_ALL = frozenset({"scatter", "gather"})


@dataclass(frozen=True, slots=True)
class Demand:
    """Collectives of one group: the pattern, the size of each, and how many there are. Of a `message`, the two ranks."""

    collective: str
    size_bytes: int
    ranks: tuple[int, ...]
    count: int


@dataclass(slots=True, eq=False)
class PlacementCost:
    """The model for one network and run.

    Parameters
    ----------
    dimensions
        The network's, innermost first.
    demands
        What the run communicates.
    """

    dimensions: Sequence[Dimension]
    demands: Sequence[Demand]
    _known: dict[tuple[str, int, tuple[int, ...]], float] = field(default_factory=dict)
    _degree: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)

    def score_ns(self, npu_of_rank: NDArray[np.int64]) -> float:
        """The most that a rank takes for its communication, in ns."""
        return max(self.loads_ns(npu_of_rank), default=0.0)

    def loads_ns(self, npu_of_rank: NDArray[np.int64]) -> list[float]:
        """What each rank that communicates takes for it, in ns."""
        npus = npu_of_rank.tolist()
        total: dict[int, float] = defaultdict(float)
        for demand in self.demands:
            cost = demand.count * self.time_ns(demand.collective, demand.size_bytes, [npus[rank] for rank in demand.ranks])
            for rank in demand.ranks:
                total[rank] += cost
        return list(total.values())

    def time_ns(self, collective: str, size_bytes: int, npus: Sequence[int]) -> float:
        """The time of one collective of a group on these NPUs, or of a message between two."""
        key = collective, size_bytes, tuple(npus if collective == "message" else sorted(npus))
        if key not in self._known:
            self._known[key] = self._time_ns(*key)
        return self._known[key]

    def _time_ns(self, collective: str, size_bytes: int, npus: tuple[int, ...]) -> float:
        blocks, members, width, time_ns, inside = npus, len(npus), 1, 0.0, 1.0
        for number, dimension in enumerate(self.dimensions):
            width *= dimension.size
            outer = tuple(sorted({npu // width for npu in npus}))
            share = len(set(blocks)) / len(outer)
            if share > 1:
                first = sorted(each % dimension.size for each in set(blocks) if each // dimension.size == outer[0])
                rate = dimension.bandwidth_gibps * self._links(number, dimension, tuple(first))
                rate = float(bytes_per_ns(np.array([rate]))[0])
                inside *= share
                time_ns += _moved(collective, size_bytes, members, share, inside) / rate
                time_ns += dimension.latency_ns * (share - 1) * (2 if collective == "all-reduce" else 1)
            blocks = outer
        return time_ns

    def _links(self, number: int, dimension: Dimension, coordinates: tuple[int, ...]) -> float:
        """Links that each of some members of a dimension has to the others, on average, or up to switches; at least 1."""
        key = number, coordinates
        if key not in self._degree:
            links = dimension.building_block.links(dimension.size)
            inside = np.isin(links.src, coordinates)
            used = inside & (np.isin(links.dst, coordinates) | (links.dst >= dimension.size))
            self._degree[key] = max(float(np.count_nonzero(used)) / len(coordinates), 1.0)
        return self._degree[key]


def _moved(collective: str, size_bytes: int, members: int, share: float, inside: float) -> float:
    """Bytes that a member sends or receives in a dimension, with `share` members or blocks there, `inside` in all so far."""
    if collective == "all-reduce":
        return 2 * size_bytes * (share - 1) / inside
    if collective == "all-gather":
        return size_bytes * members * (share - 1) / inside
    if collective == "all-to-all":
        return size_bytes * (share - 1) / share
    if collective in _WHOLE or collective == "message":
        return float(size_bytes)
    if collective in _ROOT_HAS_ALL:
        return size_bytes * (share - 1) / share
    return size_bytes * (share - 1) / inside


def exchange(cost: PlacementCost, num_ranks: int, starts: int, seed: int) -> list[NDArray[np.int64]]:
    """Placements that no exchange of two ranks improves, from the ranks' own and from random ones, the best first.

    An exchange has to lower the sum of the fourth powers of what ranks take: the largest counts most, and where that stays the
    same, exchanges of others still go in a direction.

    Parameters
    ----------
    cost
        The model.
    num_ranks
        Number of ranks.
    starts
        How many placements to start from.
    seed
        Of the random ones.
    """
    random = np.random.default_rng(seed)
    found: dict[tuple[int, ...], float] = {}
    for start in range(starts):
        place = np.arange(num_ranks) if start == 0 else random.permutation(num_ranks)
        best = _fourth_powers(cost, place)
        improves = True
        while improves:
            improves = False
            for one in range(num_ranks):
                for other in range(one + 1, num_ranks):
                    place[[one, other]] = place[[other, one]]
                    score = _fourth_powers(cost, place)
                    if score < best * (1 - 1e-12):
                        best, improves = score, True
                    else:
                        place[[one, other]] = place[[other, one]]
        found[tuple(place.tolist())] = cost.score_ns(place)
    ordered = sorted(found, key=lambda each: (found[each], each))
    return [np.array(each, np.int64) for each in ordered]


def _fourth_powers(cost: PlacementCost, place: NDArray[np.int64]) -> float:
    return sum(load**4 for load in cost.loads_ns(place))


def most_starts(num_ranks: int, num_demands: int) -> int:
    """How many starts take a few seconds; 0 if not even one does."""
    one = num_ranks**2 / 2 * num_demands * 8
    return min(8, math.floor(2e7 / max(one, 1)))
