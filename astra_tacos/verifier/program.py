"""The oracle for programs: does a Chakra trace or an MSCCL XML compute its collective, whatever the timing?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_tacos.errors import ConfigError
from astra_tacos.topology.topology import Topology
from astra_tacos.trace.trace import Trace
from astra_tacos.verifier.chakra_program import chakra_program
from astra_tacos.verifier.msccl_file import read_msccl_xml
from astra_tacos.verifier.msccl_program import msccl_program
from astra_tacos.verifier.msccl_rules import check_rules
from astra_tacos.verifier.program_form import Action, Program
from astra_tacos.verifier.program_order import check_alike, check_races, find_order
from astra_tacos.verifier.program_values import KNOWN_COLLECTIVES, check_values
from astra_tacos.verifier.violation import Violation


@dataclass(frozen=True, slots=True)
class ProgramVerdict:
    """What the oracle found.

    Parameters
    ----------
    collective
        What the program was judged as: the given name, the one in the file, or what it computes or comes closest to; None if
        it could only be checked structurally and nothing says.
    num_ranks, num_messages
        Members, and sends that have their receive.
    semantic
        Whether the contents of chunks were checked, not only the structure. False if the program does not say which chunks it
        moves, computes a collective that the oracle does not know, or is too broken to be followed.
    violations
        Everything that is wrong.
    """

    collective: str | None
    num_ranks: int
    num_messages: int
    semantic: bool
    violations: tuple[Violation, ...]


def verify_trace(
    trace: Trace, collective_name: str | None = None, topology: Topology | None = None, root: int | None = None
) -> ProgramVerdict:
    """Judge the Chakra traces of a collective.

    What messages contain can be checked if sends and receives have the attributes `msg_chunk_idx`, `msg_chunk_cnt` and
    `total_chunk_cnt` (and reducing receives `is_rrc`); else only the structure is.

    Parameters
    ----------
    collective_name
        Name in `COLLECTIVES`; by default it is inferred.
    topology
        If given, each message needs a channel there.
    root
        Of a Broadcast, Reduce, Scatter or Gather; by default the rank that receives least, or sends least.

    Raises
    ------
    ConfigError
        If the name is unknown, or chunk numbers are beyond reason.
    """
    _check_name(collective_name)
    program, violations = chakra_program(trace)
    return _judge(program, violations, collective_name, topology, root)


def verify_msccl_xml(path: str | Path, collective_name: str | None = None, topology: Topology | None = None) -> ProgramVerdict:
    """Judge an MSCCL XML program by the rules of the parsers and by what it computes.

    Limits are those of msccl-executor-nccl and RCCL, or of the original MSCCL runtime if the file is in its dialect. A program
    for both in-place and out-of-place buffers is judged with both.

    Parameters
    ----------
    collective_name
        Name in `COLLECTIVES`; by default what the file says.
    topology
        If given, each message needs a channel there.

    Raises
    ------
    ConfigError
        If the file is no well-formed MSCCL XML; with the place in it.
    """
    _check_name(collective_name)
    file = read_msccl_xml(Path(path))
    violations = check_rules(file)
    if collective_name and collective_name != file.collective and collective_name.replace("-", "") != file.coll:
        violations.append(Violation("wrong-collective", f"the file says {file.coll}, expected {collective_name}"))
    name = collective_name or (file.collective if file.collective in KNOWN_COLLECTIVES else None)
    verdicts = []
    for in_place in file.placements:
        program, faults = msccl_program(file, in_place=in_place)
        verdicts.append(_judge(program, faults, name, topology))
    every = dict.fromkeys((*violations, *(violation for verdict in verdicts for violation in verdict.violations)))
    first = verdicts[0]
    semantic = all(verdict.semantic for verdict in verdicts)
    return ProgramVerdict(name or file.collective, first.num_ranks, first.num_messages, semantic, tuple(every))


def _check_name(name: str | None) -> None:
    if name is not None and name not in KNOWN_COLLECTIVES:
        raise ConfigError(f"collective: found {name!r}, expected one of {', '.join(KNOWN_COLLECTIVES)}")


def _judge(
    program: Program, violations: list[Violation], name: str | None, topology: Topology | None, root: int | None = None
) -> ProgramVerdict:
    if topology is not None:
        violations = violations + _check_channels(program, topology)
    order, deadlocks = find_order(program)
    violations = violations + deadlocks
    semantic = program.buffers is not None and order is not None
    if order is not None:
        violations += check_alike(program, order) + check_races(program, order)
    if order is not None and program.buffers is not None:
        name, wrong = check_values(program, order, name, root)
        violations += wrong
    return ProgramVerdict(name, program.num_ranks, len(program.message_send), semantic, tuple(violations))


def _check_channels(program: Program, topology: Topology) -> list[Violation]:
    """Violations for messages between NPUs without a channel."""
    if program.num_ranks != topology.num_npus:
        message = f"{program.num_ranks} ranks, {topology.name} has {topology.num_npus} NPUs"
        return [Violation("rank-count", message)]
    sends = np.flatnonzero(program.action_kind == Action.SEND)
    src, dst = program.op_rank[program.action_op[sends]], program.action_peer[sends]
    absent = np.flatnonzero(topology.channel_of(src, dst) < 0)
    return [
        Violation(
            "no-channel",
            f"{program.describe(int(program.action_op[sends[at]]))}: {topology.name} has no channel {src[at]} -> {dst[at]}",
            npu=int(src[at]),
        )
        for at in absent
    ]
