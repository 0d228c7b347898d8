"""`astra-tacos inspect`: a summary of any file that this package reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, print_json, print_rows, print_table
from astra_tacos.cli.shared.inputs import Kind, identify
from astra_tacos.cli.shared.options import json_option
from astra_tacos.solver.first_use import INSPECTING

_LISTED = 16


@command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Show the content of PATH: a network, trace (file or prefix), schedule, MSCCL XML, MSCCL++ plan or run directory.

    Also a trace of PyTorch, as JSON, compressed, or in an archive: collectives, time of computation, critical path.
    """
    from astra_tacos.solver.summary import summarise_network, summarise_plan, summarise_xml

    kind, target = identify(path)
    if kind is Kind.NETWORK:
        result = summarise_network(target)
    elif kind is Kind.TRACE:
        result = _trace(target)
    elif kind is Kind.MSCCL_XML:
        result = summarise_xml(target)
    elif kind is Kind.MSCCLPP_PLAN:
        result = summarise_plan(target)
    elif kind is Kind.SYMMETRIC:
        result = _symmetric(target)
    elif kind is Kind.PYTORCH:
        result = _pytorch(target)
    else:
        result = _schedule(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
    result = {"path": str(path), "kind": str(kind), **result}
    if as_json:
        print_json(result)
        return
    collectives = result.pop("collectives", [])
    print_rows((key.replace("_", " "), _text(value)) for key, value in result.items())
    if collectives:
        from astra_tacos.report.trace_summary import COLLECTIVES_HEADER, collective_rows

        title, rows = collective_rows(collectives)
        print_table(title, COLLECTIVES_HEADER, rows)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        more = [f"and {len(value) - _LISTED:,} more"] if len(value) > _LISTED else []
        return "; ".join([*map(_text, value[:_LISTED]), *more]) if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value)


def _trace(prefix: Path) -> dict[str, Any]:
    from astra_tacos.report.trace_summary import summarise_trace
    from astra_tacos.run.trace.reader import read_trace

    compile_ahead(*INSPECTING)
    return summarise_trace(read_trace(prefix, workload=True))


def _pytorch(path: Path) -> dict[str, Any]:
    from astra_tacos.workload.importer.summary import summarise_files

    return summarise_files((path,))


def _schedule(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.storage import load_schedule

    schedule = load_schedule(path)
    check_rows(schedule)
    return certify(schedule)


def _symmetric(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.symmetric import certify_symmetric
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule

    return certify_symmetric(load_symmetric_schedule(path))
