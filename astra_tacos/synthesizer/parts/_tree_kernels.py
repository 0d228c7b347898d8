# mypy: ignore-errors
"""Kernel: the lengths of trees' branches."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I32_2D, I64, I64_2D_OUT, kernel


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
