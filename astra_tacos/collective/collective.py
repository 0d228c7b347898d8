"""A collective: which NPUs contribute to a chunk, which must have it in the end, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_tacos.errors import ConfigError
from astra_tacos.units import MAX_SIZE_BYTES

MAX_CHUNKS = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """A collective over all NPUs, cut into chunks, each of which has an owner.

    Parameters
    ----------
    name
        Key in `COLLECTIVES`.
    num_npus
        Members.
    size_bytes
        What a workload node calls `comm_size`: the input of one NPU (All-Gather: its shard; otherwise the whole buffer).
    chunks_per_npu
        Chunks of each NPU that owns any: of its shard, or, if there is a root, of the whole buffer.
    reduces
        Precondition: every NPU holds a contribution to every chunk (else only the owner holds the chunk).
    gathers
        Postcondition: every NPU has every chunk (else only its owner has it).
    chunk_size_bytes
        int64[num_chunks]; sizes differ by at most one byte.
    chunk_owner
        int32[num_chunks], the NPU that holds a chunk at first, or has the sum in the end. If the collective both reduces and
        gathers, where a chunk is summed up is left to the synthesizer, and the owner is no more than a hint.
    root
        The owner of all chunks of a Broadcast or a Reduce, None for other collectives.
    """

    name: str
    num_npus: int
    size_bytes: int
    chunks_per_npu: int
    reduces: bool
    gathers: bool
    chunk_size_bytes: NDArray[np.int64]
    chunk_owner: NDArray[np.int32]
    root: int | None = None
    chunk_class: NDArray[np.uint8] = field(init=False)
    """uint8[num_chunks], index of each chunk's size in `class_size_bytes`."""
    class_size_bytes: NDArray[np.int64] = field(init=False)
    """int64[1 or 2], the distinct chunk sizes, ascending."""

    def __post_init__(self) -> None:
        sizes, classes = np.unique(self.chunk_size_bytes, return_inverse=True)
        object.__setattr__(self, "class_size_bytes", sizes)
        object.__setattr__(self, "chunk_class", classes.astype(np.uint8))
        for name in ("chunk_size_bytes", "chunk_owner", "chunk_class", "class_size_bytes"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def num_chunks(self) -> int:
        return len(self.chunk_size_bytes)

    @property
    def chunks_owned(self) -> NDArray[np.int64]:
        """int64[num_npus], chunks of each NPU."""
        return np.bincount(self.chunk_owner, minlength=self.num_npus)

    @property
    def num_phases(self) -> int:
        """1 to gather or to reduce, 2 to do both; each takes at least N-1 sends per chunk."""
        return int(self.reduces) + int(self.gathers)

    @property
    def buffer_bytes(self) -> int:
        """Size of the whole buffer: the gathered result of an All-Gather, the input of the others."""
        return int(self.chunk_size_bytes.sum())

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
        if self.root is not None:
            return 1.0
        return self.num_phases * (self.num_npus - 1) / self.num_npus


def split_evenly(size_bytes: int, num_chunks: int) -> NDArray[np.int64]:
    """Sizes of `num_chunks` parts of a buffer, larger ones first, at most one byte apart."""
    part, larger = divmod(size_bytes, num_chunks)
    sizes = np.full(num_chunks, part, np.int64)
    sizes[:larger] += 1
    return sizes


def own_shards(num_npus: int, chunks_per_npu: int) -> NDArray[np.int32]:
    """Owners of chunks where every NPU has a shard, in the order of the NPUs."""
    return np.repeat(np.arange(num_npus, dtype=np.int32), chunks_per_npu)


def rooted(name: str, num_npus: int, size_bytes: int, num_chunks: int, root: int, *, reduces: bool) -> Collective:
    """A collective that brings a buffer of `size_bytes` from the root to all NPUs, or the sum of all NPUs' buffers to the root.

    Raises
    ------
    ConfigError
        If there is no such NPU, or the buffer has fewer bytes than chunks.
    """
    check_size(name, num_npus, size_bytes, num_chunks, num_chunks)
    if not 0 <= root < num_npus:
        raise ConfigError(f"{name}: found root {root}, expected an NPU, 0 to {num_npus - 1}")
    owner = np.full(num_chunks, root, np.int32)
    sizes = split_evenly(size_bytes, num_chunks)
    return Collective(name, num_npus, size_bytes, num_chunks, reduces, not reduces, sizes, owner, root)


def check_size(name: str, num_npus: int, size_bytes: int, chunks_per_npu: int, parts: int) -> None:
    """Check the arguments of a collective of which `parts` parts share `size_bytes`.

    Raises
    ------
    ConfigError
        If there are fewer than two NPUs, no chunk, too many chunks, or fewer bytes than parts.
    """
    if num_npus < 2:
        raise ConfigError(f"{name}: found {num_npus} NPUs, expected at least 2")
    if not chunks_per_npu >= 1 or chunks_per_npu * num_npus > MAX_CHUNKS:
        raise ConfigError(f"{name}: found {chunks_per_npu} chunks per NPU, expected 1 to {MAX_CHUNKS // num_npus}")
    if size_bytes < parts:
        raise ConfigError(f"{name}: {size_bytes} bytes in {parts} chunks, expected at least one byte per chunk")
    if size_bytes > MAX_SIZE_BYTES:
        raise ConfigError(f"{name}: {size_bytes} bytes, expected at most {MAX_SIZE_BYTES}")
