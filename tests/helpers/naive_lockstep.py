"""The matching in rounds once more, with sets instead of bits and one loop over everything."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BLOCK, _FEW = 512, 64


def _mix(z: int) -> int:
    z &= _MASK
    z = ((z ^ (z >> 30)) * _MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & _MASK
    return z ^ (z >> 31)


def _choose(useful: set[int], rare: set[int], bits: int) -> int | None:
    """The first word from a random one on, and in it the first place from a random one on."""
    places = useful & rare or useful
    if not places:
        return None
    word, bit = (bits >> 30) & 7, bits & 63
    return min(places, key=lambda place: (((place >> 6) - word) % 8, ((place & 63) - bit) % 64))


def places_of(num_chunks: int, seed: int, reverse: bool) -> tuple[list[int], list[int]]:
    """The place of each chunk, and the sizes of the blocks."""
    blocks = -(-num_chunks // _BLOCK)
    sizes = [num_chunks // blocks + (block < num_chunks % blocks) for block in range(blocks)]
    places = [block * _BLOCK + number for block, size in enumerate(sizes) for number in range(size)]
    place_of = [0] * num_chunks
    for chunk, place in zip(np.random.default_rng((seed, int(reverse))).permutation(num_chunks).tolist(), places, strict=True):
        place_of[chunk] = place
    return place_of, sizes


def naive_rounds(src: list[int], dst: list[int], owner: list[int], seed: int, lag: int, reverse: bool) -> list[list[int]]:
    """Per round, the chunk of each channel, -1 for none: an All-Gather from the owners over the channels src -> dst."""
    num_npus = max(dst) + 1
    place_of, sizes = places_of(len(owner), seed, reverse)
    chunk_at = {place: chunk for chunk, place in enumerate(place_of)}
    held = [{place_of[chunk] for chunk in range(len(owner)) if owner[chunk] == npu} for npu in range(num_npus)]
    taken = [set(places) for places in held]
    copies = dict.fromkeys(place_of, 0)
    into = [[channel for channel in range(len(dst)) if dst[channel] == npu] for npu in range(num_npus)]
    rows: list[list[int]] = []
    rares: dict[int, set[int]] = {}
    while any(len(places) < len(owner) for places in taken):
        number = len(rows)
        first = number % len(sizes)
        of_block = [place for place in place_of if place // _BLOCK == first]
        total = sum(copies[place] for place in of_block)
        rare = {place & (_BLOCK - 1) for place in of_block if copies[place] * len(of_block) <= total}
        rares[first] = rare  # of other blocks it is known what was rare when a round last began with them
        random = _mix(2 * seed + reverse + number * _GOLDEN)
        row = [-1] * len(src)
        for npu in range(num_npus):
            bits = _mix(random + npu * _GOLDEN)
            degree = len(into[npu])
            turn = ((bits >> 32) * degree) >> 32
            links = into[npu][turn:] + into[npu][:turn]
            if 0 < len(owner) - len(taken[npu]) <= _FEW:
                links = sorted(links, key=lambda channel: len(held[src[channel]] - taken[npu]))
            for channel in links:
                bits = (bits * _MIX_1 + _GOLDEN) & _MASK
                for block in [*range(first, len(sizes)), *range(first)]:
                    useful = {place & (_BLOCK - 1) for place in held[src[channel]] - taken[npu] if place // _BLOCK == block}
                    place = _choose(useful, rares.get(block, set()), bits ^ (bits >> 32))
                    if place is not None:
                        place += block * _BLOCK
                        taken[npu].add(place)
                        copies[place] += 1
                        row[channel] = chunk_at[place]
                        break
        rows.append(row)
        if number - lag + 1 >= 0:
            for channel, chunk in enumerate(rows[number - lag + 1]):
                if chunk >= 0:
                    held[dst[channel]].add(place_of[chunk])
    return rows
