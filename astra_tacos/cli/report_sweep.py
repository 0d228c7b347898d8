"""`astra-tacos report` of a sweep's directory."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.report.html.sweep import render_sweep
from astra_tacos.study.sweep.store import TABLE_FILE
from astra_tacos.study.sweep.table import read_sweep


def page(directory: Path, title: str | None, with_comparison: bool) -> bytes:
    """The page of what `sweep` wrote; it compares points as it is."""
    return render_sweep(read_sweep(directory), TABLE_FILE, title)
