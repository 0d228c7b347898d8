"""The oracle for programs: checks that a Chakra trace, an MSCCL XML or an MSCCL++ plan computes its collective at any timing.

`verify_*` give verdicts. `prove_*` give the program with its values by location, or raise VerificationError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.verifier.buffer_conditions import check_values
from astra_tacos.verifier.chakra_program import chakra_program
from astra_tacos.verifier.condition import Condition
from astra_tacos.verifier.msccl_file import MscclFile, read_msccl_xml
from astra_tacos.verifier.msccl_places import absent_buffers, lay_out
from astra_tacos.verifier.msccl_program import msccl_program
from astra_tacos.verifier.msccl_rules import check_rules
from astra_tacos.verifier.mscclpp_file import PlanFile, read_mscclpp_plan
from astra_tacos.verifier.mscclpp_program import late_writes, plan_program, why_no_schedule, why_refused
from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import Order, Value, judge_order
from astra_tacos.verifier.trace_conditions import check_parts, check_trace_values, shortest_message
from astra_tacos.verifier.violation import Violation

_TOO_BROKEN = "it has too many errors to be followed"
_FASTEST_GIBPS = 4096.0
"""Links are taken to be no faster, where the network of a trace is not known: twice what one NPU of today has."""
_NO_LIMIT = 1 << 62
"""Sizes from it on stand for no limit in a file."""


@dataclass(frozen=True, slots=True)
class ProgramVerdict:
    """The oracle's verdict on a trace, an XML or a plan.

    Parameters
    ----------
    collective
        The collective that the program was judged as: the given name, the one in the file, or the one that it computes or comes
        closest to. None if only the structure was checked and there is no name.
    num_ranks, num_messages
        Number of ranks, and of sends that have a receive; None of a plan that is not followed.
    unchecked
        The reason why only the structure was checked, not the result: the program does not state the chunks that it moves or the
        collective that it computes, or is too broken to execute. None if everything was checked.
    violations
        All faults that were found.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, schedule_trace, synthesize, verify_trace
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> verdict = verify_trace(schedule_trace(schedule, "ring"))
    >>> verdict.num_ranks, verdict.num_messages
    (4, 12)
    """

    collective: str | None
    num_ranks: int
    num_messages: int | None
    unchecked: str | None
    violations: tuple[Violation, ...]

    @property
    def proven(self) -> bool:
        """Whether everything was checked and there are no violations."""
        return self.unchecked is None and not self.violations


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """A verdict, and what it was found with; the rest is None where the program is too broken to have it.

    Parameters
    ----------
    program, order
        The actions of the file, and an order that it allows: of an MSCCL XML for both placements, those of the first.
    condition
        What was asked of its values.
    """

    verdict: ProgramVerdict
    program: Program | None = None
    order: Order | None = None
    condition: Condition | None = None


def verify_trace(
    trace: Trace, collective_name: str | None = None, topology: Topology | None = None, root: int | None = None
) -> ProgramVerdict:
    """Judge the Chakra traces of a collective.

    What messages contain can be checked if sends and receives have the attributes `total_chunk_cnt` and `msg_chunk_idx` with
    `msg_chunk_cnt`, or `msg_chunk_list` (and reducing receives `is_rrc`), or, with partial sums, `place_list`; else only the
    structure is.

    Parameters
    ----------
    trace
        The traces of all ranks.
    collective_name
        Name in `COLLECTIVES`; by default it is inferred.
    topology
        A network. If it is given, a message between NPUs without a channel is a violation.
    root
        Root of a Broadcast, Reduce, Scatter or Gather; by default the rank that receives, or sends, the fewest messages.

    Raises
    ------
    ConfigError
        If the name is unknown, or chunk numbers are beyond reason.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, schedule_trace, synthesize, verify_trace
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> verify_trace(schedule_trace(schedule, "ring"), "all-gather", topology).violations
    ()
    """
    return examine_trace(trace, collective_name, topology, root).verdict


def verify_trace_of(
    trace: Trace, collectives: Sequence[Collective], shortest_bytes: int = 0, topology: Topology | None = None
) -> ProgramVerdict:
    """Judge the Chakra traces of collectives whose chunks are known and follow one another: values, and sizes of messages.

    Parameters
    ----------
    trace, topology
        As for `verify_trace`.
    collectives
        One or more, on as many NPUs.
    shortest_bytes
        Messages of fewer bytes may be as long as this.

    Raises
    ------
    ConfigError
        If chunk numbers are beyond reason.
    """
    program, violations = chakra_program(trace)
    name, num_npus = collectives[0].name, collectives[0].num_npus
    if program.num_ranks != num_npus:
        violations.append(Violation("rank-count", f"{program.num_ranks} ranks, expected {num_npus}"))
        return ProgramVerdict(name, program.num_ranks, program.num_messages, None, tuple(violations))
    order, violations = _judge_on(program, violations, topology)
    unchecked: str | None = _TOO_BROKEN if violations else "it does not name the chunks that it moves"
    if order is not None and program.buffers is not None:
        violations += check_parts(trace, program, order, collectives, shortest_bytes)
        unchecked = None
    return ProgramVerdict(name, program.num_ranks, program.num_messages, unchecked, tuple(violations))


def examine_trace(
    trace: Trace, collective_name: str | None = None, topology: Topology | None = None, root: int | None = None
) -> Examined:
    """As `verify_trace`, with the program and its order."""
    _check_name(collective_name)
    rate = _FASTEST_GIBPS if topology is None else float(topology.link_bandwidth_gibps.max())
    program, violations = chakra_program(trace, shortest_message(rate))
    order, violations = _judge_on(program, violations, topology)
    condition = None
    unchecked: str | None = _TOO_BROKEN if violations else "it does not name the chunks that it moves"
    if order is not None and program.buffers is not None:
        collective_wanted = collective_name
        collective_name, wrong, condition = check_trace_values(program, order, collective_name, root)
        unchecked = None
        if collective_wanted is None and any(violation.code == "chunk-count" for violation in wrong):
            # Nobody said what the traces are for, and parts of unequal sizes have any number of chunks.
            unchecked = f"{wrong[0].message}, or to be told what the traces are for"
            collective_name, wrong = None, []
        violations += wrong
    verdict = ProgramVerdict(collective_name, program.num_ranks, program.num_messages, unchecked, tuple(violations))
    return Examined(verdict, program, order, condition)


def verify_msccl_xml(path: str | Path, collective_name: str | None = None, topology: Topology | None = None) -> ProgramVerdict:
    """Judge an MSCCL XML program by the rules of MSCCL's parsers and by its result.

    Limits are those of msccl-executor-nccl and RCCL, or of the original MSCCL runtime if the file is in its dialect. A program
    for both in-place and out-of-place buffers is judged with both.

    Parameters
    ----------
    path
        The MSCCL XML file.
    collective_name
        Name in `COLLECTIVES`; by default the one in the file. It is required to check the result of a file that says `custom`.
    topology
        A network. If it is given, a message between NPUs without a channel is a violation.

    Raises
    ------
    ConfigError
        If the file is not well-formed MSCCL XML (the message names the place), or is too large for the oracle.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, export_schedule, synthesize
    >>> from astra_tacos import verify_msccl_xml
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> exported = export_schedule(schedule, "ring.xml", "msccl-xml")
    >>> verify_msccl_xml("ring.xml", "all-gather").violations
    ()
    """
    _check_name(collective_name)
    return examine_msccl_file(read_msccl_xml(Path(path)), collective_name, topology).verdict


def examine_msccl_file(file: MscclFile, collective_name: str | None = None, topology: Topology | None = None) -> Examined:
    """As `verify_msccl_xml`, of a file that has been read, with the program, its order and its layout."""
    violations = check_rules(file)
    if collective_name and file.coll == "custom":
        file = replace(file, collective=collective_name, untold="")
    elif collective_name and collective_name != file.collective:
        violations.append(Violation("wrong-collective", f"the file says {file.coll}, expected {collective_name}"))
    unchecked = file.untold or None
    first: tuple[Program, Order | None, Condition | None] | None = None
    for in_place in file.placements or (False,):
        layout = lay_out(file, in_place=in_place)
        program, faults = msccl_program(file, layout)
        order, faults = _judge_on(program, faults, topology)
        condition = None
        if order is None or program.buffers is None:
            unchecked = _TOO_BROKEN
        elif file.collective is not None:
            wrong, condition = check_values(file.collective, layout, program, order)
            faults += wrong
            faults += [] if condition is None else absent_buffers(file, layout, condition)
        violations += faults
        first = first or (program, order, condition)
    assert first is not None
    num_messages = first[0].num_messages
    verdict = ProgramVerdict(file.collective, file.num_npus, num_messages, unchecked, tuple(dict.fromkeys(violations)))
    return Examined(verdict, *first)


def verify_mscclpp_plan(path: str | Path, collective_name: str | None = None, topology: Topology | None = None) -> ProgramVerdict:
    """Judge an MSCCL++ execution plan by the executor's limits, the order that its signals give, and its result.

    A plan with packets, relaxed signals, ports or loops is not proven: `unchecked` names the first of them.

    Parameters
    ----------
    collective_name, topology
        As for `verify_msccl_xml`.

    Raises
    ------
    ConfigError
        If the file is not a well-formed plan (the message names the place), or is too large for the oracle.
    """
    _check_name(collective_name)
    return examine_plan_file(read_mscclpp_plan(Path(path)), collective_name, topology).verdict


def examine_plan_file(file: PlanFile, collective_name: str | None = None, topology: Topology | None = None) -> Examined:
    """As `verify_mscclpp_plan`, of a plan that has been read, with the program, its order and its layout."""
    violations: list[Violation] = []
    name, unchecked = file.collective, why_refused(file)
    if name is None:
        unchecked = f"the file does not say what {file.coll!r} has to compute"
    elif collective_name not in (None, name):
        violations.append(Violation("wrong-collective", f"the file says {file.coll}, expected {collective_name}"))
    if unchecked is not None:
        return Examined(ProgramVerdict(name, file.num_npus, None, unchecked, tuple(violations)))
    plan = plan_program(file)
    violations += plan.violations
    order, violations = _judge_on(plan.program, violations, topology)
    if order is None:
        return Examined(ProgramVerdict(name, file.num_npus, plan.program.num_messages, _TOO_BROKEN, tuple(violations)))
    violations += late_writes(plan, order)
    assert name is not None
    wrong, condition = check_values(name, plan.layout, plan.program, order)
    unique = tuple(dict.fromkeys(violations + wrong))
    verdict = ProgramVerdict(name, file.num_npus, plan.program.num_messages, None, unique)
    return Examined(verdict, plan.program, order, condition)


def _check_name(name: str | None) -> None:
    if name is not None and name not in COLLECTIVES:
        raise ConfigError(f"collective: found {name!r}, expected one of {', '.join(COLLECTIVES)}")


def _judge_on(program: Program, violations: list[Violation], topology: Topology | None) -> tuple[Order | None, list[Violation]]:
    """As `judge_order`, with violations that are known, and those for messages that the network has no channel for."""
    channels = [] if topology is None else _check_channels(program, topology)
    order, problems = judge_order(program)
    return order, violations + channels + problems


def _check_channels(program: Program, topology: Topology) -> list[Violation]:
    """Violations for messages between NPUs without a channel."""
    if program.num_ranks != topology.num_npus:
        message = f"{program.num_ranks} ranks, {topology.name} has {topology.num_npus} NPUs"
        return [Violation("rank-count", message)]
    sends = np.flatnonzero(program.action_kind == Action.SEND)
    src, dst = program.op_rank[program.action_op[sends]], program.action_peer[sends]
    absent = np.flatnonzero(topology.channel_of(src, dst) < 0)
    absent = absent[np.unique(program.action_op[sends[absent]], return_index=True)[1]]  # one of a message's chunks
    return [
        Violation(
            "no-channel",
            f"{program.describe(int(program.action_op[sends[at]]))}: {topology.name} has no channel {src[at]} -> {dst[at]}",
            npu=int(src[at]),
        )
        for at in absent
    ]


@dataclass(frozen=True, slots=True, eq=False)
class ProvenProgram:
    """A program that computes its collective at any timing.

    Parameters
    ----------
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
    # Without violations, every placement of the buffers computes the same; steps and messages do not differ.
    examined = examine_msccl_file(file, collective_name)
    return _proven(file.path, examined, least_bytes=file.least_bytes or None, most_bytes=file.most_bytes or None)


def prove_mscclpp_plan(path: str | Path, collective_name: str | None = None) -> ProvenProgram:
    """Prove an MSCCL++ execution plan.

    Parameters
    ----------
    collective_name
        As for `verify_mscclpp_plan`.

    Raises
    ------
    ConfigError
        If the file is not a well-formed plan.
    VerificationError
        If the oracle finds violations, or the plan has packets, relaxed signals, ports or loops.
    """
    file = read_mscclpp_plan(Path(path))
    sizes = file.least_bytes or None, file.most_bytes if 0 < file.most_bytes < _NO_LIMIT else None
    return _proven(path, examine_plan_file(file, collective_name), *sizes, why_no_schedule(file))


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
    examined = examine_trace(trace, collective_name, root=root)
    return _proven(prefix, examined, numbers_chunks=True)


def prove(path: str | Path, collective_name: str | None = None) -> ProvenProgram:
    """Prove the program of a file: an MSCCL++ plan (`.json`), an MSCCL XML (`.xml`), or traces with this prefix.

    Parameters
    ----------
    path, collective_name
        As for `prove_msccl_xml`, which says what is raised, too.
    """
    provers = {".json": prove_mscclpp_plan, ".xml": prove_msccl_xml}
    return provers.get(Path(path).suffix, prove_trace)(path, collective_name)


def _proven(
    path: str | Path,
    examined: Examined,
    least_bytes: int | None = None,
    most_bytes: int | None = None,
    why_no_schedule: str = "",
    numbers_chunks: bool = False,
) -> ProvenProgram:
    verdict, program, order, condition = examined.verdict, examined.program, examined.order, examined.condition
    if verdict.violations:
        many = f"{len(verdict.violations):,} violations, the first: " if len(verdict.violations) > 1 else ""
        raise VerificationError(f"{path}: {many}{verdict.violations[0]}")
    if verdict.unchecked is not None or verdict.collective is None:
        raise VerificationError(f"{path}: result not checked: {verdict.unchecked}, expected a program that can be proven")
    assert program is not None and order is not None and condition is not None
    before, after = dict(condition.before()), dict(condition.after())
    task = condition.collective, condition.root, condition.whole, condition.part
    limits = least_bytes, most_bytes, why_no_schedule
    return ProvenProgram(Path(path), program, order, *task, before, after, *limits, numbers_chunks)
