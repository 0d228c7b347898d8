"""Checks of a program's order: deadlocks, data races, and messages that could be mistaken for each other.

An access happens before another one if program order, dependencies and messages lead from the one to the other (Lamport, "Time,
clocks, and the ordering of events in a distributed system", 1978). Two accesses to one location, at least one of which writes,
are a data race unless one happens before the other. Messages are assumed to be buffered: a send does not wait for its receive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.csr import group_by
from astra_tacos.verifier.program_form import Action, Program, expand
from astra_tacos.verifier.violation import Violation

_NAMED = 4


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

    place: NDArray[np.int64]
    first: NDArray[np.int64]
    predecessor: NDArray[np.int64]

    def comes_before(self, earlier: NDArray[np.int64], later: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[n], whether operation `earlier[i]` happens before `later[i]` at any timing."""
        from astra_tacos.verifier._order_kernels import comes_before

        origin, target = self.place[earlier], self.place[later]
        order = np.argsort(origin, kind="stable")
        answer = np.empty(len(earlier), np.bool_)
        answer[order] = comes_before(self.first, self.predecessor, origin[order], target[order]) == 1
        return answer


def find_order(program: Program) -> tuple[Order | None, list[Violation]]:
    """The order of a program, or None and a violation for each deadlock."""
    from astra_tacos.verifier._order_kernels import topological_order

    before = np.concatenate((program.before, program.action_op[program.message_send]))
    after = np.concatenate((program.after, program.action_op[program.message_recv]))
    first, successor = group_by(before, after, program.num_ops)
    order, size = topological_order(first, successor, np.bincount(after, minlength=program.num_ops))
    if size < program.num_ops:
        return None, _deadlocks(program, before, after, order[:size])
    place = np.empty(program.num_ops, np.int64)
    place[order] = np.arange(program.num_ops)
    first, predecessor = group_by(place[after], place[before], program.num_ops)
    return Order(place, first, predecessor), []


def judge_order(program: Program) -> tuple[Order | None, list[Violation]]:
    """The order of a program, None if it deadlocks, and all violations that do not depend on values or on a network."""
    order, violations = find_order(program)
    if order is not None:
        violations += check_alike(program, order) + check_races(program, order)
    return order, violations


def local_places(num_ops: int, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[num_ops], a number for each operation, larger than those of its predecessors (except in cycles)."""
    from astra_tacos.verifier._order_kernels import topological_order

    first, successor = group_by(before, after, num_ops)
    order, size = topological_order(first, successor, np.bincount(after, minlength=num_ops))
    place = np.full(num_ops, num_ops, np.int64)
    place[order[:size]] = np.arange(size)
    return place


def _deadlocks(
    program: Program, before: NDArray[np.int64], after: NDArray[np.int64], sorted_ops: NDArray[np.int64]
) -> list[Violation]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    stuck = np.ones(program.num_ops, np.bool_)
    stuck[sorted_ops] = False
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
    first, second = program.alike_first, program.alike_second
    unsure = np.flatnonzero(~order.comes_before(first, second))
    return [
        Violation(
            "duplicate-tag",
            f"{program.describe(int(first[pair]))} and {program.describe(int(second[pair]))} can be in flight at once under "
            "one tag, source, destination and size",
            npu=int(program.op_rank[first[pair]]),
        )
        for pair in unsure
    ]


def check_races(program: Program, order: Order, weak: Order | None = None) -> list[Violation]:
    """A violation for each data race: two accesses whose order changes the result, and depends on timing.

    Parameters
    ----------
    program, order
        The program and its order.
    weak
        An order that is enough for a write after a read, which nothing has to become visible for; None for the same.
    """
    from astra_tacos.verifier._order_kernels import READ, conflicts

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
    if weak is not None:
        is_sure |= (mode[first] == READ) & weak.comes_before(op[first], op[second])
    violations = []
    for pair in np.flatnonzero(~is_sure):
        at = int(location[first[pair]])
        names = [program.describe(int(op[row[pair]])) for row in (first, second)]
        message = f"{buffers.describe(at)}: {names[0]} and {names[1]} use it in no certain order"
        violations.append(Violation("race", message, npu=at // buffers.stride, chunk=buffers.chunk_at(at)))
    return violations


def _accesses(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_accesses] each: location, operation and mode of every access to a location."""
    from astra_tacos.verifier._order_kernels import ADD, READ, WRITE

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
