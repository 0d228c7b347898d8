"""Scatter: the root starts with a part for every NPU, and each ends with its own."""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective, check_root, check_size, split_evenly


def scatter(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Scatter of a buffer of `size_bytes` at the NPU `root`, one part of it for each NPU, cut into `chunks_per_npu` chunks.

    The root's own part stays where it is: it is no chunk. Chunks come in the order of their targets.

    Parameters
    ----------
    num_npus
        How many NPUs take part.
    size_bytes
        Bytes of the root's buffer, its own part included.
    chunks_per_npu
        Chunks that a part is cut into.
    root
        The NPU that starts with all parts.

    Raises
    ------
    ConfigError
        If there is no such NPU, or the buffer has fewer bytes than chunks.
    """
    num_parts = num_npus * chunks_per_npu
    check_size("scatter", num_npus, size_bytes, chunks_per_npu, num_parts)
    check_root("scatter", num_npus, root)
    npu = np.repeat(np.arange(num_npus, dtype=np.int32), chunks_per_npu)
    moves = npu != root
    sizes, target = split_evenly(size_bytes, num_parts)[moves], npu[moves]
    owner = np.full(len(target), root, np.int32)
    return Collective("scatter", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, root, target)
