"""`astra-tacos lint`: what would make ASTRA-sim stall, abort or compute something else; with --fix, mended."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_json, print_rows, progress, show, styled
from astra_tacos.cli.shared.options import OptionalFiles, backend_option, optional_files, output_option, workload_option
from astra_tacos.solver.first_use import LINTING, REPAIRING

if TYPE_CHECKING:
    from rich.table import Table

    from astra_tacos.run.backend import Backend
    from astra_tacos.workload.linter.finding import Finding
    from astra_tacos.workload.linter.lint import LintReport
    from astra_tacos.workload.repairer.reading import RepairInputs
    from astra_tacos.workload.repairer.repair import RepairResult

_SHOWN = 3
"""Findings of a code that are shown without --all."""
_SHOWN_NOTES = 2
_HEADER = ("step", "changes", "where", "what", "why")
_COLOURS = {"error": "bold red", "warning": "yellow"}


def _explain(context: click.Context, _: click.Parameter, code: str | None) -> None:
    """Print what a code means, and end."""
    if code is None or context.resilient_parsing:
        return
    from astra_tacos.workload.linter.lint import CHECKS

    check = CHECKS.get(code.upper())
    if check is None:
        raise click.UsageError(f"No such code: {code}. Codes are {next(iter(CHECKS))} to {list(CHECKS)[-1]}, see --list.")
    echo(f"{check.code}, {check.severity}: {check.title}\n")
    width = min(shutil.get_terminal_size().columns, 100)
    paragraphs = [
        textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False) for text in check.explanation.split("\n\n")
    ]
    echo("\n\n".join(paragraphs))
    context.exit()


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print all codes and steps, and end."""
    if not wanted or context.resilient_parsing:
        return
    from astra_tacos.workload.linter.lint import CHECKS
    from astra_tacos.workload.repairer.steps import STEPS

    for check in CHECKS.values():
        echo(f"{check.code}  {check.severity:<7}  {check.title}")
    echo("\nsteps of --fix:")
    for step in STEPS:
        echo(f"{step.name:<22} {step.summary} ({', '.join(step.codes)})")
    context.exit()


@command()
@workload_option(required=True)
@optional_files("with --fix, ")
@backend_option()
@click.option("--fix", is_flag=True, help="Mend the run, and report every change.")
@output_option("With --fix: write the mended run here.")
@click.option(
    "--ranks",
    type=click.IntRange(2),
    help="With --fix: replicate the trace of a single rank over so many data-parallel ranks.",
)
@click.option("--without", multiple=True, metavar="STEP", help="With --fix: do not take this step; may be given several times.")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help=f"Show every finding and change, not only the first {_SHOWN} of a code, one of a step.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else: a list of all findings, or repair.json.")
@click.option("--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_explain, help="Explain a code.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the codes, and the steps of --fix."
)
def lint(
    workload: Path,
    files: OptionalFiles,
    backend: Backend | None,
    fix: bool,
    output: Path | None,
    ranks: int | None,
    without: tuple[str, ...],
    show_all: bool,
    as_json: bool,
) -> None:
    """Find what would make ASTRA-sim stall, abort or compute something else, before it runs, and mend it.

    \b
    astra-tacos lint --workload PREFIX --system S.json --network N.yml
    astra-tacos lint --fix --workload PREFIX --output DIR

    An error certainly does so. A warning may do so, or names a setting without effect. The exit code is 1 if there are errors.
    --json prints one list of objects: code, severity, file, rank, node, message, remedy, repair (the step of --fix that can mend
    it).

    With --fix, DIR becomes a run directory: workload, comm_group.json, system.json, network.yml, run_astra_sim.sh, and
    repair.json, which lists every change by rank, node and reason. lint finds no errors in it, and its replay ends. A fault is
    refused in one line if nothing in the files says how to mend it.
    """
    if fix:
        if output is None:
            raise click.UsageError("Missing option '--output'.")
        from astra_tacos.workload.repairer.reading import RepairInputs

        inputs = RepairInputs(workload, files.system, files.network, files.comm_group, files.remote_memory, files.directory)
        _fix(inputs, output, backend, ranks, without, show_all=show_all, as_json=as_json)
        return
    if output is not None or ranks is not None or without:
        raise click.UsageError("--output, --ranks and --without are for --fix.")
    if files.system is None or files.network is None:
        raise click.UsageError(f"Missing option '--{'network' if files.system else 'system'}'.")
    from astra_tacos.workload.linter.lint import lint as lint_run
    from astra_tacos.workload.repairer.steps import mending_step

    limit = None if show_all or as_json else _SHOWN
    compile_ahead(*LINTING)
    with progress("linting"):
        report = lint_run(
            workload, files.system, files.network, files.comm_group, files.remote_memory, files.directory, backend, limit
        )
    if as_json:
        print_json([asdict(finding) | {"repair": mending_step(finding)} for finding in report.findings])
    else:
        _print(report)
    if report.errors:
        raise click.exceptions.Exit(CHECK_FAILED)


def _fix(
    inputs: RepairInputs,
    output: Path,
    backend: Backend | None,
    ranks: int | None,
    without: tuple[str, ...],
    *,
    show_all: bool,
    as_json: bool,
) -> None:
    from astra_tacos.workload.repairer.repair import check_repair_output, repair

    check_repair_output(output, inputs)
    compile_ahead(*REPAIRING)
    with progress("repairing"):
        result = repair(inputs, output, backend=backend, num_ranks=ranks, without=without)
    print_repair(result, show_all=show_all, as_json=as_json)


def _print(report: LintReport) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for severity, counts in (("error", report.errors), ("warning", report.warnings)):
        for code, count in sorted(counts.items()):
            shown = [finding for finding in report.findings if finding.code == code and finding.severity == severity]
            _add(table, shown, count)
    if table.row_count:
        show(table)
        echo()
    echo(_summary(report))


def _add(table: Table, findings: list[Finding], count: int) -> None:
    from astra_tacos.workload.repairer.steps import mending_step

    for finding in findings:
        colour = _COLOURS[finding.severity]
        text = styled(finding.where, "bold") + styled(f": {finding.message}")
        if finding.remedy:
            text += styled(f" ({finding.remedy})", "dim")
        if mending_step(finding):
            text += styled("; --fix can mend this", "dim")
        table.add_row(styled(finding.code, colour), styled(finding.severity, colour), text)
    if count > len(findings):
        table.add_row("", "", styled(f"... and {count - len(findings):,} more of {findings[0].code} (--all shows them)", "dim"))


def _summary(report: LintReport) -> str:
    run = f"{report.num_ranks:,} ranks of {report.num_nodes:,} nodes on {report.num_npus:,} NPUs, {report.backend}"
    errors, warnings = sum(report.errors.values()), sum(report.warnings.values())
    if not errors and not warnings:
        return f"nothing found in {run}"
    counts = [_count(errors, "error")] * (errors > 0) + [_count(warnings, "warning")] * (warnings > 0)
    code = next(iter(sorted(report.errors) or sorted(report.warnings)))
    return f"{' and '.join(counts)} in {run}; --explain {code} says more about {code}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_repair(result: RepairResult, *, show_all: bool, as_json: bool) -> None:
    """Print what was done, step by step, and how the run ends."""
    if as_json:
        print_json(result.to_json())
        return
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

    counts = Counter(change.step for change in result.changes)
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
