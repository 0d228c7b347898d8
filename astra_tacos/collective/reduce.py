"""Reduce: each NPU starts with a buffer; the root ends with the sum of all of them."""

from __future__ import annotations

from astra_tacos.collective.collective import Collective, rooted


def reduce(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Reduce of a buffer of `size_bytes` on every NPU, cut into `chunks_per_npu` chunks, to the NPU `root`.

    Parameters
    ----------
    num_npus
        How many NPUs take part.
    size_bytes
        Bytes of each NPU's buffer.
    chunks_per_npu
        Chunks that the buffer is cut into.
    root
        The NPU that ends with the sum.

    Raises
    ------
    ConfigError
        If there is no such NPU, or the buffer has fewer bytes than chunks.
    """
    return rooted("reduce", num_npus, size_bytes, chunks_per_npu, root, reduces=True)
