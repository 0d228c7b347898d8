"""`astra-tacos lint`: what would make ASTRA-sim stall, abort or compute something else."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.console import compile_ahead, echo, print_json, progress, show, styled
from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.options import RunFiles, backend_option, network_option, run_options
from astra_tacos.solver.first_use import LINTING

if TYPE_CHECKING:
    from rich.table import Table

    from astra_tacos.linter.finding import Finding
    from astra_tacos.linter.lint import LintReport
    from astra_tacos.run.backend import Backend

_SHOWN = 3
"""Findings of a code that are shown without --all."""
_UNWRAPPED = 10_000
_COLOURS = {"error": "bold red", "warning": "yellow"}


def _explain(context: click.Context, _: click.Parameter, code: str | None) -> None:
    """Print what a code means, and end."""
    if code is None or context.resilient_parsing:
        return
    from astra_tacos.linter.checks import CHECKS

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
    """Print all codes, and end."""
    if not wanted or context.resilient_parsing:
        return
    from astra_tacos.linter.checks import CHECKS

    for check in CHECKS.values():
        echo(f"{check.code}  {check.severity:<7}  {check.title}")
    context.exit()


@click.command()
@run_options(required=True)
@network_option
@backend_option()
@click.option("--all", "show_all", is_flag=True, help=f"Show every finding, not only the first {_SHOWN} of a code.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of all findings and nothing else.")
@click.option("--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_explain, help="Explain a code.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the codes.")
def lint(
    files: RunFiles,
    network_path: Path | None,
    backend: Backend | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Find what would make ASTRA-sim stall, abort or compute something else, before it runs.

    An error certainly does so. A warning may do so, or names a setting without effect. The exit code is 1 if there are errors.
    --json prints one list of objects: code, severity, file, rank, node, message, remedy, repair (the step of `astra-tacos repair`
    that can mend it).
    """
    from astra_tacos.linter.lint import lint as lint_run
    from astra_tacos.repairer.steps import mending_step

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    limit = None if show_all or as_json else _SHOWN
    compile_ahead(*LINTING)
    with progress("linting"):
        report = lint_run(
            files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory, backend, limit
        )
    if as_json:
        print_json([asdict(finding) | {"repair": mending_step(finding)} for finding in report.findings])
    else:
        _print(report)
    if report.errors:
        raise click.exceptions.Exit(CHECK_FAILED)


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
    from astra_tacos.repairer.steps import mending_step

    for finding in findings:
        colour = _COLOURS[finding.severity]
        text = styled(finding.where, "bold") + styled(f": {finding.message}")
        if finding.remedy:
            text += styled(f" ({finding.remedy})", "dim")
        if mending_step(finding):
            text += styled("; `repair` can mend this", "dim")
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
