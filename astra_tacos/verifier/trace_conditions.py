"""What a collective demands of the memory of a trace: every rank has the whole buffer, chunk i at its place i.

With partial sums, results are in a buffer of their own, as what a rank contributes may still be sent when a sum is made.

What the collectives of a trace demand of its memory, where a trace is for several of them and other ranks pass chunks on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import distinct
from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Naming, Order, Value, compare, run
from astra_tacos.verifier.violation import Violation

KNOWN_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "scatter", "gather")
_SHARDED = ("all-gather", "reduce-scatter")
_COPIES = ("all-gather", "broadcast")
_PERSONALISED = ("all-to-all", "scatter", "gather")


def check_trace_values(program: Program, order: Order, name: str | None, root: int | None = None) -> tuple[str, list[Violation]]:
    """Check the values that a program computes.

    Returns the name of the collective that it is judged as (the given one, or the one that it computes or comes closest to), and
    the violations.

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
        return candidates[0], [Violation("chunk-count", message)]
    closest: tuple[str, list[Violation]] | None = None
    for candidate in possible:
        memory = _before(program, candidate, root)
        found = run(program, order, memory, Naming())
        found += compare(program, memory, _after(program, candidate, root), candidate, Naming())
        if closest is None or len(found) < len(closest[1]) + (candidate == "reduce-scatter"):
            closest = candidate, found
        if not found:
            break
    assert closest is not None
    return closest


def stated_trace_values(
    program: Program, name: str, root: int | None = None
) -> tuple[dict[int, Value], dict[int, Value], int | None, int]:
    """What a collective has by location before it and after it, the root of a rooted one, and the chunks of each NPU.

    Parameters
    ----------
    program, name, root
        As for `check_trace_values`, which has found no violations.
    """
    each = _num_chunks(program) // _least_chunks(program, name)
    is_rooted = name in ("broadcast", "reduce", "scatter", "gather")
    found = _root(program, name, root) if is_rooted else None
    return _before(program, name, root), dict(_after(program, name, root)), found, each


def _num_chunks(program: Program) -> int:
    """Number of chunks of the whole buffer, which is the first region of memory."""
    assert program.buffers is not None
    return program.buffers.regions[1].first


def _least_chunks(program: Program, name: str) -> int:
    """The number that the number of chunks of a collective is a multiple of."""
    num_ranks = program.num_ranks
    if name in _PERSONALISED:
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


def _owned(program: Program, name: str, root: int | None) -> list[range]:
    """The chunks that each rank holds at first (All-Gather, Broadcast) or has in the end (Reduce-Scatter, Reduce)."""
    num_chunks, num_ranks = _num_chunks(program), program.num_ranks
    if name in _SHARDED:
        shard = num_chunks // num_ranks
        return [range(rank * shard, (rank + 1) * shard) for rank in range(num_ranks)]
    if name == "all-reduce":
        return [range(num_chunks)] * num_ranks
    root = _root(program, name, root)
    return [range(num_chunks if rank == root else 0) for rank in range(num_ranks)]


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


def _ends(program: Program, name: str, root: int | None) -> Iterator[tuple[int, int, int]]:
    """Each chunk of a personalised collective with its source rank and its destination rank."""
    others = program.num_ranks - 1
    each = _num_chunks(program) // _least_chunks(program, name)
    middle = 0 if name == "all-to-all" else _root(program, name, root)
    for chunk in range(_num_chunks(program)):
        one, other = divmod(chunk // each, others) if name == "all-to-all" else (middle, chunk // each)
        other += other >= one
        yield (chunk, other, one) if name == "gather" else (chunk, one, other)


def _before(program: Program, name: str, root: int | None) -> dict[int, Value]:
    """Values before the program runs, by location."""
    assert program.buffers is not None
    stride = program.buffers.stride
    if name in _PERSONALISED:
        return {owner * stride + chunk: (chunk, 1 << owner) for chunk, owner, _ in _ends(program, name, root)}
    memory: dict[int, Value] = {}
    for rank, own in enumerate(_owned(program, name if name in _COPIES else "all-reduce", root)):
        memory.update((rank * stride + chunk, (chunk, 1 << rank)) for chunk in own)
    return memory


def _after(program: Program, name: str, root: int | None) -> Iterator[tuple[int, Value]]:
    """Locations and the values that they must have after the program."""
    assert program.buffers is not None
    stride, num_ranks = program.buffers.stride, program.num_ranks
    if name in _PERSONALISED:
        for chunk, owner, target in _ends(program, name, root):
            yield target * stride + chunk, (chunk, 1 << owner)
        return
    owned = _owned(program, name, root)
    contributors = dict.fromkeys(range(_num_chunks(program)), (1 << num_ranks) - 1)
    if name in _COPIES:
        contributors = {chunk: 1 << rank for rank, own in enumerate(owned) for chunk in own}
        owned = [range(_num_chunks(program))] * num_ranks
    for rank, chunks in enumerate(owned):
        for chunk in chunks:
            yield rank * stride + program.buffers.result + chunk, (chunk, contributors[chunk])


def shortest_message(fastest_gibps: float) -> int:
    """What the fastest link carries in 1 ns, in bytes: ASTRA-sim's queues stop at messages that take less, so none is shorter."""
    return math.ceil(fastest_gibps * (1 << 30) / 1e9)


def check_parts(
    trace: Trace, program: Program, order: Order, collectives: list[Collective], shortest_bytes: int
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
    total, expected = buffers.regions[1].first, sum(each.num_chunks for each in collectives)
    if total != expected:
        return [Violation("chunk-count", f"{total} chunks, expected {expected}")]
    memory: dict[int, Value] = {}
    after: dict[str, list[tuple[int, Value]]] = {}
    begin = 0
    for collective in collectives:
        memory.update(_memory_before(collective, buffers.stride, begin))
        after.setdefault(collective.name, []).extend(_memory_after(collective, buffers.stride, buffers.result, begin))
        begin += collective.num_chunks
    found = run(program, order, memory, Naming())
    for name, wanted in after.items():
        found += compare(program, memory, wanted, name, Naming())
    sizes = np.concatenate([each.chunk_size_bytes for each in collectives])
    return found + _check_sizes(trace, program, memory, sizes, shortest_bytes)


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
    members = collective.member_npus.tolist()
    everyone = sum(1 << rank for rank in members)
    for place, owner in enumerate(collective.chunk_owner.tolist()):
        value = begin + place, everyone if collective.reduces else 1 << owner
        if collective.chunk_target is not None:
            ranks = [int(collective.chunk_target[place])]
        else:
            ranks = members if collective.gathers else [owner]
        for rank in ranks:
            yield rank * stride + result + begin + place, value


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
