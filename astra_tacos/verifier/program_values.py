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

KNOWN_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "scatter", "gather")
_SHARDED = ("all-gather", "reduce-scatter")
_COPIES = ("all-gather", "broadcast")
_PERSONALISED = ("all-to-all", "scatter", "gather")
_NAMED = 5


def check_values(program: Program, order: Order, name: str | None, root: int | None = None) -> tuple[str, list[Violation]]:
    """The collective that a program is judged as (the given one, or what it computes or comes closest to), and violations.

    `root` is that of a Broadcast, Reduce, Scatter or Gather, by default the rank that receives least, or sends least.
    """
    assert program.buffers is not None
    candidates = [name] if name else _candidates(program)
    possible = [candidate for candidate in candidates if _divides(program, candidate)]
    if not possible:
        unit = {"all-to-all": "ordered pairs of", "scatter": "other", "gather": "other"}.get(candidates[0], "")
        multiple = _least_chunks(program, candidates[0])
        message = f"{program.buffers.num_chunks} chunks, expected a multiple of {multiple} {unit} NPUs".replace("  ", " ")
        return candidates[0], [Violation("chunk-count", message)]
    closest: tuple[str, list[Violation]] | None = None
    for candidate in possible:
        memory = _initial(program, candidate, root)
        found = _run(program, order, memory)
        found += _compare(program, memory, candidate, root)
        if closest is None or len(found) < len(closest[1]) + (candidate == "reduce-scatter"):
            closest = candidate, found
        if not found:
            break
    assert closest is not None
    return closest


def _least_chunks(program: Program, name: str) -> int:
    """Chunks of a collective come in multiples of this."""
    num_ranks = program.num_ranks
    if name in _PERSONALISED:
        return max((num_ranks if name == "all-to-all" else 1) * (num_ranks - 1), 1)
    return num_ranks if name in _SHARDED else 1


def _divides(program: Program, name: str) -> bool:
    assert program.buffers is not None
    return program.buffers.num_chunks % _least_chunks(program, name) == 0


def _candidates(program: Program) -> list[str]:
    """What a program may be meant to compute, most ambitious first.

    Without reductions that is an all-gather, or a broadcast if one rank receives nothing; or else what brings each chunk to one
    rank: a scatter if one rank receives nothing, a gather if one rank sends nothing, an all-to-all if all ranks do both. Copies
    of chunks to where they belong make no sense in a reduce-scatter; where one rank sends nothing, it is a reduce.
    """
    assert program.buffers is not None
    kind, buffers = program.action_kind, program.buffers
    sent, received = _messages(program)
    if not np.isin(kind, (Action.RECV_REDUCE, Action.REDUCE)).any():
        from_one, to_one = np.count_nonzero(received == 0) == 1, np.count_nonzero(sent == 0) == 1
        spread = ["broadcast", "scatter"] if from_one else ["all-gather"]
        return spread + (["gather"] if to_one else [] if from_one else ["all-to-all"])
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
    root = _root(program, name, root)
    return [range(num_chunks if rank == root else 0) for rank in range(num_ranks)]


def _root(program: Program, name: str, root: int | None) -> int:
    """The given root, or what looks like one."""
    if root is not None and root < program.num_ranks:
        return root
    sent, received = _messages(program)
    return int(np.argmin(received if name in ("broadcast", "scatter") else sent))


def _ends(program: Program, name: str, root: int | None) -> list[tuple[int, int]]:
    """The rank that each chunk of a personalised collective begins at, and the one that it is for."""
    assert program.buffers is not None
    others = program.num_ranks - 1
    each = program.buffers.num_chunks // _least_chunks(program, name)
    middle = 0 if name == "all-to-all" else _root(program, name, root)
    ends = []
    for chunk in range(program.buffers.num_chunks):
        one, other = divmod(chunk // each, others) if name == "all-to-all" else (middle, chunk // each)
        other += other >= one
        ends.append((other, one) if name == "gather" else (one, other))
    return ends


def _initial(program: Program, name: str, root: int | None) -> dict[int, Value]:
    """Values before the program runs, by location."""
    buffers = program.buffers
    assert buffers is not None
    memory: dict[int, Value] = {}
    if name in _PERSONALISED:
        ends = enumerate(_ends(program, name, root))
        return {owner * buffers.stride + chunk: (chunk, 1 << owner) for chunk, (owner, _) in ends}
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
    if name in _PERSONALISED:
        return _compare_targets(program, memory, name, root)
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
            violations += _difference(name, rank, memory.get(base + chunk), (chunk, contributors[chunk]))
    return violations


def _compare_targets(program: Program, memory: dict[int, Value], name: str, root: int | None) -> list[Violation]:
    """Violations of a personalised collective's postcondition."""
    assert program.buffers is not None
    violations = []
    for chunk, (owner, target) in enumerate(_ends(program, name, root)):
        value = memory.get(target * program.buffers.stride + chunk)
        violations += _difference(name, target, value, (chunk, 1 << owner))
    return violations


def _difference(name: str, rank: int, value: Value | None, expected: Value) -> list[Violation]:
    """A violation if a rank ends with something else than it should."""
    chunk, place = expected[0], f"{name}: npu {rank} ends"
    if value == expected:
        return []
    if value is None:
        return [Violation("chunk-missing", f"{place} without chunk {chunk}", npu=rank, chunk=chunk)]
    if value[0] != chunk:
        message = f"{place} with chunk {value[0]} in place of chunk {chunk}"
        return [Violation("chunk-wrong", message, npu=rank, chunk=chunk)]
    absent = _ranks(expected[1] & ~value[1])
    message = f"{place} with chunk {chunk} without the contributions of NPUs {absent}"
    return [Violation("chunk-incomplete", message, npu=rank, chunk=chunk)]


def _ranks(bits: int) -> str:
    ranks = [str(rank) for rank in range(bits.bit_length()) if bits >> rank & 1]
    return ", ".join(ranks[:_NAMED]) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")
