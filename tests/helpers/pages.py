"""Directories and pages for tests of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.pages.html.synthesis import synthesis_page
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import save_schedule
from astra_tacos.support.files import write_json


def written(schedule: Schedule, directory: Path, **more: Any) -> Path:
    """What a report needs of what `synthesize --output` writes."""
    directory.mkdir()
    write_json(directory / "result.json", certify(schedule) | {"verified": True, "link_model_reason": ""} | more)
    save_schedule(schedule, directory / "schedule.npz")
    return directory


def page_of(schedule: Schedule, path: Path, **options: Any) -> Path:
    """A page of a schedule, without a comparison unless one is given."""
    result = certify(schedule) | {"verified": True, "link_model_reason": ""}
    path.write_bytes(synthesis_page(schedule, result, options.pop("comparison", None), **options))
    return path
