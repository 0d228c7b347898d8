"""MSCCL++ execution plans as programs, in the order that their signals give.

Threads of a block run on by themselves; `nop` and `barrier` join them. So an operation happens before another one of its thread
block only if there is one of these between them, or if one thread executes both (the n-th channel of a signal or wait belongs to
the n-th thread). A signal happens before the wait that it ends. Packets, relaxed signals and ports have rules of their own: plans
with them are not proven. Source: microsoft/mscclpp, src/core/include/execution_kernel.hpp (1f5f065).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.layout import BUFFERS, Layout
from astra_tacos.verifier.mscclpp_file import PACKET_OPS, PORT_OPS, RELAXED_OPS, PlanFile, PlanOp, Slice
from astra_tacos.verifier.program_form import MAX_LOCATIONS, NOWHERE, Action, Alike, Buffers, Program
from astra_tacos.verifier.program_order import Order
from astra_tacos.verifier.violation import Violation

_REDUCING = ("re", "res", "rre", "rres", "glres")
_ONE_FOR_ONE = ("put", "get")
"""Operations whose n-th source goes to the n-th target."""
_LIMITS = (("operations of a thread block", 64), ("channels of an operation", 8), ("buffers of an operation", 10))


@dataclass(frozen=True, slots=True, eq=False)
class PlanProgram:
    """A plan as a program.

    Parameters
    ----------
    ends
        int64[num_ranks], the operation with which each rank ends.
    """

    program: Program
    layout: Layout
    ends: Ints
    violations: list[Violation]


@dataclass(slots=True)
class _Nodes:
    """A growing program."""

    rank: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    actions: list[list[tuple[int, int, int, int, int]]] = field(default_factory=list)
    order: list[tuple[int, int]] = field(default_factory=list)
    messages: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)

    def add(self, rank: int, text: str) -> int:
        self.rank.append(rank)
        self.text.append(text)
        self.actions.append([])
        return len(self.rank) - 1

    def act(self, node: int, kind: Action, src: int, dst: int, count: int, peer: int = -1) -> tuple[int, int]:
        self.actions[node].append((int(kind), src, dst, count, peer))
        return node, len(self.actions[node]) - 1

    def message(self, sender: int, src: int, receiver: int, dst: int, count: int, sum_at: int | None = None) -> None:
        """A transfer from a place of one node's rank to one of another's; with `sum_at`, the sum of both is stored there."""
        sent = self.act(sender, Action.SEND, src, NOWHERE, count, self.rank[receiver])
        kind = Action.RECV if sum_at is None else Action.RECV_REDUCE
        got = self.act(receiver, kind, NOWHERE if sum_at is None else sum_at, dst, count, self.rank[sender])
        self.messages.append((sent, got))


@dataclass(slots=True)
class _BlockState:
    """Where a thread block is: its last synchronisation, what came since, and what its threads did last."""

    fence: int
    since: list[int] = field(default_factory=list)
    of_thread: dict[int, int] = field(default_factory=dict)


class _Step(NamedTuple):
    """An operation of a rank's thread block, in words, and its node."""

    state: _BlockState
    rank: int
    op: PlanOp
    where: str
    node: int


def why_refused(file: PlanFile) -> str | None:
    """The construct of which the oracle does not know the order; None if there is none."""
    for where, op in _operations(file):
        if op.name == "pipeline":
            return f"{where} loops over slices of chunks, which depend on the size of the message"
        if op.name in PACKET_OPS:
            return f"{where} takes packets, and no order is proven over packets"
        if op.name in RELAXED_OPS:
            return f"{where} is a relaxed signal, and no order is proven over relaxed signals"
        if op.name in PORT_OPS or op.channel_type == "port":
            return f"{where} takes a port channel, and no order is proven over ports"
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
    room = max(sum(_sizes(op) for block in gpu.blocks for op in block) for gpu in file.gpus)
    layout = Layout.of(file.collective, num, grain, (whole, part), size, (room + 1) * grain, in_place=file.in_place)
    stride = layout.stride
    if stride * num > MAX_LOCATIONS:
        raise ConfigError(f"{file.path}: {stride * num:,} places in all, expected at most {MAX_LOCATIONS:,}")
    return layout


def _sizes(op: PlanOp) -> int:
    """Chunks that an operation has on its way at most."""
    return sum(entry.size * len(entry.ranks) for entry in (*op.sources, *op.targets))


def plan_program(file: PlanFile) -> PlanProgram:
    """The program of a plan for which `why_refused` has no reason.

    Raises
    ------
    ConfigError
        If its buffers do not fit its collective, or are too many.
    """
    builder = _Builder(file, plan_layout(file))
    for rank in range(file.num_npus):
        builder.add_rank(rank)
    builder.match_signals()
    return builder.finish()


class _Builder:
    def __init__(self, file: PlanFile, layout: Layout) -> None:
        self.file, self.layout, self.nodes = file, layout, _Nodes()
        self.violations: list[Violation] = []
        self.ends: list[int] = []
        self.own_free = [layout.own_at] * file.num_npus
        self.signals: dict[tuple[int, int], list[int]] = {}
        self.waits: dict[tuple[int, int], list[int]] = {}
        self.alike: list[tuple[int, int]] = []

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
                elif op.name in ("signal", "wait"):
                    for thread, channel in enumerate(op.channels):
                        node = self._of_thread(state, rank, thread, where)
                        (self.signals if op.name == "signal" else self.waits).setdefault((rank, channel), []).append(node)
                else:
                    self._add_data(state, rank, op, where)
            last = (state.fence, *state.since, *state.of_thread.values())
            self.nodes.order += [(node, end) for node in dict.fromkeys(last)]
        for (barrier, _), arrived in barriers.items():
            expected = arrived[0][2]
            if len(arrived) != expected or any(arrival[2] != expected for arrival in arrived):
                text = f"gpu {rank}: barrier {barrier}: {len(arrived)} thread blocks arrive, it waits for {expected}"
                self.violations.append(Violation("barrier-count", text, npu=rank))
            meeting = self.nodes.add(rank, f"gpu {rank}, barrier {barrier}")
            self.nodes.order += [(node, meeting) for node, _, _ in arrived]
            self.nodes.order += [(meeting, leaves) for _, leaves, _ in arrived]
        for semaphore, initial in enumerate(gpu.semaphores):
            self._match_semaphore(rank, semaphore, initial, releases[semaphore], acquires[semaphore])

    def _check_limit(self, where: str, number: int, which: int, rank: int) -> None:
        counted, most = _LIMITS[which]
        if number > most:
            self.violations.append(Violation("limit", f"{where}: {number} {counted}, the executor takes {most}", npu=rank))

    def _join(self, state: _BlockState, rank: int, where: str) -> int:
        node = self.nodes.add(rank, where)
        self.nodes.order += [(before, node) for before in (state.fence, *state.since)]
        state.fence, state.since, state.of_thread = node, [], {}
        return node

    def _of_thread(self, state: _BlockState, rank: int, thread: int, where: str) -> int:
        """A node that one thread executes."""
        node = self.nodes.add(rank, where)
        self.nodes.order.append((state.of_thread.get(thread, state.fence), node))
        state.since.append(node)
        state.of_thread[thread] = node
        return node

    def _place(self, rank: int, entry: Slice, op: PlanOp, where: str) -> tuple[int, int] | None:
        """First location and number of locations of a slice, None if it is past the end of its buffer."""
        layout, buffer = self.layout, BUFFERS.index(entry.buffer)
        room = self.file.gpus[rank].chunks[buffer]
        if entry.index + entry.size > room:
            text = f"{where}: chunks {entry.index} to {entry.index + entry.size - 1} of buffer {entry.buffer}, which has {room}"
            self.violations.append(Violation("chunk-range", text, npu=rank))
            return None
        total = entry.size * layout.grain
        first, last = total * op.part // op.num_parts, total * (op.part + 1) // op.num_parts
        return rank * layout.stride + int(layout.begin[rank, buffer]) + entry.index * layout.grain + first, last - first

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
        nodes.order.append((state.fence, node))
        state.since.append(node)
        step = _Step(state, rank, op, where, node)
        if op.name in _ONE_FOR_ONE:
            for source, target in zip(op.sources, op.targets, strict=True):
                self._move(step, (source,), (target,))
        else:
            self._move(step, op.sources, op.targets)

    def _move(self, step: _Step, sources: tuple[Slice, ...], targets: tuple[Slice, ...]) -> None:
        """Read all sources, add them up, and write the sum to all targets."""
        state, rank, op, where, node = step
        nodes, sizes = self.nodes, {entry.size for entry in (*sources, *targets)}
        if len(sizes) > 1:
            text = f"{where}: sources and targets of {', '.join(map(str, sorted(sizes)))} chunks, expected as many in each"
            self.violations.append(Violation("size-mismatch", text, npu=rank))
            return
        read: list[tuple[int, int, int]] = []  # rank, location, count
        for source in sources:
            for owner in source.ranks:
                place = self._place(owner, source, op, where)
                if place is None:
                    return
                read.append((owner, *place))
        if len(read) > 1 and op.name not in _REDUCING:
            self.violations.append(Violation("size-mismatch", f"{where}: {len(read)} sources, expected one", npu=rank))
            return
        count = read[0][2]
        own_place = read[0][1]
        if not (len(read) == 1 and read[0][0] == rank):
            own_place = rank * self.layout.stride + self.own_free[rank]
            self.own_free[rank] += count
            for first, (owner, location, _) in enumerate(read):
                if owner == rank:
                    nodes.act(node, Action.COPY if first == 0 else Action.REDUCE, location, own_place, count)
                else:
                    reader = nodes.add(owner, f"{where} reads")
                    nodes.order.append((state.fence, reader))
                    nodes.message(reader, location, node, own_place, count, own_place if first else None)
        for target in targets:
            for owner in target.ranks:
                place = self._place(owner, target, op, where)
                if place is None:
                    return
                if owner != rank:
                    writer = nodes.add(owner, f"{where} writes")
                    nodes.message(node, own_place, writer, place[0], count)
                    state.since.append(writer)
                elif place[0] != own_place:
                    nodes.act(node, Action.COPY, own_place, place[0], count)

    def match_signals(self) -> None:
        """Tie every wait to the signal that it waits for: the n-th of the channel's other end."""
        other = self._pair_channels()
        for key, waits in self.waits.items():
            sent = self.signals.get(other.get(key, (-1, -1)), [])
            if len(waits) > len(sent):
                text = (
                    f"{self.nodes.text[waits[len(sent)]]}: waits for signal {len(sent) + 1} of its channel, which has {len(sent)}"
                )
                self.violations.append(Violation("deadlock", text, npu=key[0]))
            self.nodes.order += zip(sent, waits, strict=False)
        for ends in (*self.waits.values(), *self.signals.values()):
            self.alike += pairwise(ends)

    def _pair_channels(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The other end of every channel: the k-th channel to a peer belongs to the k-th of the peer back."""
        by_ends: dict[tuple[str, int, int], list[int]] = {}
        for rank, gpu in enumerate(self.file.gpus):
            for number, (kind, peer) in enumerate(gpu.channels):
                by_ends.setdefault((kind, rank, peer), []).append(number)
        pairs: dict[tuple[int, int], tuple[int, int]] = {}
        for (kind, rank, peer), mine in by_ends.items():
            theirs = by_ends.get((kind, peer, rank), [])
            pairs.update(((rank, a), (peer, b)) for a, b in zip(mine, theirs, strict=False))
        return pairs

    def _match_semaphore(self, rank: int, number: int, initial: int, releases: list[int], acquires: list[int]) -> None:
        self.alike += (*pairwise(releases), *pairwise(acquires))
        for at, node in enumerate(acquires[initial:]):
            if at >= len(releases):
                text = f"{self.nodes.text[node]}: semaphore {number} is released {len(releases)} times, expected one more"
                self.violations.append(Violation("deadlock", text, npu=rank))
                break
            self.nodes.order.append((releases[at], node))

    def finish(self) -> PlanProgram:
        """The plan with its whole order."""
        nodes, layout = self.nodes, self.layout
        count = [len(actions) for actions in nodes.actions]
        first = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        rows = np.array([action for actions in nodes.actions for action in actions], np.int64).reshape(-1, 5)
        ends = np.array([(first[a] + b, first[c] + d) for (a, b), (c, d) in nodes.messages], np.int64).reshape(-1, 2)
        before, after = (np.array([pair[end] for pair in nodes.order], np.int64) for end in (0, 1))
        pairs = np.array(self.alike, np.int64).reshape(-1, 2)
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
            alike=Alike("signal-order", "use one channel or semaphore in no certain order", pairs[:, 0], pairs[:, 1]),
            adds_commute=False,
            buffers=Buffers(layout.stride, layout.regions),
        )
        return PlanProgram(program, layout, np.array(self.ends, np.int64), self.violations)


def late_writes(plan: PlanProgram, order: Order) -> list[Violation]:
    """Violations for writes of results that a rank does not wait for before it ends."""
    program, layout = plan.program, plan.layout
    rank, offset = np.divmod(program.action_dst, layout.stride)
    begin = layout.begin[np.maximum(rank, 0) % program.num_ranks, 1]
    writes = np.flatnonzero((program.action_dst >= 0) & (offset >= begin) & (offset < begin + layout.size[1]))
    ops, ends = program.action_op[writes], plan.ends[rank[writes]]
    late = writes[~order.comes_before(ops, ends)]
    return [
        Violation(
            "late-write",
            f"gpu {rank[action]} may end before this has come: {program.describe(int(program.action_op[action]))}",
            npu=int(rank[action]),
        )
        for action in late.tolist()
    ]
