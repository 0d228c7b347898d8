"""Schedules as MSCCL++ execution plans (JSON), which MSCCL++'s executor runs on GPUs.

Chunks do not depend on one another, so each has a thread block of its own on every NPU, or shares one with others, and no
thread block waits for another one of its NPU. A send becomes a put through a memory channel and a signal, its receive a wait.
A chunk that is to be added arrives in a place of its own in the scratch buffer. Receives without a send between them share a
wait, sends without a receive between them a put. What is written is read again and proven (`verifier.mscclpp_program`).
Source: microsoft/mscclpp, src/core/executor/execution_plan.cc and src/core/include/execution_common.hpp (1f5f065).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.schedule.schedule import Schedule, check_rows
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.support.files import replaced_file

_NAMES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall",
}
MOST_SENDS = 8_000
"""Of a plan: each becomes an operation of two GPUs in one file."""
_MOST_OPS, _MOST_CHANNELS, _MOST_AT_ONCE = 64, 16, 8
"""The executor's limits: operations and channels of a thread block, channels of an operation."""
_MOST_BLOCKS = 64
"""So many thread blocks are made before chunks share one."""
_NOP: dict[str, Any] = {"name": "nop"}
_Place = tuple[str, int]
"""A buffer and a chunk of it."""


@dataclass(slots=True)
class _Event:
    """A send or receive of a chunk by an NPU."""

    time: int
    is_send: bool
    peer: int
    here: _Place
    there: _Place
    adds: bool


@dataclass(slots=True)
class _Block:
    """A thread block of an NPU: operations with peers in place of channels, and with places of other NPUs."""

    ops: list[dict[str, Any]] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    buffers: list[tuple[int, str]] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether the executor's limits allow it."""
        return len(self.ops) <= _MOST_OPS and len(self.peers) <= _MOST_CHANNELS and len(self.buffers) <= _MOST_CHANNELS


def why_no_mscclpp_plan(schedule: Schedule) -> str | None:
    """The reason why a schedule has no MSCCL++ plan; None if it has."""
    reason = _why_not(schedule)
    if reason is None and _names_what_exists(schedule):  # otherwise the oracle says what is wrong
        try:
            _own_blocks(schedule)
        except ConfigError as error:
            reason = str(error)
    return reason


def _names_what_exists(schedule: Schedule) -> bool:
    try:
        check_rows(schedule)
    except ConfigError:
        return False
    return True


def _why_not(schedule: Schedule) -> str | None:
    collective = schedule.collective
    if collective.name not in _NAMES:
        return f"the format has no {collective.name}"
    if collective.members is not None:
        return "NPUs outside the group have no buffers"
    if schedule.trip is not None:
        return "its network has devices that only forward, which have no buffers"
    if schedule.sums is not None:
        return "its partial sums need buffers beside the one that plans run in"
    if schedule.num_sends > MOST_SENDS:
        return f"it has {schedule.num_sends:,} sends, expected at most {MOST_SENDS:,} (synthesize --max-sends {MOST_SENDS})"
    return None


def mscclpp_plan(schedule: Schedule) -> dict[str, Any]:
    """The plan of a schedule, as the object of its JSON file.

    Raises
    ------
    ConfigError
        If the format or its executor cannot express it.
    """
    reason = _why_not(schedule)
    if reason is not None:
        raise ConfigError(f"MSCCL++ plan: found a {schedule.collective.name}, but {reason}")
    collective = schedule.collective
    blocks, scratch = _blocks(schedule)
    per_npu, total = collective.chunks_per_npu, collective.num_chunks
    chunks = {
        "all-reduce": (total, total),
        "all-gather": (per_npu, total),
        "reduce-scatter": (total, per_npu),
        "all-to-all": (per_npu * schedule.topology.num_npus,) * 2,
    }[collective.name]
    return {
        "name": f"{schedule.synthesizer or 'astra-tacos'} {collective.name}",
        "collective": _NAMES[collective.name],
        "protocol": "Simple",
        "inplace": collective.name != "all-to-all",
        "reuse_resources": False,
        "gpus": [_gpu(npu, chunks, scratch[npu], npu_blocks) for npu, npu_blocks in enumerate(blocks)],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": (1 << 64) - 1,
    }


def _blocks(schedule: Schedule) -> tuple[list[list[_Block]], list[int]]:
    """The thread blocks of every NPU, and how many chunks its scratch buffer has."""
    num_npus, num_chunks = schedule.topology.num_npus, schedule.collective.num_chunks
    blocks_of_chunk, scratch = _own_blocks(schedule)
    blocks = _shared(blocks_of_chunk, -(-num_chunks // _MOST_BLOCKS))
    if schedule.collective.name == "all-to-all":
        part = schedule.collective.chunks_per_npu
        for npu in range(num_npus):
            source, target = ({"type": name, "index": npu * part, "size": part} for name in "io")
            blocks[npu].append(_Block([{"name": "copy", "src_buff": [source], "dst_buff": [target]}]))
    return blocks, scratch


def _own_blocks(schedule: Schedule) -> tuple[list[list[_Block]], list[int]]:
    """By chunk and NPU, what a thread block of the chunk's own does, and how many chunks the scratch buffers have.

    Raises
    ------
    ConfigError
        If a chunk takes more of a thread block than the executor has.
    """
    num_npus, num_chunks = schedule.topology.num_npus, schedule.collective.num_chunks
    events, scratch = _events(schedule)
    blocks_of_chunk = [[_Block() for _ in range(num_npus)] for _ in range(num_chunks)]
    for (chunk, npu), chunk_events in events.items():
        block = blocks_of_chunk[chunk][npu]
        for is_send, group in groupby(
            sorted(chunk_events, key=lambda event: (event.time, event.is_send)), lambda event: event.is_send
        ):
            (_add_sends if is_send else _add_receives)(block, list(group))
        if not block.fits:
            raise ConfigError(
                f"chunk {chunk} takes NPU {npu} {len(block.ops)} operations with {len(block.peers)} peers in a thread block, "
                f"the executor has {_MOST_OPS} and {_MOST_CHANNELS}"
            )
    return blocks_of_chunk, scratch


def _events(schedule: Schedule) -> tuple[dict[tuple[int, int], list[_Event]], list[int]]:
    """By chunk and NPU, its sends and receives."""
    collective = schedule.collective
    scratch = [0] * schedule.topology.num_npus
    relayed: dict[tuple[int, int], int] = {}
    within = [0] * collective.num_chunks
    count: dict[tuple[int, int], int] = {}
    if collective.chunk_target is not None:
        for chunk, pair in enumerate(zip(collective.chunk_owner.tolist(), collective.chunk_target.tolist(), strict=True)):
            within[chunk] = count[pair] = count.get(pair, -1) + 1

    def slot(npu: int) -> int:
        scratch[npu] += 1
        return scratch[npu] - 1

    def place(chunk: int, npu: int) -> _Place:
        if collective.chunk_target is None:
            return ("o" if not collective.reduces else "i"), chunk
        owner, target = int(collective.chunk_owner[chunk]), int(collective.chunk_target[chunk])
        if npu == owner:
            return "i", target * collective.chunks_per_npu + within[chunk]
        if npu == target:
            return "o", owner * collective.chunks_per_npu + within[chunk]
        if (chunk, npu) not in relayed:
            relayed[chunk, npu] = slot(npu)
        return "s", relayed[chunk, npu]

    events: dict[tuple[int, int], list[_Event]] = {}
    columns = (schedule.chunk, schedule.src, schedule.dst, schedule.reduces, schedule.start_ns, schedule.end_ns)
    for chunk, src, dst, adds, start, end in zip(*(column.tolist() for column in columns), strict=True):
        here, there = place(chunk, src), ("s", slot(dst)) if adds else place(chunk, dst)
        events.setdefault((chunk, src), []).append(_Event(start, True, dst, here, there, adds))
        into = place(chunk, dst) if adds else there
        events.setdefault((chunk, dst), []).append(_Event(end, False, src, into, there, adds))
    return events, scratch


def _add_sends(block: _Block, sends: list[_Event]) -> None:
    for first in range(0, len(sends), _MOST_AT_ONCE):
        few = sends[first : first + _MOST_AT_ONCE]
        peers = [event.peer for event in few]
        targets = []
        for event in few:
            buffer = event.peer, event.there[0]
            if buffer not in block.buffers:
                block.buffers.append(buffer)
            targets.append({"buffer_id": block.buffers.index(buffer), "index": event.there[1], "size": 1})
        channels = _channels(block, peers)
        sources = [{"type": event.here[0], "index": event.here[1], "size": 1} for event in few]
        put = {"name": "put", "src_buff": sources, "dst_buff": targets, "channel_ids": channels, "channel_type": "memory"}
        block.ops += [put, _NOP, {"name": "signal", "channel_ids": channels, "channel_type": "memory"}]


def _add_receives(block: _Block, receives: list[_Event]) -> None:
    for first in range(0, len(receives), _MOST_AT_ONCE):
        few = receives[first : first + _MOST_AT_ONCE]
        channels = _channels(block, [event.peer for event in few])
        block.ops += [{"name": "wait", "channel_ids": channels, "channel_type": "memory"}, _NOP]
        adds = [event for event in few if event.adds]
        if adds:
            target = {"type": adds[0].here[0], "index": adds[0].here[1], "size": 1}
            sources = [target, *({"type": event.there[0], "index": event.there[1], "size": 1} for event in adds)]
            block.ops += [{"name": "re", "src_buff": sources, "dst_buff": [target], "reduce_op": "sum"}, _NOP]


def _channels(block: _Block, peers: list[int]) -> list[int]:
    """The thread block's channels to some peers; one peer's is in a list several times if it is there several times."""
    for peer in peers:
        if peer not in block.peers:
            block.peers.append(peer)
    return [block.peers.index(peer) for peer in peers]


def _shared(blocks_of_chunk: list[list[_Block]], at_least: int) -> list[list[_Block]]:
    """The thread blocks of each NPU: about so many chunks share one, fewer where an NPU's operations would not fit."""
    shared_blocks: list[list[_Block]] = []  # by group of chunks, then by NPU
    in_last = 0
    for blocks in blocks_of_chunk:
        if shared_blocks and in_last < at_least:
            joined = [_joined(before, block) for before, block in zip(shared_blocks[-1], blocks, strict=True)]
            if all(block.fits for block in joined):
                shared_blocks[-1] = joined
                in_last += 1
                continue
        shared_blocks.append(blocks)
        in_last = 1
    return [list(of_npu) for of_npu in zip(*shared_blocks, strict=True)]


def _joined(first: _Block, then: _Block) -> _Block:
    """One thread block that does what two do, one after the other."""
    joined = _Block(list(first.ops), list(first.peers), list(first.buffers))
    channels = _channels(joined, then.peers)
    joined.buffers += [buffer for buffer in then.buffers if buffer not in joined.buffers]
    for op in then.ops:
        changed = dict(op)
        if "channel_ids" in op:
            changed["channel_ids"] = [channels[number] for number in op["channel_ids"]]
        if "dst_buff" in op:
            changed["dst_buff"] = [_renumbered(entry, then, joined) for entry in op["dst_buff"]]
        joined.ops.append(changed)
    return joined


def _renumbered(entry: dict[str, Any], block: _Block, joined: _Block) -> dict[str, Any]:
    if "buffer_id" not in entry:
        return entry
    return entry | {"buffer_id": joined.buffers.index(block.buffers[entry["buffer_id"]])}


def _gpu(npu: int, chunks: tuple[int, int], scratch: int, blocks: list[_Block]) -> dict[str, Any]:
    peers: list[int] = []
    buffers: list[tuple[int, str]] = []
    written = []
    for number, block in enumerate(blocks):
        ids = [len(peers) + at for at in range(len(block.peers))]
        peers += block.peers
        buffers += [buffer for buffer in block.buffers if buffer not in buffers]
        channels = [{"channel_type": "memory", "channel_ids": ids}] if ids else []
        refs = [buffers.index(buffer) for buffer in block.buffers]
        remote = [{"access_channel_type": "memory", "remote_buffer_ids": refs}] if refs else []
        written.append({"id": number, "ops": block.ops, "channels": channels, "remote_buffer_refs": remote})
    return {
        "id": npu,
        "input_chunks": chunks[0],
        "output_chunks": chunks[1],
        "scratch_chunks": scratch,
        "threadblocks": written,
        "channels": [{"channel_type": "memory", "connected_to": peers}],
        "remote_buffers": [{"rank": rank, "type": kind, "access_channel_types": ["memory"]} for rank, kind in buffers],
        "semaphores": [],
    }


def _write(schedule: Schedule, path: Path) -> Exported:
    from astra_tacos.verifier.program import verify_mscclpp_plan

    plan = mscclpp_plan(schedule)
    with replaced_file(path) as temporary:
        temporary.write_text(json.dumps(plan, separators=(",", ":")) + "\n", encoding="utf-8")
        verdict = verify_mscclpp_plan(temporary, schedule.collective.name)
        if not verdict.proven:
            raise VerificationError(f"MSCCL++ plan: {verdict.violations[0] if verdict.violations else verdict.unchecked}")
    sizes = schedule.collective.class_size_bytes
    notes = () if len(sizes) == 1 and sizes[0] % 16 == 0 else ("chunks are no equal multiples of 16 bytes, which plans need",)
    return Exported(path, notes)


EXPORTER = Exporter(
    name="mscclpp",
    summary="the execution plan that MSCCL++ runs on GPUs, proven by reading it back",
    writes="file",
    suffix=".json",
    write=_write,
    why_not=why_no_mscclpp_plan,
    options={},
)
