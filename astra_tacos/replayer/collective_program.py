"""The `CollectiveProgram` class: what every member of a group does in a collective, from a custom trace or a native algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.arrays import Ints


class LocalKind(IntEnum):
    """Kinds of nodes of a native algorithm, besides those of `NodeType`, that order the nodes of one position.

    A position has pools of tokens (counting semaphores), empty at first; a node's `tag` names its pool. These nodes take no time
    and make no events: nodes that they unblock are issued at once, as are the children of a finished node.
    """

    TAKE = 16
    """Takes a token from its pool and completes; waits while the pool is empty. Waiting nodes are served in order of issue."""
    PUT = 17
    """Puts a token into its pool, which the first waiting TAKE, or else the next TAKE to be issued, gets; completes at once."""
    PULSE = 18
    """The same as PUT, but the token is lost unless a TAKE is waiting."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveProgram:
    """A graph of sends, receives and computations per position of a group, sorted by position; a node is named by its row.

    Parameters
    ----------
    source
        The origin that error messages name: the prefix of a trace, or a native algorithm.
    rank_first
        int64[num_positions + 1], first row of each position.
    node_id
        int64[num_nodes], id among the nodes of its position.
    kind
        uint8[num_nodes], `NodeType`: COMM_SEND, COMM_RECV or COMP; in a native algorithm also `LocalKind`.
    delay_ns
        int64[num_nodes], duration of a COMP; 0 for other nodes. A COMP of a native algorithm may take 0 ns: it ends at the same
        instant, after all nodes of its position that were already due to end then.
    size_bytes
        int64[num_nodes], size of a message; 0 for other nodes.
    peer
        int64[num_nodes], position that a send goes to or a receive comes from; `ABSENT` for other nodes.
    tag
        int64[num_nodes]. The message of a native algorithm has the number of its chunk within the collective, a `LocalKind` the
        number of its pool. Messages with the same source, destination, size and tag match first in, first out, by issue.
    dep_first, dep
        int64[num_nodes + 1] and int64[...]: `dep[dep_first[i] : dep_first[i + 1]]` are the rows of the same position that row i
        waits for.
    native
        Whether this is an algorithm of ASTRA-sim itself. Then nodes that become ready together are issued in order of rows
        (those of a custom trace in the order of a hash set), no node waits for a send, and a position is finished when all its
        nodes other than sends are.
    """

    source: str
    rank_first: Ints
    node_id: Ints
    kind: NDArray[np.uint8]
    delay_ns: Ints
    size_bytes: Ints
    peer: Ints
    tag: Ints
    dep_first: Ints
    dep: Ints
    native: bool

    @property
    def num_positions(self) -> int:
        """Number of members of the group."""
        return len(self.rank_first) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all members."""
        return len(self.kind)
