"""The program of a collective: the actions of every member of a group, from a custom trace or a native algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class LocalKind(IntEnum):
    """Kinds of nodes, besides those of `NodeType`, by which a position of a native algorithm keeps order among its own nodes.

    A position has pools of tokens, empty at first; a node's `tag` names its pool. These nodes take no time and make no events:
    what they let go of is issued at once, like what a finished node sets free.
    """

    TAKE = 16
    """Completes when it has a token of its pool. Those that wait for one are served in the order in which they were issued."""
    PUT = 17
    """Puts a token into its pool, for who waits for one, or for who comes; completes at once."""
    PULSE = 18
    """The same, but the token is lost unless someone waits for it."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveProgram:
    """A graph of sends, receives and computations per position of a group, sorted by position; a node is named by its row.

    Parameters
    ----------
    source
        Where it comes from, as messages name it: the prefix of a trace, or a native algorithm.
    rank_first
        int64[num_positions + 1], first row of each position.
    node_id
        int64[num_nodes], id among the nodes of its position.
    kind
        uint8[num_nodes], `NodeType`: COMM_SEND, COMM_RECV or COMP; in a native algorithm also `LocalKind`.
    delay_ns
        int64[num_nodes], how long a COMP takes; 0 for the others. A COMP of a native algorithm may take 0 ns: it ends at the
        same instant, after whatever its position already has to end then.
    size_bytes
        int64[num_nodes], of a message; 0 for others.
    peer
        int64[num_nodes], position that a send goes to or a receive comes from; `ABSENT` for others.
    tag
        int64[num_nodes]; of a native algorithm's message, the number of its chunk within the collective; of a `LocalKind`, its
        pool. Messages of one source, destination, size and tag meet in the order of their issue.
    dep_first, dep
        int64[num_nodes + 1] and int64[...], rows of the same position that a node waits for.
    native
        ASTRA-sim's own algorithm: nodes that become ready together are issued in order of rows (a custom trace's in the order
        of a hash set), no node waits for a send, and a position is through when all its nodes but the sends are.
    """

    source: str
    rank_first: NDArray[np.int64]
    node_id: NDArray[np.int64]
    kind: NDArray[np.uint8]
    delay_ns: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    peer: NDArray[np.int64]
    tag: NDArray[np.int64]
    dep_first: NDArray[np.int64]
    dep: NDArray[np.int64]
    native: bool

    @property
    def num_positions(self) -> int:
        """Number of members of the group."""
        return len(self.rank_first) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all members."""
        return len(self.kind)
