"""Assembly of a collective's program: from the roles of the members of lines to the nodes of all positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.collective_program import CollectiveProgram, LocalKind
from astra_tacos.replayer.native.phase import MAX_NODES, NUM_POOLS, Phase, Role
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of the logical topology: member m + 1 of a line is `stride` positions after member m."""

    index: int
    implementation: str
    algorithm: str
    window: int | None
    num_members: int
    stride: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A phase of a chunk on all positions.

    Parameters
    ----------
    follows
        Whether it begins when the previous block ends.
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
    at: NDArray[np.int64]
    peer: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Rows of the blocks, int64[num_blocks, num_positions] each: rows `begin` to `end` - 1, of which `last` ends the phase."""

    blocks: Sequence[Block]
    parts: Sequence[Sequence[_Part]]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    last: NDArray[np.int64]

    def first_rows(self, number: int, part: _Part) -> NDArray[np.int64]:
        """int64[len(part.at), 1]: first row of the role in the block."""
        return np.expand_dims(self.begin[number, part.at] + self.blocks[number].queues, 1)


def assemble(source: str, num_positions: int, blocks: Sequence[Block], limit: int) -> CollectiveProgram:
    """The program of all blocks; rows are sorted by position, then block.

    A dimension whose blocks queue has `limit` tokens at first. Error messages name `source`.

    Raises
    ------
    ConfigError
        If there are more nodes than `MAX_NODES`.
    """
    pools = np.array(sorted({block.dimension.index for block in blocks if block.queues}), np.int64)
    num_initial = len(pools) * limit
    parts_of: dict[tuple[int, LogicalDimension], list[_Part]] = {}
    parts, num_rows, last = [], *np.zeros((2, len(blocks), num_positions), np.int64)
    for number, block in enumerate(blocks):
        case = (id(block.phase), block.dimension)
        if case not in parts_of:
            parts_of[case] = _parts(block, num_positions)
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


def _parts(block: Block, num_positions: int) -> list[_Part]:
    dimension = block.dimension
    coordinate = np.arange(num_positions) // dimension.stride % dimension.num_members
    parts = []
    for role in block.phase.roles:
        at = np.flatnonzero(np.isin(coordinate, role.member))
        away = role.peer[np.searchsorted(role.member, coordinate[at])]
        peer = np.where(away == ABSENT, ABSENT, at[:, None] + (away - coordinate[at][:, None]) * dimension.stride)
        parts.append(_Part(role, at, peer))
    return parts


def _dependencies(layout: _Layout, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
