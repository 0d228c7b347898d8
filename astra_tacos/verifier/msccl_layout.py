"""The locations of the buffers of an MSCCL XML, and of the places that each step uses.

Executors cut a buffer of `count * ngpus` elements (All-Gather, Reduce-Scatter, All-to-All) or `count` elements (the others) into
`nchunksperloop` chunks (Azure/msccl-executor-nccl, `src/device/msccl_kernel.cu`), even if a rank's part is not a whole number of
chunks. A location is therefore an equal part of a chunk, `grain` per chunk, such that every rank's part has a whole number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.msccl_file import BUFFERS, STEP_TYPES, MscclFile
from astra_tacos.verifier.program_form import NOWHERE, Region
from astra_tacos.verifier.violation import Violation

READS_SRC = tuple(STEP_TYPES.index(kind) for kind in ("s", "rrc", "rrs", "rrcs", "cpy", "re"))
WRITES_DST = tuple(STEP_TYPES.index(kind) for kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re"))

_PART_INPUT = ("all-gather", "gather")
_PART_OUTPUT = ("reduce-scatter", "scatter")
_PARTS_OF_WHOLE = ("all-gather", "reduce-scatter", "all-to-all")
_CHUNKS_OF_PART = ("gather", "scatter")
"""For these collectives, executors cut the `count` elements of one rank's part into `nchunksperloop` chunks."""
_MAX_LOCATIONS = 1 << 22
_MAX_ACCESSES = 1 << 25
_INPUT, _OUTPUT, _SCRATCH = (BUFFERS.index(name) for name in "ios")


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The memory of a file's ranks for one placement of its buffers, in locations.

    Parameters
    ----------
    grain
        Number of locations per chunk.
    whole, part
        Number of locations of the whole buffer, and of one rank's part (0 if the collective does not divide the buffer).
    size
        int64[3], number of locations of the input, output and scratch buffer.
    begin
        int64[num_npus, 3], location at which each buffer begins in its rank's memory.
    scratch_at, own_at
        Location in a rank's memory at which the scratch buffer begins, and at which the places begin that `rrs` steps have for
        themselves.
    stride
        Number of locations per rank.
    in_place
        Whether input and output are one buffer, or the smaller one is a part of the larger one.
    """

    grain: int
    whole: int
    part: int
    size: NDArray[np.int64]
    begin: NDArray[np.int64]
    scratch_at: int
    own_at: int
    stride: int
    in_place: bool

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of a rank's memory."""
        shared = (Region("chunk", 0, self.grain, is_whole=True),)
        apart = (Region("input chunk", 0, self.grain), Region("output chunk", int(self.size[_INPUT]), self.grain))
        after = (Region("scratch chunk", self.scratch_at, self.grain), Region("place", self.own_at, self.grain))
        return (shared if self.in_place else apart) + after

    def place(self, npu: int, buffer: str) -> int:
        """First location of a rank's buffer (`i`, `o` or `s`)."""
        return npu * self.stride + int(self.begin[npu, BUFFERS.index(buffer)])


def lay_out(file: MscclFile, *, in_place: bool) -> Layout:
    """Lay out the memory that a file's steps use.

    Buffers of a file without a known collective have the sizes that the file declares, and do not overlap.

    Raises
    ------
    ConfigError
        If there are more locations than the oracle can follow.
    """
    num_npus, collective = file.num_npus, file.collective
    grain = num_npus // gcd(file.num_chunks, num_npus) if collective in _PARTS_OF_WHOLE else 1
    part = whole = file.num_chunks * grain
    if collective in _CHUNKS_OF_PART:
        whole *= num_npus
    part = whole // num_npus if collective in (*_PARTS_OF_WHOLE, *_CHUNKS_OF_PART) else 0
    if num_npus * whole > _MAX_LOCATIONS:
        raise ConfigError(f"{file.path}: algo: {num_npus * whole} chunks in all, expected at most {_MAX_LOCATIONS}")
    accesses = int(np.where(file.kind == STEP_TYPES.index("nop"), 0, np.minimum(file.cnt, _MAX_LOCATIONS)).clip(0).sum()) * grain
    if accesses > _MAX_ACCESSES:
        raise ConfigError(f"{file.path}: algo: steps move {accesses} chunks in all, expected at most {_MAX_ACCESSES}")
    size = file.buffer_chunks.max(axis=0) * grain
    if collective is not None:
        size[_INPUT] = part if collective in _PART_INPUT else whole
        size[_OUTPUT] = part if collective in _PART_OUTPUT else whole
    in_place = in_place and collective is not None
    begin = np.zeros((num_npus, len(BUFFERS)), np.int64)
    scratch_at = whole if in_place else int(size[_INPUT] + size[_OUTPUT])
    begin[:, _SCRATCH] = scratch_at
    if in_place:
        # The smaller buffer is the part of the larger one that belongs to the rank.
        for buffer, collectives in ((_INPUT, _PART_INPUT), (_OUTPUT, _PART_OUTPUT)):
            if collective in collectives:
                begin[:, buffer] = np.arange(num_npus) * part
    else:
        begin[:, _OUTPUT] = size[_INPUT]
    own_at = scratch_at + int(size[_SCRATCH])
    stride = own_at + int(_own_counts(file).sum()) * grain
    return Layout(grain, whole, part, size, begin, scratch_at, own_at, stride, in_place)


def outside_buffers(file: MscclFile, layout: Layout) -> Iterator[Violation]:
    """Violations for steps and copies that use places past the end of the buffers that a collective has."""
    npus = file.step_npu
    for row, buffer, offset in _uses(file):
        outside = (offset < 0) | (file.cnt[row] < 1) | ((offset + file.cnt[row]) * layout.grain > layout.size[buffer])
        for at in np.flatnonzero(outside).tolist():
            name, first = BUFFERS[buffer[at]], int(offset[at])
            room = int(layout.size[buffer[at]])
            has = f"{room // layout.grain}" + (f" and {room % layout.grain}/{layout.grain}" if room % layout.grain else "")
            message = (
                f"{file.describe(int(row[at]))}: chunks {first} to {first + int(file.cnt[row[at]]) - 1} of buffer {name}, "
                f"which has {has} in {'an' if (file.collective or '')[:1] == 'a' else 'a'} {file.collective or file.coll}"
            )
            yield Violation("chunk-range", message, npu=int(npus[row[at]]))
    for npu, first, last in file.copies.tolist():
        for name, offset in (("i", first), ("o", last)):
            if (offset + 1) * layout.grain > layout.size[BUFFERS.index(name)]:
                yield Violation("chunk-range", f"gpu {npu}: copy: {name}_off is {offset}, past the end of the buffer", npu=npu)


def step_locations(file: MscclFile, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_steps] each: first location of every step's source, of its destination, and of its own place (for `rrs`)."""
    npu = file.step_npu
    base = npu * layout.stride
    src, dst = (
        base + layout.begin[npu, buffer] + offset * layout.grain
        for buffer, offset in ((file.srcbuf, file.srcoff), (file.dstbuf, file.dstoff))
    )
    own = _own_counts(file)
    return src, dst, base + layout.own_at + (np.cumsum(own) - own) * layout.grain


def nowhere(file: MscclFile) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The result of `step_locations` for a file whose steps have no valid places."""
    none = np.full(file.num_steps, NOWHERE, np.int64)
    return none, none, none


def overlapping(file: MscclFile, layout: Layout) -> Iterator[Violation]:
    """Violations for steps whose source and destination overlap but differ, so that threads read what others have written."""
    npu = file.step_npu
    src, dst, _ = step_locations(file, layout)
    both = np.isin(file.kind, READS_SRC) & np.isin(file.kind, WRITES_DST)
    for row in np.flatnonzero(both & (src != dst) & (np.abs(src - dst) < file.cnt * layout.grain)).tolist():
        message = f"{file.describe(row)}: source and destination overlap, but differ"
        yield Violation("overlap", message, npu=int(npu[row]))


def _own_counts(file: MscclFile) -> NDArray[np.int64]:
    """int64[num_steps], number of chunks of a step's own place: its count for `rrs`, which stores its sum nowhere, else 0."""
    return np.where(file.kind == STEP_TYPES.index("rrs"), np.minimum(file.cnt, _MAX_LOCATIONS).clip(0), 0)


def _uses(file: MscclFile) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Rows of the steps that use their source, its buffers and offsets; then the same for destinations."""
    for kinds, buffer, offset in ((READS_SRC, file.srcbuf, file.srcoff), (WRITES_DST, file.dstbuf, file.dstoff)):
        row = np.flatnonzero(np.isin(file.kind, kinds))
        yield row, buffer[row], offset[row]
