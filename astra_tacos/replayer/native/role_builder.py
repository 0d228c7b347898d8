"""The `RoleBuilder` class: takes nodes in any order, and sorts them into the rows of a role at the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.native.phase import Role
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.csr import group_by

_Values = NDArray[np.int64] | int


class RoleBuilder:
    """The nodes of a role, referred to by handles (int64 arrays)."""

    def __init__(self, member: NDArray[np.int64]) -> None:
        self._member = member
        self._place: list[NDArray[np.int64]] = []
        self._columns: list[tuple[_Values, ...]] = []
        self._edges: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._num_nodes = 0

    def add(
        self,
        place: NDArray[np.int64],
        kind: int,
        *,
        delay_ns: _Values = 0,
        size_bytes: _Values = 0,
        pool: int = ABSENT,
        peer: _Values = ABSENT,
        after: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Add one node per entry of `place`, and return their handles (int64[nodes]).

        Rows are sorted by place; nodes of one place stay in the order of calls.

        Parameters
        ----------
        place
            int64[nodes], sort key of each node.
        kind
            Kind of all these nodes.
        delay_ns
            Durations of COMP nodes.
        size_bytes
            Sizes of messages.
        pool
            Pool that the nodes take tokens from or put tokens into.
        peer
            int64[k, nodes], the members at the other end of messages, for each of the role's k members.
        after
            int64[nodes], handles: one other node that each node waits for.
        """
        handles = np.arange(self._num_nodes, self._num_nodes + len(place))
        self._num_nodes += len(place)
        self._place.append(place)
        self._columns.append((kind, delay_ns, size_bytes, pool, peer))
        if after is not None:
            self.wait(handles, after)
        return handles

    def wait(self, node: NDArray[np.int64], other: NDArray[np.int64]) -> None:
        """Add a dependency: `node[i]` waits for `other[i]`; the two arrays broadcast."""
        nodes, others = np.broadcast_arrays(node, other)
        self._edges.append((nodes.ravel(), others.ravel()))

    def finish(self, last: NDArray[np.int64]) -> Role:
        """The role, which ends with the node `last`."""
        row = np.empty(self._num_nodes, np.int64)
        row[np.argsort(np.concatenate(self._place), kind="stable")] = np.arange(self._num_nodes)
        kind = np.empty(self._num_nodes, np.uint8)
        delay_ns, size_bytes, pool = np.empty((3, self._num_nodes), np.int64)
        peer = np.empty((len(self._member), self._num_nodes), np.int64)
        end = 0
        for place, values in zip(self._place, self._columns, strict=True):
            rows = row[end : end + len(place)]
            kind[rows], delay_ns[rows], size_bytes[rows], pool[rows], peer[:, rows] = values
            end += len(place)
        nodes, others = (row[np.concatenate(side)] for side in zip(*self._edges, strict=True))
        dep_first, dep = group_by(nodes, others, self._num_nodes)
        return Role(self._member, kind, delay_ns, size_bytes, pool, peer, dep_first, dep, int(row[last[0]]))
