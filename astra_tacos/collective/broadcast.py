"""Broadcast: the root starts with a buffer; all NPUs end with it."""

from __future__ import annotations

from astra_tacos.collective.collective import Collective, rooted


def broadcast(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Broadcast of a buffer of `size_bytes`, cut into `chunks_per_npu` chunks, from the NPU `root`.

    Parameters
    ----------
    num_npus
        How many NPUs take part.
    size_bytes
        Bytes of the buffer.
    chunks_per_npu
        Chunks that the buffer is cut into.
    root
        The NPU that starts with the buffer.

    Raises
    ------
    ConfigError
        If there is no such NPU, or the buffer has fewer bytes than chunks.
    """
    return rooted("broadcast", num_npus, size_bytes, chunks_per_npu, root, reduces=False)
