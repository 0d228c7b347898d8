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
    """A collective over all NPUs, cut into chunks; chunk `c` belongs to the shard of NPU `c // chunks_per_npu`.

    Parameters
    ----------
    name
        Key in `COLLECTIVES`.
    num_npus
        Members.
    size_bytes
        What a workload node calls `comm_size`: the input of one NPU (All-Gather: its shard; otherwise the whole buffer).
    chunks_per_npu
        Chunks in the shard of one NPU.
    reduces
        Precondition: every NPU holds a contribution to every chunk (else only the owner holds the chunk).
    gathers
        Postcondition: every NPU has every chunk (else only its owner has it).
    chunk_size_bytes
        int64[num_chunks]; sizes differ by at most one byte.
    """

    name: str
    num_npus: int
    size_bytes: int
    chunks_per_npu: int
    reduces: bool
    gathers: bool
    chunk_size_bytes: NDArray[np.int64]
    chunk_class: NDArray[np.uint8] = field(init=False)
    """uint8[num_chunks], index of each chunk's size in `class_size_bytes`."""
    class_size_bytes: NDArray[np.int64] = field(init=False)
    """int64[1 or 2], the distinct chunk sizes, ascending."""

    def __post_init__(self) -> None:
        sizes, classes = np.unique(self.chunk_size_bytes, return_inverse=True)
        object.__setattr__(self, "class_size_bytes", sizes)
        object.__setattr__(self, "chunk_class", classes.astype(np.uint8))
        for name in ("chunk_size_bytes", "chunk_class", "class_size_bytes"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def num_chunks(self) -> int:
        return len(self.chunk_size_bytes)

    @property
    def chunk_owner(self) -> NDArray[np.int32]:
        """int32[num_chunks], the NPU that holds (All-Gather) or ends up with (Reduce-Scatter) each chunk."""
        return np.repeat(np.arange(self.num_npus, dtype=np.int32), self.chunks_per_npu)

    @property
    def buffer_bytes(self) -> int:
        """Size of the whole buffer: the gathered result of an All-Gather, the input of the others."""
        return int(self.chunk_size_bytes.sum())

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
        phases = int(self.reduces) + int(self.gathers)
        return phases * (self.num_npus - 1) / self.num_npus


def split_evenly(size_bytes: int, num_chunks: int) -> NDArray[np.int64]:
    """Sizes of `num_chunks` parts of a buffer, larger ones first, at most one byte apart."""
    part, larger = divmod(size_bytes, num_chunks)
    sizes = np.full(num_chunks, part, np.int64)
    sizes[:larger] += 1
    return sizes


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
