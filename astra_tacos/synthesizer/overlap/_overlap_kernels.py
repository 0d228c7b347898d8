# mypy: ignore-errors
"""Kernel: how many sends a chunk has before it, from each send of its in-tree and its out-tree on."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def hops_to_come(root, sum_chunk, sum_src, sum_dst, copy_chunk, copy_src, copy_dst, num_npus, sum_hops, copy_hops):
    """The longest way from the end of each send on, up the in-tree and down the out-tree, counted in sends.

    Rows of an in-tree come in the order from the root on, and so do those of an out-tree.
    """
    num_chunks = len(root)
    longest = np.zeros(num_npus * num_chunks, np.int32)
    for row in range(len(copy_chunk) - 1, -1, -1):
        below = longest[copy_dst[row] * num_chunks + copy_chunk[row]]
        copy_hops[row] = below
        above = copy_src[row] * num_chunks + copy_chunk[row]
        longest[above] = max(longest[above], below + 1)
    for chunk in range(num_chunks):
        below = longest[root[chunk] * num_chunks + chunk]
        for npu in range(num_npus):
            longest[npu * num_chunks + chunk] = 0
        longest[root[chunk] * num_chunks + chunk] = below
    for row in range(len(sum_chunk)):
        above = longest[sum_dst[row] * num_chunks + sum_chunk[row]]
        sum_hops[row] = above
        longest[sum_src[row] * num_chunks + sum_chunk[row]] = above + 1
