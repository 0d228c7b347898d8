"""Directed cycles through all NPUs of an arbitrary graph that have no link in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.topology.topology import Topology

_MOST_STEPS = 20_000


def search_cycles(topology: Topology) -> list[NDArray[np.int32]]:
    """As many cycles as a limited search finds, one after another; each also the other way round where that is free."""
    successors: list[set[int]] = [set() for _ in range(topology.num_npus)]
    for src, dst in zip(topology.channel_src.tolist(), topology.channel_dst.tolist(), strict=True):
        successors[src].add(dst)
    cycles: list[NDArray[np.int32]] = []
    while True:
        cycle = _search(successors)
        if cycle is None:
            return cycles
        for way in (cycle, cycle[::-1]):
            hops = list(zip(way, way[1:] + way[:1], strict=True))
            if all(dst in successors[src] for src, dst in hops):
                cycles.append(np.array(way, np.int32))
                for src, dst in hops:
                    successors[src].remove(dst)


def _search(successors: list[set[int]]) -> list[int] | None:
    """Depth first, to the NPU with the fewest ways on (Warnsdorff); None if no cycle is found within the limit."""
    path = [0]
    is_free = [True] * len(successors)
    is_free[0] = False

    def ways_on(npu: int) -> list[int]:
        free = [after for after in successors[npu] if is_free[after]]
        return sorted(free, key=lambda after: (-sum(is_free[further] for further in successors[after]), -after))

    ahead = [ways_on(0)]
    for _ in range(_MOST_STEPS):
        if ahead[-1]:
            npu = ahead[-1].pop()
            path.append(npu)
            is_free[npu] = False
            ahead.append(ways_on(npu))
            if len(path) == len(successors) and 0 in successors[npu]:
                return path
        else:
            ahead.pop()
            is_free[path.pop()] = True
            if not path:
                return None
    return None
