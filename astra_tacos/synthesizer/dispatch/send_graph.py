"""Send graphs: the sends of a collective, with dependencies and priorities but without times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_SLOT = -1


@dataclass(frozen=True, slots=True, eq=False)
class SendGraph:
    """Sends in no particular order: one out-tree per chunk that is spread, one in-tree per chunk that is summed up, or both.

    What a send waits for follows from the others: a reducing send of a chunk from an NPU, for all reducing sends of that chunk
    into the NPU; a copy, for the copy that brings it there or, where there is none, for all reducing sends into the NPU.

    Parameters
    ----------
    chunk, channel
        int32[num_sends].
    reduces
        bool[num_sends].
    rank
        int32[num_sends], 0 or more. Of the sends that a link could take, the one of the smallest rank goes first, then the
        one of the smallest chunk.
    """

    chunk: NDArray[np.int32]
    channel: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    rank: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Slots:
    """Joint prerequisites of sends: a slot is the arrival of a chunk at an NPU, as copies or as reductions.

    Parameters
    ----------
    feeds
        int32[num_sends], the slot that each send fills.
    awaits
        int32[num_sends], the slot that has to be full before it can start, `NO_SLOT` if it can from the beginning.
    size
        int32[num_slots], how many sends fill each.
    """

    feeds: NDArray[np.int32]
    awaits: NDArray[np.int32]
    size: NDArray[np.int32]


def find_slots(sends: SendGraph, channel_src: NDArray[np.int32], channel_dst: NDArray[np.int32], num_npus: int) -> Slots:
    """The slots that the sends of a send graph feed and wait for.

    Parameters
    ----------
    sends
        The send graph.
    channel_src
        int32[num_channels], source of each channel.
    channel_dst
        int32[num_channels], destination of each channel.
    num_npus
        Number of NPUs.
    """
    chunk = sends.chunk.astype(np.int64) * num_npus
    into = (chunk + channel_dst[sends.channel]) * 2 + sends.reduces
    out_of = (chunk + channel_src[sends.channel]) * 2
    slot, feeds, size = np.unique(into, return_inverse=True, return_counts=True)
    copied = _position(slot, out_of)
    summed = _position(slot, out_of + 1)
    awaits = np.where(sends.reduces | (copied == NO_SLOT), summed, copied)
    return Slots(feeds.astype(np.int32), awaits.astype(np.int32), size.astype(np.int32))


def _position(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(keys):
        return np.full(len(wanted), NO_SLOT)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, NO_SLOT)
