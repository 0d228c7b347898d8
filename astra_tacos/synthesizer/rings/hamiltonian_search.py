"""Directed Hamiltonian cycles of an arbitrary graph, which share a link only where it is faster than others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology

_ATTEMPTS = 30
_MOST_STEPS = 20_000
"""Of one attempt; all together may take twice as many."""
_MOST_TIMES = 4


def search_cycles(topology: Topology) -> list[NDArray[np.int32]]:
    """Hamiltonian cycles found one after another by a limited search; each also in reverse where its links are free.

    A link that is k times as fast as the slowest one, up to 4, may be in k of them.
    """
    times = _times(topology)
    most = min(np.bincount(ends, times).min() for ends in (topology.channel_src, topology.channel_dst))
    best: list[list[int]] = []
    steps_left = 2 * _MOST_STEPS
    for attempt in range(_ATTEMPTS):
        search = _Search(topology, np.random.default_rng(attempt), min(_MOST_STEPS, steps_left))
        best = max(best, search.cycles(), key=len)
        steps_left -= search.steps
        if len(best) == most or steps_left <= 0:
            break
    return [np.array(cycle, np.int32) for cycle in best]


def _times(topology: Topology) -> NDArray[np.int64]:
    """int64[num_channels], the number of cycles that may use each channel."""
    bandwidth = topology.link_bandwidth_gibps[topology.channel_link]
    times: NDArray[np.int64] = np.minimum(bandwidth / bandwidth.min(), _MOST_TIMES).astype(np.int64)
    return times


class _Search:
    """Depth-first search by Warnsdorff's rule: next comes the NPU with the fewest free successors, ties are broken at random."""

    def __init__(self, topology: Topology, random: np.random.Generator, most_steps: int) -> None:
        self.successors: list[dict[int, int]] = [{} for _ in range(topology.num_npus)]
        columns = topology.channel_src.tolist(), topology.channel_dst.tolist(), _times(topology).tolist()
        for src, dst, times in zip(*columns, strict=True):
            self.successors[src][dst] = times
        self.preference = random.permutation(topology.num_npus).tolist()
        self.most_steps = most_steps
        self.steps = 0

    def cycles(self) -> list[list[int]]:
        found: list[list[int]] = []
        while cycle := self._cycle():
            for way in (cycle, cycle[::-1]):
                hops = list(zip(way, way[1:] + way[:1], strict=True))
                if all(dst in self.successors[src] for src, dst in hops):
                    found.append(way)
                    for src, dst in hops:
                        self.successors[src][dst] -= 1
                        if not self.successors[src][dst]:
                            del self.successors[src][dst]
        return found

    def _cycle(self) -> list[int]:
        """A cycle over the remaining links, empty if none is found within the limit."""
        path = [0]
        is_free = [True] * len(self.successors)
        is_free[0] = False
        ahead = [self._ways_on(0, is_free)]
        while path and self.steps < self.most_steps:
            self.steps += 1
            if ahead[-1]:
                npu = ahead[-1].pop()
                path.append(npu)
                is_free[npu] = False
                ahead.append(self._ways_on(npu, is_free))
                if len(path) == len(self.successors) and 0 in self.successors[npu]:
                    return path
            else:
                ahead.pop()
                is_free[path.pop()] = True
        return []

    def _ways_on(self, npu: int, is_free: list[bool]) -> list[int]:
        """Free successors of an NPU, the best last."""
        free = [after for after in self.successors[npu] if is_free[after]]
        ways = {after: sum(is_free[further] for further in self.successors[after]) for after in free}
        return sorted(free, key=lambda after: (-ways[after], self.preference[after]))
