"""MSCCL++ execution plans as programs, under the memory model of the executor.

Threads of a block run on by themselves; `nop` and `barrier` join them. So an operation happens before another one of its thread
block only if there is one of these between them, or if one thread executes both (the n-th channel of a signal or wait belongs to
the n-th thread). A signal happens before the wait that it ends; relaxed ones order no writes. A put through a memory channel is
done when its threads are; one through a port channel is on its way until a signal on the same channel arrives, and reads its
source until it is flushed. A packet carries its own flag: a read of packets waits for it.

Two graphs follow: what happens before what (`strong`), and what waits for what (`strong` and `weak`). Source: microsoft/mscclpp,
src/core/include/execution_kernel.hpp (1f5f065).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.msccl_file import Layout, buffer_begins
from astra_tacos.verifier.mscclpp_file import BUFFER_NAMES, PlanFile, PlanOp, Slice
from astra_tacos.verifier.program_form import MAX_LOCATIONS, NOWHERE, Action, Buffers, Program, Region
from astra_tacos.verifier.program_order import Order
from astra_tacos.verifier.violation import Violation

_PACKET_SOURCES = {"respkt": 1, "repkt": 1, "recpkt": 1, "recspkt": 1, "upkt": 0, "rppkt": 0, "gstorepkt": 0}
"""By operation: from which source on it reads packets."""
_PACKET_TARGETS = {"ppkt": 0, "rppkt": 0, "respkt": 1, "recpkt": 1, "recspkt": 1, "cpkt": 0, "gstorepkt": 0}
"""By operation: from which target on it writes packets."""
_REDUCING = ("re", "res", "rre", "rres", "respkt", "repkt", "recpkt", "recspkt", "glres")
_ONE_FOR_ONE = ("put", "pws", "pwsf", "get", "ppkt")
"""Operations whose n-th source goes to the n-th target."""
_LIMITS = (("operations of a thread block", 64), ("channels of an operation", 8), ("buffers of an operation", 10))


@dataclass(frozen=True, slots=True, eq=False)
class PlanProgram:
    """A plan as programs.

    Parameters
    ----------
    program
        With all orders: what waits for what.
    ordered
        With those only that order memory, and without the accesses to packets, which order themselves.
    layout
        Its memory.
    in_order
        Pairs of signals, or of waits, that count in this order.
    ends
        By rank: when all its thread blocks have ended.
    violations
        What is wrong beside values, races and deadlocks.
    """

    program: Program
    ordered: Program
    layout: Layout
    in_order: list[tuple[int, int]]
    ends: list[int]
    violations: list[Violation]


@dataclass(slots=True)
class _Nodes:
    """A growing program."""

    rank: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    actions: list[list[tuple[int, int, int, int, int]]] = field(default_factory=list)
    strong: list[tuple[int, int]] = field(default_factory=list)
    weak: list[tuple[int, int]] = field(default_factory=list)
    messages: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)

    def add(self, rank: int, text: str) -> int:
        self.rank.append(rank)
        self.text.append(text)
        self.actions.append([])
        return len(self.rank) - 1

    def act(self, node: int, kind: Action, src: int, dst: int, count: int, peer: int = -1) -> tuple[int, int]:
        self.actions[node].append((int(kind), src, dst, count, peer))
        return node, len(self.actions[node]) - 1

    def message(self, sender: int, src: int, receiver: int, dst: int, count: int, own: int | None = None) -> None:
        """A transfer from a place of one node's rank to one of another's; with `own`, the sum of both is stored there."""
        sent = self.act(sender, Action.SEND, src, NOWHERE, count, self.rank[receiver])
        kind = Action.RECV if own is None else Action.RECV_REDUCE
        got = self.act(receiver, kind, NOWHERE if own is None else own, dst, count, self.rank[sender])
        self.messages.append((sent, got))


@dataclass(slots=True)
class _BlockState:
    """Where a thread block is: its last synchronisation, what came since, and what its threads did last."""

    fence: int
    since: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    """Of these, the data operations themselves, without their writes elsewhere."""
    of_thread: dict[int, int] = field(default_factory=dict)
    on_port: dict[int, list[int]] = field(default_factory=dict)
    """By port channel: nodes of puts on their way, at their targets and at their sources."""
    unflushed: dict[int, list[int]] = field(default_factory=dict)


class _Step(NamedTuple):
    """An operation of a rank's thread block, in words, and its node."""

    state: _BlockState
    rank: int
    op: PlanOp
    where: str
    node: int


def why_refused(file: PlanFile) -> str | None:
    """The construct for which the oracle has no model; None if there is none."""
    for where, op in _operations(file):
        if op.name == "pipeline":
            return f"{where} loops over slices of chunks, which depend on the size of the message"
        if op.channel_type == "port" and op.name in ("ppkt", "rppkt"):
            return f"{where} through a port channel takes packets that are packed already"
        if op.name == "get" and any(a.index != b.index for a, b in zip(op.sources, op.targets, strict=False)):
            return f"{where} from another place than to, of which the executor takes one for the other"
    return None


def why_no_schedule(file: PlanFile) -> str:
    """What a plan does that no schedule expresses; empty if there is nothing."""
    for where, op in _operations(file):
        if any(entry.is_switch for entry in (*op.sources, *op.targets)):
            return f"{where} adds or copies inside the switch"
    return ""


def _operations(file: PlanFile) -> Iterator[tuple[str, PlanOp]]:
    """All operations, each with its place in words."""
    for rank, gpu in enumerate(file.gpus):
        for number, block in enumerate(gpu.blocks):
            for at, op in enumerate(block):
                yield f"gpu {rank}, tb {number}, op {at}: {op.name}", op


def plan_layout(file: PlanFile) -> Layout:
    """The memory of a plan's ranks.

    Raises
    ------
    ConfigError
        If ranks have unequal buffers, or buffers do not fit the collective.
    """
    chunks = file.gpus[0].chunks
    for rank, gpu in enumerate(file.gpus):
        if gpu.chunks[:2] != chunks[:2]:
            raise ConfigError(f"{file.path}: gpu {rank}: {gpu.chunks[:2]} chunks of input and output, gpu 0 has {chunks[:2]}")
    num, grain = file.num_npus, lcm(*{op.num_parts for _, op in _operations(file)})
    scratch = max(gpu.chunks[2] for gpu in file.gpus)
    inputs, outputs = chunks[0], chunks[1]
    shapes = {
        "all-reduce": (inputs, inputs, inputs),
        "all-gather": (inputs, inputs * num, inputs),
        "reduce-scatter": (outputs * num, outputs, outputs),
        "all-to-all": (inputs, inputs, inputs // num),
    }
    expected = shapes.get(file.collective or "", (inputs, outputs, 0))
    if (inputs, outputs) != expected[:2] or (file.collective == "all-to-all" and inputs % num) or not inputs or not outputs:
        raise ConfigError(f"{file.path}: {inputs} chunks of input and {outputs} of output do not fit {file.coll} on {num} ranks")
    part = 0 if file.collective == "all-reduce" else expected[2] * grain
    whole = max(inputs, outputs) * grain
    size = np.array((inputs, outputs, scratch), np.int64) * grain
    scratch_at = whole if file.in_place else int(size[0] + size[1])
    begin = buffer_begins(file.collective, num, size, part, scratch_at, in_place=file.in_place)
    own_at = scratch_at + 2 * int(size[2])  # plain chunks, then packets
    room = max(sum(_sizes(op) for block in gpu.blocks for op in block) for gpu in file.gpus)
    stride = own_at + (room + 1) * grain
    if stride * num > MAX_LOCATIONS:
        raise ConfigError(f"{file.path}: {stride * num:,} places in all, expected at most {MAX_LOCATIONS:,}")
    return Layout(grain, whole, part, size, begin, scratch_at, own_at, stride, file.in_place)


def _sizes(op: PlanOp) -> int:
    """Chunks that an operation has on its way at most."""
    return sum(entry.size * len(entry.ranks) for entry in (*op.sources, *op.targets))


def plan_program(file: PlanFile) -> PlanProgram:
    """The programs of a plan.

    Raises
    ------
    ConfigError
        If its buffers do not fit its collective, or are too many.
    """
    builder = _Builder(file, plan_layout(file))
    for rank in range(file.num_npus):
        builder.add_rank(rank)
    builder.match_signals()
    builder.match_packets()
    return builder.finish()


class _Builder:
    def __init__(self, file: PlanFile, layout: Layout) -> None:
        self.file, self.layout, self.nodes = file, layout, _Nodes()
        self.violations: list[Violation] = []
        self.ends: list[int] = []
        self.own_free = [layout.own_at] * file.num_npus
        self.signals: dict[tuple[int, int], list[tuple[int, bool, list[int]]]] = {}
        self.waits: dict[tuple[int, int], list[tuple[int, bool]]] = {}
        self.alike: list[tuple[int, int]] = []
        self.packet_writers: dict[int, list[int]] = {}
        self.packet_readers: list[tuple[int, int, int]] = []
        self.plain_scratch: set[int] = set()

    def add_rank(self, rank: int) -> None:
        gpu = self.file.gpus[rank]
        end = self.nodes.add(rank, f"the end of gpu {rank}")
        self.ends.append(end)
        releases: dict[int, list[int]] = {number: [] for number in range(len(gpu.semaphores))}
        acquires: dict[int, list[int]] = {number: [] for number in range(len(gpu.semaphores))}
        barriers: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for number, block in enumerate(gpu.blocks):
            self._check_limit(f"gpu {rank}, tb {number}", len(block), 0, rank)
            state = _BlockState(self.nodes.add(rank, f"gpu {rank}, tb {number}, begin"))
            count: dict[int, int] = {}
            for at, op in enumerate(block):
                where = f"gpu {rank}, tb {number}, op {at} ({op.name})"
                self._check_limit(where, len(op.channels), 1, rank)
                self._check_limit(where, max(len(op.sources), len(op.targets)), 2, rank)
                if op.name in ("nop", "barrier"):
                    joined = self._join(state, rank, where)
                    if op.name == "barrier":
                        use = count[op.barrier] = count.get(op.barrier, 0) + 1
                        state.fence = self.nodes.add(rank, where)
                        barriers.setdefault((op.barrier, use), []).append((joined, state.fence, op.num_blocks))
                elif op.name in ("sem_acquire", "sem_release"):
                    for thread, semaphore in enumerate(op.semaphores):
                        node = self._of_thread(state, rank, thread, where)
                        (acquires if op.name == "sem_acquire" else releases)[semaphore].append(node)
                elif op.name in ("signal", "rlxsignal", "wait", "rlxwait", "flush"):
                    self._add_sync(state, rank, op, where)
                else:
                    self._add_data(state, rank, op, where)
            last = (state.fence, *state.since, *state.of_thread.values())
            self.nodes.strong += [(node, end) for node in dict.fromkeys(last)]
        for (barrier, _), arrived in barriers.items():
            expected = arrived[0][2]
            if len(arrived) != expected or any(each[2] != expected for each in arrived):
                text = f"gpu {rank}: barrier {barrier}: {len(arrived)} thread blocks arrive, it waits for {expected}"
                self.violations.append(Violation("barrier-count", text, npu=rank))
            meeting = self.nodes.add(rank, f"gpu {rank}, barrier {barrier}")
            self.nodes.strong += [(node, meeting) for node, _, _ in arrived]
            self.nodes.strong += [(meeting, leaves) for _, leaves, _ in arrived]
        for semaphore, initial in enumerate(gpu.semaphores):
            self._match_semaphore(rank, semaphore, initial, releases[semaphore], acquires[semaphore])

    def _check_limit(self, where: str, found: int, which: int, rank: int) -> None:
        what, most = _LIMITS[which]
        if found > most:
            self.violations.append(Violation("limit", f"{where}: {found} {what}, the executor takes {most}", npu=rank))

    def _join(self, state: _BlockState, rank: int, where: str) -> int:
        node = self.nodes.add(rank, where)
        self.nodes.strong += [(before, node) for before in (state.fence, *state.since)]
        state.fence, state.since, state.own, state.of_thread = node, [], [], {}
        return node

    def _of_thread(self, state: _BlockState, rank: int, thread: int, where: str) -> int:
        """A node that one thread executes."""
        node = self.nodes.add(rank, where)
        self.nodes.strong.append((state.of_thread.get(thread, state.fence), node))
        self.nodes.weak += [(before, node) for before in state.own]
        state.since.append(node)
        state.of_thread[thread] = node
        return node

    def _add_sync(self, state: _BlockState, rank: int, op: PlanOp, where: str) -> None:
        for thread, channel in enumerate(op.channels):
            node = self._of_thread(state, rank, thread, where)
            if op.name == "flush":
                self.nodes.strong += [(sent, node) for sent in state.unflushed.pop(channel, [])]
            elif op.name.endswith("signal"):
                is_relaxed = op.name == "rlxsignal" and op.channel_type == "memory"
                arrivals = state.on_port.get(channel, []) if op.channel_type == "port" else []
                self.signals.setdefault((rank, channel), []).append((node, is_relaxed, list(arrivals)))
            else:
                is_relaxed = op.name == "rlxwait" and op.channel_type == "memory"
                self.waits.setdefault((rank, channel), []).append((node, is_relaxed))

    def _place(self, rank: int, entry: Slice, op: PlanOp, where: str, *, packet: bool = False) -> tuple[int, int] | None:
        """First location and number of locations of a slice, None if it is past the end of its buffer."""
        layout, buffer = self.layout, BUFFER_NAMES.index(entry.buffer)
        room = self.file.gpus[rank].chunks[buffer]
        if entry.index + entry.size > room:
            text = f"{where}: chunks {entry.index} to {entry.index + entry.size - 1} of buffer {entry.buffer}, which has {room}"
            self.violations.append(Violation("chunk-range", text, npu=rank))
            return None
        if packet and entry.buffer != "s":
            text = f"{where}: packets in buffer {entry.buffer}, expected the scratch buffer"
            self.violations.append(Violation("packets-outside-scratch", text, npu=rank))
            return None
        total = entry.size * layout.grain
        first, last = total * op.part // op.num_parts, total * (op.part + 1) // op.num_parts
        at = rank * layout.stride + int(layout.begin[rank, buffer]) + entry.index * layout.grain + first
        if packet:
            at += int(layout.size[2])
        elif entry.buffer == "s":
            self.plain_scratch.update(range(at, at + last - first))
        return at, last - first

    def _add_data(self, state: _BlockState, rank: int, op: PlanOp, where: str) -> None:
        nodes = self.nodes
        if not op.sources or not op.targets:
            self.violations.append(Violation("no-buffers", f"{where}: lacks what it reads or writes", npu=rank))
            return
        if op.name in _ONE_FOR_ONE and len(op.sources) != len(op.targets):
            text = f"{where}: {len(op.sources)} sources and {len(op.targets)} targets, expected one for one"
            self.violations.append(Violation("size-mismatch", text, npu=rank))
            return
        node = nodes.add(rank, where)
        nodes.strong.append((state.fence, node))
        nodes.weak += [(before, node) for before in (*state.own, *state.of_thread.values())]
        ends = [node]
        step = _Step(state, rank, op, where, node)
        if op.name in _ONE_FOR_ONE:
            for number, (source, target) in enumerate(zip(op.sources, op.targets, strict=True)):
                ends += self._move(step, (source,), (target,), number)
        else:
            ends += self._move(step, op.sources, op.targets, 0)
        state.since += ends
        state.own.append(node)

    def _move(self, step: _Step, sources: tuple[Slice, ...], targets: tuple[Slice, ...], number: int) -> list[int]:
        """Read all sources, add them up, and write the sum to all targets; returns the nodes of writes elsewhere."""
        state, rank, op, where, node = step
        nodes, sizes = self.nodes, {entry.size for entry in (*sources, *targets)}
        if len(sizes) > 1:
            text = f"{where}: sources and targets of {', '.join(map(str, sorted(sizes)))} chunks, expected as many in each"
            self.violations.append(Violation("size-mismatch", text, npu=rank))
            return []
        read: list[tuple[int, int, int]] = []  # rank, location, count
        for at, source in enumerate(sources):
            packet = at >= _PACKET_SOURCES.get(op.name, 1 << 30)
            for owner in source.ranks:
                place = self._place(owner, source, op, where, packet=packet)
                if place is None:
                    return []
                read.append((owner, *place))
                if packet:
                    self.packet_readers.append((node, *place))
        if len(read) > 1 and op.name not in _REDUCING:
            self.violations.append(Violation("size-mismatch", f"{where}: {len(read)} sources, expected one", npu=rank))
            return []
        count = read[0][2]
        own = read[0][1]
        if not (len(read) == 1 and read[0][0] == rank):
            own = rank * self.layout.stride + self.own_free[rank]
            self.own_free[rank] += count
            for first, (owner, location, _) in enumerate(read):
                if owner == rank:
                    nodes.act(node, Action.COPY if first == 0 else Action.REDUCE, location, own, count)
                else:
                    reader = nodes.add(owner, f"{where} reads")
                    nodes.strong.append((state.fence, reader))
                    nodes.message(reader, location, node, own, count, own if first else None)
        ends: list[int] = []
        for at, target in enumerate(targets):
            packet = at >= _PACKET_TARGETS.get(op.name, 1 << 30)
            for owner in target.ranks:
                place = self._place(owner, target, op, where, packet=packet)
                if place is None:
                    return ends
                if owner == rank:
                    if place[0] != own:
                        nodes.act(node, Action.COPY, own, place[0], count)
                    writer = node
                else:
                    writer = self._write(step, (own, count), (owner, place[0]), number, ends)
                if packet:
                    for location in range(place[0], place[0] + count):
                        self.packet_writers.setdefault(location, []).append(writer)
        return ends

    def _write(self, step: _Step, source: tuple[int, int], target: tuple[int, int], number: int, ends: list[int]) -> int:
        """A write of (location, count) into another (rank, location); returns its node there."""
        state, rank, op, where, node = step
        (src, count), (owner, dst), nodes = source, target, self.nodes
        writer = nodes.add(owner, f"{where} writes")
        if op.channel_type != "port":
            nodes.message(node, src, writer, dst, count)
            ends.append(writer)
            return writer
        if number >= len(op.channels):
            self.violations.append(Violation("no-channel", f"{where}: no channel for target {number}", npu=rank))
            return writer
        channel = op.channels[number]
        sender = nodes.add(rank, f"{where} is on its way")
        nodes.strong.append((state.fence, sender))
        nodes.weak.append((node, sender))
        nodes.message(sender, src, writer, dst, count)
        state.on_port.setdefault(channel, []).append(writer)
        state.unflushed.setdefault(channel, []).append(sender)
        if op.name in ("pws", "pwsf"):
            signal = self._of_thread(state, rank, number, where)
            self.signals.setdefault((rank, channel), []).append((signal, False, list(state.on_port[channel])))
            if op.name == "pwsf":
                nodes.strong += [(sent, signal) for sent in state.unflushed.pop(channel, [])]
        return writer

    def match_signals(self) -> None:
        """Tie every wait to the signal that it waits for: the n-th of the channel's other end."""
        other = self._pair_channels()
        for key, waits in self.waits.items():
            sent = self.signals.get(other.get(key, (-1, -1)), [])
            self.alike += pairwise(node for node, _ in waits)
            for number, (node, is_relaxed) in enumerate(waits):
                if number >= len(sent):
                    text = f"{self.nodes.text[node]}: waits for signal {number + 1} of its channel, which has {len(sent)}"
                    self.violations.append(Violation("deadlock", text, npu=key[0]))
                    break
                signal, was_relaxed, arrivals = sent[number]
                kind = self.nodes.weak if is_relaxed or was_relaxed else self.nodes.strong
                kind.append((signal, node))
                self.nodes.strong += [(arrival, node) for arrival in arrivals]
        for sent in self.signals.values():
            self.alike += pairwise(node for node, _, _ in sent)

    def _pair_channels(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The other end of every channel: the k-th channel to a peer belongs to the k-th of the peer back."""
        by_ends: dict[tuple[str, int, int], list[int]] = {}
        for rank, gpu in enumerate(self.file.gpus):
            for number, (kind, peer) in enumerate(gpu.channels):
                by_ends.setdefault((kind, rank, peer), []).append(number)
        pairs: dict[tuple[int, int], tuple[int, int]] = {}
        for (kind, rank, peer), own in by_ends.items():
            theirs = by_ends.get((kind, peer, rank), [])
            pairs.update(((rank, a), (peer, b)) for a, b in zip(own, theirs, strict=False))
        return pairs

    def _match_semaphore(self, rank: int, number: int, initial: int, releases: list[int], acquires: list[int]) -> None:
        self.alike += (*pairwise(releases), *pairwise(acquires))
        for at, node in enumerate(acquires[initial:]):
            if at >= len(releases):
                text = f"{self.nodes.text[node]}: semaphore {number} is released {len(releases)} times, expected one more"
                self.violations.append(Violation("deadlock", text, npu=rank))
                break
            self.nodes.strong.append((releases[at], node))

    def match_packets(self) -> None:
        """Tie every read of packets to the one write of each."""
        stride, scratch = self.layout.stride, int(self.layout.size[2])
        for location, writers in self.packet_writers.items():
            rank, text = location // stride, self.nodes.text[writers[-1]]
            if len(writers) > 1:
                message = f"{text}: writes packets that {self.nodes.text[writers[0]]} has written, under the same flag"
                self.violations.append(Violation("packet-overwritten", message, npu=rank))
        mixed = {location - scratch for location in self.packet_writers} & self.plain_scratch
        if mixed:
            at = min(mixed)
            text = f"gpu {at // stride}: scratch chunk {(at % stride - self.layout.scratch_at) // self.layout.grain}"
            self.violations.append(Violation("packets-and-data", f"{text}: used for packets and for data", npu=at // stride))
        for node, first, count in self.packet_readers:
            found = {writer for at in range(first, first + count) for writer in self.packet_writers.get(at, [-1])}
            if -1 in found:
                text = f"{self.nodes.text[node]}: waits for packets that nobody writes"
                self.violations.append(Violation("deadlock", text, npu=self.nodes.rank[node]))
            self.nodes.weak += [(writer, node) for writer in sorted(found - {-1, node})]

    def finish(self) -> PlanProgram:
        """Both programs."""
        nodes, layout = self.nodes, self.layout
        count = [len(actions) for actions in nodes.actions]
        first = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        rows = np.array([action for actions in nodes.actions for action in actions], np.int64).reshape(-1, 5)
        ends = np.array([(first[a] + b, first[c] + d) for (a, b), (c, d) in nodes.messages], np.int64).reshape(-1, 2)
        packed = layout.scratch_at + int(layout.size[2])
        *plain_regions, own = layout.regions
        regions = (*plain_regions, Region("packet of scratch chunk", packed, layout.grain), own)
        before, after = _columns([*nodes.strong, *nodes.weak])
        none = np.empty(0, np.int64)
        program = Program(
            num_ranks=self.file.num_npus,
            op_rank=np.array(nodes.rank, np.int64),
            describe=nodes.text.__getitem__,
            before=before,
            after=after,
            action_op=np.repeat(np.arange(len(count)), count),
            action_kind=np.ascontiguousarray(rows[:, 0]),
            action_src=np.ascontiguousarray(rows[:, 1]),
            action_dst=np.ascontiguousarray(rows[:, 2]),
            action_count=np.ascontiguousarray(rows[:, 3]),
            action_peer=np.ascontiguousarray(rows[:, 4]),
            message_send=np.ascontiguousarray(ends[:, 0]),
            message_recv=np.ascontiguousarray(ends[:, 1]),
            alike_first=none,
            alike_second=none,
            adds_commute=False,
            buffers=Buffers(layout.stride, regions),
        )

        def plain(column: Ints) -> Ints:
            offset = column % layout.stride
            return np.where((offset >= packed) & (offset < layout.own_at), NOWHERE, column)

        before, after = _columns(nodes.strong)
        ordered = replace(
            program,
            before=before,
            after=after,
            action_src=plain(program.action_src),
            action_dst=plain(program.action_dst),
        )
        return PlanProgram(program, ordered, layout, self.alike, self.ends, self.violations)


def late_writes(plan: PlanProgram, order: Order) -> list[Violation]:
    """Violations for writes of results that a rank does not wait for before it ends."""
    program, layout = plan.program, plan.layout
    rank, offset = np.divmod(program.action_dst, layout.stride)
    begin = layout.begin[np.maximum(rank, 0) % program.num_ranks, 1]
    writes = np.flatnonzero((program.action_dst >= 0) & (offset >= begin) & (offset < begin + layout.size[1]))
    ops, ends = program.action_op[writes], np.array(plan.ends, np.int64)[rank[writes]]
    late = writes[~order.comes_before(ops, ends)]
    return [
        Violation(
            "late-write",
            f"gpu {rank[action]} may end before this has come: {program.describe(int(program.action_op[action]))}",
            npu=int(rank[action]),
        )
        for action in late.tolist()
    ]


def _columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
