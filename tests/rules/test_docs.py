"""The table of codes in the documentation is that of the checks and of the steps of `lint --fix`."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.workload.lint import RULES
from astra_tacos.workload.mends import MENDS

DOCS = Path(__file__).parents[2] / "docs/lint.md"


def code_table():
    rows = ["| code | severity | finding | steps of `--fix` |", "|---|---|---|---|"]
    for check in RULES.values():
        steps = ", ".join(f"`{mend.name}`" for mend in MENDS if check.code in mend.codes)
        rows.append(f"| {check.code} | {check.severity} | {check.title} | {steps} |")
    return "\n".join(rows)


def test_table():
    assert code_table() in DOCS.read_text(), f"expected in {DOCS}:\n{code_table()}"
