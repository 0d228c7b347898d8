"""The `Program` class: the actions of all ranks on memory, and their order; traces and MSCCL XML are judged in this form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAX_LOCATIONS = 1 << 26
"""Most chunk-sized places of all ranks together; more would be a broken file rather than a collective."""
NOWHERE = -1


class Action(IntEnum):
    """What an operation does; `src` and `dst` are locations of its own rank."""

    SEND = 0
    """The chunks at `src` go to the peer."""
    RECV = 1
    """What arrives is stored at `dst`."""
    RECV_REDUCE = 2
    """What arrives plus what is at `src` is stored at `dst`."""
    COPY = 3
    """What is at `src` is stored at `dst`."""
    REDUCE = 4
    """What is at `src` is added to what is at `dst`."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the memory that every rank has.

    Parameters
    ----------
    name
        What its places are: `chunk`, `input chunk`, `place`.
    first
        Its first location in a rank's memory; it ends where the next region begins.
    grain
        Locations per place.
    is_whole
        Place i is that of chunk i of the collective.
    """

    name: str
    first: int
    grain: int = 1
    is_whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """The memory of ranks: locations `rank * stride + ...`, each for a chunk, or for an equal part of one.

    Parameters
    ----------
    stride
        Locations per rank.
    regions
        What they are for, by first location.
    result
        Where the results of a rank begin.
    """

    stride: int
    regions: tuple[Region, ...]
    result: int = 0

    def describe(self, location: int) -> str:
        """`npu 3, chunk 5`, or another place of that rank."""
        rank, offset = divmod(location, self.stride)
        region = self._region(offset)
        place, part = divmod(offset - region.first, region.grain)
        return f"npu {rank}, {region.name} {place}" + (f" (part {part + 1} of {region.grain})" if region.grain > 1 else "")

    def chunk_at(self, location: int) -> int | None:
        """Chunk that belongs at a location, if it is one of a whole buffer."""
        offset = location % self.stride
        region = self._region(offset)
        return (offset - region.first) // region.grain if region.is_whole else None

    def _region(self, offset: int) -> Region:
        return next(region for region in reversed(self.regions) if region.first <= offset)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Operations of all ranks, what they do, and what orders them.

    Parameters
    ----------
    num_ranks
        Members.
    op_rank
        int64[num_ops].
    describe
        Where an operation is, in words.
    before, after
        int64[...], operation `after[i]` of a rank starts when its operation `before[i]` is done.
    action_op, action_kind, action_src, action_dst, action_count, action_peer
        int64[num_actions], what operations do, sorted by operation: `Action`, first locations (`NOWHERE` if there are none or
        they are not known), number of chunks, and the other rank of a send or receive.
    message_send, message_recv
        int64[num_messages], actions that belong together.
    alike_first, alike_second
        int64[...], operations whose messages could be taken for each other, hence must happen in this order.
    adds_commute
        Whether two additions at one location may happen in any order, even at once.
    buffers
        What locations mean; None if the program does not say what is in its messages.
    """

    num_ranks: int
    op_rank: NDArray[np.int64]
    describe: Callable[[int], str]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    action_op: NDArray[np.int64]
    action_kind: NDArray[np.int64]
    action_src: NDArray[np.int64]
    action_dst: NDArray[np.int64]
    action_count: NDArray[np.int64]
    action_peer: NDArray[np.int64]
    message_send: NDArray[np.int64]
    message_recv: NDArray[np.int64]
    alike_first: NDArray[np.int64]
    alike_second: NDArray[np.int64]
    adds_commute: bool
    buffers: Buffers | None

    @property
    def num_messages(self) -> int:
        """Number of sends that have their receive; each has one action per chunk, or one in all."""
        return len(np.unique(self.action_op[self.message_send]))

    @property
    def num_ops(self) -> int:
        """Number of operations of all ranks."""
        return len(self.op_rank)


def expand(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """`first[i], first[i] + 1, ...`, `count[i]` of them, one after the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    begins: NDArray[np.int64] = np.repeat(first - (ends - count), count)
    return begins + np.arange(total)
