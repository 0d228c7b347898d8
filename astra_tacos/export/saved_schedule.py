"""Schedules as `.npz`, complete: what `load_schedule` reads."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.export.exporter import Exported, Exporter
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import save_schedule


def _write(schedule: Schedule, path: Path) -> Exported:
    save_schedule(schedule, path)
    return Exported(path)


EXPORTER = Exporter(
    name="npz",
    summary="the complete schedule: NumPy arrays and a JSON header, read by all commands",
    writes="file",
    suffix=".npz",
    write=_write,
)
