"""What a program computes: it is run once with symbols instead of data, in one order that it allows.

A value is a chunk and the set of ranks whose contributions are in it. Where there is no race, every order gives the same result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Order
from astra_tacos.verifier.violation import Violation

Value = tuple[int, int]
"""Chunk, and a bit for each rank that has contributed."""

KNOWN_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
_SHARDED = ("all-gather", "reduce-scatter")
_COPIES = ("all-gather", "broadcast")
_NAMED = 5


def check_values(program: Program, order: Order, name: str | None, root: int | None = None) -> tuple[str, list[Violation]]:
    """The collective that a program is judged as (the given one, or what it computes or comes close to), and violations.

    `root` is that of a Broadcast or Reduce, by default the rank that receives least, or sends least.
    """
    assert program.buffers is not None
    candidates = [name] if name else _candidates(program)
    if program.buffers.num_chunks % program.num_ranks and candidates[0] in _SHARDED:
        message = f"{program.buffers.num_chunks} chunks, expected a multiple of {program.num_ranks} NPUs"
        return candidates[0], [Violation("chunk-count", message)]
    memory = _initial(program, candidates[0], root)
    violations = _run(program, order, memory)
    wrong: list[Violation] = []
    for candidate in candidates:
        wrong = _compare(program, memory, candidate, root)
        if not wrong:
            return candidate, violations
    return candidates[-1], violations + wrong


def _candidates(program: Program) -> list[str]:
    """What a program may be meant to compute, most ambitious first.

    Without reductions that is an all-gather, or a broadcast if one rank receives nothing. Copies of chunks to where they belong
    make no sense in a reduce-scatter; where one rank sends nothing, it is a reduce.
    """
    assert program.buffers is not None
    kind, buffers = program.action_kind, program.buffers
    sent, received = _messages(program)
    if not np.isin(kind, (Action.RECV_REDUCE, Action.REDUCE)).any():
        return ["broadcast" if np.count_nonzero(received == 0) == 1 else "all-gather"]
    if np.count_nonzero(sent == 0) == 1:
        return ["reduce"]
    offset = program.action_dst % buffers.stride
    copies = np.isin(kind, (Action.RECV, Action.COPY)) & (offset < buffers.num_chunks) & (program.action_dst >= 0)
    scattered = buffers.in_place and not copies.any() and buffers.num_chunks % program.num_ranks == 0
    return ["all-reduce", "reduce-scatter"] if scattered else ["all-reduce"]


def _messages(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_ranks], how many messages each rank sends and receives."""
    ranks = (program.op_rank[program.action_op[ends]] for ends in (program.message_send, program.message_recv))
    sent, received = (np.bincount(rank, minlength=program.num_ranks) for rank in ranks)
    return sent, received


def _owned(program: Program, name: str, root: int | None) -> list[range]:
    """The chunks that each rank holds at first (All-Gather, Broadcast) or has in the end (Reduce-Scatter, Reduce)."""
    assert program.buffers is not None
    num_chunks, num_ranks = program.buffers.num_chunks, program.num_ranks
    if name in _SHARDED:
        shard = num_chunks // num_ranks
        return [range(rank * shard, (rank + 1) * shard) for rank in range(num_ranks)]
    if name == "all-reduce":
        return [range(num_chunks)] * num_ranks
    if root is None or not root < num_ranks:
        sent, received = _messages(program)
        root = int(np.argmin(received if name == "broadcast" else sent))
    return [range(num_chunks if rank == root else 0) for rank in range(num_ranks)]


def _initial(program: Program, name: str, root: int | None) -> dict[int, Value]:
    """Values before the program runs, by location."""
    buffers = program.buffers
    assert buffers is not None
    memory: dict[int, Value] = {}
    owned = _owned(program, name if name in _COPIES else "all-reduce", root)
    for rank, own in enumerate(owned):
        base, bit = rank * buffers.stride, 1 << rank
        shift = own.start if name == "all-gather" and not buffers.in_place else 0
        memory.update((base + chunk - shift, (chunk, bit)) for chunk in own)
    return memory


def _run(program: Program, order: Order, memory: dict[int, Value]) -> list[Violation]:
    """Carry out all actions on `memory`; violations on the way."""
    violations: list[Violation] = []
    sent_by = dict(zip(program.message_recv.tolist(), program.message_send.tolist(), strict=True))
    sent: dict[int, list[Value | None]] = {}
    columns = (program.action_kind, program.action_src, program.action_dst, program.action_count)
    kinds, sources, targets, counts = (column.tolist() for column in columns)
    for action in np.argsort(order.place[program.action_op], kind="stable").tolist():
        kind, src, dst, count = kinds[action], sources[action], targets[action], counts[action]
        if kind == Action.SEND:
            values = [memory.get(src + k) for k in range(count)]
            sent[action] = values
            if None in values:
                violations.append(_absent(program, action, src + values.index(None)))
            continue
        if kind in (Action.RECV, Action.RECV_REDUCE):
            arrived = sent.pop(sent_by.get(action, -1), [])
            arrived = [arrived[k] if k < len(arrived) else None for k in range(count)]
        else:
            arrived = [memory.get(src + k) for k in range(count)]
            if None in arrived:
                violations.append(_absent(program, action, src + arrived.index(None)))
        own = src if kind == Action.RECV_REDUCE else dst
        for k, value in enumerate(arrived):
            if kind in (Action.RECV_REDUCE, Action.REDUCE):
                value = _sum(program, action, memory.get(own + k), value, own + k, violations)
            if value is not None:
                memory[dst + k] = value
            else:
                memory.pop(dst + k, None)
    return violations


def _absent(program: Program, action: int, location: int) -> Violation:
    assert program.buffers is not None
    op = int(program.action_op[action])
    message = f"{program.describe(op)} uses {program.buffers.describe(location)}, where nothing has arrived"
    return Violation("chunk-absent", message, npu=int(program.op_rank[op]), chunk=program.buffers.chunk_at(location))


def _sum(
    program: Program, action: int, own: Value | None, other: Value | None, location: int, violations: list[Violation]
) -> Value | None:
    """Sum of two values, as far as they are there; that nothing arrived has been said before."""
    if own is None:
        violations.append(_absent(program, action, location))
        return None
    if other is None:
        return own
    if own[0] == other[0] and not own[1] & other[1]:
        return own[0], own[1] | other[1]
    op = int(program.action_op[action])
    where = f"{program.describe(op)} reduces"
    if own[0] != other[0]:
        message = f"{where} chunk {other[0]} into chunk {own[0]}"
        violations.append(Violation("chunk-mixed", message, npu=int(program.op_rank[op]), chunk=own[0]))
    else:
        message = f"{where} contributions of NPUs {_ranks(own[1] & other[1])} to chunk {own[0]} a second time"
        violations.append(Violation("contribution-twice", message, npu=int(program.op_rank[op]), chunk=own[0]))
    return own[0], own[1] | other[1]


def _compare(program: Program, memory: dict[int, Value], name: str, root: int | None) -> list[Violation]:
    """Violations of a collective's postcondition."""
    buffers = program.buffers
    assert buffers is not None
    owned = _owned(program, name, root)
    contributors = dict.fromkeys(range(buffers.num_chunks), (1 << program.num_ranks) - 1)
    if name in _COPIES:
        contributors = {chunk: 1 << rank for rank, own in enumerate(owned) for chunk in own}
        owned = [range(buffers.num_chunks)] * program.num_ranks
    violations = []
    for rank, chunks in enumerate(owned):
        shift = chunks.start if name == "reduce-scatter" and not buffers.in_place else 0
        base = rank * buffers.stride + buffers.output_at - shift
        for chunk in chunks:
            value = memory.get(base + chunk)
            expected = (chunk, contributors[chunk])
            if value == expected:
                continue
            place = f"{name}: npu {rank} ends"
            if value is None:
                violations.append(Violation("chunk-missing", f"{place} without chunk {chunk}", npu=rank, chunk=chunk))
            elif value[0] != chunk:
                message = f"{place} with chunk {value[0]} in place of chunk {chunk}"
                violations.append(Violation("chunk-wrong", message, npu=rank, chunk=chunk))
            else:
                absent = _ranks(expected[1] & ~value[1])
                message = f"{place} with chunk {chunk} without the contributions of NPUs {absent}"
                violations.append(Violation("chunk-incomplete", message, npu=rank, chunk=chunk))
    return violations


def _ranks(bits: int) -> str:
    ranks = [str(rank) for rank in range(bits.bit_length()) if bits >> rank & 1]
    return ", ".join(ranks[:_NAMED]) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")
