"""The plan of an All-to-All of unequal parts over nodes: chunks, their rails and their stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.synthesizer.two_level.stages import Stages, stages_of

_PIECES = 128
"""The busiest rail carries at least about so many pieces, so that hops of different pieces overlap."""
_MOST_PIECES = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Chunks, of which those of an earlier stage are more urgent.

    Parameters
    ----------
    stages
        The permutations of nodes.
    src, dst
        int32[num_chunks], the NPUs that have and need each.
    rail
        int32[num_chunks], the place in both nodes over which it goes from node to node; -1 if it stays in its node.
    stage
        int32[num_chunks], the stage in which it goes from node to node; for others the number of stages.
    chunk_bytes
        int64[num_chunks].
    """

    stages: Stages
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    rail: NDArray[np.int32]
    stage: NDArray[np.int32]
    chunk_bytes: NDArray[np.int64]


def plan_exchange(part_bytes: NDArray[np.int64], node_size: int) -> Plan:
    """Plan an exchange: balance what leaves every node over its rails, and order it by permutations of nodes.

    Parameters
    ----------
    part_bytes
        int64[num_npus, num_npus], bytes from each NPU to each; some are not for the NPU itself.
    node_size
        NPUs of a node.
    """
    from astra_tacos.synthesizer.two_level._plan_kernels import Pieces, lay_pieces

    parts = part_bytes.copy()
    np.fill_diagonal(parts, 0)
    unit = max(int(np.gcd.reduce(parts, axis=None)), 1)
    parts //= unit
    count = len(parts) // node_size
    traffic = parts.reshape(count, node_size, count, node_size).sum(axis=(1, 3))
    inside = np.arange(count)
    traffic[inside, inside] = 0
    busiest = max(int(traffic.sum(axis=0).max()), int(traffic.sum(axis=1).max())) // node_size
    most = max(-(-max(busiest, int(parts.sum(axis=1).max()) // node_size) // _PIECES), int(parts.sum()) // _MOST_PIECES, 1)
    stages = stages_of(traffic) if traffic.any() else Stages(np.empty((0, count), np.int32), np.empty(0, np.int64))
    turns, room = stages.turns(), np.count_nonzero(parts) * 2
    while True:
        src, dst, rail, stage = (np.empty(room, np.int32) for _ in range(4))
        pieces = Pieces(src, dst, rail, stage, np.empty(room, np.int64))
        made = lay_pieces(parts, node_size, most, turns, pieces)
        if made <= room:
            break
        room = made
    return Plan(stages, src[:made], dst[:made], rail[:made], stage[:made], pieces.units[:made] * unit)
