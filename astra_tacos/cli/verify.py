"""`astra-tacos verify`: checks a schedule, traces or an MSCCL program with the oracle."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, TypedDict

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_json, progress
from astra_tacos.cli.shared.options import PATH, json_option, network_option
from astra_tacos.collective import COLLECTIVES
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, PROGRAMS, READING
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.path_kind import Kind, identify

_SHOWN = 4
"""Violations that are printed."""
_KERNELS = {
    Kind.RUN_DIRECTORY: (*READING, *PROGRAMS, *CHECKING, *CERTIFYING),
    Kind.SCHEDULE: (*CHECKING, *CERTIFYING),
    Kind.MSCCL_XML: PROGRAMS,
    Kind.MSCCLPP_PLAN: PROGRAMS,
    Kind.TRACE: (*READING, *PROGRAMS),
    Kind.PLANNED_RUN: (*READING, *PROGRAMS),
    Kind.RUN: (*READING, *PROGRAMS),
}


class _Made(TypedDict, total=False):
    """What a `plan.json` is about: traces of collectives, or the division of NPUs."""

    traces: dict[str, Any]
    endpoint: dict[str, Any]


@command()
@click.argument("path", type=PATH)
@network_option
@click.option(
    "--collective",
    type=click.Choice(list(COLLECTIVES)),
    help="Collective that the trace or XML must compute; by default inferred from the trace or XML.",
)
@click.option(
    "--before",
    type=PATH,
    metavar="DIR|PREFIX",
    help="Run before planning: PATH must have the same compute, messages and collectives.",
)
@json_option
def verify(path: Path, network_path: Path | None, collective: str | None, before: Path | None, as_json: bool) -> None:
    """Check that PATH is legal and computes its collective.

    PATH is a run directory (everything in it is checked), a schedule (.npz), an MSCCL XML, an MSCCL++ plan (.json), the prefix of
    a custom collective's traces, or a run (all its synthesized collectives are checked). With --network, messages must have a
    channel between their NPUs. Exit code 0 means that PATH is proven correct; 1 that there are violations, or that its result
    could not be checked.
    """
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.pages.table import describe_efficiency
    from astra_tacos.solver.planned_verdict import is_placed, verify_planned
    from astra_tacos.solver.verdict import verify_directory, verify_program, verify_schedule_file
    from astra_tacos.support.own_files import read_own
    from astra_tacos.support.units import format_time

    topology = build_topology(read_network(network_path)) if network_path else None
    kind, target = identify(path)
    if kind is Kind.PLANNED_RUN and read_own(target / "plan.json", _Made, "plan --output").keys() == {"endpoint"}:
        kind = Kind.RUN  # its NPUs were divided, and no collective was made
    if kind is Kind.RUN and before is not None and is_placed(target):
        kind = Kind.PLANNED_RUN
    if kind in (Kind.SCHEDULE, Kind.SYMMETRIC) and topology is not None:
        raise click.UsageError("--network is for traces and XML: a schedule has its own network.")
    if kind is Kind.PLANNED_RUN and (network_path is not None or collective is not None):
        raise click.UsageError("--network and --collective are for traces and XML: a planned run names its own.")
    if kind is not Kind.PLANNED_RUN and before is not None:
        raise click.UsageError("--before is for planned runs.")
    compile_ahead(*_KERNELS.get(kind, ()))
    with progress("verifying"):
        if kind is Kind.RUN_DIRECTORY:
            verdicts = verify_directory(target, topology, collective)
        elif kind is Kind.PLANNED_RUN:
            verdicts = [verify_planned(target, before)]
        elif kind in (Kind.SCHEDULE, Kind.SYMMETRIC):
            verdicts = [verify_schedule_file(target, collective)]
        elif kind in (Kind.RUN, Kind.COMPACT_RUN):
            raise ConfigError(
                f"{path}: a {kind} says no collective to prove: `astra-tacos lint {shlex.quote(str(path))}` checks its files"
            )
        elif kind in (Kind.TRACE, Kind.MSCCL_XML, Kind.MSCCLPP_PLAN):
            verdicts = [verify_program(target, topology, collective)]
        else:
            raise ConfigError(f"{path}: a {kind}, expected a run directory, schedule, MSCCL XML, MSCCL++ plan or trace prefix")
    proven = all(verdict.proven for verdict in verdicts)
    if as_json:
        violations = [violation for verdict in verdicts for violation in verdict.listed()]
        print_json({"ok": proven, "checked": [verdict.to_json() for verdict in verdicts], "violations": violations})
    else:
        for verdict in verdicts:
            echo(f"{verdict.path}: {verdict.outcome}: {verdict.what}")
            if verdict.figures:
                time, bound = (format_time(verdict.figures[name]) for name in ("time_ns", "bound_ns"))
                echo(f"  time {time}, bound (any algorithm) {bound}: {describe_efficiency(verdict.figures)}")
            if verdict.unchecked is not None:
                echo(f"  result not checked: {verdict.unchecked}")
            for line in () if verdict.rewriting is None else verdict.rewriting.lines():
                echo(f"  {line}")
            for violation in verdict.violations[:_SHOWN]:
                echo(f"  {violation}")
            if len(verdict.violations) > _SHOWN:
                echo(f"  ... and {len(verdict.violations) - _SHOWN} more (--json lists all)")
    if not proven:
        raise click.exceptions.Exit(CHECK_FAILED)
