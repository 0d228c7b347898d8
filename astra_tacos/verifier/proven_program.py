"""Programs that the oracle has proven, with the values that their collective states by location."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from astra_tacos.errors import VerificationError
from astra_tacos.verifier.msccl_conditions import stated_values
from astra_tacos.verifier.msccl_file import read_msccl_xml
from astra_tacos.verifier.msccl_layout import lay_out
from astra_tacos.verifier.msccl_program import msccl_program
from astra_tacos.verifier.program import judge_msccl_file
from astra_tacos.verifier.program_form import Program
from astra_tacos.verifier.program_order import Order, find_order
from astra_tacos.verifier.program_values import Value


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
    file = read_msccl_xml(Path(path))
    verdict = judge_msccl_file(file, collective_name)
    if verdict.violations:
        many = f"{len(verdict.violations):,} violations, the first: " if len(verdict.violations) > 1 else ""
        raise VerificationError(f"{path}: {many}{verdict.violations[0]}")
    if verdict.unchecked is not None or verdict.collective is None:
        raise VerificationError(f"{path}: result not checked: {verdict.unchecked}, expected a program that can be proven")
    file = replace(file, collective=verdict.collective)
    # Without violations, every placement of the buffers computes the same; steps and messages do not differ.
    layout = lay_out(file, in_place=(file.placements or (False,))[0])
    program, _ = msccl_program(file, layout)
    order, _ = find_order(program)
    assert order is not None
    before, after, root = stated_values(file, layout, program, order)
    return ProvenProgram(
        Path(path),
        program,
        order,
        verdict.collective,
        root,
        layout.whole,
        layout.part,
        before,
        after,
        file.least_bytes or None,
        file.most_bytes or None,
    )
