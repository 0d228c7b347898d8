# mypy: ignore-errors
"""Kernel: link-chunk matching where all links are alike, in rounds.

In a round every link takes at most one chunk. Destinations are independent of one another within a round: they read what their
sources hold and write only what they have taken themselves, so that threads may share them out, with the same result.

Chunks have *places*, in blocks of a few words. A round looks at one block, the next one at the next, and only links that find
nothing there look further: a block of all NPUs fits into the cache, all chunks do not (at 40,000 NPUs they are 200 MB).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

NOTHING = -1
"""A link that takes no chunk in a round."""

_WORD_SHIFT = 3
WORDS = 1 << _WORD_SHIFT
"""Words of a block."""
_BLOCK_SHIFT = _WORD_SHIFT + 6
BLOCK = 1 << _BLOCK_SHIFT
"""Places of a block."""
_WORD_MASK = np.uint64(WORDS - 1)
# From how many lacking chunks on the links into an NPU are sorted by how many of them they could bring.
_FEW = 64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U27 = np.uint64(27)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)
_U63 = np.uint64(63)
_U64 = np.uint64(64)
_ZERO = np.uint64(0)


@intrinsic
def _trailing_zeros(typing_context, word):
    """Index of the lowest set bit of a non-zero uint64."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def _population(typing_context, word):
    """How many bits of a uint64 are set."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _mix(z):
    """64 random bits from a counter that goes up by `_GOLDEN` (splitmix64)."""
    z = (z ^ (z >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _find_rare(block, size, copies, rare):
    """Mark the places of a block whose chunks have no more copies than its mean."""
    first = block << _BLOCK_SHIFT
    total = np.int64(0)
    for place in range(first, first + size):
        for part in range(len(copies)):
            total += copies[part, place]
    for word in range(WORDS):
        bits = _ZERO
        for bit in range(64):
            number = (word << 6) + bit
            if number < size:
                count = np.int64(0)
                for part in range(len(copies)):
                    count += copies[part, first + number]
                if count * size <= total:
                    bits |= _U1 << np.uint64(bit)
        rare[block, word] = bits


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _choose(block, src, npu, held, taken, rare, bits):
    """In a block, a place that is of use to an NPU at random, of the rare ones if there are any."""
    some = _ZERO
    seldom = _ZERO
    for w in range(WORDS):
        useful = held[block, src, w] & ~taken[block, npu, w]
        some |= np.uint64(useful != _ZERO) << np.uint64(w)
        seldom |= np.uint64(useful & rare[block, w] != _ZERO) << np.uint64(w)
    if some == _ZERO:
        return np.int64(NOTHING)
    words = seldom if seldom != _ZERO else some
    turn = (bits >> _U30) & _WORD_MASK
    words |= words << np.uint64(WORDS)
    word = (_trailing_zeros(words >> turn) + turn) & _WORD_MASK
    useful = held[block, src, word] & ~taken[block, npu, word]
    if seldom != _ZERO:
        useful &= rare[block, word]
    turn = bits & _U63
    turned = (useful >> turn) | (useful << ((_U64 - turn) & _U63))
    return np.int64((word << _U6) | ((_trailing_zeros(turned) + turn) & _U63))


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _sort_links(npu, in_first, in_src, turn, held, taken, taken_in, block_size, keys):
    """Sort the links into an NPU: those that could bring the fewest chunks first, then from `turn` on."""
    first = in_first[npu]
    degree = in_first[npu + 1] - first
    for k in range(degree):
        src = in_src[first + k]
        useful = _ZERO
        for block in range(len(block_size)):
            if taken_in[block, npu] != block_size[block]:
                for w in range(WORDS):
                    useful += _population(held[block, src, w] & ~taken[block, npu, w])
        turned = k - turn if k >= turn else k - turn + degree
        key = (np.int64(useful) << 40) | (turned << 20) | k
        at = k
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key


@njit(cache=True, nogil=True, inline="always")  # so many arrays take time to hand over
def _match_npu(
    npu,
    block,
    bits,
    in_first,
    in_src,
    in_channel,
    block_size,
    held,
    taken,
    taken_in,
    lacking,
    part,
    copies,
    rare,
    keys,
    chunk_at,
    row,
    picks,
):
    """One round of the links into one NPU; returns how many of them take a chunk."""
    first = in_first[npu]
    degree = in_first[npu + 1] - first
    turn = np.int64(((bits >> _U32) * np.uint64(degree)) >> _U32)
    sorts = 0 < lacking[npu] <= _FEW
    if sorts:
        _sort_links(npu, in_first, in_src, turn, held, taken, taken_in, block_size, keys)
    matched = 0
    for k in range(degree):
        slot = turn + k
        slot = first + (slot if slot < degree else slot - degree)
        if sorts:
            slot = first + (keys[k] & ((1 << 20) - 1))
        src = in_src[slot]
        bits = bits * _MIX_1 + _GOLDEN
        place = np.int64(NOTHING)
        at = block
        if lacking[npu] > 0:
            for _ in range(len(block_size)):
                if taken_in[at, npu] != block_size[at] and taken_in[at, src] != 0:
                    place = _choose(np.uint64(at), np.uint64(src), np.uint64(npu), held, taken, rare, bits ^ (bits >> _U32))
                    if place >= 0:
                        break
                at += 1
                if at == len(block_size):
                    at = 0
        if place < 0:
            picks[row, in_channel[slot]] = NOTHING
            continue
        taken[at, npu, place >> 6] |= _U1 << np.uint64(place & 63)
        taken_in[at, npu] += 1
        lacking[npu] -= 1
        matched += 1
        place += at << _BLOCK_SHIFT
        copies[part, place] += 1
        picks[row, in_channel[slot]] = chunk_at[place]
    return matched


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def match_rounds(
    seed,
    first_round,
    last_round,
    part,
    first_npu,
    last_npu,
    matches,
    delivers,
    lag,
    remaining,
    in_first,
    in_src,
    in_channel,
    block_size,
    held,
    taken,
    taken_in,
    lacking,
    copies,
    rare,
    keys,
    chunk_at,
    place_of,
    picks,
):
    """Rounds `first_round` to `last_round` - 1 of the links into some NPUs, or until `remaining` chunks have been taken.

    `matches` and `delivers` say which halves of a round to do; where threads share the NPUs, all must have matched a round before
    any delivers, and the other way round. What is taken in a round can be passed on `lag` rounds later.

    `in_*` are the channels into each NPU. `held` and `taken` are bit sets: block of places, NPU, word; `taken_in` counts the
    second's bits by block and NPU. `copies` counts, by `part` (one for each thread) and place, how often a chunk has been taken;
    `rare` and `keys` are the thread's own space. `chunk_at` and `place_of` translate, `picks` has the chunk of each channel for
    as many rounds as it has rows, the later ones in place of the earlier ones.

    Returns
    -------
    The number of rounds, and of chunks that were taken.
    """
    matched = np.int64(0)
    for number in range(first_round, last_round):
        if matches:
            block = number % len(block_size)
            random = _mix(np.uint64(seed) + np.uint64(number) * _GOLDEN)
            row = number % len(picks)
            for npu in range(first_npu, last_npu):
                matched += _match_npu(
                    npu,
                    block,
                    _mix(random + np.uint64(npu) * _GOLDEN),
                    in_first,
                    in_src,
                    in_channel,
                    block_size,
                    held,
                    taken,
                    taken_in,
                    lacking,
                    part,
                    copies,
                    rare,
                    keys,
                    chunk_at,
                    row,
                    picks,
                )
        arrived = number - lag + 1
        if delivers and arrived >= 0:
            row = arrived % len(picks)
            for npu in range(first_npu, last_npu):
                for slot in range(in_first[npu], in_first[npu + 1]):
                    chunk = picks[row, in_channel[slot]]
                    if chunk >= 0:
                        place = place_of[chunk]
                        held[place >> _BLOCK_SHIFT, npu, (place >> 6) & (WORDS - 1)] |= _U1 << np.uint64(place & 63)
        if delivers:
            # Only now, as no thread counts copies while they deliver.
            block = (number + 1) % len(block_size)
            _find_rare(block, block_size[block], copies, rare)
        if matched == remaining:
            return number + 1 - first_round, matched
    return last_round - first_round, matched
