"""Programs that the oracle has proven, with the values that their collective states by location."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.msccl_conditions import stated_values
from astra_tacos.verifier.msccl_file import MscclFile, read_msccl_xml
from astra_tacos.verifier.mscclpp_file import read_mscclpp_plan
from astra_tacos.verifier.mscclpp_program import why_no_schedule
from astra_tacos.verifier.program import ProgramVerdict, examine_msccl_file, examine_plan_file, examine_trace
from astra_tacos.verifier.program_form import Program
from astra_tacos.verifier.program_order import Order, Value
from astra_tacos.verifier.trace_conditions import stated_trace_values

_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class ProvenProgram:
    """A program that computes its collective at any timing.

    Parameters
    ----------
    path
        The file that it comes from.
    program, order
        Its actions, and an order that it allows.
    collective, root
        Key of `COLLECTIVES`, and the root of a rooted one.
    whole, part
        Number of chunks of the whole buffer, and of one rank's part of it (0 if the collective does not divide the buffer).
    before, after
        The value at each location that has one before the program runs, and that must have one after it. Numbers of values are
        places in the whole buffer; of an All-to-All, a Broadcast or a Scatter, `rank * whole` later.
    least_bytes, most_bytes
        The sizes of the whole buffer for which the file is meant; None for no limit.
    why_no_schedule
        What it does that no schedule expresses; empty if there is nothing.
    numbers_chunks
        Whether values have the numbers of the collective's chunks, instead of those of places in buffers.
    """

    path: Path
    program: Program
    order: Order
    collective: str
    root: int | None
    whole: int
    part: int
    before: dict[int, Value]
    after: dict[int, Value]
    least_bytes: int | None = None
    most_bytes: int | None = None
    why_no_schedule: str = ""
    numbers_chunks: bool = False

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.program.num_ranks

    @property
    def chunks_per_npu(self) -> int:
        """Chunks of one rank's part, or of the whole buffer where ranks have no parts."""
        return self.part or self.whole


def prove_msccl_xml(path: str | Path, collective_name: str | None = None) -> ProvenProgram:
    """Prove an MSCCL XML program.

    Parameters
    ----------
    path
        The MSCCL XML file.
    collective_name
        As for `verify_msccl_xml`.

    Raises
    ------
    ConfigError
        If the file is not well-formed MSCCL XML.
    VerificationError
        If the oracle finds violations, or cannot check the result: the file does not say which collective it computes.
    """
    return prove_msccl_file(read_msccl_xml(Path(path)), collective_name)


def prove_msccl_file(file: MscclFile, collective_name: str | None = None) -> ProvenProgram:
    """Prove a file that has been read, as `prove_msccl_xml` does."""
    path = file.path
    # Without violations, every placement of the buffers computes the same; steps and messages do not differ.
    found = examine_msccl_file(file, collective_name)
    name = _proven_collective(path, found.verdict)
    program, order, layout, root = found.program, found.order, found.layout, found.root
    assert program is not None and order is not None and layout is not None
    before, after = stated_values(file, name, layout, root)
    return ProvenProgram(
        path,
        program,
        order,
        name,
        root,
        layout.whole,
        layout.part,
        before,
        after,
        file.least_bytes or None,
        file.most_bytes or None,
    )


def prove_mscclpp_plan(path: str | Path, collective_name: str | None = None) -> ProvenProgram:
    """Prove an MSCCL++ execution plan.

    Parameters
    ----------
    path
        The JSON file.
    collective_name
        As for `verify_mscclpp_plan`.

    Raises
    ------
    ConfigError
        If the file is not a well-formed plan.
    VerificationError
        If the oracle finds violations, or has no model of what the plan does.
    """
    file = read_mscclpp_plan(Path(path))
    found = examine_plan_file(file, collective_name)
    name = _proven_collective(path, found.verdict)
    program, order, layout, root = found.program, found.order, found.layout, found.root
    assert program is not None and order is not None and layout is not None
    before, after = stated_values(file, name, layout, root)
    return ProvenProgram(
        Path(path),
        program,
        order,
        name,
        root,
        layout.whole,
        layout.part,
        before,
        after,
        file.least_bytes or None,
        file.most_bytes if 0 < file.most_bytes < _NO_LIMIT else None,
        why_no_schedule(file),
    )


def prove_trace(prefix: str | Path, collective_name: str | None = None, root: int | None = None) -> ProvenProgram:
    """Prove the Chakra traces of a collective, also symbolic ones, whose messages name chunks but have no sizes.

    Parameters
    ----------
    prefix
        Files are called `PREFIX.<rank>.et`.
    collective_name, root
        As for `verify_trace`.

    Raises
    ------
    ConfigError
        If the traces cannot be read.
    VerificationError
        If the oracle finds violations, or messages do not name what they carry.
    """
    trace = read_trace(Path(prefix))
    chunks = trace.chunks
    is_symbolic = (trace.size_bytes == ABSENT) & np.isin(trace.kind, (NodeType.COMM_SEND, NodeType.COMM_RECV))
    if chunks is not None and np.any(is_symbolic):
        moved = chunks.moved
        trace = replace(trace, size_bytes=np.where(is_symbolic & (moved > 0), moved, trace.size_bytes))
    found = examine_trace(trace, collective_name, root=root)
    name = _proven_collective(prefix, found.verdict)
    program, order = found.program, found.order
    assert program is not None and order is not None and program.buffers is not None
    before, after, root, each = stated_trace_values(program, name, root)
    whole = program.buffers.regions[1].first
    # Whole and part are what `chunks_per_npu` follows from: ranks of these collectives have no parts.
    part = 0 if name in ("all-reduce", "broadcast", "reduce") else each
    return ProvenProgram(Path(prefix), program, order, name, root, whole, part, before, after, numbers_chunks=True)


def prove(path: str | Path, collective_name: str | None = None) -> ProvenProgram:
    """Prove the program of a file: an MSCCL++ plan (`.json`), an MSCCL XML (`.xml`), or traces with this prefix.

    Parameters
    ----------
    path, collective_name
        As for `prove_msccl_xml`, which says what is raised, too.
    """
    provers = {".json": prove_mscclpp_plan, ".xml": prove_msccl_xml}
    return provers.get(Path(path).suffix, prove_trace)(path, collective_name)


def _proven_collective(path: str | Path, verdict: ProgramVerdict) -> str:
    if verdict.violations:
        many = f"{len(verdict.violations):,} violations, the first: " if len(verdict.violations) > 1 else ""
        raise VerificationError(f"{path}: {many}{verdict.violations[0]}")
    if verdict.unchecked is not None or verdict.collective is None:
        raise VerificationError(f"{path}: result not checked: {verdict.unchecked}, expected a program that can be proven")
    return verdict.collective
