"""Gather: each NPU starts with its shard; the root ends with every shard."""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective, check_root, check_size, split_evenly


def gather(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Gather at the NPU `root`, to which every NPU contributes a shard of `size_bytes`.

    The root's own shard stays where it is: it is no chunk. Chunks come in the order of their owners.

    Parameters
    ----------
    num_npus
        How many NPUs take part.
    size_bytes
        Bytes of one NPU's shard.
    chunks_per_npu
        Chunks that a shard is cut into.
    root
        The NPU that ends with all shards.

    Raises
    ------
    ConfigError
        If there is no such NPU, or a shard has fewer bytes than chunks.
    """
    check_size("gather", num_npus, size_bytes, chunks_per_npu, chunks_per_npu)
    check_root("gather", num_npus, root)
    owner = np.delete(np.arange(num_npus, dtype=np.int32), root).repeat(chunks_per_npu)
    sizes = np.tile(split_evenly(size_bytes, chunks_per_npu), num_npus - 1)
    target = np.full(len(owner), root, np.int32)
    return Collective("gather", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, root, target)
