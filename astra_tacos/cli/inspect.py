"""`astra-tacos inspect`: a summary of any file that this package reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command, typed_command
from astra_tacos.cli.shared.console import compile_ahead, print_json, print_result
from astra_tacos.cli.shared.options import PATH, json_option, verbose_option
from astra_tacos.solver.first_use import INSPECTING
from astra_tacos.support.rows import Answer, Importance, Row, Table, detail
from astra_tacos.workload.path_kind import Kind, identify

_LISTED, _FEW = 16, 3
"""Entries of a list that are shown, with --verbose and without."""
_DETAILS = (
    "switch_ids",
    "forwarding_ids",
    "channels",
    "dialect",
    "protocol",
    "copies",
    "dependencies",
    "size_of_file",
    "nodes_per_rank",
    "message_bytes",
    "has_times",
)
"""What only --verbose shows."""
_NOTHING: tuple[Any, ...] = ([], {}, None)


@command()
@click.argument("path", type=PATH)
@verbose_option
@json_option
def inspect(path: Path, verbose: bool, as_json: bool) -> None:
    """Show the content of PATH: a run's or schedule's directory, network, trace (file or prefix), schedule, MSCCL XML or plan.

    Also a trace of PyTorch, as JSON, compressed, or in an archive: collectives, time of computation, critical path.
    """
    from astra_tacos.run.compact_run import count_ranks
    from astra_tacos.run.run import CLASSES
    from astra_tacos.solver.summary import summarise_network, summarise_plan, summarise_xml

    kind, target = identify(path)
    summaries = {
        Kind.NETWORK: summarise_network,
        Kind.TRACE: _trace,
        Kind.MSCCL_XML: summarise_xml,
        Kind.MSCCLPP_PLAN: summarise_plan,
        Kind.SYMMETRIC: _symmetric,
        Kind.PYTORCH: _pytorch,
        Kind.SCHEDULE: _schedule,
        Kind.RUN_DIRECTORY: _schedule,
    }
    if kind is Kind.COMPACT_RUN:
        result = _trace(target / CLASSES)
        result = {"ranks": count_ranks(target), "classes": result.pop("ranks")} | result
        result |= _surroundings(target)
    elif kind in (Kind.RUN, Kind.PLANNED_RUN):
        result = _run(target)
    else:
        result = summaries[kind](target)
    if as_json:
        print_json({"path": str(path), "kind": str(kind), **result})
        return
    collectives = result.pop("collectives", [])
    if "time_ns" in result:
        from astra_tacos.pages.table import Certificate

        certificate = Certificate(result)
        title = f"{path}, {kind}: {certificate.title()}"
        rows = [row for row in certificate.rows() if row.importance is Importance.ANSWER]
    else:
        title = f"{path}: {kind}"
        brief = {key: value for key, value in result.items() if key not in _DETAILS and value not in _NOTHING}
        rows = [Row(key.replace("_", " "), note=_text(value, _FEW)) for key, value in brief.items()]
    rows += [detail(key.replace("_", " "), _text(value, _LISTED)) for key, value in result.items()]
    print_result(Answer(title, rows, _tables(collectives)), verbose=verbose)


def _tables(collectives: list[dict[str, Any]]) -> list[Table]:
    """The collectives of a trace, all that are listed and few."""
    from astra_tacos.pages.trace_summary import COLLECTIVES_HEADER, collective_rows

    if not collectives:
        return []
    (title, few), (full_title, listed) = (collective_rows(collectives, most) for most in (_FEW, _LISTED))
    left = ("pattern",)
    short = Table(title, COLLECTIVES_HEADER, few, left=left)
    return [Table(full_title, COLLECTIVES_HEADER, listed, Importance.DETAIL, left, short=short)]


def _text(value: Any, most: int) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(entry, most)}" for name, entry in value.items())
    if isinstance(value, list):
        more = [f"and {len(value) - most:,} more"] if len(value) > most else []
        return "; ".join([*(_text(entry, most) for entry in value[:most]), *more]) if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value)


def _trace(prefix: Path) -> dict[str, Any]:
    from astra_tacos.pages.trace_summary import summarise_trace
    from astra_tacos.run.trace.reader import read_trace

    compile_ahead(*INSPECTING)
    return summarise_trace(read_trace(prefix, workload=True))


def _run(directory: Path) -> dict[str, Any]:
    """The traces of an ordinary or planned run, and what else is in its directory."""
    from astra_tacos.run.directory import Given, find_files

    files = find_files(directory, typed_command(), Given())
    assert files.workload is not None  # find_files
    return {"workload": files.workload.name} | _trace(files.workload) | _surroundings(directory)


def _surroundings(directory: Path) -> dict[str, Any]:
    """The network of the directory of a run, and whether it was planned."""
    from astra_tacos.network.network_files import NETWORK
    from astra_tacos.solver.summary import summarise_network

    network = directory / NETWORK
    kept = ("topology", "num_npus")
    network_figures = (
        {name: value for name, value in summarise_network(network).items() if name in kept} if network.is_file() else {}
    )
    return {"network": network_figures or "none (--network of other commands)", "planned": (directory / "plan.json").is_file()}


def _pytorch(path: Path) -> dict[str, Any]:
    from astra_tacos.workload.importer.summary import summarise_files

    return summarise_files((path,))


def _schedule(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.schedule.storage import load_schedule
    from astra_tacos.verifier.schedule_oracle import check

    schedule = load_schedule(path / "schedule.npz" if path.is_dir() else path)
    check(schedule)
    return certify(schedule)


def _symmetric(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    schedule = load_symmetric_schedule(path)
    check_symmetric(schedule)
    return certify(schedule)
