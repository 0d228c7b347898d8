"""What `astra-tacos synthesize` says of schedules that are kept in a compact form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.cli.console import print_rows


def compact_answer(
    result: dict[str, Any], checks: str, output: Path | None, notes: list[str]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The result as for JSON, and rows to print under its figures.

    Parameters
    ----------
    result
        The figures.
    checks
        What was verified.
    output
        The directory that was written, None for none.
    notes
        What else there is to say.
    """
    rows = [("checks", checks)]
    if output is not None:
        rows.append(("files", str(output)))
    rows += [("note", note) for note in notes]
    return result | {"output": None if output is None else str(output), "notes": notes}, rows


def print_compact(result: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """Print the figures, and what else there is to say."""
    from astra_tacos.report.table import synthesis_rows

    print_rows([*synthesis_rows(result), *rows])
