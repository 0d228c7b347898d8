"""What the messages of a program carry: chunks, or the contributions and sums of a reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums
from astra_tacos.support.errors import SynthesisError
from astra_tacos.verifier.program_form import Action
from astra_tacos.verifier.proven_program import ProvenProgram

_Held = frozenset[int]
"""What is at a location: the values that have been added up there."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What messages carry.

    Parameters
    ----------
    of_send
        By send action: the value of each of its chunks, in the order of the message.
    sums
        The values; None if the collective does not reduce, so that values are numbers of chunks of the program.
    made
        NPU and value of the sums that an NPU makes before it has received them, if it ever receives them.
    """

    of_send: dict[int, list[int]]
    sums: PartialSums | None
    made: set[tuple[int, int]]


class _Table:
    """Values by what they add up: contributions first."""

    def __init__(self, num_ranks: int, num_chunks: int) -> None:
        self.num_ranks = num_ranks
        self.chunk = [chunk for chunk in range(num_chunks) for _ in range(num_ranks)]
        self.npu = [*range(num_ranks)] * num_chunks
        self.parts: list[tuple[int, ...]] = [()] * len(self.chunk)
        self._number: dict[_Held, int] = {frozenset((value,)): value for value in range(len(self.chunk))}

    def contribution(self, chunk: int, rank: int) -> int:
        return chunk * self.num_ranks + rank

    def value_of(self, held: _Held) -> int:
        """The one value that some values add up to; parts get smaller numbers than their sum."""
        found = self._number.get(held)
        if found is None:
            found = self._number[held] = len(self.chunk)
            self.chunk.append(self.chunk[next(iter(held))])
            self.npu.append(NO_NPU)
            self.parts.append(tuple(sorted(held)))
        return found

    def sums(self, total: list[int]) -> PartialSums:
        counts = np.array([len(parts) for parts in self.parts], np.int64)
        return PartialSums(
            np.array(self.chunk, np.int32),
            np.array(self.npu, np.int32),
            np.concatenate(([0], np.cumsum(counts))),
            np.array([part for parts in self.parts for part in parts], np.int32),
            np.array(total, np.int32),
        )


def carried_values(proven: ProvenProgram, actions: list[int], reduces: bool) -> Carried:
    """Follow the values of a program through its messages.

    Parameters
    ----------
    proven
        The program.
    actions
        Its actions, in an order in which they can happen.
    reduces
        Whether its collective adds values up.

    Raises
    ------
    SynthesisError
        If ranks add the contributions to one chunk up in different ways, of which a schedule has one name only.
    """
    program = proven.program
    table = _Table(proven.num_ranks, proven.whole) if reduces else None
    stride = program.buffers.stride if program.buffers else 1
    memory: dict[int, _Held] = {}
    for location, (number, bits) in proven.before.items():
        value = table.contribution(number, bits.bit_length() - 1) if table else number
        memory[location] = frozenset((value,))
    sent_by = dict(zip(program.message_recv.tolist(), program.message_send.tolist(), strict=True))
    columns = (program.action_kind, program.action_src, program.action_dst, program.action_count)
    kinds, sources, targets, counts = (column.tolist() for column in columns)
    of_send: dict[int, list[int]] = {}
    made: set[tuple[int, int]] = set()
    received: set[tuple[int, int]] = set()

    def value_at(location: int) -> int:
        held = memory[location]
        if len(held) == 1 or table is None:
            return next(iter(held))
        value = table.value_of(held)
        rank = location // stride
        if (rank, value) not in received:
            made.add((rank, value))
        memory[location] = frozenset((value,))
        return value

    for action in actions:
        kind, src, dst, count = kinds[action], sources[action], targets[action], counts[action]
        if kind == Action.SEND:
            of_send[action] = [value_at(src + k) for k in range(count)]
            continue
        if kind in (Action.RECV, Action.RECV_REDUCE):
            arrived = [frozenset((value,)) for value in of_send[sent_by[action]]]
            received.update((dst // stride, value) for value in of_send[sent_by[action]])
        else:
            arrived = [memory.get(src + k, frozenset()) for k in range(count)]
        own = {Action.RECV_REDUCE: src, Action.REDUCE: dst}.get(Action(kind))
        for k, held in enumerate(arrived):
            memory[dst + k] = held if own is None else memory[own + k] | held
    if table is None:
        return Carried(of_send, None, made)
    total: dict[int, int] = {}
    for location, (chunk, _) in proven.after.items():
        value = value_at(location)
        if total.setdefault(chunk, value) != value:
            raise SynthesisError(
                f"{proven.path}: NPU {location // stride} adds chunk {chunk} up in another way than other NPUs, "
                "expected one way for all"
            )
    return Carried(of_send, table.sums([total[chunk] for chunk in range(proven.whole)]), made)
