"""What `lint` finds, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from astra_tacos.cli.shared.console import (
    LINT_SAYS_MORE,
    echo,
    print_marked,
    wrapped,
)

if TYPE_CHECKING:
    from astra_tacos.rules.rule import Finding
    from astra_tacos.workload.lint import LintReport

_SHOWN_CODES = 4
"""Codes that are shown without --verbose."""
_INDENT = 12
"""Columns before the text of a finding."""
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
    echo(wrapped(report.title()))


def _counts(report: LintReport, severity: str) -> Mapping[str, int]:
    return report.errors if severity == "error" else report.warnings


def _print_finding(finding: Finding) -> None:
    from astra_tacos.workload.mends import mending

    text = f"{finding.where}: {finding.message}" + (f" ({finding.remedy})" if finding.remedy else "")
    text += "; --fix may mend this" if mending(finding) else ""
    print_marked(f"{finding.code} {finding.severity:<7}", _COLOURS[finding.severity], text)
