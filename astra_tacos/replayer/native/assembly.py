"""Assembly of a collective's program: from the roles of the members of lines to the nodes of all positions.

A phase of a native collective is the actions of the members of one line of NPUs on one chunk. A `RoleBuilder` takes nodes in any
order, and sorts them into the rows of a role at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.collective_program import CollectiveProgram, LocalKind
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by
from astra_tacos.support.units import BYTES_PER_GB, MAX_SIZE_BYTES, NS_PER_S

PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
NUM_POOLS = 4
"""Pools of tokens (`LocalKind`) that an algorithm may use in a phase."""
MAX_NODES = 1 << 26
"""Most nodes of a program. A node takes about 60 bytes, and several times that while it is built and replayed."""


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """The parameters of a phase, from which an algorithm makes it.

    Parameters
    ----------
    pattern
        One of `PATTERNS`.
    num_members
        Number of NPUs of the line, 2 or more; members are 0 to num_members - 1.
    size_bytes
        Bytes that a member has at first: its shard (All-Gather) or the whole buffer.
    window
        For `direct`: most messages that a member has in flight; None for no limit.
    backwards
        Whether messages go to lower members (`RingTopology::Direction::Anticlockwise`).
    sub_group
        Whether the line is a communicator group of some of the NPUs (`RingTopology::Dimension::Local`).
    other_tree
        For `doubleBinaryTree`: whether to take the tree whose root is member 0.
    local_mem_bw_gbps
        Memory bandwidth for reductions in decimal GB/s; at 0, reductions take no time.
    members
        The members that roles are asked for; None for all.
    """

    name: str
    pattern: str
    num_members: int
    size_bytes: int
    window: int | None = None
    backwards: bool = False
    sub_group: bool = False
    other_tree: bool = False
    endpoint_ns: int = 10
    local_mem_bw_gbps: float = 0.0
    members: tuple[int, ...] | None = None

    @property
    def member(self) -> Ints:
        """int64, the members that roles are asked for."""
        return np.arange(self.num_members) if self.members is None else np.array(self.members, np.int64)

    @property
    def title(self) -> str:
        """Title for error messages, like `ring all-reduce over 8 NPUs`."""
        return f"{self.name} {self.pattern} over {self.num_members} NPUs"

    @property
    def share_bytes(self) -> int:
        """Size of the message to each other member: the whole shard (All-Gather), else 1 / num_members of the buffer."""
        return self.size_bytes if self.pattern == "all-gather" else self.size_bytes // self.num_members

    @property
    def final_bytes(self) -> int:
        """Bytes that a member has at the end of the phase."""
        if self.pattern == "all-gather":
            return self.size_bytes * self.num_members
        return self.size_bytes // self.num_members if self.pattern == "reduce-scatter" else self.size_bytes

    def reduction_ns(self, size_bytes: Ints) -> Ints:
        """int64, time to reduce messages of these sizes: two reads and a write, each truncated to ns (`PacketBundle.cc`)."""
        if self.local_mem_bw_gbps == 0:
            # ASTRA-sim casts an infinity to uint64, which GCC's code for x86-64 turns into 0.
            return np.zeros(len(size_bytes), np.int64)
        pass_ns = size_bytes / (self.local_mem_bw_gbps * BYTES_PER_GB) * float(NS_PER_S)
        return 3 * pass_ns.astype(np.int64)

    def check(self, num_nodes: int, message_bytes: Ints) -> None:
        """Check the number of nodes of the phase, and the sizes of its messages.

        Raises
        ------
        ConfigError
            If the phase has more than `MAX_NODES` nodes, or a message that ASTRA-sim cannot send.
        """
        if num_nodes > MAX_NODES:
            raise ConfigError(f"{self.title}: {num_nodes:,} nodes, expected at most {MAX_NODES:,}")
        if message_bytes.min() < 1:
            raise ConfigError(
                f"{self.title}: {self.size_bytes} bytes make a message of 0 bytes, where ASTRA-sim stops; expected more"
            )
        if message_bytes.max() > MAX_SIZE_BYTES:
            raise ConfigError(f"{self.title}: a message of {message_bytes.max()} bytes, expected at most {MAX_SIZE_BYTES}")


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """The m rows that several members of a line have in common; only their peers differ.

    Parameters
    ----------
    member
        int64[k], the members, ascending.
    kind, delay_ns, size_bytes
        uint8[m], int64[m] and int64[m], as in `CollectiveProgram`.
    pool
        int64[m], pool of a `LocalKind`, 0 to `NUM_POOLS` - 1; `ABSENT` for other nodes.
    peer
        int64[k, m], the member at the other end of each message; `ABSENT` for other nodes.
    dep_first, dep
        int64[m + 1] and int64[...], rows that each row waits for (CSR); rows that wait for none start the phase.
    """

    member: Ints
    kind: NDArray[np.uint8]
    delay_ns: Ints
    size_bytes: Ints
    pool: Ints
    peer: Ints
    dep_first: Ints
    dep: Ints
    last: int

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """The roles of all members of a line, and the bytes that each member has at the end."""

    roles: tuple[Role, ...]
    final_bytes: int


_Values = Ints | int


class RoleBuilder:
    """The nodes of a role, referred to by handles (int64 arrays)."""

    def __init__(self, member: Ints) -> None:
        self._member = member
        self._place: list[Ints] = []
        self._columns: list[tuple[_Values, ...]] = []
        self._edges: list[tuple[Ints, Ints]] = []
        self._num_nodes = 0

    def add(
        self,
        place: Ints,
        kind: int,
        *,
        delay_ns: _Values = 0,
        size_bytes: _Values = 0,
        pool: int = ABSENT,
        peer: _Values = ABSENT,
        after: Ints | None = None,
    ) -> Ints:
        """Add one node per entry of `place`, and return their handles (int64[nodes]).

        Rows are sorted by place; nodes of one place stay in the order of calls.

        Parameters
        ----------
        place
            int64[nodes], sort key of each node.
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

    def wait(self, node: Ints, other: Ints) -> None:
        """Add a dependency: `node[i]` waits for `other[i]`; the two arrays broadcast."""
        nodes, others = np.broadcast_arrays(node, other)
        self._edges.append((nodes.ravel(), others.ravel()))

    def finish(self, last: Ints) -> Role:
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


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of the logical topology: member m + 1 of a line is `stride` positions after member m."""

    index: int
    implementation: str
    algorithm: str
    window: int | None
    num_members: int
    stride: int

    def coordinate(self, position: Ints) -> Ints:
        """The member of its line that each position is."""
        return position // self.stride % self.num_members


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A phase of a chunk on all positions.

    Parameters
    ----------
    queues
        Whether it first takes a token of its dimension, which it returns when it ends.
    """

    chunk: int
    dimension: LogicalDimension
    phase: Phase
    follows: bool
    queues: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A role in a block on the positions `at`; `peer` is int64[len(at), role.num_rows], positions."""

    role: Role
    at: Ints
    peer: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Rows of the blocks, int64[num_blocks, num_positions] each: rows `begin` to `end` - 1, of which `last` ends the phase."""

    blocks: Sequence[Block]
    parts: Sequence[Sequence[_Part]]
    begin: Ints
    end: Ints
    last: Ints

    def first_rows(self, number: int, part: _Part) -> Ints:
        """int64[len(part.at), 1]: first row of the role in the block."""
        return np.expand_dims(self.begin[number, part.at] + self.blocks[number].queues, 1)


def assemble(source: str, positions: Ints, blocks: Sequence[Block], limit: int) -> CollectiveProgram:
    """The program of all blocks at some positions, ascending; rows are sorted by position, then block.

    A dimension whose blocks queue has `limit` tokens at first. Error messages name `source`.

    Raises
    ------
    ConfigError
        If there are more nodes than `MAX_NODES`.
    """
    pools = np.array(sorted({block.dimension.index for block in blocks if block.queues}), np.int64)
    num_initial, num_positions = len(pools) * limit, len(positions)
    parts_of: dict[tuple[int, LogicalDimension], list[_Part]] = {}
    parts, num_rows, last = [], *np.zeros((2, len(blocks), num_positions), np.int64)
    for number, block in enumerate(blocks):
        case = (id(block.phase), block.dimension)
        if case not in parts_of:
            parts_of[case] = _parts(block, positions)
        parts.append(parts_of[case])
        for part in parts[-1]:
            num_rows[number, part.at] = part.role.num_rows + 2 * block.queues
            last[number, part.at] = part.role.last + block.queues
    rank_first = np.concatenate(([0], np.cumsum(num_initial + num_rows.sum(axis=0))))
    num_nodes = int(rank_first[-1])
    if num_nodes > MAX_NODES:
        raise ConfigError(f"{source}: {num_nodes:,} nodes, expected at most {MAX_NODES:,}")
    end = rank_first[:-1] + num_initial + np.cumsum(num_rows, axis=0)
    layout = _Layout(blocks, parts, end - num_rows, end, end - num_rows + last)

    kind = np.empty(num_nodes, np.uint8)
    delay_ns, size_bytes, tag = np.zeros((3, num_nodes), np.int64)
    peer = np.full(num_nodes, ABSENT, np.int64)
    initial = rank_first[:-1, None] + np.arange(num_initial)
    kind[initial], tag[initial] = LocalKind.PUT, np.repeat(pools, limit)
    for number, block in enumerate(blocks):
        if block.queues:
            kind[layout.begin[number]], kind[end[number] - 1] = LocalKind.TAKE, LocalKind.PUT
            tag[layout.begin[number]] = tag[end[number] - 1] = block.dimension.index
        first_pool = int(pools.max(initial=-1)) + 1 + NUM_POOLS * number
        for part in parts[number]:
            role, rows = part.role, layout.first_rows(number, part) + np.arange(part.role.num_rows)
            kind[rows], delay_ns[rows], size_bytes[rows], peer[rows] = role.kind, role.delay_ns, role.size_bytes, part.peer
            tag[rows] = np.where(role.pool == ABSENT, block.chunk, first_pool + role.pool)
    dep_first, dep = _dependencies(layout, num_nodes)
    node_id = np.arange(num_nodes) - np.repeat(rank_first[:-1], np.diff(rank_first))
    columns = (rank_first, node_id, kind, delay_ns, size_bytes, peer, tag, dep_first, dep)
    for column in columns:
        column.flags.writeable = False
    return CollectiveProgram(source, *columns, native=True)


def _parts(block: Block, positions: Ints) -> list[_Part]:
    dimension = block.dimension
    coordinate = dimension.coordinate(positions)
    parts = []
    for role in block.phase.roles:
        at = np.flatnonzero(np.isin(coordinate, role.member))
        away = role.peer[np.searchsorted(role.member, coordinate[at])]
        peer = np.where(away == ABSENT, ABSENT, positions[at][:, None] + (away - coordinate[at][:, None]) * dimension.stride)
        parts.append(_Part(role, at, peer))
    return parts


def _dependencies(layout: _Layout, num_nodes: int) -> tuple[Ints, Ints]:
    """`dep_first` and `dep`: dependencies of the roles, and of each block's first rows on its token or the previous block."""
    num_deps = np.zeros(num_nodes, np.int64)
    for number, block in enumerate(layout.blocks):
        if block.queues:
            num_deps[layout.begin[number]], num_deps[layout.end[number] - 1] = block.follows, 1
        for part in layout.parts[number]:
            waits = np.diff(part.role.dep_first)
            rows = layout.first_rows(number, part) + np.arange(part.role.num_rows)
            num_deps[rows] = np.where(waits, waits, block.queues or block.follows)
    dep_first = np.concatenate(([0], np.cumsum(num_deps)))
    dep = np.empty(int(dep_first[-1]), np.int64)
    for number, block in enumerate(layout.blocks):
        before = layout.last[number - 1]
        if block.queues:
            if block.follows:
                dep[dep_first[layout.begin[number]]] = before
            dep[dep_first[layout.end[number] - 1]] = layout.last[number]
            before = layout.begin[number]
        for part in layout.parts[number]:
            role, first = part.role, layout.first_rows(number, part)
            waits = np.diff(role.dep_first)
            waiting = np.repeat(np.arange(role.num_rows), waits)
            dep[dep_first[first + waiting] + np.arange(len(waiting)) - role.dep_first[waiting]] = first + role.dep
            if block.queues or block.follows:
                dep[dep_first[first + np.flatnonzero(waits == 0)]] = before[part.at][:, None]
    return dep_first, dep
