"""`astra-tacos verify`: checks a schedule, traces or an MSCCL program with the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.command import command
from astra_tacos.cli.console import compile_ahead, echo, print_json, progress
from astra_tacos.cli.inputs import Kind, identify, trace_prefixes
from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.options import json_option, network_option
from astra_tacos.collective import COLLECTIVES
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, PROGRAMS, READING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from astra_tacos.collective.collective import Collective
    from astra_tacos.network.topology import Topology
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.verifier.violation import Violation

_SHOWN = 20
_FIGURES = ("predicted_ns", "bound_ns", "chunked_bound_ns", "efficiency", "optimal")
_KERNELS = {
    Kind.RUN_DIRECTORY: (*READING, *PROGRAMS, *CHECKING, *CERTIFYING),
    Kind.SCHEDULE: (*CHECKING, *CERTIFYING),
    Kind.MSCCL_XML: PROGRAMS,
    Kind.MSCCLPP_PLAN: PROGRAMS,
    Kind.TRACE: (*READING, *PROGRAMS),
    Kind.PLANNED_RUN: (*READING, *PROGRAMS),
}


@command()
@click.argument("path", type=click.Path(path_type=Path))
@network_option
@click.option(
    "--collective",
    type=click.Choice(list(COLLECTIVES)),
    help="Collective that a trace or XML has to compute; by default inferred from it.",
)
@click.option(
    "--before",
    type=click.Path(path_type=Path),
    metavar="PREFIX",
    help="Workload that a planned run was made of: it has to have the same compute, messages and collectives.",
)
@json_option
def verify(path: Path, network_path: Path | None, collective: str | None, before: Path | None, as_json: bool) -> None:
    """Check that PATH is legal and computes its collective.

    PATH is a run directory (everything in it is checked), a schedule (.npz), an MSCCL XML, an MSCCL++ plan (.json), the prefix of
    a custom collective's traces, or a planned run (all its collectives are checked). With --network, messages must have a channel
    between their NPUs. Exit code 0 means that PATH is proven correct; 1 that there are violations, or that its result could not
    be checked.
    """
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.report.table import describe_efficiency
    from astra_tacos.support.units import format_time

    topology = build_topology(read_network(network_path)) if network_path else None
    kind, target = identify(path)
    if kind in (Kind.SCHEDULE, Kind.SYMMETRIC) and topology is not None:
        raise click.UsageError("--network is for traces and XML: a schedule has its own network.")
    if kind is Kind.PLANNED_RUN and (network_path is not None or collective is not None):
        raise click.UsageError("--network and --collective are for traces and XML: a planned run names its own.")
    if kind is not Kind.PLANNED_RUN and before is not None:
        raise click.UsageError("--before is for planned runs.")
    compile_ahead(*_KERNELS.get(kind, ()))
    with progress("verifying"):
        if kind is Kind.RUN_DIRECTORY:
            verdicts = _verify_run(target, topology, collective)
        elif kind is Kind.PLANNED_RUN:
            verdicts = [_verify_planned(target, before)]
        else:
            verdicts = [_verify_one(kind, target, topology, collective)]
    proven = all(verdict.proven for verdict in verdicts)
    if as_json:
        print_json(
            {
                "ok": proven,
                "checked": [
                    {
                        "path": verdict.path,
                        "what": verdict.what,
                        "proven": verdict.proven,
                        "unchecked": verdict.unchecked,
                        "violations": len(verdict.violations),
                        **verdict.figures,
                    }
                    for verdict in verdicts
                ],
                "violations": [
                    {"path": verdict.path, **_as_dict(violation)} for verdict in verdicts for violation in verdict.violations
                ],
            }
        )
    else:
        for verdict in verdicts:
            echo(f"{verdict.path}: {verdict.outcome}: {verdict.what}")
            if verdict.figures:
                time, bound = (format_time(verdict.figures[name]) for name in ("predicted_ns", "bound_ns"))
                echo(f"  predicted time {time}, bound (any algorithm) {bound}: {describe_efficiency(verdict.figures)}")
            if verdict.unchecked is not None:
                echo(f"  result not checked: {verdict.unchecked}")
            for violation in verdict.violations[:_SHOWN]:
                echo(f"  {violation}")
            if len(verdict.violations) > _SHOWN:
                echo(f"  ... and {len(verdict.violations) - _SHOWN} more (--json lists all)")
    if not proven:
        raise click.exceptions.Exit(CHECK_FAILED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one file: its path, what it is, what is wrong, what was not checked."""

    path: str
    what: str
    violations: tuple[Violation, ...]
    unchecked: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    """Of a schedule: its time, its bounds, and how near it is to them."""

    @property
    def proven(self) -> bool:
        """Whether the collective was checked and nothing violates it."""
        return not self.violations and self.unchecked is None

    @property
    def outcome(self) -> str:
        """`ok`, `3 violations` or `not proven`."""
        if self.violations:
            return f"{len(self.violations)} violation{'' if len(self.violations) == 1 else 's'}"
        return "ok" if self.proven else "not proven"


def _verify_run(directory: Path, topology: Topology | None, collective: str | None) -> list[Verdict]:
    from astra_tacos.schedule.storage import load_schedule

    schedule = load_schedule(directory / "schedule.npz")
    topology, collective = topology or schedule.topology, collective or schedule.collective.name
    root = schedule.collective.root
    unequal = schedule.collective if schedule.collective.part_bytes is not None else None
    targets = [(Kind.TRACE, prefix) for prefix in trace_prefixes(directory)]
    targets += [(Kind.MSCCL_XML, xml) for xml in sorted(directory.glob("*.xml"))]
    programs = [
        _verify_parts(target, topology, unequal)
        if unequal is not None and kind is Kind.TRACE
        else _verify_one(kind, target, topology, collective, root)
        for kind, target in targets
    ]
    return [_verify_schedule(directory / "schedule.npz", schedule, collective), *programs]


def _verify_parts(prefix: Path, topology: Topology, collective: Collective) -> Verdict:
    """Traces of a collective whose parts have sizes of their own, which traces alone do not tell."""
    from astra_tacos.run.trace.reader import read_trace
    from astra_tacos.verifier.program import verify_trace_of

    verdict = verify_trace_of(read_trace(prefix), collective, topology)
    what = f"{collective.name} on {verdict.num_ranks} NPUs, {verdict.num_messages:,} messages"
    return Verdict(str(prefix), what, verdict.violations, verdict.unchecked)


def _verify_planned(directory: Path, before: Path | None) -> Verdict:
    from astra_tacos.run.chunks import read_trace_parts
    from astra_tacos.run.run import read_run
    from astra_tacos.support.temporaries import scratch_directory
    from astra_tacos.verifier.run_oracle import verify_run

    plan = directory / "plan.json"
    npu_of_rank = None if before is None else _placement_of(plan)
    parts = read_trace_parts(plan)
    prefixes = sorted({path.name[: -len(".0.et")] for path in (directory / "workload").glob("*.0.et")})
    if len(prefixes) != 1:
        raise ConfigError(f"{directory / 'workload'}: found {len(prefixes)} workloads, expected one")
    groups = directory / "comm_group.json"
    files = directory / "system.json", directory / "network.yml", groups if groups.is_file() else None
    after = read_run(directory / "workload" / prefixes[0], *files, None, directory)
    with scratch_directory() as scratch:
        if before is not None and npu_of_rank is not None:
            before = _renumbered(before, npu_of_rank.tolist(), scratch)
        original = None if before is None else read_run(before, *files, None, directory)
        verdict = verify_run(after, parts, original, npu_of_rank=npu_of_rank)
    what = f"a planned run of {verdict.num_collectives:,} collective nodes"
    what += f" ({verdict.num_native:,} native)" if verdict.num_native else ""
    what += f", {verdict.num_traces:,} traces, {verdict.num_messages:,} messages"
    return Verdict(str(directory), what, verdict.violations, "; ".join(verdict.unchecked) or None)


def _placement_of(plan: Path) -> NDArray[np.int64] | None:
    """Where `plan --place` put the ranks of the run before, by its plan.json; None if they stay where they were.

    Raises
    ------
    ConfigError
        If the plan is of a scheduled run, whose nodes are others, or the placement is none.
    """
    import numpy as np

    from astra_tacos.support.text_files import read_json_object

    found = read_json_object(plan)
    schedule, placement = found.get("schedule"), found.get("placement")
    if isinstance(schedule, dict) and schedule.get("policies") != "as-is" and not schedule.get("kept_as_is"):
        raise ConfigError(
            f"{plan}: scheduled ({schedule.get('policies')}), so its nodes are made of pieces of those before, which --before "
            "does not follow: verify it without --before"
        )
    if placement is None:
        return None
    ranks = placement.get("npu_of_rank") if isinstance(placement, dict) else None
    if not isinstance(ranks, list) or any(type(rank) is not int for rank in ranks) or sorted(ranks) != list(range(len(ranks))):
        raise ConfigError(f"{plan}: placement: found no 'npu_of_rank' that names each NPU once: plan the run again")
    return np.array(ranks, np.int64)


def _renumbered(before: Path, npu_of_rank: list[int], folder: Path) -> Path:
    """The prefix of the traces of a run under the numbers of the NPUs where its ranks are."""
    for rank, npu in enumerate(npu_of_rank):
        path = Path(f"{before}.{rank}.et")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file, expected traces of the {len(npu_of_rank)} ranks that were placed")
        (folder / f"{before.name}.{npu}.et").symlink_to(path.resolve())
    return folder / before.name


def _verify_one(kind: Kind, path: Path, topology: Topology | None, collective: str | None, root: int | None = None) -> Verdict:
    if kind is Kind.SCHEDULE:
        from astra_tacos.schedule.storage import load_schedule

        return _verify_schedule(path, load_schedule(path), collective)
    if kind is Kind.SYMMETRIC:
        return _verify_symmetric(path, collective)
    if kind is Kind.TRACE:
        from astra_tacos.run.trace.reader import read_trace
        from astra_tacos.verifier.program import verify_trace

        verdict = verify_trace(read_trace(path), collective, topology, root)
    elif kind is Kind.MSCCL_XML:
        from astra_tacos.verifier.program import verify_msccl_xml

        verdict = verify_msccl_xml(path, collective, topology)
    elif kind is Kind.MSCCLPP_PLAN:
        from astra_tacos.verifier.program import verify_mscclpp_plan

        verdict = verify_mscclpp_plan(path, collective, topology)
    else:
        raise ConfigError(f"{path}: a {kind}, expected a run directory, schedule, MSCCL XML, MSCCL++ plan or trace prefix")
    what = f"{verdict.collective or 'no known collective'} on {verdict.num_ranks} NPUs, {verdict.num_messages:,} messages"
    return Verdict(str(path), what, verdict.violations, verdict.unchecked)


def _verify_schedule(path: Path, schedule: Schedule, collective: str | None) -> Verdict:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.verifier.schedule_oracle import verify as verify_schedule
    from astra_tacos.verifier.violation import Violation

    what = f"{schedule.collective.name} on {schedule.collective.num_members} NPUs, {schedule.num_sends:,} sends"
    violations = verify_schedule(schedule)
    if collective not in (None, schedule.collective.name):
        text = f"is of {schedule.collective.name}, expected {collective}"
        violations = (Violation("wrong-collective", text), *violations)
    if violations:
        return Verdict(str(path), what, violations)
    certificate = certify(schedule)
    return Verdict(str(path), what, (), None, {name: certificate[name] for name in _FIGURES})


def _verify_symmetric(path: Path, collective: str | None) -> Verdict:
    from astra_tacos.bounds.symmetric import certify_symmetric
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule
    from astra_tacos.verifier.symmetric_oracle import verify_symmetric
    from astra_tacos.verifier.violation import Violation

    schedule = load_symmetric_schedule(path)
    task = schedule.task
    sends = f"{schedule.num_sends:,} sends, {schedule.num_rows:,} of them of NPU 0's chunks"
    what = f"{task.collective} on {task.num_npus:,} NPUs, {sends}"
    violations = verify_symmetric(schedule)
    if collective not in (None, task.collective):
        violations = (Violation("wrong-collective", f"is of {task.collective}, expected {collective}"), *violations)
    if violations:
        return Verdict(str(path), what, violations)
    certificate = certify_symmetric(schedule)
    return Verdict(str(path), what, (), None, {name: certificate[name] for name in _FIGURES})


def _as_dict(violation: Violation) -> dict[str, Any]:
    fields = ("code", "message", "send", "npu", "chunk", "time_ns")
    return {field: getattr(violation, field) for field in fields}
