# mypy: ignore-errors
"""Kernel: link-chunk matching where all links are alike, in rounds.

In a round every link takes at most one chunk. Destinations are independent of one another within a round: they read what their
sources hold and write only what they have taken themselves, so that threads may share them out, with the same result.

Chunks have *places*, in blocks of a few words. A round looks at one block, the next one at the next, and only links that find
nothing there look further: a block of all NPUs fits into the cache, all chunks do not (at 40,000 NPUs they are 200 MB).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.kernels.arrays import I32, I32_2D_OUT, I32_OUT, I64, I64_OUT, U16_2D_OUT, U64_2D_OUT, U64_3D_OUT
from astra_tacos.kernels.bits import GOLDEN, MIX_1, mix, population, trailing_zeros
from astra_tacos.kernels.compiled import helper, inlined, kernel

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

_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U30 = np.uint64(30)
_U32 = np.uint64(32)
_U63 = np.uint64(63)
_U64 = np.uint64(64)
_ZERO = np.uint64(0)


class Network(NamedTuple):
    """The channels into each NPU (CSR)."""

    in_first: I64  # [num_npus + 1]
    in_src: I32
    in_channel: I32


class Chunks(NamedTuple):
    """Places of chunks, in blocks: how many there are in each, the chunk of each place and the place of each chunk."""

    block_size: I64
    chunk_at: I32
    place_of: I32


class State(NamedTuple):
    """Who has what. `held` and `taken` (arrived, and arrived or on its way) are bit sets; `taken_in` counts the second's bits."""

    held: U64_3D_OUT  # [blocks, num_npus, WORDS]
    taken: U64_3D_OUT
    taken_in: U16_2D_OUT  # [blocks, num_npus]
    lacking: I32_OUT  # [num_npus]
    copies: I32_2D_OUT  # [threads, places], how often a thread's NPUs have taken a chunk
    picks: I32_2D_OUT  # [rounds, num_channels], each channel's chunk, later rounds in place of earlier ones


class Thread(NamedTuple):
    """A thread's number, its NPUs, and its own space."""

    part: int
    first_npu: int
    last_npu: int
    rare: U64_2D_OUT  # [blocks, WORDS]
    keys: I64_OUT  # [most channels into an NPU]


class Rounds(NamedTuple):
    """Rounds `first` to `last` - 1, of each of them one half or both, or until `remaining` chunks have been taken.

    Where threads share the NPUs, all must have matched a round before any delivers, and the other way round. What is taken in a
    round can be passed on `lag` rounds later.
    """

    seed: np.uint64
    first: int
    last: int
    matches: bool
    delivers: bool
    lag: int
    remaining: int


@helper
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


@inlined
def _choose(block, src, npu, state, rare, bits):
    """In a block, a place that is of use to an NPU at random, of the rare ones if there are any."""
    held, taken = state.held, state.taken
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
    word = (trailing_zeros(words >> turn) + turn) & _WORD_MASK
    useful = held[block, src, word] & ~taken[block, npu, word]
    if seldom != _ZERO:
        useful &= rare[block, word]
    turn = bits & _U63
    turned = (useful >> turn) | (useful << ((_U64 - turn) & _U63))
    return np.int64((word << _U6) | ((trailing_zeros(turned) + turn) & _U63))


@helper
def _sort_links(npu, network, chunks, state, turn, keys):
    """Sort the links into an NPU: those that could bring the fewest chunks first, then from `turn` on."""
    first = network.in_first[npu]
    degree = network.in_first[npu + 1] - first
    for k in range(degree):
        src = network.in_src[first + k]
        useful = _ZERO
        for block in range(len(chunks.block_size)):
            if state.taken_in[block, npu] != chunks.block_size[block]:
                for w in range(WORDS):
                    useful += population(state.held[block, src, w] & ~state.taken[block, npu, w])
        turned = k - turn if k >= turn else k - turn + degree
        key = (np.int64(useful) << 40) | (turned << 20) | k
        at = k
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key


@inlined
def _match_npu(npu, block, bits, network, chunks, state, thread, row):
    """One round of the links into one NPU; returns how many of them take a chunk."""
    first = network.in_first[npu]
    degree = network.in_first[npu + 1] - first
    turn = np.int64(((bits >> _U32) * np.uint64(degree)) >> _U32)
    sorts = 0 < state.lacking[npu] <= _FEW
    if sorts:
        _sort_links(npu, network, chunks, state, turn, thread.keys)
    matched = 0
    for k in range(degree):
        slot = turn + k
        slot = first + (slot if slot < degree else slot - degree)
        if sorts:
            slot = first + (thread.keys[k] & ((1 << 20) - 1))
        src = network.in_src[slot]
        bits = bits * MIX_1 + GOLDEN
        place = np.int64(NOTHING)
        at = block
        if state.lacking[npu] > 0:
            for _ in range(len(chunks.block_size)):
                if state.taken_in[at, npu] != chunks.block_size[at] and state.taken_in[at, src] != 0:
                    place = _choose(np.uint64(at), np.uint64(src), np.uint64(npu), state, thread.rare, bits ^ (bits >> _U32))
                    if place >= 0:
                        break
                at += 1
                if at == len(chunks.block_size):
                    at = 0
        if place < 0:
            state.picks[row, network.in_channel[slot]] = NOTHING
            continue
        state.taken[at, npu, place >> 6] |= _U1 << np.uint64(place & 63)
        state.taken_in[at, npu] += 1
        state.lacking[npu] -= 1
        matched += 1
        place += at << _BLOCK_SHIFT
        state.copies[thread.part, place] += 1
        state.picks[row, network.in_channel[slot]] = chunks.chunk_at[place]
    return matched


@kernel
def match_rounds(rounds: Rounds, network: Network, chunks: Chunks, state: State, thread: Thread):
    """Some rounds of the links into some NPUs.

    Returns
    -------
    The number of rounds, and of chunks that were taken.
    """
    matched = np.int64(0)
    for number in range(rounds.first, rounds.last):
        if rounds.matches:
            block = number % len(chunks.block_size)
            random = mix(rounds.seed + np.uint64(number) * GOLDEN)
            row = number % len(state.picks)
            for npu in range(thread.first_npu, thread.last_npu):
                bits = mix(random + np.uint64(npu) * GOLDEN)
                matched += _match_npu(npu, block, bits, network, chunks, state, thread, row)
        arrived = number - rounds.lag + 1
        if rounds.delivers and arrived >= 0:
            row = arrived % len(state.picks)
            for npu in range(thread.first_npu, thread.last_npu):
                for slot in range(network.in_first[npu], network.in_first[npu + 1]):
                    chunk = state.picks[row, network.in_channel[slot]]
                    if chunk >= 0:
                        place = chunks.place_of[chunk]
                        state.held[place >> _BLOCK_SHIFT, npu, (place >> 6) & (WORDS - 1)] |= _U1 << np.uint64(place & 63)
        if rounds.delivers:
            # Only now, as no thread counts copies while they deliver.
            block = (number + 1) % len(chunks.block_size)
            _find_rare(block, chunks.block_size[block], state.copies, thread.rare)
        if matched == rounds.remaining:
            return number + 1 - rounds.first, matched
    return rounds.last - rounds.first, matched
