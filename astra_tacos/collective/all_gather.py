"""All-Gather: each NPU starts with its shard; all NPUs end with every shard."""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective, check_size, own_shards, split_evenly


def all_gather(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """All-Gather in which every NPU contributes a shard of `size_bytes`.

    Raises
    ------
    ConfigError
        If the shard has fewer bytes than chunks.
    """
    check_size("all-gather", num_npus, size_bytes, chunks_per_npu, chunks_per_npu)
    sizes = np.tile(split_evenly(size_bytes, chunks_per_npu), num_npus)
    return Collective(
        "all-gather", num_npus, size_bytes, chunks_per_npu, False, True, sizes, own_shards(num_npus, chunks_per_npu)
    )
