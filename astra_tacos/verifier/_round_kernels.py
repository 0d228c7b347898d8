# mypy: ignore-errors
"""Kernel: whether every send of a lockstep schedule finds its chunk and is needed, round by round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.kernels.arrays import I32, I64, I64_2D_OUT, U32_2D, U64_3D_OUT
from astra_tacos.kernels.compiled import helper, kernel

NO_SUCH_CHUNK = 0
ABSENT = 1
REDUNDANT = 2
SENT_TWICE = 3
TOO_LATE = 4

WORDS = 8
"""Words of a block of places."""
_PLACES = 64 * WORDS
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@helper
def _write_fault(faults, found, kind, number, channel):
    if found < len(faults):
        faults[found, 0] = kind
        faults[found, 1] = number
        faults[found, 2] = channel
    return found + 1


class Window(NamedTuple):
    """Rounds `first` to `last` - 1, which reduce or copy; chunks of the rounds from `delivered` on have not arrived before them.

    Before a round starts, those of all rounds before its `deliver_to` arrive; in the end, if this `ends`, all that is left.
    """

    reduces: bool
    first: int
    last: int
    delivered: int
    deliver_to: I64  # [rounds]
    ends: bool


class Sends(NamedTuple):
    """Chunks by round (from the window's `delivered` on) and channel, `idle` for none; channels' ends; chunks' places."""

    idle: int
    rows: U32_2D
    src: I32
    dst: I32
    place_of: I64


class Share(NamedTuple):
    """Of `num_parts` parts, which share the blocks of places, the one to look at."""

    part: int
    num_parts: int


@kernel
def follow_rounds(window: Window, share: Share, sends: Sends, bits: U64_3D_OUT, faults: I64_2D_OUT, found: int):
    """Play the sends of some rounds, of the chunks whose block of places is one of this part's.

    `bits` is a bit set: block of places, NPU, word. Where sends copy it says which NPU has a chunk: the source must have it, the
    destination must not. Where they reduce it says which NPU has sent its sum away: the source must not have done so before, the
    destination not before it got this part of it.

    Writes kind, round and channel of what goes wrong into `faults` while there is room; returns how much has gone wrong, from
    `found` on.
    """
    num_chunks = len(sends.place_of)
    arriving = window.delivered
    for number in range(window.first, window.last + 1):
        until = window.last if window.ends else arriving
        if number < window.last:
            until = window.deliver_to[number]
        while arriving < until:
            for channel in range(len(sends.src)):
                chunk = np.int64(sends.rows[arriving - window.delivered, channel])
                if chunk >= num_chunks:
                    continue
                place = sends.place_of[chunk]
                block = place // _PLACES
                if block % share.num_parts != share.part:
                    continue
                word = (place >> 6) & (WORDS - 1)
                bit = _ONE << np.uint64(place & 63)
                npu = sends.dst[channel]
                there = bits[block, npu, word] & bit != _ZERO
                if window.reduces:
                    if there:
                        found = _write_fault(faults, found, TOO_LATE, arriving, channel)
                    continue
                if there:
                    found = _write_fault(faults, found, REDUNDANT, arriving, channel)
                bits[block, npu, word] |= bit
            arriving += 1
        if number == window.last:
            break
        for channel in range(len(sends.src)):
            chunk = np.int64(sends.rows[number - window.delivered, channel])
            if chunk >= num_chunks:
                if chunk != sends.idle and share.part == 0:
                    found = _write_fault(faults, found, NO_SUCH_CHUNK, number, channel)
                continue
            place = sends.place_of[chunk]
            block = place // _PLACES
            if block % share.num_parts != share.part:
                continue
            word = (place >> 6) & (WORDS - 1)
            bit = _ONE << np.uint64(place & 63)
            npu = sends.src[channel]
            there = bits[block, npu, word] & bit != _ZERO
            if window.reduces:
                if there:
                    found = _write_fault(faults, found, SENT_TWICE, number, channel)
                bits[block, npu, word] |= bit
            elif not there:
                found = _write_fault(faults, found, ABSENT, number, channel)
    return found


@kernel
def find_missing(chunk_first: I64, chunk_of: I64, owner: I32, reduces: bool, bits: U64_3D_OUT, faults: I64_2D_OUT):
    """Chunks that an NPU lacks in the end, or of which it did not send its sum away; and owners that did.

    `chunk_of[chunk_first[block]:chunk_first[block + 1]]` are the chunks of a block, by place. Writes NPU and chunk into `faults`
    while there is room; returns how many there are.
    """
    found = 0
    for block in range(len(bits)):
        size = chunk_first[block + 1] - chunk_first[block]
        for npu in range(bits.shape[1]):
            for word in range(WORDS):
                there = bits[block, npu, word]
                if there == ~_ZERO and not reduces:
                    continue
                for number in range(word << 6, min((word + 1) << 6, size)):
                    chunk = chunk_of[chunk_first[block] + number]
                    expected = not reduces or owner[chunk] != npu
                    if (there >> np.uint64(number & 63) & _ONE != _ZERO) != expected:
                        if found < len(faults):
                            faults[found, 0] = npu
                            faults[found, 1] = chunk
                        found += 1
    return found
