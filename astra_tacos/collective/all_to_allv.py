"""All-to-All of parts of unequal sizes (MPI_Alltoallv): each NPU starts with a part of its own size for every other NPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective, check_size
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import MAX_SIZE_BYTES

MOST_PARTS = 1 << 24


def all_to_allv(part_bytes: NDArray[np.int64], chunks_per_npu: int = 1) -> Collective:
    """All-to-All of unequal parts, the largest of which is cut into `chunks_per_npu` chunks.

    Other parts are cut into as many chunks as they need for none to be larger than those. Chunks of a part are of almost equal
    size, and whole multiples of the greatest common divisor of all parts, such as a token. An NPU's part for itself stays where
    it is. Chunks of an NPU follow one another, by their targets.

    Parameters
    ----------
    part_bytes
        int64[num_npus, num_npus], bytes that each NPU (row) has for each NPU (column); 0 for nothing.
    chunks_per_npu
        Chunks of the largest part.

    Raises
    ------
    ConfigError
        If this is no square matrix of sizes, no NPU has anything for another, or the largest part has fewer bytes than chunks.
    """
    parts = check_parts(part_bytes)
    num_npus = len(parts)
    sent = parts.copy()
    np.fill_diagonal(sent, 0)
    largest, size_bytes = int(sent.max()), int(parts.sum(axis=1).max())
    if not largest:
        raise ConfigError("all-to-allv: found no bytes from an NPU to another, expected some")
    check_size("all-to-allv", num_npus, largest, chunks_per_npu, chunks_per_npu)
    src, dst = np.nonzero(sent)
    size = sent[src, dst]
    unit = int(np.gcd.reduce(size))
    if largest // unit < chunks_per_npu:
        unit = 1
    most = -(-(largest // unit) // chunks_per_npu)  # units of a chunk
    units = size // unit
    count = -(-units // most)
    which = np.repeat(np.arange(len(size)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    chunk_bytes = (units[which] // count[which] + (place < units[which] % count[which])) * unit
    return of_chunks(parts, size_bytes, chunks_per_npu, chunk_bytes, src[which], dst[which])


def of_chunks(
    part_bytes: NDArray[np.int64],
    size_bytes: int,
    chunks_per_npu: int,
    chunk_bytes: NDArray[np.int64],
    owner: NDArray[np.integer],
    target: NDArray[np.integer],
) -> Collective:
    """The same of given chunks, which the oracle checks: those of every pair add up to its part.

    Parameters
    ----------
    part_bytes
        As for `all_to_allv`.
    size_bytes
        Bytes of the largest buffer of an NPU.
    chunks_per_npu
        About how finely parts are cut.
    chunk_bytes, owner, target
        int[num_chunks], sizes and ends of the chunks.
    """
    return Collective(
        "all-to-allv",
        len(part_bytes),
        size_bytes,
        chunks_per_npu,
        False,
        False,
        chunk_bytes.astype(np.int64),
        owner.astype(np.int32),
        None,
        target.astype(np.int32),
        part_bytes=part_bytes,
    )


def check_parts(part_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The matrix as int64, checked.

    Raises
    ------
    ConfigError
        If it is no square matrix of sizes from 0 on, or an NPU's sizes add up to too much.
    """
    parts = np.asarray(part_bytes)
    if parts.ndim != 2 or parts.shape[0] != parts.shape[1] or not 2 <= len(parts) <= MOST_PARTS >> 12:
        raise ConfigError(f"all-to-allv: found sizes {list(parts.shape)}, expected as many rows as columns, 2 or more")
    if not np.issubdtype(parts.dtype, np.integer):
        raise ConfigError(f"all-to-allv: found sizes of type {parts.dtype}, expected whole numbers of bytes")
    if int(parts.min()) < 0:
        row, column = (int(at) for at in np.argwhere(parts < 0)[0])
        raise ConfigError(f"all-to-allv: found {parts[row, column]} bytes from NPU {row} to NPU {column}, expected 0 or more")
    total = parts.astype(np.float64)
    if float(max(total.sum(axis=0).max(), total.sum(axis=1).max())) > MAX_SIZE_BYTES:
        raise ConfigError(f"all-to-allv: an NPU sends or receives more than {MAX_SIZE_BYTES} bytes, expected at most so many")
    return parts.astype(np.int64)
