"""The table of steps in the documentation is that of the registry."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.repairer.steps import STEPS

DOCS = Path(__file__).parents[2] / "docs" / "repair.md"


def test_table() -> None:
    rows = ["| step | findings | what it does |", "|---|---|---|"]
    rows += [f"| `{step.name}` | {', '.join(step.codes)} | {step.summary} |" for step in STEPS]
    assert "\n".join(rows) in DOCS.read_text(encoding="utf-8")
