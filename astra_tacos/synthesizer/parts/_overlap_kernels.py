# mypy: ignore-errors
"""Kernel: how many sends a chunk has before it, from each send of its in-tree and its out-tree on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I32_OUT, kernel


class Hops(NamedTuple):
    """Sends of trees: chunk and ends of each; result: how many sends come after it on the chunk's longest way."""

    chunk: I32
    src: I32
    dst: I32
    hops: I32_OUT


@kernel
def hops_to_come(root: I32, sums: Hops, copies: Hops, num_npus: int):
    """The longest way from the end of each send on, up the in-tree and down the out-tree, counted in sends.

    Parameters
    ----------
    root
        [num_chunks], where a chunk's in-tree ends and its out-tree begins.
    sums, copies
        Sends of the in-trees and of the out-trees, each from its root on.
    """
    num_chunks = len(root)
    longest = np.zeros(num_npus * num_chunks, np.int32)
    for row in range(len(copies.chunk) - 1, -1, -1):
        below = longest[copies.dst[row] * num_chunks + copies.chunk[row]]
        copies.hops[row] = below
        above = copies.src[row] * num_chunks + copies.chunk[row]
        longest[above] = max(longest[above], below + 1)
    for chunk in range(num_chunks):
        below = longest[root[chunk] * num_chunks + chunk]
        for npu in range(num_npus):
            longest[npu * num_chunks + chunk] = 0
        longest[root[chunk] * num_chunks + chunk] = below
    for row in range(len(sums.chunk)):
        above = longest[sums.dst[row] * num_chunks + sums.chunk[row]]
        sums.hops[row] = above
        longest[sums.src[row] * num_chunks + sums.chunk[row]] = above + 1
