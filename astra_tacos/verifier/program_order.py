"""Checks of a program's order: deadlocks, data races, and messages that could be mistaken for each other.

An access happens before another one if program order, dependencies and messages lead from the one to the other (Lamport, "Time,
clocks, and the ordering of events in a distributed system", 1978). Two accesses to one location, at least one of which writes,
are a data race unless one happens before the other. Messages are assumed to be buffered: a send does not wait for its receive.

Symbolic execution of a program, in one of the orders that the program allows.

A value is a chunk and the set of ranks whose contributions it contains. Without data races, every order gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by
from astra_tacos.verifier.program_form import Action, Program, expand
from astra_tacos.verifier.violation import Violation

_NAMED = 4
"""Operations, or ranks, that a violation lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A graph of operations in topological order: all edges go to a later `place`.

    Parameters
    ----------
    place
        int64[num_ops], place of each operation in one topological order.
    first, predecessor
        int64[num_ops + 1] and int64[...], the places of each operation's predecessors (CSR), by its own place.
    """

    place: Ints
    first: Ints
    predecessor: Ints

    def comes_before(self, earlier: Ints, later: Ints) -> Bools:
        """bool[n], whether operation `earlier[i]` happens before `later[i]` at any timing."""
        from astra_tacos.verifier._oracle_kernels import comes_before

        origin, target = self.place[earlier], self.place[later]
        order = np.argsort(origin, kind="stable")
        answer = np.empty(len(earlier), np.bool_)
        answer[order] = comes_before(self.first, self.predecessor, origin[order], target[order]) == 1
        return answer


def find_order(program: Program) -> tuple[Order | None, list[Violation]]:
    """The order of a program, or None and a violation for each deadlock."""
    before = np.concatenate((program.before, program.action_op[program.message_send]))
    after = np.concatenate((program.after, program.action_op[program.message_recv]))
    place = local_places(program.num_ops, before, after)
    stuck = place == program.num_ops
    if stuck.any():
        return None, _deadlocks(program, before, after, stuck)
    first, predecessor = group_by(place[after], place[before], program.num_ops)
    return Order(place, first, predecessor), []


def judge_order(program: Program) -> tuple[Order | None, list[Violation]]:
    """The order of a program, None if it deadlocks, and all violations that do not depend on values or on a network."""
    order, violations = find_order(program)
    if order is not None:
        violations += check_alike(program, order) + check_races(program, order)
    return order, violations


def local_places(num_ops: int, before: Ints, after: Ints) -> Ints:
    """int64[num_ops], a number for each operation, larger than those of its predecessors; `num_ops` in and behind cycles."""
    from astra_tacos.verifier._oracle_kernels import topological_order

    first, successor = group_by(before, after, num_ops)
    order, size = topological_order(first, successor, np.bincount(after, minlength=num_ops))
    place = np.full(num_ops, num_ops, np.int64)
    place[order[:size]] = np.arange(size)
    return place


def _deadlocks(program: Program, before: Ints, after: Ints, stuck: Bools) -> list[Violation]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    inside = stuck[before] & stuck[after]
    before, after = before[inside], after[inside]
    shape = (program.num_ops, program.num_ops)
    graph = coo_array((np.ones(len(before), np.int8), (before, after)), shape=shape)
    _, group = connected_components(graph, directed=True, connection="strong")
    circular = np.unique(np.concatenate((group[before[group[before] == group[after]]], group[before[before == after]])))
    violations = []
    for which in circular:
        members = np.flatnonzero(group == which)
        named = ", ".join(program.describe(int(op)) for op in members[:_NAMED])
        more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
        npu = int(program.op_rank[members[0]])
        violations.append(Violation("deadlock", f"these wait for one another: {named}{more}", npu=npu))
    return violations


def check_alike(program: Program, order: Order) -> list[Violation]:
    """A violation for each pair of messages that could be mistaken for each other."""
    alike, describe = program.alike, program.describe
    unsure = np.flatnonzero(~order.comes_before(alike.first, alike.second))
    pairs = zip(alike.first[unsure].tolist(), alike.second[unsure].tolist(), strict=True)
    return [
        Violation(alike.code, f"{describe(first)} and {describe(second)} {alike.text}", npu=int(program.op_rank[first]))
        for first, second in pairs
    ]


def check_races(program: Program, order: Order) -> list[Violation]:
    """A violation for each data race: two accesses whose order changes the result, and depends on timing."""
    from astra_tacos.verifier._oracle_kernels import conflicts

    buffers = program.buffers
    if buffers is None:
        return []
    location, op, mode = _accesses(program)
    by_place = np.lexsort((order.place[op], location))
    location, op, mode = location[by_place], op[by_place], mode[by_place]
    none = np.empty(0, np.int64)
    size = conflicts(location, op, mode, none, none)
    first, second = np.empty(size, np.int64), np.empty(size, np.int64)
    conflicts(location, op, mode, first, second)
    is_sure = order.comes_before(op[first], op[second])
    violations = []
    for pair in np.flatnonzero(~is_sure):
        at = int(location[first[pair]])
        names = [program.describe(int(op[row[pair]])) for row in (first, second)]
        message = f"{buffers.describe(at)}: {names[0]} and {names[1]} use this place without an order"
        violations.append(Violation("race", message, npu=at // buffers.stride, chunk=buffers.chunk_at(at)))
    return violations


def _accesses(program: Program) -> tuple[Ints, Ints, Ints]:
    """int64[num_accesses] each: location, operation and mode of every access to a location."""
    from astra_tacos.verifier._oracle_kernels import ADD, READ, WRITE

    kind, src, dst = program.action_kind, program.action_src, program.action_dst
    add = ADD if program.adds_commute else WRITE
    both = (kind == Action.RECV_REDUCE) & (src == dst)
    parts = (
        (src, (src >= 0) & ~both, np.full(len(kind), READ)),
        (dst, dst >= 0, np.where((kind == Action.REDUCE) | both, add, WRITE)),
    )
    locations, ops, modes = [], [], []
    for at, used, mode in parts:
        rows = np.flatnonzero(used)
        count = program.action_count[rows]
        locations.append(expand(at[rows], count))
        ops.append(np.repeat(program.action_op[rows], count))
        modes.append(np.repeat(mode[rows], count))
    return np.concatenate(locations), np.concatenate(ops), np.concatenate(modes)


Value = tuple[int, int]
"""Number of a chunk (or of a part of one), and a bit for each rank that has contributed."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the chunks of values, for messages.

    Parameters
    ----------
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
    """Execute all actions on `memory`, and return the violations found on the way."""
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
        kept_location = src if kind == Action.RECV_REDUCE else dst
        for k, value in enumerate(arrived):
            if kind in (Action.RECV_REDUCE, Action.REDUCE):
                value = _sum(program, action, (memory.get(kept_location + k), value), kept_location + k, naming, violations)
            if value is not None:
                memory[dst + k] = value
            else:
                memory.pop(dst + k, None)
    return violations


def _absent(program: Program, action: int, location: int) -> Violation:
    assert program.buffers is not None
    op = int(program.action_op[action])
    message = f"{program.describe(op)} uses {program.buffers.describe(location)}, where no data has arrived"
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
    value, other = values
    if value is None:
        violations.append(_absent(program, action, location))
        return None
    if other is None:
        return value
    if value[0] == other[0] and not value[1] & other[1]:
        return value[0], value[1] | other[1]
    op = int(program.action_op[action])
    where = f"{program.describe(op)} reduces"
    if value[0] != other[0]:
        message = f"{where} {naming.describe(other[0])} into {naming.describe(value[0])}"
        violations.append(Violation("chunk-mixed", message, npu=int(program.op_rank[op]), chunk=naming.number(value[0])))
    else:
        message = f"{where} contributions of NPUs {_ranks(value[1] & other[1])} to {naming.describe(value[0])} a second time"
        violations.append(Violation("contribution-twice", message, npu=int(program.op_rank[op]), chunk=naming.number(value[0])))
    return value[0], value[1] | other[1]


def compare(
    program: Program, memory: dict[int, Value], after: Iterable[tuple[int, Value]], name: str, naming: Naming
) -> list[Violation]:
    """Violations of a collective's postcondition.

    Parameters
    ----------
    memory
        Values by location, as `run` leaves them.
    """
    assert program.buffers is not None
    violations = []
    for location, expected in after:
        value = memory.get(location)
        if value == expected:
            continue
        rank, chunk = location // program.buffers.stride, naming.number(expected[0])
        place, expected_text = f"{name}: npu {rank} ends", naming.describe(expected[0])
        if value is None:
            code, message = "chunk-missing", f"{place} without {expected_text}"
        elif value[0] != expected[0]:
            code, message = "chunk-wrong", f"{place} with {naming.describe(value[0])} in place of {expected_text}"
        elif absent := expected[1] & ~value[1]:
            code, message = "chunk-incomplete", f"{place} with {expected_text} without the contributions of NPUs {_ranks(absent)}"
        else:
            excess = _ranks(value[1] & ~expected[1])
            code, message = "chunk-mixed", f"{place} with {expected_text} and, added to it, contributions of NPUs {excess}"
        violations.append(Violation(code, message, npu=rank, chunk=chunk))
    return violations


def _ranks(bits: int) -> str:
    ranks = [str(rank) for rank in range(bits.bit_length()) if bits >> rank & 1]
    return ", ".join(ranks[:_NAMED]) + (f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else "")
