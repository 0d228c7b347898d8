"""`astra-tacos repair`: a run that ASTRA-sim does not finish, mended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.console import compile_ahead, echo, print_json, print_rows, progress, show, styled
from astra_tacos.cli.options import OptionalFiles, backend_option, json_option, optional_files
from astra_tacos.solver.first_use import REPAIRING

if TYPE_CHECKING:
    from astra_tacos.repairer.repair import RepairResult
    from astra_tacos.run.backend import Backend

_SHOWN_NOTES = 2
_HEADER = ("step", "changes", "where", "what", "why")


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print all steps, and end."""
    if not wanted or context.resilient_parsing:
        return
    from astra_tacos.repairer.steps import STEPS

    width = max(len(step.name) for step in STEPS)
    for step in STEPS:
        echo(f"{step.name:<{width}}  {step.summary} ({', '.join(step.codes)})")
    context.exit()


@click.command()
@click.option(
    "--workload",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PREFIX",
    help="Prefix of the workload's traces: PREFIX.0.et, ...",
)
@optional_files
@click.option("--output", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Write the mended run here.")
@click.option("--ranks", type=click.IntRange(2), help="Replicate the trace of a single rank over so many data-parallel ranks.")
@click.option("--without", multiple=True, metavar="STEP", help="Do not take this step; may be given several times.")
@backend_option()
@click.option("--all", "show_all", is_flag=True, help="Show every change, not only the first one of a step.")
@json_option
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the steps.")
def repair(
    workload: Path,
    files: OptionalFiles,
    output: Path,
    ranks: int | None,
    without: tuple[str, ...],
    backend: Backend | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Mend a run that ASTRA-sim does not finish, and report every change.

    \b
    astra-tacos repair --workload PREFIX [--system S.json] [--network N.yml] [--comm-group G.json] --output DIR

    DIR becomes a run directory: workload, comm_group.json, system.json, network.yml, run_astra_sim.sh, and repair.json, which
    lists every change by rank, node and reason. `lint` finds no errors in it, and its replay ends. A fault is refused in one line
    if nothing in the files says how to mend it.
    """
    from astra_tacos.repairer.inputs import RepairInputs
    from astra_tacos.repairer.repair import check_repair_output
    from astra_tacos.repairer.repair import repair as mend

    inputs = RepairInputs(workload, files.system, files.network, files.comm_group, files.remote_memory, files.directory)
    check_repair_output(output, inputs)
    compile_ahead(*REPAIRING)
    with progress("repairing"):
        result = mend(inputs, output, backend=backend, num_ranks=ranks, without=without)
    if as_json:
        print_json(result.to_json())
    else:
        print_repair(result, show_all=show_all)


def print_repair(result: RepairResult, *, show_all: bool) -> None:
    """Print what was done, step by step, and how the run ends."""
    rows = [("trace", text) for text in result.notes[:_SHOWN_NOTES]]
    if len(result.notes) > _SHOWN_NOTES:
        rows.append(("trace", f"... and {len(result.notes) - _SHOWN_NOTES:,} more"))
    rows += [("default", text) for text in result.defaults]
    assumed = sum(change.is_assumed for change in result.changes)
    changes = f"{len(result.changes):,}" + (f", {assumed:,} of them by assumption" if assumed else "")
    before, after = result.compute_us
    compute = f"{before:,} us, unchanged" if before == after else f"{before:,} us became {after:,} us (changes below)"
    end_ns = int(result.outcome.end_ns)
    rows += [
        ("changes", changes),
        ("compute time", compute),
        ("end of the run", f"{end_ns:,} ns, by {result.outcome.backend}"),
        ("wrote", str(result.path)),
    ]
    if result.warnings:
        codes = sorted({finding.code for finding in result.warnings})
        rows.append(("lint warns of", ", ".join(codes)))
    print_rows(rows)
    if result.changes:
        _print_changes(result, show_all)


def _print_changes(result: RepairResult, show_all: bool) -> None:
    from rich.table import Table

    counts: dict[str, int] = {}
    for change in result.changes:
        counts[change.step] = counts.get(change.step, 0) + 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in _HEADER:
        table.add_column(name, overflow="fold", justify="right" if name == "changes" else "left")
    shown: set[str] = set()
    for change in result.changes:
        is_first = change.step not in shown
        if is_first or show_all:
            reason = f"{change.reason} (assumed)" if change.is_assumed and "assumed" not in change.reason else change.reason
            head = (change.step, f"{counts[change.step]:,}") if is_first else ("", "")
            table.add_row(*map(styled, (*head, change.where, change.what, reason)))
        shown.add(change.step)
    echo()
    show(table)
    if not show_all and len(result.changes) > len(shown):
        echo(f"\nthe first change of each step; --all shows all, and {result.path / 'repair.json'} lists them")
