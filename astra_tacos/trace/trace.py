"""Traces of all ranks as columns, one row per node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
DANGLING = -1


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Nodes of all ranks, sorted by rank; a node is named by its row. Attributes that a node lacks are `ABSENT`.

    Parameters
    ----------
    prefix
        Where it was read from; rank r is in `prefix.r.et`.
    rank_first
        int64[num_ranks + 1], first row of each rank.
    node_id
        uint64[num_nodes], id within its file.
    kind
        uint8[num_nodes], `NodeType`.
    duration_us
        int64[num_nodes].
    size_bytes
        int64[num_nodes], `comm_size`.
    peer
        int64[num_nodes], `comm_dst` of a send, `comm_src` of a receive.
    tag
        int64[num_nodes], `comm_tag`.
    chunk, num_chunks, total_chunks
        int64[num_nodes], `msg_chunk_idx`, `msg_chunk_cnt`, `total_chunk_cnt`.
    reduces
        bool[num_nodes], `is_rrc`.
    dep_first, dep
        int64[num_nodes + 1] and int64[...], rows a node depends on (data and control), `DANGLING` for ids that do not exist.
    """

    prefix: str
    rank_first: NDArray[np.int64]
    node_id: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    duration_us: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    peer: NDArray[np.int64]
    tag: NDArray[np.int64]
    chunk: NDArray[np.int64]
    num_chunks: NDArray[np.int64]
    total_chunks: NDArray[np.int64]
    reduces: NDArray[np.bool_]
    dep_first: NDArray[np.int64]
    dep: NDArray[np.int64]

    @property
    def num_ranks(self) -> int:
        return len(self.rank_first) - 1

    @property
    def num_nodes(self) -> int:
        return len(self.node_id)

    @property
    def rank(self) -> NDArray[np.int64]:
        """int64[num_nodes], rank of each node."""
        return np.repeat(np.arange(self.num_ranks), np.diff(self.rank_first))

    def describe_node(self, row: int) -> str:
        """`rank 3, node 17`."""
        rank = int(np.searchsorted(self.rank_first, row, side="right")) - 1
        return f"rank {rank}, node {int(self.node_id[row])}"
