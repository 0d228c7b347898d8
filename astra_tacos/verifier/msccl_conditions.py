"""Pre- and postconditions of collectives on the buffers of an MSCCL XML.

Chunks have the order of NCCL's buffers: the part of rank r is the r-th of the whole. Programs of rooted collectives have a fixed
root, which no executor compares with that of the caller. The oracle therefore infers the root from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from astra_tacos.verifier.condition import Condition
from astra_tacos.verifier.msccl_file import BUFFERS, Layout, MscclFile, uses
from astra_tacos.verifier.mscclpp_file import PlanFile
from astra_tacos.verifier.program_form import Program
from astra_tacos.verifier.program_order import Naming, Order, Value, run
from astra_tacos.verifier.violation import Violation

_REDUCTIONS = ("all-reduce", "reduce-scatter", "reduce")
_OWN_CHUNKS = ("all-to-all", "broadcast", "scatter")
"""Collectives in which the input of every rank has its own chunks; in a Broadcast or Scatter only those of the root count."""
_WITHOUT_INPUT = ("broadcast", "scatter")
_WITHOUT_OUTPUT = ("reduce", "gather")
"""Collectives in which ranks other than the root have no input, or no output."""
_MOST_LISTED = 1 << 16
"""Missing chunks up to which violations are found one by one."""
BufferFile = MscclFile | PlanFile


def check_values(
    file: BufferFile, collective: str, layout: Layout, program: Program, order: Order
) -> tuple[list[Violation], Condition | None]:
    """Violations of a collective's postcondition, and the condition; there is none if too few places are written."""
    if too_few := _too_few_writes(file, layout, program, collective):
        return [too_few], None
    naming = Naming(layout.grain, layout.whole if collective in _OWN_CHUNKS else 0)
    before = partial(_before, file, layout, collective)
    memory = dict(before())
    violations = run(program, order, memory, naming)
    root = _root_of(file, layout, collective, memory)
    after = partial(_after, file, layout, collective, root or 0)
    condition = Condition(collective, root, layout.whole, layout.part, before, after, naming)
    violations += condition.compare(program, memory)
    if root is not None and isinstance(file, MscclFile):
        violations += _absent_buffers(file, layout, collective, root)
    return violations, condition


def _too_few_writes(file: BufferFile, layout: Layout, program: Program, collective: str) -> Violation | None:
    """One violation instead of very many, if the steps write fewer places than have to change."""
    ranks = 1 if collective in _WITHOUT_OUTPUT else file.num_npus
    # Places that are correct from the start, if in place: a part of every rank, or the buffer of a root.
    needed = ranks * int(layout.size[BUFFERS.index("o")]) - layout.whole
    written = int(program.action_count[program.action_dst >= 0].sum())
    if needed - written <= _MOST_LISTED * layout.grain:
        return None
    counts = f"steps write {written // layout.grain} chunks, but {needed // layout.grain} or more have to be written"
    return Violation("chunk-missing", f"{collective}: {counts}")


def _before(file: BufferFile, layout: Layout, collective: str) -> Iterator[tuple[int, Value]]:
    """Locations and their values before the program runs."""
    size = int(layout.size[BUFFERS.index("i")])

    def of_input(npu: int, k: int) -> Value:
        return k if collective in _REDUCTIONS else npu * size + k, 1 << npu

    for npu in range(file.num_npus):
        first = layout.place(npu, "i")
        yield from ((first + k, of_input(npu, k)) for k in range(size))
    # A `copy` element of an MSCCL XML happens before all steps.
    for npu, source, target in file.copies.tolist() if isinstance(file, MscclFile) else ():
        first, grain = layout.place(npu, "o"), layout.grain
        yield from ((first + target * grain + k, of_input(npu, source * grain + k)) for k in range(grain))


def _after(file: BufferFile, layout: Layout, collective: str, root: int) -> Iterator[tuple[int, Value]]:
    """Locations and the values that they must have after the program; `root` is that of a rooted collective."""
    expected = _expected(file, layout, collective)
    for npu in [root] if collective in _WITHOUT_OUTPUT else range(file.num_npus):
        first = layout.place(npu, "o")
        for k in range(int(layout.size[BUFFERS.index("o")])):
            yield first + k, expected(root, npu, k)


def _expected(file: BufferFile, layout: Layout, collective: str) -> Callable[[int, int, int], Value]:
    """A function from root, rank and location in its output buffer to the value that a rooted collective leaves there."""
    every, whole, part = (1 << file.num_npus) - 1, layout.whole, layout.part
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


def _root_of(file: BufferFile, layout: Layout, collective: str, memory: dict[int, Value]) -> int | None:
    """The most likely root: the rank whose choice leaves the most places with the value that the collective requires."""
    if collective not in (*_WITHOUT_INPUT, *_WITHOUT_OUTPUT):
        return None
    expected = _expected(file, layout, collective)
    votes = np.zeros(file.num_npus, np.int64)
    for npu in range(file.num_npus):
        first = layout.place(npu, "o")
        for k in range(int(layout.size[BUFFERS.index("o")])):
            value = memory.get(first + k)
            if value is None:
                continue
            root = npu if collective in _WITHOUT_OUTPUT else value[0] // layout.whole
            votes[root] += value == expected(root, npu, k)
    return int(np.argmax(votes))


def _absent_buffers(file: MscclFile, layout: Layout, collective: str, root: int) -> Iterator[Violation]:
    """Violations for steps that use the input or output buffer of a rank that has none."""
    if layout.in_place:
        return
    name = "i" if collective in _WITHOUT_INPUT else "o"
    buffer = BUFFERS.index(name)
    npu = file.step_npu
    using = np.concatenate([row[used == buffer] for row, used, _ in uses(file)])
    for row in np.unique(using[npu[using] != root]).tolist():
        message = f"{file.describe(row)}: uses buffer {name}, which only the root, gpu {root}, has in a {collective}"
        yield Violation("absent-buffer", message, npu=int(npu[row]))
