"""What `lint` finds and mends, for a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from astra_tacos.cli.shared.console import LINT_SAYS_MORE, echo, print_json, print_rows, show, styled

if TYPE_CHECKING:
    from rich.table import Table

    from astra_tacos.workload.linter.finding import Finding
    from astra_tacos.workload.linter.lint import LintReport
    from astra_tacos.workload.repairer.repair import RepairResult

_SHOWN_NOTES = 2
_HEADER = ("step", "changes", "where", "what", "why")
_COLOURS = {"error": "bold red", "warning": "yellow"}


def print_counts(report: LintReport) -> None:
    """How many there are of each code; `lint` says more."""
    for severity, counts in (("error", report.errors), ("warning", report.warnings)):
        if counts:
            listed = ", ".join(f"{code} ({count:,})" if count > 1 else code for code, count in sorted(counts.items()))
            number = sum(counts.values())
            echo(f"\n{number:,} {severity}{'s' * (number > 1)}: {listed}; {LINT_SAYS_MORE}")


def print_findings(report: LintReport) -> None:
    """Print all findings that a report has, and how many there are."""
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
