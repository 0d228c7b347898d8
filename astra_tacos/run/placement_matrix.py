"""Placements of axes of parallelism on the levels of a network: the matrices of P2 (MLSys 2022, arXiv 2110.10548).

Row i of a matrix multiplies to the size of axis i, column j to that of level j, outermost first; entry (i, j) says how many parts
of axis i lie within level j. The mixed-radix digits of a rank's coordinates give its NPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

Matrix = tuple[tuple[int, ...], ...]
Rows = tuple[tuple[str, tuple[int, ...]], ...]
"""A matrix with the name of each row's axis."""
_MOST_MATRICES = 10_000
"""Placements that are made: each is replayed or estimated."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of parallelism: its name, its size, and the distance of ranks whose coordinates differ by 1."""

    name: str
    size: int
    stride: int


def placements(levels: Sequence[int], axes: Sequence[int]) -> list[Matrix]:
    """All matrices of positive integers with these products of columns and rows, in ascending order.

    Raises
    ------
    ConfigError
        If the products of levels and axes differ, or there are more than 10,000 matrices.
    """
    if math.prod(levels) != math.prod(axes):
        products = " x ".join(map(str, axes)), " x ".join(map(str, levels))
        raise ConfigError(f"axes: found {products[0]} ranks, expected {products[1]} of the network")
    found_matrices: list[Matrix] = []
    for matrix in _matrices(tuple(levels), tuple(axes)):
        found_matrices.append(matrix)
        if len(found_matrices) > _MOST_MATRICES:
            raise ConfigError(f"axes: more than {_MOST_MATRICES:,} placements, expected fewer axes")
    return found_matrices


def _matrices(levels: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[Matrix]:
    if not axes:
        if all(level == 1 for level in levels):
            yield ()
        return
    for row in _rows(levels, axes[0]):
        left = tuple(level // entry for level, entry in zip(levels, row, strict=True))
        for rest in _matrices(left, axes[1:]):
            yield (row, *rest)


def _rows(levels: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Divisors of the levels that multiply to a size."""
    if not levels:
        if size == 1:
            yield ()
        return
    for entry in range(1, levels[0] + 1):
        if levels[0] % entry == 0 and size % entry == 0:
            for rest in _rows(levels[1:], size // entry):
                yield (entry, *rest)


def npu_of_rank(matrix: Matrix, axes: Sequence[Axis]) -> Ints:
    """int64[num_ranks], the NPU of each rank. Within a level, the axis with the largest stride varies slowest."""
    num_ranks, num_levels = math.prod(axis.size for axis in axes), len(matrix[0])
    rank = np.arange(num_ranks)
    level = np.zeros((num_levels, num_ranks), np.int64)
    weight = [1] * num_levels
    for row, axis in sorted(zip(matrix, axes, strict=True), key=lambda pair: pair[1].stride):
        coordinate = rank // axis.stride % axis.size
        for place in reversed(range(num_levels)):
            level[place] += coordinate % row[place] * weight[place]
            weight[place] *= row[place]
            coordinate //= row[place]
    npu = np.zeros(num_ranks, np.int64)
    for place in range(num_levels):
        npu = npu * weight[place] + level[place]
    return npu


def read_axes(text: str) -> tuple[Axis, ...]:
    """Axes like `tp=2,dp=4`, from the one whose coordinate varies fastest with the rank.

    Raises
    ------
    ConfigError
        If the text is something else.
    """
    axes: list[Axis] = []
    stride = 1
    for entry in text.split(","):
        name, sign, size = entry.strip().partition("=")
        if not name or not sign or not size.isdecimal() or int(size) < 1 or name in (axis.name for axis in axes):
            raise ConfigError(f"axes: found {entry.strip()!r}, expected names and sizes like tp=2,dp=4, each name once")
        axes.append(Axis(name, int(size), stride))
        stride *= int(size)
    return tuple(axes)


def read_placement(text: str) -> Rows:
    """Parse a placement such as `tp:1x8,dp:4x2`.

    Raises
    ------
    ConfigError
        If the text is something else.
    """
    rows: dict[str, tuple[int, ...]] = {}
    for entry in text.split(","):
        name, _, row = entry.strip().lower().partition(":")
        parts = row.split("x")
        if name in rows or not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise ConfigError(
                f"placement: found {entry.strip()!r}, expected an axis and its parts in each level, like tp:1x8,dp:4x2"
            )
        rows[name] = tuple(map(int, parts))
    return tuple(rows.items())


def npus_of(rows: Rows, levels: Sequence[int]) -> Ints:
    """int64[num_ranks], the NPU of each rank. The coordinate along the first row's axis varies fastest with the rank.

    Raises
    ------
    ConfigError
        If the matrix is for other levels.
    """
    products = tuple(math.prod(column) for column in zip(*(row for _, row in rows), strict=False))
    if any(len(row) != len(levels) for _, row in rows) or products != tuple(levels):
        text = ",".join(f"{name}:{'x'.join(map(str, row))}" for name, row in rows)
        raise ConfigError(f"placement: found {text}, expected levels of {' x '.join(map(str, levels))}, outermost first")
    sizes = [math.prod(row) for _, row in rows]
    axes = tuple(
        Axis(name, size, math.prod(sizes[:place])) for place, ((name, _), size) in enumerate(zip(rows, sizes, strict=True))
    )
    return npu_of_rank(tuple(row for _, row in rows), axes)


def find_axes(num_ranks: int, groups: Sequence[Sequence[int]]) -> tuple[Axis, ...] | None:
    """Axes along which the members of all groups differ; None if groups are no products of axes."""
    cuts = {1, num_ranks}
    for ranks in groups:
        steps = _steps(sorted(ranks))
        if steps is None:
            return None
        for stride, count in steps:
            cuts |= {stride, stride * count}
    ordered = sorted(cut for cut in cuts if cut <= num_ranks)
    if any(later % earlier for earlier, later in pairwise(ordered)):
        return None
    pairs = pairwise(ordered)
    return tuple(Axis(f"axis{number}", later // earlier, earlier) for number, (earlier, later) in enumerate(pairs, 1))


def _steps(ranks: Sequence[int]) -> list[tuple[int, int]] | None:
    """Strides and counts that make up the distances from the first rank, the smallest first; None if they are no such product."""
    left = [rank - ranks[0] for rank in ranks]
    steps: list[tuple[int, int]] = []
    while len(left) > 1:
        stride = left[1]
        there = set(left)
        count = 1
        while count * stride in there:
            count += 1
        block = {step * stride for step in range(count)}
        firsts = [step for step in left if not any(step - inner in there for inner in block if inner)]
        if sorted(first + inner for first in firsts for inner in block) != left:
            return None
        steps.append((stride, count))
        left = firsts
    return steps
