"""The locations of the buffers of an MSCCL XML, and of the places that each step uses.

Executors cut a buffer of `count * ngpus` elements (All-Gather, Reduce-Scatter, All-to-All) or `count` elements (the others) into
`nchunksperloop` chunks (Azure/msccl-executor-nccl, `src/device/msccl_kernel.cu`), even if a rank's part is not a whole number of
chunks. A location is therefore an equal part of a chunk, `grain` per chunk, such that every rank's part has a whole number.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.buffer_conditions import WITHOUT_INPUT
from astra_tacos.verifier.condition import Condition
from astra_tacos.verifier.layout import BUFFERS, PART_INPUT, PART_OUTPUT, Layout
from astra_tacos.verifier.msccl_file import STEP_TYPES, MscclFile
from astra_tacos.verifier.violation import Violation

_MAX_LOCATIONS = 1 << 22
"""Parts of chunks on all ranks: the proof keeps the value of each."""
_MAX_ACCESSES = 1 << 25
"""Parts of chunks that all steps read or write."""
READS_SRC = tuple(STEP_TYPES.index(kind) for kind in ("s", "rrc", "rrs", "rrcs", "cpy", "re"))
WRITES_DST = tuple(STEP_TYPES.index(kind) for kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re"))

_PARTS_OF_WHOLE = ("all-gather", "reduce-scatter", "all-to-all")
_CHUNKS_OF_PART = ("gather", "scatter")
"""For these collectives, executors cut the `count` elements of one rank's part into `nchunksperloop` chunks."""


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
        size[:2] = part if collective in PART_INPUT else whole, part if collective in PART_OUTPUT else whole
    in_place = in_place and collective is not None
    num_own = int(_own_counts(file).sum()) * grain
    copies = tuple((npu, source * grain, target * grain) for npu, source, target in file.copies.tolist())
    return Layout.of(collective, num_npus, grain, (whole, part), size, num_own, in_place=in_place, copies=copies)


def outside_buffers(file: MscclFile, layout: Layout) -> Iterator[Violation]:
    """Violations for steps and copies that use places past the end of the buffers that a collective has."""
    npus = file.step_npu
    for row, buffer, offset in uses(file):
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


def step_locations(file: MscclFile, layout: Layout) -> tuple[Ints, Ints, Ints]:
    """int64[num_steps] each: first location of every step's source, of its destination, and of its own place (for `rrs`)."""
    npu = file.step_npu
    base = npu * layout.stride
    src, dst = (
        base + layout.begin[npu, buffer] + offset * layout.grain
        for buffer, offset in ((file.srcbuf, file.srcoff), (file.dstbuf, file.dstoff))
    )
    counts = _own_counts(file)
    return src, dst, base + layout.own_at + (np.cumsum(counts) - counts) * layout.grain


def overlapping(file: MscclFile, layout: Layout) -> Iterator[Violation]:
    """Violations for steps whose source and destination overlap but differ, so that threads read what others have written."""
    npu = file.step_npu
    src, dst, _ = step_locations(file, layout)
    both = np.isin(file.kind, READS_SRC) & np.isin(file.kind, WRITES_DST)
    for row in np.flatnonzero(both & (src != dst) & (np.abs(src - dst) < file.cnt * layout.grain)).tolist():
        message = f"{file.describe(row)}: source and destination overlap, but differ"
        yield Violation("overlap", message, npu=int(npu[row]))


def _own_counts(file: MscclFile) -> Ints:
    """int64[num_steps], number of chunks of a step's own place: its count for `rrs`, which stores its sum nowhere, else 0."""
    return np.where(file.kind == STEP_TYPES.index("rrs"), np.minimum(file.cnt, _MAX_LOCATIONS).clip(0), 0)


def uses(file: MscclFile) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Rows of the steps that use their source, its buffers and offsets; then the same for destinations."""
    for kinds, buffer, offset in ((READS_SRC, file.srcbuf, file.srcoff), (WRITES_DST, file.dstbuf, file.dstoff)):
        row = np.flatnonzero(np.isin(file.kind, kinds))
        yield row, buffer[row], offset[row]


def absent_buffers(file: MscclFile, layout: Layout, condition: Condition) -> Iterator[Violation]:
    """Violations for steps that use the input or output buffer of a rank that has none, in a collective with a root."""
    collective, root = condition.collective, condition.root
    if layout.in_place or root is None:
        return
    name = "i" if collective in WITHOUT_INPUT else "o"
    buffer = BUFFERS.index(name)
    npu = file.step_npu
    using = np.concatenate([row[used == buffer] for row, used, _ in uses(file)])
    for row in np.unique(using[npu[using] != root]).tolist():
        message = f"{file.describe(row)}: uses buffer {name}, which only the root, gpu {root}, has in a {collective}"
        yield Violation("absent-buffer", message, npu=int(npu[row]))
