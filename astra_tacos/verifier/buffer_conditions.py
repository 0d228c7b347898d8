"""Pre- and postconditions of collectives on the buffers of an MSCCL XML or an MSCCL++ plan.

Chunks have the order of NCCL's buffers: the part of rank r is the r-th of the whole. Programs of rooted collectives have a fixed
root, which no executor compares with that of the caller. The oracle therefore infers the root from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from astra_tacos.verifier.condition import Condition
from astra_tacos.verifier.layout import BUFFERS, Layout
from astra_tacos.verifier.program_form import Program
from astra_tacos.verifier.program_order import Naming, Order, Value, run
from astra_tacos.verifier.violation import Violation

_REDUCTIONS = ("all-reduce", "reduce-scatter", "reduce")
_OWN_CHUNKS = ("all-to-all", "broadcast", "scatter")
"""Collectives in which the input of every rank has its own chunks; in a Broadcast or Scatter only those of the root count."""
WITHOUT_INPUT = ("broadcast", "scatter")
_WITHOUT_OUTPUT = ("reduce", "gather")
"""Collectives in which ranks other than the root have no input, or no output."""
_MOST_LISTED = 1 << 16
"""Missing chunks up to which violations are found one by one."""


def check_values(collective: str, layout: Layout, program: Program, order: Order) -> tuple[list[Violation], Condition | None]:
    """Violations of a collective's postcondition, and the condition; there is none if too few places are written."""
    if too_few := _too_few_writes(layout, program, collective):
        return [too_few], None
    naming = Naming(layout.grain, layout.whole if collective in _OWN_CHUNKS else 0)
    before = partial(_before, layout, collective)
    memory = dict(before())
    violations = run(program, order, memory, naming)
    root = _root_of(layout, collective, memory)
    after = partial(_after, layout, collective, root or 0)
    condition = Condition(collective, root, layout.whole, layout.part, before, after, naming)
    violations += condition.compare(program, memory)
    return violations, condition


def _too_few_writes(layout: Layout, program: Program, collective: str) -> Violation | None:
    """One violation instead of very many, if the steps write fewer places than have to change."""
    ranks = 1 if collective in _WITHOUT_OUTPUT else layout.num_npus
    # Places that are correct from the start, if in place: a part of every rank, or the buffer of a root.
    needed = ranks * int(layout.size[BUFFERS.index("o")]) - layout.whole
    written = int(program.action_count[program.action_dst >= 0].sum())
    if needed - written <= _MOST_LISTED * layout.grain:
        return None
    counts = f"steps write {written // layout.grain} chunks, but {needed // layout.grain} or more have to be written"
    return Violation("chunk-missing", f"{collective}: {counts}")


def _before(layout: Layout, collective: str) -> Iterator[tuple[int, Value]]:
    """Locations and their values before the program runs."""
    size = int(layout.size[BUFFERS.index("i")])

    def of_input(npu: int, k: int) -> Value:
        return k if collective in _REDUCTIONS else npu * size + k, 1 << npu

    for npu in range(layout.num_npus):
        first = layout.place(npu, "i")
        yield from ((first + k, of_input(npu, k)) for k in range(size))
    for npu, source, target in layout.copies:
        first = layout.place(npu, "o") + target
        yield from ((first + k, of_input(npu, source + k)) for k in range(layout.grain))


def _after(layout: Layout, collective: str, root: int) -> Iterator[tuple[int, Value]]:
    """Locations and the values that they must have after the program; `root` is that of a rooted collective."""
    expected = _expected(layout, collective)
    for npu in [root] if collective in _WITHOUT_OUTPUT else range(layout.num_npus):
        first = layout.place(npu, "o")
        for k in range(int(layout.size[BUFFERS.index("o")])):
            yield first + k, expected(root, npu, k)


def _expected(layout: Layout, collective: str) -> Callable[[int, int, int], Value]:
    """A function from root, rank and location in its output buffer to the value that a rooted collective leaves there."""
    every, whole, part = (1 << layout.num_npus) - 1, layout.whole, layout.part
    return {
        "all-reduce": lambda root, npu, k: (k, every),
        "reduce": lambda root, npu, k: (k, every),
        "reduce-scatter": lambda root, npu, k: (npu * part + k, every),
        "all-gather": lambda root, npu, k: (k, 1 << k // part),
        "gather": lambda root, npu, k: (k, 1 << k // part),
        "all-to-all": lambda root, npu, k: (k // part * whole + npu * part + k % part, 1 << k // part),
        "scatter": lambda root, npu, k: (root * whole + npu * part + k, 1 << root),
        "broadcast": lambda root, npu, k: (root * whole + k, 1 << root),
    }[collective]


def _root_of(layout: Layout, collective: str, memory: dict[int, Value]) -> int | None:
    """The most likely root: the rank whose choice leaves the most places with the value that the collective requires."""
    if collective not in (*WITHOUT_INPUT, *_WITHOUT_OUTPUT):
        return None
    expected = _expected(layout, collective)
    votes = np.zeros(layout.num_npus, np.int64)
    for npu in range(layout.num_npus):
        first = layout.place(npu, "o")
        for k in range(int(layout.size[BUFFERS.index("o")])):
            value = memory.get(first + k)
            if value is None:
                continue
            root = npu if collective in _WITHOUT_OUTPUT else value[0] // layout.whole
            votes[root] += value == expected(root, npu, k)
    return int(np.argmax(votes))
