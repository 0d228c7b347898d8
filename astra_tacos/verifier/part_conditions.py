"""What the collectives of a trace demand of its memory, where a trace is for several of them and other ranks pass chunks on."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.run.trace.trace import Trace
from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Order
from astra_tacos.verifier.program_values import Naming, Value, compare, run
from astra_tacos.verifier.violation import Violation


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
    trace
        The trace.
    program, order
        The same as a program with buffers, and an order of its actions.
    collectives
        What it is for, on as many NPUs as it has ranks.
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
        memory.update(_before(collective, buffers.stride, begin))
        after.setdefault(collective.name, []).extend(_after(collective, buffers.stride, buffers.result, begin))
        begin += collective.num_chunks
    found = run(program, order, memory, Naming())
    for name, wanted in after.items():
        found += compare(program, memory, wanted, name, Naming())
    sizes = np.concatenate([each.chunk_size_bytes for each in collectives])
    return found + _check_sizes(trace, program, memory, sizes, shortest_bytes)


def _before(collective: Collective, stride: int, begin: int) -> Iterator[tuple[int, Value]]:
    """Locations and their values before: contributions of members, or what the owners of chunks have."""
    if not collective.reduces:
        for chunk, owner in enumerate(collective.chunk_owner.tolist(), begin):
            yield owner * stride + chunk, (chunk, 1 << owner)
        return
    members = set(collective.member_npus.tolist())
    for rank in range(collective.num_npus):
        for chunk in range(begin, begin + collective.num_chunks):
            yield rank * stride + chunk, (chunk, 1 << rank if rank in members else 0)


def _after(collective: Collective, stride: int, result: int, begin: int) -> Iterator[tuple[int, Value]]:
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
