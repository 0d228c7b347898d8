"""Rules and limits of MSCCL's parsers.

Sources: microsoft/msccl (`src/graph/xml.cc`, `src/include/devcomm.h`), Azure/msccl-executor-nccl
(`src/misc/msccl/msccl_parser.cc`, `src/include/msccl/msccl_struct.h`) and the same files in RCCL before 2026.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.verifier.layout import BUFFERS
from astra_tacos.verifier.msccl_file import STEP_TYPES, MscclFile, ThreadBlock
from astra_tacos.verifier.msccl_places import uses
from astra_tacos.verifier.violation import Violation

NOP = STEP_TYPES.index("nop")
SENDS = tuple(STEP_TYPES.index(kind) for kind in ("s", "rcs", "rrs", "rrcs"))
RECVS = tuple(STEP_TYPES.index(kind) for kind in ("r", "rcs", "rrc", "rrs", "rrcs"))
_REDUCE = STEP_TYPES.index("re")

_PROTOCOLS = ("Simple", "LL", "LL128")
_MAX_STEPS = {True: 256, False: 64}
"""Most steps of a thread block: in the original runtime (True), and in its successors (False)."""
_MAX_BLOCKS = {True: (("MSCCL", 216),), False: (("RCCL", 64), ("msccl-executor-nccl", 1024))}
_MAX_CHANNELS = {True: (("MSCCL", 32),), False: (("msccl-executor-nccl", 32), ("RCCL", 128))}
MAX_COUNT = 71
"""Chunks of a step (microsoft/msccl, `src/include/msccl.h`: fewer than `MSCCL_MAX_COUNT`)."""
MAX_DEPID = 127
"""Number of a thread block that a step depends on, a signed byte."""
MAX_XML_NODES = 4096
"""XML elements of a GPU."""
MAX_CHILDREN = 1024
"""Elements in one element."""
MAX_BLOCKS_OF_CHANNEL = 32
"""Thread blocks of a GPU that send, or receive, on one channel."""
_MAX_FUSED = 16
"""Executors fuse consecutive `re` steps, but end a fused chain at the 16th `re` step of its thread block."""


def check_rules(file: MscclFile) -> list[Violation]:
    """Violations of the parsers' rules and limits."""
    violations = [Violation("missing-attribute", f"algo has no {name}") for name in file.absent]
    violations += _check_algo(file)
    violations += _check_blocks(file)
    violations += _check_steps(file)
    violations += _check_fused(file)
    violations += _check_dependencies(file)
    violations += _check_limits(file)
    return violations


def _check_algo(file: MscclFile) -> Iterator[Violation]:
    if file.protocol not in (*_PROTOCOLS, None):
        yield Violation("bad-protocol", f"algo: proto is {file.protocol[:40]!r}, expected one of {', '.join(_PROTOCOLS)}")
    if not file.placements:
        yield Violation("no-placement", "algo: inplace and outofplace are 0, so that no executor ever selects it")
    if file.most_bytes and (file.least_bytes or 0) > file.most_bytes:
        yield Violation("size-range", f"algo: minBytes is {file.least_bytes}, above maxBytes, {file.most_bytes}")
    if not file.original:
        return
    # The original runtime compares the declared sizes of buffers with `nchunksperloop` unless they are 0.
    for column, part_of in enumerate(("all-gather", "reduce-scatter")):
        parts = file.num_npus if file.collective == part_of else 1
        declared = file.buffer_chunks[:, column] * parts
        for npu in np.flatnonzero((declared > 0) & (declared != file.num_chunks)).tolist():
            num_chunks, expected = file.buffer_chunks[npu, column], file.num_chunks / parts
            message = f"gpu {npu}: {BUFFERS[column]}_chunks is {num_chunks}, nchunksperloop asks for {expected:g} or 0"
            yield Violation("buffer-size", message, npu=npu)


def _check_fused(file: MscclFile) -> Iterator[Violation]:
    """Violations for `re` steps that executors fuse with previous ones although counts differ, as the last count applies."""
    rows = np.flatnonzero((file.kind[1:] == _REDUCE) & (file.kind[:-1] == _REDUCE)) + 1
    before = rows - 1
    npu, block = file.step_npu, file.block_of
    first = np.array([block_of_file.first for block_of_file in file.blocks], np.int64)[block[rows]]
    earlier = np.concatenate(([0], np.cumsum(file.kind == _REDUCE)))
    fused = (block[rows] == block[before]) & (file.depid[rows] < 0) & (file.hasdep[before] == 0)
    fused &= earlier[rows] - earlier[first] != _MAX_FUSED
    for column in (file.srcbuf, file.dstbuf, file.dstoff):
        fused &= column[rows] == column[before]
    for row in rows[fused & (file.cnt[rows] != file.cnt[before])].tolist():
        message = f"{file.describe(row)}: cnt is {file.cnt[row]}, {file.cnt[row - 1]} in the re step that it is fused with"
        yield Violation("fused-count", message, npu=int(npu[row]))


def _check_blocks(file: MscclFile) -> Iterator[Violation]:
    for npu, blocks in _by_npu(file).items():
        numbers = sorted(block.number for block in blocks)
        if numbers != list(range(len(blocks))):
            yield Violation("thread-block-ids", f"gpu {npu}: tb ids are not 0 to {len(blocks) - 1}, each once", npu=npu)
        users: Counter[tuple[str, int, int]] = Counter()
        for block in blocks:
            for direction, peer in (("send", block.send), ("recv", block.recv)):
                if peer >= file.num_npus or peer == npu:
                    message = f"gpu {npu}, tb {block.number}: {direction} is {peer}, expected another GPU below {file.num_npus}"
                    yield Violation("bad-peer", message, npu=npu)
                users[direction, peer, block.channel] += peer >= 0
            if not 0 <= block.channel < file.num_channels:
                message = f"gpu {npu}, tb {block.number}: chan is {block.channel}, nchannels is {file.num_channels}"
                yield Violation("bad-channel", message, npu=npu)
        for (direction, peer, channel), count in users.items():
            if count > 1:
                message = f"gpu {npu}: {count} thread blocks have {direction} {peer} in channel {channel}"
                yield Violation("duplicate-connection", message, npu=npu)


def _check_steps(file: MscclFile) -> Iterator[Violation]:
    for block in file.blocks:
        rows = np.arange(block.first, block.last)
        kind = file.kind[rows]
        where = f"gpu {block.npu}, tb {block.number}"
        if not np.array_equal(file.s[rows], rows - block.first):
            yield Violation("step-ids", f"{where}: s is not 0 to {len(rows) - 1} in the order of the file", npu=block.npu)
        for kinds, peer, direction in ((SENDS, block.send, "send"), (RECVS, block.recv, "recv")):
            if peer < 0 and np.isin(kind, kinds).any():
                yield Violation("bad-peer", f"{where}: {direction} is {peer}, but steps need a peer", npu=block.npu)
    faults = (
        ("bad-hasdep", (file.hasdep != 0) & (file.hasdep != 1), "hasdep is neither 0 nor 1"),
        ("bad-count", (file.kind != NOP) & (file.cnt < 1), "cnt is below 1"),
        ("limit-count", (file.kind != NOP) & (file.cnt > MAX_COUNT), f"cnt is above {MAX_COUNT}"),
    )
    for code, fault, problem in faults:
        for row in np.flatnonzero(fault).tolist():
            yield Violation(code, f"{file.describe(row)}: {problem}")
    npu = file.step_npu
    for users, buffer, first in uses(file):
        end, declared = first + file.cnt[users], file.buffer_chunks[npu[users], buffer]
        for at in np.flatnonzero((first < 0) | (end > declared)).tolist():
            message = f"{file.describe(int(users[at]))}: chunks {first[at]} to {end[at] - 1} of a buffer of {declared[at]}"
            yield Violation("chunk-range", message, npu=int(npu[users[at]]))


def _check_dependencies(file: MscclFile) -> Iterator[Violation]:
    """Violations of the rules for `depid`, `hasdep` and `nop`."""
    target = dependency_rows(file)
    depends = file.depid >= 0
    dependent = np.flatnonzero(depends & (target >= 0))
    nop = file.kind == NOP
    last = np.zeros(file.num_steps, np.bool_)
    last[[block.last - 1 for block in file.blocks if block.last > block.first]] = True
    after_nop = np.zeros(file.num_steps, np.bool_)
    after_nop[1:] = nop[:-1] & ~last[:-1]
    faults = (
        ("dangling-dependency", np.flatnonzero(depends & (target < 0)), "depends on a step that does not exist"),
        ("depends-on-nop", dependent[nop[target[dependent]]], "depends on a nop, which never signals its end"),
        ("missing-hasdep", dependent[file.hasdep[target[dependent]] != 1], "depends on a step without hasdep=1"),
        ("limit-depid", np.flatnonzero(file.depid > MAX_DEPID), f"depid is above {MAX_DEPID}"),
        ("nop-without-dependency", np.flatnonzero(nop & ~depends), "is a nop without a dependency"),
        ("nop-without-step", np.flatnonzero(nop & last), "is a nop with no step after it"),
        ("nop-without-dependency", np.flatnonzero(after_nop & ~nop & ~depends), "follows a nop, but has no dependency"),
    )
    npu = file.step_npu
    for code, rows, problem in faults:
        for row in rows.tolist():
            yield Violation(code, f"{file.describe(row)}: {problem}", npu=int(npu[row]))


def dependency_rows(file: MscclFile) -> Ints:
    """int64[num_steps], the step that each step depends on, -1 for none, or for one that does not exist."""
    first, size = {}, {}
    for block in reversed(file.blocks):
        first[block.npu, block.number] = block.first
        size[block.npu, block.number] = block.last - block.first
    target = np.full(file.num_steps, -1, np.int64)
    npu = file.step_npu
    for row in np.flatnonzero(file.depid >= 0).tolist():
        key = int(npu[row]), int(file.depid[row])
        step = int(file.deps[row])
        if key in first and 0 <= step < size[key]:
            target[row] = first[key] + step
    return target


def _check_limits(file: MscclFile) -> Iterator[Violation]:
    steps = [(block.last - block.first, f"gpu {block.npu}, tb {block.number}", block.npu) for block in file.blocks]
    yield from _above("limit-steps", "steps", steps, _MAX_STEPS[file.original])
    for who, limit in _MAX_CHANNELS[file.original]:
        yield from _above("limit-channels", f"channels for {who}", [(file.num_channels, "algo", None)], limit)
    yield from _above("limit-children", "gpu elements", [(file.num_npus, "algo", None)], MAX_CHILDREN)
    yield from _above("limit-children", "steps", steps, MAX_CHILDREN)
    by_npu = _by_npu(file)
    counts = [(len(blocks), f"gpu {npu}", npu) for npu, blocks in by_npu.items()]
    for who, limit in _MAX_BLOCKS[file.original]:
        yield from _above("limit-thread-blocks", f"thread blocks for {who}", counts, limit)
    yield from _above("limit-children", "thread blocks", counts, MAX_CHILDREN)
    nodes = [
        (1 + file.num_npus + sum(1 + block.last - block.first for block in blocks), f"gpu {npu}", npu)
        for npu, blocks in by_npu.items()
    ]
    yield from _above("limit-xml-nodes", "XML nodes", nodes, MAX_XML_NODES)
    users: Counter[tuple[int, int, str]] = Counter()
    for block in file.blocks:
        users[block.npu, block.channel, "send"] += block.send >= 0
        users[block.npu, block.channel, "recv"] += block.recv >= 0
    used = [(count, f"gpu {npu}, channel {channel}, {end}", npu) for (npu, channel, end), count in users.items()]
    yield from _above("limit-connections", "thread blocks", used, MAX_BLOCKS_OF_CHANNEL)


def _above(code: str, counted: str, counts: Iterable[tuple[int, str, int | None]], limit: int) -> Iterator[Violation]:
    for count, where, npu in counts:
        if count > limit:
            yield Violation(code, f"{where}: {count} {counted}, expected at most {limit}", npu=npu)


def _by_npu(file: MscclFile) -> dict[int, list[ThreadBlock]]:
    blocks: dict[int, list[ThreadBlock]] = {npu: [] for npu in range(file.num_npus)}
    for block in file.blocks:
        blocks[block.npu].append(block)
    return blocks
