"""Reduce-Scatter: each NPU starts with a whole buffer and ends with the sum over all NPUs of its own shard."""

from __future__ import annotations

from astra_tacos.collective.collective import Collective, check_size, own_shards, split_evenly


def reduce_scatter(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """Reduce-Scatter of a buffer of `size_bytes` on every NPU.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks.
    """
    num_chunks = num_npus * chunks_per_npu
    check_size("reduce-scatter", num_npus, size_bytes, chunks_per_npu, num_chunks)
    sizes = split_evenly(size_bytes, num_chunks)
    return Collective(
        "reduce-scatter", num_npus, size_bytes, chunks_per_npu, True, False, sizes, own_shards(num_npus, chunks_per_npu)
    )
