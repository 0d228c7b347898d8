"""The `Program` class: actions of all ranks on memory, and their order; the form in which traces and XML files are verified.

Matching of sends with receives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import count_before, distinct, in_ranges, row_places

Columns = tuple[Ints, ...]
MAX_LOCATIONS = 1 << 26
"""Most locations of all ranks together; a file with more is broken."""
NOWHERE = -1
"""Of a location that an action does not have."""


def match_messages(send_key: Columns, send_place: Ints, recv_key: Columns, recv_place: Ints) -> tuple[Ints, Ints]:
    """Match sends with receives of the same key, first in, first out, as runtimes do.

    Parameters
    ----------
    send_key, recv_key
        Columns of the key: sends and receives match if they are equal in all columns.
    send_place, recv_place
        int64[...], order of sends, and of receives, with the same key.

    Returns
    -------
    send, recv
        int64[num_messages], rows of the matched sends and receives.
    """
    # Keys ascend by their last column.
    columns = [np.concatenate(pair) for pair in zip(send_key, recv_key, strict=True)]
    group = row_places(*reversed(columns))[1]
    num_sends = len(send_place)
    turn = np.concatenate((_turns(group[:num_sends], send_place), _turns(group[num_sends:], recv_place)))
    key = group * np.int64(max(len(group), 1)) + turn
    _, send, recv = np.intersect1d(key[:num_sends], key[num_sends:], assume_unique=True, return_indices=True)
    return send, recv


def successors(key: Columns, place: Ints) -> tuple[Ints, Ints]:
    """int64[n] each: pairs of rows that are consecutive, by place, among the rows of one key."""
    group = row_places(*reversed(key))[1]
    order = np.lexsort((place, group))
    same = group[order][1:] == group[order][:-1]
    return order[:-1][same], order[1:][same]


def _turns(group: Ints, place: Ints) -> Ints:
    """int64[n], number of rows of the same group with a lower place."""
    order = np.argsort(place, kind="stable")
    turn = np.empty(len(group), np.int64)
    turn[order] = count_before(group[order])
    return turn


class Action(IntEnum):
    """The kinds of actions; `src` and `dst` are locations of the action's rank."""

    SEND = 0
    """The chunks at `src` go to the peer."""
    RECV = 1
    """The arriving chunks are stored at `dst`."""
    RECV_REDUCE = 2
    """The sum of the arriving chunks and those at `src` is stored at `dst`."""
    COPY = 3
    """The chunks at `src` are stored at `dst`."""
    REDUCE = 4
    """The chunks at `src` are added to those at `dst`."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the memory that every rank has.

    Parameters
    ----------
    name
        Name of its places in messages: `chunk`, `input chunk`, `place`.
    first
        First location in a rank's memory; the region ends where the next one begins.
    """

    name: str
    first: int
    grain: int = 1
    is_whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """The memory of all ranks. A rank has locations from `rank * stride`, each for a chunk or for an equal part of one."""

    stride: int
    regions: tuple[Region, ...]
    result: int = 0

    def describe(self, location: int) -> str:
        """A location in words, like `npu 3, chunk 5`."""
        rank, offset = divmod(location, self.stride)
        region = self._region(offset)
        place, part = divmod(offset - region.first, region.grain)
        return f"npu {rank}, {region.name} {place}" + (f" (part {part + 1} of {region.grain})" if region.grain > 1 else "")

    def chunk_at(self, location: int) -> int | None:
        """Number of the chunk that belongs at a location, None outside the whole buffer."""
        offset = location % self.stride
        region = self._region(offset)
        return (offset - region.first) // region.grain if region.is_whole else None

    def _region(self, offset: int) -> Region:
        return next(region for region in reversed(self.regions) if region.first <= offset)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Pairs of operations that must happen in their order, and the code and the text of a violation where they need not.

    Parameters
    ----------
    first, second
        int64[num_pairs], operations.
    """

    code: str = ""
    text: str = ""
    first: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    second: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The operations of all ranks, their actions, and their order.

    Parameters
    ----------
    op_rank
        int64[num_ops], rank of each operation.
    before, after
        int64[...], operation `after[i]` of a rank starts after its operation `before[i]` has ended.
    action_op, action_kind, action_src, action_dst, action_count, action_peer
        int64[num_actions], sorted by operation: operation of each action, its `Action`, first locations (`NOWHERE` if there is
        none or it is not known), number of chunks, and the other rank of a send or receive.
    message_send, message_recv
        int64[num_messages], the two actions of each message.
    alike
        Pairs of operations whose messages could be mistaken for each other, so that they must happen in this order.
    adds_commute
        Whether two additions at one location may happen in any order, or at the same time.
    buffers
        The memory; None if the program does not state the contents of its messages.
    """

    num_ranks: int
    op_rank: Ints
    describe: Callable[[int], str]
    before: Ints
    after: Ints
    action_op: Ints
    action_kind: Ints
    action_src: Ints
    action_dst: Ints
    action_count: Ints
    action_peer: Ints
    message_send: Ints
    message_recv: Ints
    alike: Alike
    adds_commute: bool
    buffers: Buffers | None

    @property
    def num_messages(self) -> int:
        """Number of sends that have their receive; each has one action per chunk, or one in all."""
        return len(distinct(self.action_op[self.message_send]))

    @property
    def num_ops(self) -> int:
        """Number of operations of all ranks."""
        return len(self.op_rank)


def expand(first: Ints, count: Ints) -> Ints:
    """int64[sum of count], the concatenated ranges `first[i], ..., first[i] + count[i] - 1`."""
    return in_ranges(first, first + count)[1]
