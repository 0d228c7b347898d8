"""What a collective demands of the memory of a trace: every rank has the whole buffer, chunk i at its place i.

With partial sums, results are in a buffer of their own, as what a rank contributes may still be sent when a sum is made.

What the collectives of a trace demand of its memory, where a trace is for several of them and other ranks pass chunks on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from astra_tacos.collective import PERSONALISED, ROOTED, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_reduce_of
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import distinct
from astra_tacos.verifier.condition import Condition
from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Naming, Order, Value, run
from astra_tacos.verifier.violation import Violation

_SHARDED = ("all-gather", "reduce-scatter")


def check_trace_values(
    program: Program, order: Order, name: str | None, root: int | None = None
) -> tuple[str, list[Violation], Condition | None]:
    """Check the values that a program computes.

    Returns the name of the collective that it is judged as (the given one, or the one that it computes or comes closest to), the
    violations, and the condition; there is none of a collective that has another number of chunks.

    Parameters
    ----------
    name
        The collective to judge the program as; None to infer it.
    root
        Root of a Broadcast, Reduce, Scatter or Gather; by default the rank that receives, or sends, the fewest messages.
    """
    candidates = [name] if name else _candidates(program)
    possible = [candidate for candidate in candidates if _num_chunks(program) % _least_chunks(program, candidate) == 0]
    if not possible:
        unit = {"all-to-all": "ordered pairs of", "scatter": "other", "gather": "other"}.get(candidates[0], "")
        multiple = _least_chunks(program, candidates[0])
        message = f"{_num_chunks(program)} chunks, expected a multiple of {multiple} {unit} NPUs".replace("  ", " ")
        return candidates[0], [Violation("chunk-count", message)], None
    closest: tuple[str, list[Violation], Condition] | None = None
    for candidate in possible:
        condition = condition_of(program, _collective(program, candidate, root))
        memory = dict(condition.before())
        violations = run(program, order, memory, condition.naming) + condition.compare(program, memory)
        if closest is None or len(violations) < len(closest[1]) + (candidate == "reduce-scatter"):
            closest = candidate, violations, condition
        if not violations:
            break
    assert closest is not None
    return closest


def _collective(program: Program, name: str, root: int | None) -> Collective:
    """The collective of this name in the chunks of a program; any size does."""
    num_ranks, total = program.num_ranks, _num_chunks(program)
    if name == "all-reduce":
        return all_reduce_of(num_ranks, total, total)
    size_of_part = total // _least_chunks(program, name)
    return make_collective(
        name, num_ranks, size_of_part * num_ranks, size_of_part, _root(program, name, root) if name in ROOTED else None
    )


def condition_of(program: Program, collective: Collective, begin: int = 0) -> Condition:
    """What a collective has in the memory of a trace before, and must have after; its chunks have the numbers from `begin` on."""
    assert program.buffers is not None
    stride, result = program.buffers.stride, program.buffers.result
    before = partial(_memory_before, collective, stride, begin)
    after = partial(_memory_after, collective, stride, result, begin)
    # Whole and part are what `chunks_per_npu` follows from: ranks of some collectives have no parts.
    part = 0 if collective.name in ("all-reduce", "broadcast", "reduce") else collective.chunks_per_npu
    return Condition(collective.name, collective.root, collective.num_chunks, part, before, after)


def _num_chunks(program: Program) -> int:
    """Number of chunks of the whole buffer, which is the first region of memory."""
    assert program.buffers is not None
    return program.buffers.regions[1].first


def _least_chunks(program: Program, name: str) -> int:
    """The number that the number of chunks of a collective is a multiple of."""
    num_ranks = program.num_ranks
    if name in PERSONALISED:
        return max((num_ranks if name == "all-to-all" else 1) * (num_ranks - 1), 1)
    return num_ranks if name in _SHARDED else 1


def _candidates(program: Program) -> list[str]:
    """Collectives that a program may be meant to compute, the strongest postcondition first.

    Without reductions that is an all-gather, or a broadcast if one rank receives nothing; or else what brings each chunk to one
    rank: a scatter if one rank receives nothing, a gather if one rank sends nothing, an all-to-all if all ranks do both. Copies
    of chunks to where they belong make no sense in a reduce-scatter; where one rank sends nothing, it is a reduce. Where results
    are in buffers of their own, it is a reduce if one rank has any.
    """
    assert program.buffers is not None
    if program.buffers.result:
        return ["reduce"] if len(_ranks_with_results(program)) == 1 else ["all-reduce", "reduce-scatter"]
    kind, num_chunks = program.action_kind, _num_chunks(program)
    sent, received = _messages(program)
    if not np.isin(kind, (Action.RECV_REDUCE, Action.REDUCE)).any():
        from_one, to_one = np.count_nonzero(received == 0) == 1, np.count_nonzero(sent == 0) == 1
        spread = ["broadcast", "scatter"] if from_one else ["all-gather"]
        return spread + (["gather"] if to_one else [] if from_one else ["all-to-all"])
    if np.count_nonzero(sent == 0) == 1:
        return ["reduce"]
    offset = program.action_dst % program.buffers.stride
    copies = np.isin(kind, (Action.RECV, Action.COPY)) & (offset < num_chunks) & (program.action_dst >= 0)
    scattered = not copies.any() and num_chunks % program.num_ranks == 0
    return ["all-reduce", "reduce-scatter"] if scattered else ["all-reduce"]


def _ranks_with_results(program: Program) -> Ints:
    """The ranks at which something is put where results have to be."""
    assert program.buffers is not None
    offset = program.action_dst % program.buffers.stride
    within = (program.action_dst >= 0) & (offset >= program.buffers.result)
    within &= offset < program.buffers.result + _num_chunks(program)
    return distinct(program.action_dst[within] // program.buffers.stride)


def _messages(program: Program) -> tuple[Ints, Ints]:
    """int64[num_ranks] each, number of messages that each rank sends, and that it receives."""
    ranks = (program.op_rank[program.action_op[ends]] for ends in (program.message_send, program.message_recv))
    sent, received = (np.bincount(rank, minlength=program.num_ranks) for rank in ranks)
    return sent, received


def _root(program: Program, name: str, root: int | None) -> int:
    """The given root, or the rank that looks like the root."""
    if root is not None and root < program.num_ranks:
        return root
    if name == "reduce" and program.buffers is not None and program.buffers.result:
        with_results = _ranks_with_results(program)
        if len(with_results) == 1:
            return int(with_results[0])
    sent, received = _messages(program)
    return int(np.argmin(received if name in ("broadcast", "scatter") else sent))


def shortest_message(fastest_gibps: float) -> int:
    """What the fastest link carries in 1 ns, in bytes: ASTRA-sim's queues stop at messages that take less, so none is shorter."""
    return math.ceil(fastest_gibps * (1 << 30) / 1e9)


def check_parts(
    trace: Trace, program: Program, order: Order, collectives: Sequence[Collective], shortest_bytes: int
) -> list[Violation]:
    """Violations of what several collectives demand, whose chunks follow one another: values and sizes of messages.

    Sums at ranks that only pass them on begin empty.

    Parameters
    ----------
    program, order
        The same as a program with buffers, and an order of its actions.
    shortest_bytes
        Messages of fewer bytes may be as long as this.
    """
    buffers = program.buffers
    assert buffers is not None
    total, expected = buffers.regions[1].first, sum(collective.num_chunks for collective in collectives)
    if total != expected:
        return [Violation("chunk-count", f"{total} chunks, expected {expected}")]
    begins = np.cumsum([0, *(collective.num_chunks for collective in collectives)]).tolist()
    conditions = [condition_of(program, collective, begin) for collective, begin in zip(collectives, begins, strict=False)]
    memory = {location: value for condition in conditions for location, value in condition.before()}
    violations = run(program, order, memory, Naming())
    for condition in conditions:
        violations += condition.compare(program, memory)
    sizes = np.concatenate([collective.chunk_size_bytes for collective in collectives])
    return violations + _check_sizes(trace, program, memory, sizes, shortest_bytes)


def _memory_before(collective: Collective, stride: int, begin: int) -> Iterator[tuple[int, Value]]:
    """Locations and their values before: contributions of members, or what the owners of chunks have."""
    if not collective.reduces:
        for chunk, owner in enumerate(collective.chunk_owner.tolist(), begin):
            yield owner * stride + chunk, (chunk, 1 << owner)
        return
    members = set(collective.member_npus.tolist())
    for rank in range(collective.num_npus):
        for chunk in range(begin, begin + collective.num_chunks):
            yield rank * stride + chunk, (chunk, 1 << rank if rank in members else 0)


def _memory_after(collective: Collective, stride: int, result: int, begin: int) -> Iterator[tuple[int, Value]]:
    """Locations and the values that they must have after."""
    members, owners = collective.member_npus.tolist(), collective.chunk_owner.tolist()
    everyone = sum(1 << rank for rank in members)
    targets = owners if collective.chunk_target is None else collective.chunk_target.tolist()
    for rank in members if collective.gathers else (None,):
        for chunk, (owner, target) in enumerate(zip(owners, targets, strict=True), begin):
            value = chunk, everyone if collective.reduces else 1 << owner
            yield (target if rank is None else rank) * stride + result + chunk, value


def _check_sizes(
    trace: Trace, program: Program, memory: dict[int, Value], sizes: np.ndarray, shortest_bytes: int
) -> list[Violation]:
    """A violation for each message that has not as many bytes as the chunks in it, or is needlessly longer."""
    sends = np.flatnonzero(program.action_kind == Action.SEND)
    # Places keep the chunk of their values.
    chunk = np.array([memory.get(place, (0, 0))[0] for place in program.action_src[sends].tolist()], np.int64)
    moved = np.zeros(program.num_ops, np.int64)
    np.add.at(moved, program.action_op[sends], sizes[chunk] if len(chunk) else chunk)
    rows = np.unique(program.action_op[sends])
    sent = trace.size_bytes[rows]
    return [
        Violation(
            "message-size",
            f"{program.describe(int(row))} sends {trace.size_bytes[row]} bytes, its chunks have {moved[row]}",
            npu=int(program.op_rank[row]),
        )
        for row in rows[(sent < moved[rows]) | (sent > np.maximum(moved[rows], shortest_bytes))].tolist()
    ]
