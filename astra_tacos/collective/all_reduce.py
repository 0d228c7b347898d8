"""All-Reduce: each NPU starts with a whole buffer and ends with the sum of all of them."""

from __future__ import annotations

from math import gcd

import numpy as np

from astra_tacos.collective.collective import Collective, check_size, split_evenly
from astra_tacos.support.errors import ConfigError


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
