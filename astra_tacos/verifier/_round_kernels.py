# mypy: ignore-errors
"""Kernel: whether every send of a lockstep schedule finds its chunk and is needed, round by round."""

from __future__ import annotations

import numpy as np
from numba import njit

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


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _write_fault(faults, found, kind, number, channel):
    if found < len(faults):
        faults[found, 0] = kind
        faults[found, 1] = number
        faults[found, 2] = channel
    return found + 1


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def follow_rounds(
    reduces,
    first_round,
    last_round,
    delivered,
    deliver_to,
    ends,
    part,
    num_parts,
    idle,
    rows,
    src,
    dst,
    place_of,
    bits,
    faults,
    found,
):
    """Play the sends of some rounds, of the chunks whose block of places is one of this part's.

    `rows` begins with row `delivered`, the first whose chunks have not arrived before `first_round`; before a round starts, those
    of all rounds before `deliver_to` arrive; in the end, if this `ends`, all that is left. `bits` is a bit set: block of places,
    NPU, word. Where sends copy it says which NPU has a chunk: the source must have it, the destination must not. Where they
    reduce it says which NPU has sent its sum away: the source must not have done so before, the destination not before it got
    this part of it.

    Writes kind, round and channel of what goes wrong into `faults` while there is room; returns how much has gone wrong, from
    `found` on.
    """
    num_chunks = len(place_of)
    arriving = delivered
    for number in range(first_round, last_round + 1):
        until = last_round if ends else arriving
        if number < last_round:
            until = deliver_to[number]
        while arriving < until:
            for channel in range(len(src)):
                chunk = np.int64(rows[arriving - delivered, channel])
                if chunk >= num_chunks:
                    continue
                place = place_of[chunk]
                block = place // _PLACES
                if block % num_parts != part:
                    continue
                word = (place >> 6) & (WORDS - 1)
                bit = _ONE << np.uint64(place & 63)
                npu = dst[channel]
                there = bits[block, npu, word] & bit != _ZERO
                if reduces:
                    if there:
                        found = _write_fault(faults, found, TOO_LATE, arriving, channel)
                    continue
                if there:
                    found = _write_fault(faults, found, REDUNDANT, arriving, channel)
                bits[block, npu, word] |= bit
            arriving += 1
        if number == last_round:
            break
        for channel in range(len(src)):
            chunk = np.int64(rows[number - delivered, channel])
            if chunk >= num_chunks:
                if chunk != idle and part == 0:
                    found = _write_fault(faults, found, NO_SUCH_CHUNK, number, channel)
                continue
            place = place_of[chunk]
            block = place // _PLACES
            if block % num_parts != part:
                continue
            word = (place >> 6) & (WORDS - 1)
            bit = _ONE << np.uint64(place & 63)
            npu = src[channel]
            there = bits[block, npu, word] & bit != _ZERO
            if reduces:
                if there:
                    found = _write_fault(faults, found, SENT_TWICE, number, channel)
                bits[block, npu, word] |= bit
            elif not there:
                found = _write_fault(faults, found, ABSENT, number, channel)
    return found


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def find_missing(chunk_first, chunk_of, owner, reduces, bits, faults):
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
