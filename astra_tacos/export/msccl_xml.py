"""Schedules as MSCCL XML, the program that GPU collective runtimes execute.

Neighbouring chunks of a message are a step `s` at its source and `r` or `rrc` at its destination. A thread block serves one
direction of one connection, its steps in the order of the link. All data stay where they are in one buffer (the output of an
All-Gather, otherwise the input, which the runtimes call in place), and only `s`, `r`, `rrc` and `nop` occur, so that the public
MSCCL-to-Chakra converter accepts the file too; it takes `i_chunks`, or if that is 0 `o_chunks`, as the number of chunks, so the
unused buffer has 0.

Accesses to one chunk at one NPU are chained unless messages order them already: runtimes promise no more than program order,
dependencies and messages. What the format or a parser cannot take is returned as warnings. Sources: the parsers of
microsoft/msccl (`src/graph/xml.cc`, `src/misc/msccl`) and Azure/msccl-executor-nccl (`src/misc/msccl/msccl_parser.cc`, which
RCCL had as well).

Schedules as MSCCL steps: the thread block and position of each step, and the steps that it waits for.

A *send* is a run of neighbouring chunks of one message, at most as many as parsers take. An *access* is one end of a send, the
reading at its source or the writing at its destination: `2 * send + end`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from astra_tacos.export.exporter import Exported, Exporter, Option, one_of
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.units import MAX_SIZE_BYTES, parse_size
from astra_tacos.verifier.msccl_rules import MAX_BLOCKS_OF_CHANNEL, MAX_CHILDREN, MAX_COUNT, MAX_DEPID, MAX_XML_NODES

SEND, RECV = 0, 1
_MAX_NAME = 200
"""Characters."""


@dataclass(frozen=True, slots=True)
class ChunkRuns:
    """The sends of a program.

    Parameters
    ----------
    row
        int64[num_sends], the schedule's row of the first chunk of each.
    count
        int64[num_sends], how many neighbouring chunks each carries.
    of_row
        int64[num_rows], the send that carries each row of the schedule.
    """

    row: Ints
    count: Ints
    of_row: Ints


def chunk_runs(schedule: Schedule) -> ChunkRuns:
    """Runs of neighbouring chunks in the messages of a schedule, in the order of its messages."""
    message = schedule.message_of
    order = np.lexsort((schedule.chunk, message))
    message, chunk = message[order], schedule.chunk[order].astype(np.int64)
    follows = (message[1:] == message[:-1]) & (chunk[1:] == chunk[:-1] + 1)
    begins = np.flatnonzero(np.concatenate(([True], ~follows))) if len(chunk) else np.empty(0, np.int64)
    within = np.arange(len(chunk)) - np.repeat(begins, np.diff(np.append(begins, len(chunk))))
    begins = np.flatnonzero(within % MAX_COUNT == 0)
    count = np.diff(np.append(begins, len(chunk)))
    of_row = np.empty(len(chunk), np.int64)
    of_row[order] = np.repeat(np.arange(len(begins)), count)
    return ChunkRuns(order[begins], count, of_row)


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A thread block: `accesses` are its steps without `nop`s; access `2 * send + end` is one end of a send."""

    npu: int
    end: int
    peer: int
    channel: int
    accesses: list[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Thread blocks with their steps.

    Parameters
    ----------
    blocks, number, num_steps
        Thread blocks by NPU, the id of each at its NPU, and how many steps it has, `nop`s included.
    needs
        Accesses in other thread blocks that each access waits for; all but the last wait takes a `nop` before it.
    block_of, step_of
        Index in `blocks` and step of each access.
    """

    sends: ChunkRuns
    blocks: list[ThreadBlock]
    number: list[int]
    num_steps: list[int]
    needs: list[list[int]]
    block_of: list[int]
    step_of: list[int]
    awaited: frozenset[int]

    @property
    def num_channels(self) -> int:
        """Number of MSCCL channels."""
        return max((block.channel for block in self.blocks), default=0) + 1


def lay_out(schedule: Schedule, max_steps: int) -> Layout:
    """Thread blocks of a schedule, of at most `max_steps` steps as far as that is possible."""
    sends = chunk_runs(schedule)
    needs = _of_sends(_prerequisites(schedule), sends)
    blocks = _thread_blocks(schedule, sends, needs, max_steps)
    block_of, step_of, num_steps = _steps(blocks, needs)
    first: dict[int, int] = {}
    number = [index - first.setdefault(block.npu, index) for index, block in enumerate(blocks)]
    awaited = frozenset(other for others in needs for other in others)
    return Layout(sends, blocks, number, num_steps, needs, block_of, step_of, awaited)


def _of_sends(needs: list[list[int]], sends: ChunkRuns) -> list[list[int]]:
    """What each send's ends wait for, from what the ends of its rows do."""
    if np.array_equal(sends.of_row, np.arange(len(sends.row))):
        return needs
    of_row = sends.of_row.tolist()
    joined: list[dict[int, None]] = [{} for _ in range(2 * len(sends.row))]
    for access, others in enumerate(needs):
        own_access = 2 * of_row[access >> 1] + (access & 1)
        joined[own_access] |= dict.fromkeys(2 * of_row[other >> 1] + (other & 1) for other in others)
    return [list(others) for others in joined]


def _prerequisites(schedule: Schedule) -> list[list[int]]:
    """Accesses of single chunks that each of them has to wait for, except those that messages of its chunk order already.

    In the order of time, a send waits for the last delivery of its chunk, and a delivery for the sends since the one before
    it, or else for that one. So reductions into one chunk never meet.
    """
    num_sends = schedule.num_sends
    rows = np.arange(num_sends)
    access = np.concatenate((2 * rows + RECV, 2 * rows + SEND))
    time = np.concatenate((schedule.done_ns, schedule.start_ns))
    # What arrives at an instant can leave at it, as in the schedule.
    leaves = np.repeat((False, True), num_sends)
    chunk = np.tile(schedule.chunk, 2)
    order = np.lexsort((access, leaves, time, chunk))
    bounds = np.searchsorted(chunk[order], np.arange(schedule.collective.num_chunks + 1))
    events = access[order].tolist()
    src, dst = schedule.src.tolist(), schedule.dst.tolist()
    needs: list[list[int]] = [[] for _ in range(2 * num_sends)]
    for begin, end in pairwise(bounds.tolist()):
        _order_accesses(events[begin:end], src, dst, needs)
    return needs


def _order_accesses(events: list[int], src: list[int], dst: list[int], needs: list[list[int]]) -> None:
    """Fill in the prerequisites of the accesses of one chunk, by time; sets of earlier accesses are integers used as bit sets."""
    bit_of: dict[int, int] = {}
    before_send: dict[int, int] = {}
    delivered: dict[int, int] = {}
    before_next: dict[int, int] = {}
    sent_since: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        bit_of[event] = bit = 1 << place
        send = event >> 1
        if event & 1 == SEND:
            npu = src[send]
            if npu in delivered:
                needs[event].append(delivered[npu])
            before_send[send] = before_next.get(npu, 0) | bit
            sent_since.setdefault(npu, []).append(event)
            continue
        npu = dst[send]
        earlier = sent_since.pop(npu, None) or ([delivered[npu]] if npu in delivered else [])
        before = before_send[send]
        needs[event] += [other for other in earlier if not before & bit_of[other]]
        for other in earlier:
            before |= bit_of[other]
        before_next[npu] = before_next.get(npu, 0) | before | bit
        delivered[npu] = event


def _thread_blocks(schedule: Schedule, sends: ChunkRuns, needs: list[list[int]], max_steps: int) -> list[ThreadBlock]:
    """Thread blocks by NPU; receiving ones first, since most dependencies are on them and only low ids can be depended on.

    `needs` gains the dependency of each continued connection.
    """
    sends_of: dict[int, list[int]] = {}
    for send, channel in enumerate(schedule.channel[sends.row].tolist()):
        sends_of.setdefault(channel, []).append(send)
    used: Counter[tuple[int, int, int]] = Counter()
    blocks = []
    for connection in sorted(sends_of):
        src, dst = int(schedule.topology.channel_src[connection]), int(schedule.topology.channel_dst[connection])
        channel = -1
        for part in _parts(sends_of[connection], needs, max_steps):
            channel += 1
            while max(used[src, SEND, channel], used[dst, RECV, channel]) >= MAX_BLOCKS_OF_CHANNEL:
                channel += 1
            used[src, SEND, channel] += 1
            used[dst, RECV, channel] += 1
            blocks.append(ThreadBlock(src, SEND, dst, channel, [2 * send + SEND for send in part]))
            blocks.append(ThreadBlock(dst, RECV, src, channel, [2 * send + RECV for send in part]))
    return sorted(blocks, key=lambda block: (block.npu, -block.end, block.peer, block.channel))


def _parts(rows: list[int], needs: list[list[int]], max_steps: int) -> list[list[int]]:
    """The sends of a connection, cut so that neither end has more steps than a thread block may."""
    parts: list[list[int]] = [[]]
    steps = [0, 0]
    for row in rows:
        more = [max(1, len(needs[2 * row + end])) for end in (SEND, RECV)]
        if parts[-1] and max(steps[0] + more[0], steps[1] + more[1]) > max_steps:
            needs[2 * row + SEND].append(2 * parts[-1][-1] + SEND)
            more[SEND] = len(needs[2 * row + SEND])
            parts.append([])
            steps = [0, 0]
        parts[-1].append(row)
        steps = [steps[0] + more[0], steps[1] + more[1]]
    return parts


def _steps(blocks: list[ThreadBlock], needs: list[list[int]]) -> tuple[list[int], list[int], list[int]]:
    """Block and step of each access, and the steps of each block; `needs` loses what program order covers."""
    block_of, step_of = [-1] * len(needs), [-1] * len(needs)
    for index, block in enumerate(blocks):
        for access in block.accesses:
            block_of[access] = index
    num_steps = []
    for index, block in enumerate(blocks):
        step = 0
        for access in block.accesses:
            if needs[access]:
                needs[access] = [other for other in needs[access] if block_of[other] != index]
            step += max(1, len(needs[access]))
            step_of[access] = step - 1
        num_steps.append(step)
    return block_of, step_of, num_steps


MscclDialect = Literal["executor", "msccl"]
MscclProtocol = Literal["Simple", "LL", "LL128"]
MSCCL_PROTOCOLS: tuple[MscclProtocol, ...] = ("Simple", "LL", "LL128")

_EXECUTOR, _RCCL, _MSCCL = "msccl-executor-nccl", "RCCL", "MSCCL"


@dataclass(frozen=True, slots=True)
class MscclReport:
    """What was written.

    Parameters
    ----------
    num_channels, max_thread_blocks, max_steps
        Channels in use, most thread blocks of an NPU, most steps of a thread block.
    warnings
        One line for each limit that the program exceeds and each thing that the format cannot express; empty if all is well.
    """

    path: Path
    num_channels: int
    max_thread_blocks: int
    max_steps: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Requirements of a family of parsers; limits by parser."""

    reduce_scatter: str
    has_size_range: bool
    steps: int
    thread_blocks: tuple[tuple[str, int], ...]
    channels: tuple[tuple[str, int], ...]


_DIALECTS: dict[str, _Dialect] = {
    "executor": _Dialect("reducescatter", True, 64, ((_RCCL, 64), (_EXECUTOR, 1024)), ((_EXECUTOR, 32), (_RCCL, 128))),
    "msccl": _Dialect("reduce_scatter", False, 256, ((_MSCCL, 216),), ((_MSCCL, 32),)),
}
MSCCL_DIALECTS: tuple[MscclDialect, ...] = ("executor", "msccl")


def why_no_msccl_xml(schedule: Schedule) -> str | None:
    """The reason why a schedule has no MSCCL XML; None if it has.

    A runtime would use the program of a collective with a root for every root. Chunks of an All-to-All that pass through other
    NPUs would need buffer space there, and so would partial sums, which this module does not allocate.
    """
    collective = schedule.collective
    if collective.root is not None:
        return "the format has no root"
    if collective.is_personalised:
        return "its chunks pass through NPUs, and the format's buffers have no space for them there"
    if collective.members is not None:
        return "NPUs outside the group have no buffers"
    if schedule.sums is not None:
        return "its partial sums need buffers beside the one that programs run in"
    return None


def export_msccl_xml(
    schedule: Schedule,
    path: str | Path,
    dialect: MscclDialect = "executor",
    protocol: MscclProtocol = "Simple",
    min_bytes: int = 0,
    max_bytes: int = 0,
) -> MscclReport:
    """Write a schedule as an MSCCL program.

    A connection with more steps than a thread block may have goes on in the next channel; its first send there waits for the
    last one before, which keeps the order of the link. Neighbouring chunks of a message are one step, others several.

    Parameters
    ----------
    schedule
        The schedule to write.
    path
        File to write.
    dialect
        `executor` for msccl-executor-nccl and RCCL, `msccl` for the original runtime.
    protocol
        The runtime's transport protocol.
    min_bytes, max_bytes
        Buffer sizes for which an executor may choose the program; a `max_bytes` of 0 is unlimited.

    Raises
    ------
    ConfigError
        If an option is none of those above, or for a collective without XML, see `why_no_msccl_xml`.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, export_msccl_xml, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> export_msccl_xml(schedule, "ring.xml").num_channels
    1
    """
    reason = why_no_msccl_xml(schedule)
    if reason is not None:
        raise ConfigError(f"MSCCL XML: found a {schedule.collective.name}, but {reason}")
    if dialect not in _DIALECTS or protocol not in MSCCL_PROTOCOLS:
        raise ConfigError(
            f"MSCCL XML: found dialect {dialect!r}, protocol {protocol!r}, expected {MSCCL_DIALECTS}, {MSCCL_PROTOCOLS}"
        )
    if not (0 <= min_bytes <= MAX_SIZE_BYTES and 0 <= max_bytes <= MAX_SIZE_BYTES):
        raise ConfigError(f"MSCCL XML: found sizes {min_bytes} to {max_bytes}, expected 0 to {MAX_SIZE_BYTES:,}")
    if 0 < max_bytes < min_bytes:
        raise ConfigError(f"MSCCL XML: found sizes {min_bytes} to {max_bytes}, expected the first not above the second")
    path, rules = Path(path), _DIALECTS[dialect]
    layout = lay_out(schedule, rules.steps)
    lines = [_algo_tag(schedule, rules, layout, protocol, min_bytes, max_bytes)]
    counts = (0, schedule.collective.num_chunks) if _is_gather(schedule) else (schedule.collective.num_chunks, 0)
    at = 0
    for npu in range(schedule.topology.num_npus):
        lines.append(f'  <gpu id="{npu}" i_chunks="{counts[0]}" o_chunks="{counts[1]}" s_chunks="0">')
        while at < len(layout.blocks) and layout.blocks[at].npu == npu:
            lines += _block_lines(schedule, layout, at)
            at += 1
        lines.append("  </gpu>")
    lines.append("</algo>\n")
    with replaced_file(path) as temporary:
        temporary.write_bytes("\n".join(lines).encode("ascii"))
    per_npu = Counter(block.npu for block in layout.blocks)
    most = max(per_npu.values(), default=0), max(layout.num_steps, default=0)
    return MscclReport(path, layout.num_channels, *most, _warnings(schedule, rules, layout))


def _is_gather(schedule: Schedule) -> bool:
    return not schedule.collective.reduces


def _algo_tag(schedule: Schedule, rules: _Dialect, layout: Layout, protocol: str, min_bytes: int, max_bytes: int) -> str:
    # The runtimes' own XML readers know no entities, hence no characters in the name that would need them.
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{schedule.synthesizer}-{schedule.collective.name}-{schedule.topology.name}")
    names = {"reduce-scatter": rules.reduce_scatter}
    coll = names.get(schedule.collective.name, schedule.collective.name.replace("-", ""))
    sizes = f' outofplace="0" minBytes="{min_bytes}" maxBytes="{max_bytes}"' if rules.has_size_range else ""
    return (
        f'<algo name="{name[:_MAX_NAME]}" proto="{protocol}" nchannels="{layout.num_channels}" coll="{coll}" '
        f'nchunksperloop="{schedule.collective.num_chunks}" ngpus="{schedule.topology.num_npus}" inplace="1"{sizes}>'
    )


def _block_lines(schedule: Schedule, layout: Layout, index: int) -> list[str]:
    block, buffer = layout.blocks[index], "o" if _is_gather(schedule) else "i"
    send, recv = (block.peer, -1) if block.end == SEND else (-1, block.peer)
    sends = np.array(block.accesses) // 2
    rows = layout.sends.row[sends]
    chunks, counts, reduces = schedule.chunk[rows].tolist(), layout.sends.count[sends].tolist(), schedule.reduces[rows].tolist()
    lines = [f'    <tb id="{layout.number[index]}" send="{send}" recv="{recv}" chan="{block.channel}">']
    step = 0
    for access, chunk, count, reducing in zip(block.accesses, chunks, counts, reduces, strict=True):
        kind = "s" if block.end == SEND else "rrc" if reducing else "r"
        where = f'srcbuf="{buffer}" srcoff="{chunk}" dstbuf="{buffer}" dstoff="{chunk}" cnt="{count}"'
        waits = [(layout.number[layout.block_of[other]], layout.step_of[other]) for other in layout.needs[access]]
        for depid, deps in waits[:-1]:
            lines.append(f'      <step s="{step}" type="nop" {where} depid="{depid}" deps="{deps}" hasdep="0"/>')
            step += 1
        depid, deps = waits[-1] if waits else (-1, -1)
        hasdep = int(access in layout.awaited)
        lines.append(f'      <step s="{step}" type="{kind}" {where} depid="{depid}" deps="{deps}" hasdep="{hasdep}"/>')
        step += 1
    lines.append("    </tb>")
    return lines


def _warnings(schedule: Schedule, rules: _Dialect, layout: Layout) -> tuple[str, ...]:
    """A line for each limit that is exceeded, with the worst case, and one for unequal chunks."""
    num_npus = schedule.topology.num_npus
    blocks = Counter(block.npu for block in layout.blocks)
    nodes = Counter(dict.fromkeys(range(num_npus), 1 + num_npus))
    steps: Counter[int] = Counter()
    depended: Counter[int] = Counter()
    for index, block in enumerate(layout.blocks):
        nodes[block.npu] += 1 + layout.num_steps[index]
        steps[block.npu] = max(steps[block.npu], layout.num_steps[index])
    for access in layout.awaited:
        index = layout.block_of[access]
        depended[layout.blocks[index].npu] = max(depended[layout.blocks[index].npu], layout.number[index])
    every = " and ".join(who for who, _ in rules.channels)
    fewer = ": fewer chunks per NPU help"
    checks = [("steps in a thread block", steps, every, rules.steps, fewer)]
    checks += [("thread blocks", blocks, who, limit, "") for who, limit in rules.thread_blocks]
    checks.append(("as the thread block to depend on", depended, every, MAX_DEPID, ""))
    checks.append(("XML nodes to read", nodes, every, MAX_XML_NODES, fewer))
    warnings = []
    for subject, counts, who, limit, hint in checks:
        over = {npu: count for npu, count in counts.items() if count > limit}
        if over:
            npu = max(over, key=over.__getitem__)
            others = f" ({len(over)} NPUs are above)" if len(over) > 1 else ""
            warnings.append(f"NPU {npu} has {over[npu]} {subject}, {who}: at most {limit}{others}{hint}")
    for who, limit in rules.channels:
        if layout.num_channels > limit:
            warnings.append(f"the program has {layout.num_channels} channels, {who}: at most {limit}{fewer}")
    if num_npus > MAX_CHILDREN:
        warnings.append(f"the program has {num_npus} gpu elements, {every}: at most {MAX_CHILDREN}")
    sizes = schedule.collective.class_size_bytes
    if len(sizes) > 1:
        subject = f"chunks are {sizes[0]} and {sizes[-1]} bytes, MSCCL XML has equal chunks only"
        warnings.append(f"{subject}: use a buffer of a multiple of {schedule.collective.num_chunks} bytes")
    return tuple(warnings)


def _write(
    schedule: Schedule,
    path: Path,
    dialect: MscclDialect = "executor",
    protocol: MscclProtocol = "Simple",
    min_bytes: int = 0,
    max_bytes: int = 0,
) -> Exported:
    return Exported(path, export_msccl_xml(schedule, path, dialect, protocol, min_bytes, max_bytes).warnings)


EXPORTER = Exporter(
    name="msccl-xml",
    summary="the program that MSCCL runtimes execute on GPUs",
    writes="file",
    suffix=".xml",
    write=_write,
    why_not=why_no_msccl_xml,
    options={
        "dialect": one_of(MSCCL_DIALECTS, "executor, the default, for msccl-executor-nccl and RCCL; msccl for the first runtime"),
        "protocol": one_of(MSCCL_PROTOCOLS, "the runtime's transport protocol, by default Simple"),
        "min-bytes": Option("smallest buffer for which an executor may choose the program", parse_size, "a size", "64KiB"),
        "max-bytes": Option("the largest, by default unlimited", parse_size, "a size", "64MiB"),
    },
)
