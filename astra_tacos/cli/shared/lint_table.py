"""What `lint` finds and mends, for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from astra_tacos.cli.shared.console import (
    LINT_SAYS_MORE,
    echo,
    print_answer,
    print_json,
    print_marked,
    print_next,
    print_notes,
    print_table,
    wrapped,
)

if TYPE_CHECKING:
    from astra_tacos.rules.rule import Finding
    from astra_tacos.workload.lint import LintReport
    from astra_tacos.workload.repairer.draft import Change
    from astra_tacos.workload.repairer.repair import RepairResult

_SHOWN_CODES = 4
"""Codes, and steps, that are shown without --verbose."""
_INDENT = 12
"""Columns before the text of a finding."""
_FIRST_CHANGE = 64
"""Most characters of a change in a table of steps."""
_COLOURS = {"error": "1;31", "warning": "33"}


def print_counts(report: LintReport) -> None:
    """How many there are of each code; `lint` says more."""
    for severity, counts in (("error", report.errors), ("warning", report.warnings)):
        if counts:
            echo()
            listed = ", ".join(f"{code} ({count:,})" if count > 1 else code for code, count in sorted(counts.items()))
            number = sum(counts.values())
            echo(wrapped(f"{number:,} {severity}{'s' * (number > 1)}: {listed}; {LINT_SAYS_MORE}"))


def print_findings(report: LintReport, *, verbose: bool) -> None:
    """Print findings of each code, errors first, and how many there are; by default one of each of the first codes."""
    counts = [(severity, *each) for severity in _COLOURS for each in sorted(_counts(report, severity).items())]
    shown = counts if verbose else counts[:_SHOWN_CODES]
    for severity, code, count in shown:
        listed = [finding for finding in report.findings if finding.code == code and finding.severity == severity]
        listed = listed if verbose else listed[:1]
        for finding in listed:
            _print_finding(finding)
        if count > len(listed):
            echo(f"{'':{_INDENT}}... and {count - len(listed):,} more of {code} (--verbose shows them)")
    if len(shown) < len(counts):
        more = ", ".join(f"{code} ({count:,})" for _, code, count in counts[len(shown) :])
        echo(wrapped(f"more codes (--verbose shows them): {more}"))
    if counts:
        echo()
    echo(wrapped(_summary(report)))


def _counts(report: LintReport, severity: str) -> Mapping[str, int]:
    return report.errors if severity == "error" else report.warnings


def _print_finding(finding: Finding) -> None:
    from astra_tacos.workload.mends import mending

    text = f"{finding.where}: {finding.message}" + (f" ({finding.remedy})" if finding.remedy else "")
    text += "; --fix may mend this" if mending(finding) else ""
    print_marked(f"{finding.code} {finding.severity:<7}", _COLOURS[finding.severity], text)


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


def print_repair(result: RepairResult, *, verbose: bool, as_json: bool) -> None:
    """Print what was done, step by step, and how the run ends."""
    if as_json:
        print_json(result.to_json())
        return
    assumed = sum(change.is_assumed for change in result.changes)
    before, after = result.compute_us
    compute = (f"{before:,} us", "unchanged") if before == after else (f"{after:,} us", f"{before:,} us before, see the changes")
    rows: list[tuple[str, ...]] = [
        ("end of the run", f"{int(result.outcome.end_ns):,} ns", f"by {result.outcome.backend}"),
        ("compute time", *compute),
        ("changes", f"{len(result.changes):,}", f"{assumed:,} of them by assumption" if assumed else ""),
    ]
    if result.warnings:
        codes = sorted({finding.code for finding in result.warnings})
        rows.append(("lint warns of", ", ".join(codes)))
    print_answer(f"{result.path}: a run that ASTRA-sim finishes", [*rows, ("files", str(result.path))])
    more = [*(("trace", text) for text in result.notes), *(("default", text) for text in result.defaults)]
    print_notes((), more, verbose=verbose)
    steps = Counter(change.step for change in result.changes)
    if verbose and steps:
        changes = [(change.step, change.where, change.what, _reason(change)) for change in result.changes]
        print_table("changes", ("step", "where", "what", "why"), changes, left=("where", "what", "why"))
    elif steps:
        first = {change.step: f"{change.where}: {change.what}" for change in reversed(result.changes)}
        shown = [
            (step, f"{count:,}", textwrap.shorten(first[step], _FIRST_CHANGE, placeholder=" ..."))
            for step, count in steps.most_common(_SHOWN_CODES)
        ]
        print_table(f"changes ({len(shown)} of {len(steps)} steps)", ("step", "changes", "the first"), shown, left=("the first",))
        echo(f"\n--verbose shows every change, and {result.path / 'repair.json'} lists them")
    print_next(result.path)


def _reason(change: Change) -> str:
    return f"{change.reason} (assumed)" if change.is_assumed and "assumed" not in change.reason else change.reason
