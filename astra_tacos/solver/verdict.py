"""Verdicts of the oracle on files: schedules, traces, programs and run directories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.network.topology import Topology
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
    from astra_tacos.verifier.scheduled_oracle import Rewriting
    from astra_tacos.verifier.violation import Violation

_FIGURES = ("time_ns", "predicted_ns", "bound_ns", "chunked_bound_ns", "efficiency", "optimal")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one file: its path, what it is, what is wrong, what was not checked."""

    path: str
    what: str
    violations: tuple[Violation, ...]
    unchecked: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    """Of a schedule: its time, its bounds, and how near it is to them."""
    rewriting: Rewriting | None = None
    """How much of a planned run is not as it was, where its nodes were made of those of the run before."""

    @property
    def proven(self) -> bool:
        """Whether the collective was checked and nothing violates it."""
        return not self.violations and self.unchecked is None

    def to_json(self) -> dict[str, Any]:
        """The entry of `checked`; violations are listed apart."""
        document = {"path": self.path, "what": self.what, "proven": self.proven, "unchecked": self.unchecked}
        rewritten = {} if self.rewriting is None else {"rewriting": self.rewriting.to_json()}
        return document | {"violations": len(self.violations), **self.figures, **rewritten}

    def listed(self) -> list[dict[str, Any]]:
        """Each violation as an object."""
        fields = ("code", "message", "send", "npu", "chunk", "time_ns")
        return [{"path": self.path} | {field: getattr(violation, field) for field in fields} for violation in self.violations]

    @property
    def outcome(self) -> str:
        """`ok`, `3 violations` or `not proven`."""
        if self.violations:
            return f"{len(self.violations)} violation{'' if len(self.violations) == 1 else 's'}"
        return "ok" if self.proven else "not proven"


def verify_directory(directory: Path, topology: Topology | None, collective: str | None) -> list[Verdict]:
    """Verdicts on everything in a run directory: its schedule, its traces and its programs.

    Parameters
    ----------
    topology, collective
        What the programs have to run on and compute; None for those of the schedule.
    """
    from astra_tacos.schedule.storage import load_schedule

    schedule = load_schedule(directory / "schedule.npz")
    topology, collective = topology or schedule.topology, collective or schedule.collective.name
    root = schedule.collective.root
    unequal = schedule.collective if schedule.collective.part_bytes is not None else None
    prefixes = sorted(path.with_name(path.name.removesuffix(".0.et")) for path in (directory / "collective").glob("*.0.et"))
    traces = [verify_program(prefix, topology, collective, root, unequal) for prefix in prefixes]
    xmls = [verify_program(path, topology, collective, root) for path in sorted(directory.glob("*.xml"))]
    return [_verify_schedule(directory / "schedule.npz", schedule, collective), *traces, *xmls]


def verify_program(
    path: Path, topology: Topology | None, collective: str | None, root: int | None = None, unequal: Collective | None = None
) -> Verdict:
    """The verdict on an MSCCL XML (.xml), an MSCCL++ plan (.json), or traces of a collective (their prefix).

    Traces alone do not tell whether parts have sizes of their own: `unequal` is the collective if they have.
    """
    from astra_tacos.run.trace.reader import read_trace
    from astra_tacos.verifier.program import verify_msccl_xml, verify_mscclpp_plan, verify_trace, verify_trace_of
    from astra_tacos.verifier.trace_conditions import shortest_message

    if path.suffix == ".xml":
        verdict = verify_msccl_xml(path, collective, topology)
    elif path.suffix == ".json":
        verdict = verify_mscclpp_plan(path, collective, topology)
    elif unequal is not None:
        fastest = 0.0 if topology is None else float(topology.link_bandwidth_gibps.max())
        verdict = verify_trace_of(read_trace(path), (unequal,), shortest_message(fastest), topology)
    else:
        verdict = verify_trace(read_trace(path), collective, topology, root)
    summary = f"{verdict.collective or 'no known collective'} on {verdict.num_ranks} NPUs"
    if verdict.num_messages is not None:
        summary += f", {verdict.num_messages:,} messages"
    return Verdict(str(path), summary, verdict.violations, verdict.unchecked)


def verify_schedule_file(path: Path, collective: str | None) -> Verdict:
    """The verdict on a schedule, with its times if nothing is wrong; None for the collective that it says."""
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, load_any_schedule
    from astra_tacos.verifier.symmetric_oracle import verify_symmetric

    schedule = load_any_schedule(path)
    if not isinstance(schedule, SymmetricSchedule):
        return _verify_schedule(path, schedule, collective)
    task = schedule.task
    sends = f"{schedule.num_sends:,} sends, {schedule.num_rows:,} of them of NPU 0's chunks"
    verdict = Verdict(str(path), f"{task.collective} on {task.num_npus:,} NPUs, {sends}", verify_symmetric(schedule))
    return _of_schedule(verdict, schedule, task.collective, collective)


def _verify_schedule(path: Path, schedule: Schedule, collective: str | None) -> Verdict:
    from astra_tacos.verifier.schedule_oracle import verify

    own_collective = schedule.collective
    summary = f"{own_collective.name} on {own_collective.num_members} NPUs, {schedule.num_sends:,} sends"
    return _of_schedule(Verdict(str(path), summary, verify(schedule)), schedule, own_collective.name, collective)


def _of_schedule(verdict: Verdict, schedule: Schedule | SymmetricSchedule, name: str, expected: str | None) -> Verdict:
    """The verdict, also on the collective that is expected, and with figures of its certificate if nothing is wrong."""
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.verifier.violation import Violation

    if expected not in (None, name):
        wrong = Violation("wrong-collective", f"is of {name}, expected {expected}")
        return replace(verdict, violations=(wrong, *verdict.violations))
    if verdict.violations:
        return verdict
    certificate = certify(schedule)
    return replace(verdict, figures={name: certificate[name] for name in _FIGURES})
