"""`astra-tacos report` of a plan, or of a replayed run."""

from __future__ import annotations

from pathlib import Path


def page(directory: Path, title: str | None, with_comparison: bool) -> bytes:
    """The page of a directory that `plan` or `replay --output` wrote; there is nothing to compare it with but what it holds."""
    from astra_tacos.report.html.run import PLAN_FILE, plan_page, replay_page

    make = plan_page if (directory / PLAN_FILE).is_file() else replay_page
    return make(directory, title)
