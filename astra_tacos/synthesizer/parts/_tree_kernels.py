# mypy: ignore-errors
"""Kernels: the lengths of trees' branches; how many sends a chunk has before it, from each send of its in- and out-tree on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I32_2D, I32_OUT, I64, I64_2D_OUT, kernel


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


@kernel
def walk(trees: I32_2D, end: I32, channel_ns: I64, away_ns: I64_2D_OUT, ahead_ns: I64_2D_OUT):
    """Measure trees' branches.

    Parameters
    ----------
    trees
        [num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    end, channel_ns
        Of channels: the end that is nearer to the root, and how long a chunk takes.
    away_ns, ahead_ns
        [num_trees, num_npus], results: how long a chunk takes, with nothing in its way, from the root to an NPU, and on from
        there to the last NPU that it goes to by way of that one. Against the arrows for a tree that leads into its root.
    """
    num_npus = trees.shape[1]
    queue = np.empty(num_npus, np.int64)
    children = np.empty(num_npus, np.int64)
    for t in range(len(trees)):
        for npu in range(num_npus):
            children[npu] = 0
            ahead_ns[t, npu] = 0
        for npu in range(num_npus):
            if trees[t, npu] >= 0:
                children[end[trees[t, npu]]] += 1
        size = 0
        for npu in range(num_npus):
            if children[npu] == 0:
                queue[size] = npu
                size += 1
        for at in range(num_npus):
            npu = queue[at]
            channel = trees[t, npu]
            if channel >= 0:
                parent = end[channel]
                ahead_ns[t, parent] = max(ahead_ns[t, parent], ahead_ns[t, npu] + channel_ns[channel])
                children[parent] -= 1
                if children[parent] == 0:
                    queue[size] = parent
                    size += 1
        for at in range(num_npus - 1, -1, -1):
            npu = queue[at]
            channel = trees[t, npu]
            away_ns[t, npu] = 0 if channel < 0 else away_ns[t, end[channel]] + channel_ns[channel]
