"""A collective: which NPUs contribute to a chunk, which must have it in the end, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import MAX_NPUS
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.records import freeze
from astra_tacos.support.units import MAX_SIZE_BYTES

MAX_CHUNKS = 1 << 30


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collective:
    """A collective over all NPUs, or over some of them, cut into chunks, each of which has an owner.

    Parameters
    ----------
    name
        Key in `COLLECTIVES`.
    num_npus
        Members.
    size_bytes
        What a workload node calls `comm_size`: the input of one NPU (All-Gather, Gather: its shard; otherwise the whole buffer).
    chunks_per_npu
        Chunks of each NPU that owns any: of its shard, or, if there is a root, of the whole buffer. If chunks have targets, of
        each part that an NPU has for another.
    reduces
        Precondition: every member holds a contribution to every chunk (else only the owner holds the chunk).
    gathers
        Postcondition: every member has every chunk (else only its owner, or if it has one its target, has it).
    chunk_size_bytes
        int64[num_chunks]; sizes differ by at most one byte, unless there are `part_bytes`.
    chunk_owner
        int32[num_chunks], the NPU that holds a chunk at first, or has the sum in the end. If the collective both reduces and
        gathers, where a chunk is summed up is left to the synthesizer, and the owner is no more than a hint.
    root
        The owner of all chunks of a Broadcast, a Reduce or a Scatter, the target of all of a Gather; None for other collectives.
    chunk_target
        int32[num_chunks], the one NPU that needs a chunk, another than its owner, if the collective is personalised: it neither
        reduces nor gathers. None for other collectives.
    members
        int32[num_members], ascending, the NPUs that contribute and need anything; others may pass on what they get. To what
        passes through them in a reduction, they add nothing. None if all NPUs are members.
    part_bytes
        int64[num_members, num_members], what each member has for each, if a personalised collective says that pair by pair;
        None if all parts are of one size.

    Examples
    --------
    >>> from astra_tacos import all_gather
    >>> collective = all_gather(4, 1 << 20)
    >>> collective.chunk_owner.tolist(), collective.chunk_size_bytes.tolist()
    ([0, 1, 2, 3], [1048576, 1048576, 1048576, 1048576])
    """

    name: str
    num_npus: int
    size_bytes: int
    chunks_per_npu: int
    reduces: bool
    gathers: bool
    chunk_size_bytes: Ints
    chunk_owner: Ints32
    root: int | None = None
    chunk_target: Ints32 | None = None
    members: Ints32 | None = None
    part_bytes: Ints | None = None
    chunk_class: NDArray[np.uint8] | Ints32 = field(init=False)
    """uint8[num_chunks], index of each chunk's size in `class_size_bytes`; int32 if there are more than 256 sizes."""
    class_size_bytes: Ints = field(init=False)
    """int64[classes], the distinct chunk sizes, ascending: one or two, where parts are of equal sizes."""

    def __repr__(self) -> str:
        what = f"{self.name} of {self.size_bytes:,} bytes over {len(self.member_npus):,} NPUs"
        return f"<Collective: {what}, {self.num_chunks:,} chunks>"

    def __post_init__(self) -> None:
        sizes, classes = np.unique(self.chunk_size_bytes, return_inverse=True)
        object.__setattr__(self, "class_size_bytes", sizes)
        object.__setattr__(self, "chunk_class", classes.astype(np.uint8 if len(sizes) <= 256 else np.int32))
        freeze(
            self, "chunk_size_bytes", "chunk_owner", "chunk_class", "class_size_bytes", "chunk_target", "members", "part_bytes"
        )

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunk_size_bytes)

    @property
    def is_personalised(self) -> bool:
        """Whether every chunk is for one NPU only."""
        return self.chunk_target is not None

    @property
    def only_reduces(self) -> bool:
        """Whether it is the mirror image of a collective that spreads chunks: Reduce-Scatter and Reduce."""
        return self.reduces and not self.gathers

    @property
    def root_owns(self) -> bool:
        """Whether all chunks begin or are summed up at the root: not in a Gather, where they only end there."""
        return self.root is not None and int(self.chunk_owner[0]) == self.root

    @property
    def num_members(self) -> int:
        """Number of NPUs that take part."""
        return self.num_npus if self.members is None else len(self.members)

    @property
    def member_npus(self) -> Ints:
        """int64[num_members], ascending."""
        return np.arange(self.num_npus) if self.members is None else self.members.astype(np.int64)

    @property
    def chunks_owned(self) -> Ints:
        """int64[num_npus], chunks of each NPU."""
        return np.bincount(self.chunk_owner, minlength=self.num_npus)

    @property
    def num_phases(self) -> int:
        """1 to gather, to reduce, or to bring chunks to their targets; 2 to reduce and gather."""
        return 1 if self.is_personalised else int(self.reduces) + int(self.gathers)

    @property
    def least_sends(self) -> int:
        """Least number of sends: one to each target, N-1 for a chunk that is gathered or reduced, twice that for both."""
        return self.num_phases * self.num_chunks * (1 if self.is_personalised else self.num_members - 1)

    @property
    def buffer_bytes(self) -> int:
        """Size of the whole buffer: the gathered result of an All-Gather or a Gather, the input of the others."""
        if self.chunk_target is None:
            return int(self.chunk_size_bytes.sum())
        is_gather = self.root is not None and bool(np.all(self.chunk_target == self.root))
        return self.size_bytes * (self.num_members if is_gather else 1)

    def renumbered(self, npu: NDArray[np.integer], num_npus: int) -> Collective:
        """The same collective among other NPUs, chunk by chunk.

        Parameters
        ----------
        npu
            [num_npus before], the new number of each NPU; of those that are no members, any.
        num_npus
            How many NPUs there are then.
        """
        members = npu[self.member_npus].astype(np.int32)
        order = np.argsort(members)
        return replace(
            self,
            num_npus=num_npus,
            members=members[order] if len(members) < num_npus else None,
            chunk_owner=npu[self.chunk_owner].astype(np.int32),
            chunk_target=None if self.chunk_target is None else npu[self.chunk_target].astype(np.int32),
            root=None if self.root is None else int(npu[self.root]),
            part_bytes=None if self.part_bytes is None else self.part_bytes[np.ix_(order, order)],
        )

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
        if self.root is not None and not self.is_personalised:
            return 1.0
        return self.num_phases * (self.num_members - 1) / self.num_members


def split_evenly(size_bytes: int, num_chunks: int) -> Ints:
    """Sizes of `num_chunks` parts of a buffer, larger ones first, at most one byte apart."""
    part, larger = divmod(size_bytes, num_chunks)
    sizes = np.full(num_chunks, part, np.int64)
    sizes[:larger] += 1
    return sizes


def own_shards(num_npus: int, chunks_per_npu: int) -> Ints32:
    """Owners of chunks in collectives where every NPU has a shard, in the order of NPUs."""
    return np.repeat(np.arange(num_npus, dtype=np.int32), chunks_per_npu)


def rooted(name: str, num_npus: int, size_bytes: int, num_chunks: int, root: int, *, reduces: bool) -> Collective:
    """A collective that brings a buffer of `size_bytes` from the root to all NPUs, or the sum of all NPUs' buffers to the root.

    Raises
    ------
    ConfigError
        If there is no such NPU, or the buffer has fewer bytes than chunks.
    """
    check_size(name, num_npus, size_bytes, num_chunks, num_chunks, root)
    owner = np.full(num_chunks, root, np.int32)
    sizes = split_evenly(size_bytes, num_chunks)
    return Collective(name, num_npus, size_bytes, num_chunks, reduces, not reduces, sizes, owner, root)


def check_root(name: str, num_npus: int, root: int) -> None:
    """Raise a `ConfigError` if there is no such NPU."""
    if not 0 <= root < num_npus:
        raise ConfigError(f"{name}: found root {root}, expected an NPU, 0 to {num_npus - 1}")


def check_size(name: str, num_npus: int, size_bytes: int, chunks_per_npu: int, parts: int, root: int = 0) -> None:
    """Check the arguments of a collective of which `parts` parts share `size_bytes`.

    Raises
    ------
    ConfigError
        If there are fewer than two NPUs or more than `MAX_NPUS`, no chunk, too many chunks, fewer bytes than parts, or no such
        root.
    """
    if not 2 <= num_npus <= MAX_NPUS:
        expected = f"at most {MAX_NPUS:,}" if num_npus > MAX_NPUS else "at least 2"
        raise ConfigError(f"{name}: found {num_npus} NPUs, expected {expected}")
    if not chunks_per_npu >= 1 or chunks_per_npu * num_npus > MAX_CHUNKS:
        raise ConfigError(f"{name}: found {chunks_per_npu} chunks per NPU, expected 1 to {MAX_CHUNKS // num_npus}")
    if size_bytes < parts:
        raise ConfigError(f"{name}: {size_bytes} bytes in {parts} chunks, expected at least one byte per chunk")
    if size_bytes > MAX_SIZE_BYTES:
        raise ConfigError(f"{name}: {size_bytes} bytes, expected at most {MAX_SIZE_BYTES}")
    check_root(name, num_npus, root)
