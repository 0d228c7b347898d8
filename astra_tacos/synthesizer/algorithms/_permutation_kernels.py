# mypy: ignore-errors
"""Kernels: a matrix of equal row and column sums as permutations (Birkhoff), and the pieces of parts on their rails."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32_2D_OUT, I32_OUT, I64, I64_2D, I64_2D_OUT, I64_OUT, helper, kernel
from astra_tacos.support.kernels.shared import augment


class Turns(NamedTuple):
    """Which units two nodes exchange in which stage: of each pair of nodes, numbers of units and stages in order (CSR)."""

    first: I64  # [num_nodes**2 + 1]
    units: I64
    stage: I64
    last: int  # the stage of what is left


class Pieces(NamedTuple):
    """Results, a row for each piece of a part."""

    src: I32_OUT
    dst: I32_OUT
    rail: I32_OUT  # -1 for what stays in its node
    stage: I32_OUT
    units: I64_OUT


@kernel
def decompose(matrix: I64_2D_OUT, stop: int, permutation: I32_2D_OUT, amount: I64_OUT):
    """Take permutations off a matrix until row sums are at most `stop`, large amounts first; returns how many there are.

    Parameters
    ----------
    matrix
        [n, n], all row and column sums are equal; what is left in the end.
    stop
        Row sum at which to stop.
    permutation, amount
        [room, n] and [room], the column of each row, and what is taken off these entries.
    """
    size = len(matrix)
    column_of = np.full(size, -1, np.int64)
    row_of = np.full(size, -1, np.int64)
    matched, space = (column_of, row_of), (np.empty(size, np.int64), np.empty(size + 1, np.int64))
    left = np.int64(0)
    level = np.int64(1)
    for column in range(size):
        left += matrix[0, column]
    while level * 2 <= left:
        level *= 2
    count = 0
    while left > stop and count < len(amount):
        is_perfect = True
        for row in range(size):
            if column_of[row] < 0 and not augment(row, size, matrix, level, matched, space):
                is_perfect = False
                break
        if not is_perfect:
            if level == 1:
                break
            level >>= 1
            continue
        least = left
        for row in range(size):
            least = min(least, matrix[row, column_of[row]])
        amount[count] = least
        left -= least
        for row in range(size):
            column = column_of[row]
            permutation[count, row] = column
            matrix[row, column] -= least
            if matrix[row, column] < level:
                column_of[row] = -1
                row_of[column] = -1
        count += 1
    return count


@helper
def _write(ends, stage, units, most, made, pieces):
    """Write a piece (source, target, rail) in parts of at most `most` units; returns how many pieces there are by now."""
    times = -(-units // most)
    for part in range(times):
        if made < len(pieces.units):
            pieces.src[made] = ends[0]
            pieces.dst[made] = ends[1]
            pieces.rail[made] = ends[2]
            pieces.stage[made] = stage
            pieces.units[made] = units // times + (part < units % times)
        made += 1
    return made


@helper
def _on_rail(ends, units, most, made, rails, turns, pieces):
    """Write what goes over a rail after what it has already, by the stages of its turns; returns as `_write`."""
    share, filled, turn, until = rails
    size = len(share)
    rail = ends[2]
    while units > 0:
        begin = filled[rail]
        while until[rail] <= begin * size and turn[rail] >= 0:
            turn[rail] += 1
            if turn[rail] < turn[size]:
                until[rail] += turns.units[turn[rail]]
            else:
                turn[rail] = -1
        taken_units = units
        stage = np.int64(turns.last)
        if turn[rail] >= 0:
            # A piece is in the stage that it begins in, unless it is large and goes on in later ones.
            stage = turns.stage[turn[rail]]
            taken_units = min(units, max(-(-(until[rail] - begin * size) // size), min(most, units)))
        made = _write(ends, stage, taken_units, most, made, pieces)
        units -= taken_units
        filled[rail] += taken_units
    return made


@helper
def _between_nodes(first, parts, most, made, rails, turns, pieces):
    """Write what goes from one node to another, whose first NPUs are `first`; returns as `_write`."""
    share, filled, _, _ = rails
    size = len(share)
    rest = np.empty((size, size), np.int64)
    for a in range(size):
        for k in range(size):
            b = (a + k) % size
            units = parts[first[0] + a, first[1] + b]
            taken_units = min(units, share[a] - filled[a])
            rest[a, b] = units - taken_units
            if taken_units > 0:
                made = _on_rail((first[0] + a, first[1] + b, a), taken_units, most, made, rails, turns, pieces)
    rail = 0
    for a in range(size):
        for b in range(size):
            while rest[a, b] > 0:
                while filled[rail] >= share[rail]:
                    rail += 1
                taken_units = min(rest[a, b], share[rail] - filled[rail])
                made = _on_rail((first[0] + a, first[1] + b, rail), taken_units, most, made, rails, turns, pieces)
                rest[a, b] -= taken_units
    return made


@kernel
def lay_pieces(parts: I64_2D, size: int, most: int, turns: Turns, pieces: Pieces):
    """Cut parts into pieces, so that all rails between two nodes carry as much; returns how many pieces there are.

    An NPU keeps what it has for another node up to an equal share of what its node has for that node, what is for the NPU on its
    own rail first. The rest goes over the rails of NPUs that have less than their share. Pieces are written as far as there is
    room.

    Parameters
    ----------
    parts
        [num_npus, num_npus], units from each NPU to each.
    size
        NPUs of a node.
    most
        Pieces are no larger, in units.
    """
    count = len(parts) // size
    made = np.int64(0)
    share = np.empty(size, np.int64)
    filled = np.empty(size, np.int64)
    turn = np.empty(size + 1, np.int64)
    until = np.empty(size, np.int64)
    rails = (share, filled, turn, until)
    for i in range(count):
        for j in range(count):
            if i == j:
                for a in range(i * size, (i + 1) * size):
                    for b in range(i * size, (i + 1) * size):
                        if a != b and parts[a, b] > 0:
                            made = _write((a, b, -1), turns.last, parts[a, b], most, made, pieces)
                continue
            total = np.int64(0)
            for a in range(size):
                for b in range(size):
                    total += parts[i * size + a, j * size + b]
            if total == 0:
                continue
            pair = i * count + j
            turn[size] = turns.first[pair + 1]
            for rail in range(size):
                share[rail] = total // size + ((rail - i - j) % size < total % size)
                turn[rail] = turns.first[pair] - 1
                until[rail] = 0
                filled[rail] = 0
            made = _between_nodes((i * size, j * size), parts, most, made, rails, turns, pieces)
    return made
