"""All-to-All: each NPU starts with a part for every other NPU, and ends with the parts that the others have for it."""

from __future__ import annotations

from astra_tacos.collective.collective import Collective, check_size, parts_for_others, split_evenly


def all_to_all(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """All-to-All of a buffer of `size_bytes` on every NPU, one part of it for each NPU, cut into `chunks_per_npu` chunks.

    An NPU's part for itself stays where it is: it is no chunk. Chunks of an NPU follow one another, by their targets.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks.
    """
    num_parts = num_npus * chunks_per_npu
    check_size("all-to-all", num_npus, size_bytes, num_npus * chunks_per_npu, num_parts)
    owner, target, place = parts_for_others(num_npus, chunks_per_npu)
    sizes = split_evenly(size_bytes, num_parts)[place]
    return Collective("all-to-all", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, None, target)
