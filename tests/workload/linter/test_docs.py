"""The table of codes in the documentation is that of the checks."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.workload.linter.lint import CHECKS

DOCS = Path(__file__).parents[3] / "docs" / "lint.md"


def code_table() -> str:
    rows = ["| code | severity | finding |", "|---|---|---|"]
    for check in CHECKS.values():
        meaning = " ".join(check.explanation.split("\n\n")[0].split())
        rows.append(f"| {check.code} | {check.severity} | {meaning} |")
    return "\n".join(rows)


def test_table() -> None:
    assert code_table() in DOCS.read_text(), f"expected in {DOCS}:\n{code_table()}"
