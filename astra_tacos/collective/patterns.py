"""The patterns of collectives whose parts are of equal sizes, one function a pattern.

All-Gather: each NPU starts with its shard; all NPUs end with every shard. Reduce-Scatter: each NPU starts with a whole buffer and
ends with the sum over all NPUs of its own shard. All-Reduce: all NPUs end with the whole sum. All-to-All: each NPU starts with a
part for every other NPU, and ends with the parts that the others have for it.

Broadcast: the root starts with a buffer; all NPUs end with it. Reduce: the root ends with the sum of all NPUs' buffers. Scatter:
the root starts with a part for every NPU, and each ends with its own. Gather: the root ends with every NPU's shard.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from astra_tacos.collective.collective import (
    Collective,
    check_size,
    own_shards,
    rooted,
    split_evenly,
)
from astra_tacos.support.errors import ConfigError


def all_gather(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """All-Gather in which every NPU contributes a shard of `size_bytes`.

    Raises
    ------
    ConfigError
        If the shard has fewer bytes than chunks.

    Examples
    --------
    >>> from astra_tacos import all_gather
    >>> all_gather(4, size_bytes=1 << 20, chunks_per_npu=2).num_chunks
    8
    """
    check_size("all-gather", num_npus, size_bytes, chunks_per_npu, chunks_per_npu)
    sizes = np.tile(split_evenly(size_bytes, chunks_per_npu), num_npus)
    return Collective(
        "all-gather", num_npus, size_bytes, chunks_per_npu, False, True, sizes, own_shards(num_npus, chunks_per_npu)
    )


def all_reduce(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, num_owners: int | None = None) -> Collective:
    """All-Reduce of a buffer of `size_bytes` on every NPU.

    Parameters
    ----------
    num_npus
        Members.
    size_bytes
        Size of the whole buffer.
    chunks_per_npu
        Chunks of each NPU that owns any.
    num_owners
        How many NPUs own chunks, by default all of them. Fewer of them make fewer chunks than there are NPUs: algorithms that
        exchange whole buffers need only one.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks, or the owners are none or more than there are NPUs.

    Examples
    --------
    >>> from astra_tacos import all_reduce
    >>> all_reduce(4, size_bytes=1 << 20, chunks_per_npu=2).num_chunks
    8
    """
    owners = num_npus if num_owners is None else num_owners
    if not 1 <= owners <= max(num_npus, 1):
        raise ConfigError(f"all-reduce: found {owners} owners of chunks, expected 1 to {num_npus}")
    num_chunks = owners * chunks_per_npu
    check_size("all-reduce", num_npus, size_bytes, chunks_per_npu, num_chunks)
    sizes = split_evenly(size_bytes, num_chunks)
    owner = (np.arange(num_chunks) // chunks_per_npu * num_npus // owners).astype(np.int32)
    return Collective("all-reduce", num_npus, size_bytes, chunks_per_npu, True, True, sizes, owner)


def all_reduce_of(num_npus: int, size_bytes: int, num_chunks: int) -> Collective:
    """All-Reduce of a buffer in any number of chunks, which as many NPUs as possible own equally many of.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks.
    """
    owners = gcd(num_chunks, num_npus)
    return all_reduce(num_npus, size_bytes, num_chunks // owners, owners)


def all_to_all(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """All-to-All of a buffer of `size_bytes` on every NPU, one part of it for each NPU, cut into `chunks_per_npu` chunks.

    The part of an NPU for itself stays on the NPU, and is not a chunk. Chunks of an NPU follow one another, by their targets.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks.

    Examples
    --------
    >>> from astra_tacos import all_to_all
    >>> all_to_all(4, size_bytes=1 << 20).num_chunks
    12
    """
    num_parts = num_npus * chunks_per_npu
    check_size("all-to-all", num_npus, size_bytes, num_npus * chunks_per_npu, num_parts)
    npus = np.arange(num_npus, dtype=np.int32)
    owner, target = np.repeat(npus, num_npus - 1), np.tile(npus[:-1], num_npus)
    target = target + (target >= owner)
    piece = np.tile(np.arange(chunks_per_npu, dtype=np.int32), len(owner))
    owner, target = np.repeat(owner, chunks_per_npu), np.repeat(target, chunks_per_npu)
    sizes = split_evenly(size_bytes, num_parts)[target * np.int32(chunks_per_npu) + piece]
    return Collective("all-to-all", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, None, target)


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

    Examples
    --------
    >>> from astra_tacos import broadcast
    >>> broadcast(4, size_bytes=1 << 20, chunks_per_npu=8, root=2).num_chunks
    8
    """
    return rooted("broadcast", num_npus, size_bytes, chunks_per_npu, root, reduces=False)


def gather(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Gather at the NPU `root`, to which every NPU contributes a shard of `size_bytes`.

    The root's own shard stays on the root, and is not a chunk. Chunks come in the order of their owners.

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

    Examples
    --------
    >>> from astra_tacos import gather
    >>> gather(4, size_bytes=1 << 20, root=2).root
    2
    """
    check_size("gather", num_npus, size_bytes, chunks_per_npu, chunks_per_npu, root)
    owner = np.delete(np.arange(num_npus, dtype=np.int32), root).repeat(chunks_per_npu)
    sizes = np.tile(split_evenly(size_bytes, chunks_per_npu), num_npus - 1)
    target = np.full(len(owner), root, np.int32)
    return Collective("gather", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, root, target)


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

    Examples
    --------
    >>> from astra_tacos import reduce
    >>> reduce(4, size_bytes=1 << 20, chunks_per_npu=8).num_chunks
    8
    """
    return rooted("reduce", num_npus, size_bytes, chunks_per_npu, root, reduces=True)


def reduce_scatter(num_npus: int, size_bytes: int, chunks_per_npu: int = 1) -> Collective:
    """Reduce-Scatter of a buffer of `size_bytes` on every NPU.

    Raises
    ------
    ConfigError
        If the buffer has fewer bytes than chunks.

    Examples
    --------
    >>> from astra_tacos import reduce_scatter
    >>> reduce_scatter(4, size_bytes=1 << 20).num_chunks
    4
    """
    num_chunks = num_npus * chunks_per_npu
    check_size("reduce-scatter", num_npus, size_bytes, chunks_per_npu, num_chunks)
    sizes = split_evenly(size_bytes, num_chunks)
    return Collective(
        "reduce-scatter", num_npus, size_bytes, chunks_per_npu, True, False, sizes, own_shards(num_npus, chunks_per_npu)
    )


def scatter(num_npus: int, size_bytes: int, chunks_per_npu: int = 1, root: int = 0) -> Collective:
    """Scatter of a buffer of `size_bytes` at the NPU `root`, one part of it for each NPU, cut into `chunks_per_npu` chunks.

    The root's own part stays on the root, and is not a chunk. Chunks come in the order of their targets.

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

    Examples
    --------
    >>> from astra_tacos import scatter
    >>> scatter(4, size_bytes=1 << 20, root=2).root
    2
    """
    num_parts = num_npus * chunks_per_npu
    check_size("scatter", num_npus, size_bytes, chunks_per_npu, num_parts, root)
    npu = np.repeat(np.arange(num_npus, dtype=np.int32), chunks_per_npu)
    moves = npu != root
    sizes, target = split_evenly(size_bytes, num_parts)[moves], npu[moves]
    owner = np.full(len(target), root, np.int32)
    return Collective("scatter", num_npus, size_bytes, chunks_per_npu, False, False, sizes, owner, root, target)
