"""Symbolic execution of a program, in one of the orders that the program allows.

A value is a chunk and the set of ranks whose contributions it contains. Without data races, every order gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Order
from astra_tacos.verifier.violation import Violation

Value = tuple[int, int]
"""Number of a chunk (or of a part of one), and a bit for each rank that has contributed."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the chunks of values, for messages.

    Parameters
    ----------
    grain
        Number of equal parts of a chunk; values number these parts.
    per_rank
        If not 0, each rank has its own chunks, with values from `rank * per_rank`.
    """

    grain: int = 1
    per_rank: int = 0

    def number(self, value: int) -> int:
        """Number of a value's chunk, among those of its rank if ranks have their own chunks."""
        return (value % self.per_rank if self.per_rank else value) // self.grain

    def describe(self, value: int) -> str:
        """A value's chunk in words: `chunk 5`, or `chunk 5 of npu 3`."""
        part = f" (part {value % self.grain + 1} of {self.grain})" if self.grain > 1 else ""
        return f"chunk {self.number(value)}{part}" + (f" of npu {value // self.per_rank}" if self.per_rank else "")


def run(program: Program, order: Order, memory: dict[int, Value], naming: Naming) -> list[Violation]:
    """Execute all actions on `memory`, and return the violations found on the way.

    Parameters
    ----------
    program
        The program.
    order
        The order of its actions.
    memory
        Values by location; changed in place.
    naming
        Names of chunks, for messages.
    """
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
                value = _sum(program, action, (memory.get(own + k), value), own + k, naming, violations)
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
    program: Program,
    action: int,
    values: tuple[Value | None, Value | None],
    location: int,
    naming: Naming,
    violations: list[Violation],
) -> Value | None:
    """Sum of two values: the one at a location and the one to add.

    Adds a violation if nothing is at the location, if the values are of different chunks, or if they have a contribution in
    common. A missing second value adds none, as its message has a violation already.
    """
    own, other = values
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
        message = f"{where} {naming.describe(other[0])} into {naming.describe(own[0])}"
        violations.append(Violation("chunk-mixed", message, npu=int(program.op_rank[op]), chunk=naming.number(own[0])))
    else:
        message = f"{where} contributions of NPUs {_ranks(own[1] & other[1])} to {naming.describe(own[0])} a second time"
        violations.append(Violation("contribution-twice", message, npu=int(program.op_rank[op]), chunk=naming.number(own[0])))
    return own[0], own[1] | other[1]


def compare(
    program: Program, memory: dict[int, Value], after: Iterable[tuple[int, Value]], name: str, naming: Naming
) -> list[Violation]:
    """Violations of a collective's postcondition.

    Parameters
    ----------
    program
        The program that has been run.
    memory
        Values by location, as `run` leaves them.
    after
        Locations and the values that they must have.
    name, naming
        Names of the collective and of its chunks, for messages.
    """
    assert program.buffers is not None
    violations = []
    for location, expected in after:
        value = memory.get(location)
        if value == expected:
            continue
        rank, chunk = location // program.buffers.stride, naming.number(expected[0])
        place, what = f"{name}: npu {rank} ends", naming.describe(expected[0])
        if value is None:
            code, message = "chunk-missing", f"{place} without {what}"
        elif value[0] != expected[0]:
            code, message = "chunk-wrong", f"{place} with {naming.describe(value[0])} in place of {what}"
        elif absent := expected[1] & ~value[1]:
            code, message = "chunk-incomplete", f"{place} with {what} without the contributions of NPUs {_ranks(absent)}"
        else:
            excess = _ranks(value[1] & ~expected[1])
            code, message = "chunk-mixed", f"{place} with {what} and, added to it, contributions of NPUs {excess}"
        violations.append(Violation(code, message, npu=rank, chunk=chunk))
    return violations


def _ranks(bits: int) -> str:
    ranks = [str(rank) for rank in range(bits.bit_length()) if bits >> rank & 1]
    return ", ".join(ranks[:_NAMED]) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")
