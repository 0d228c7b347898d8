"""The jobs of a run: the runs that `import` put side by side, and the ranks of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.rows import Row

REPAIR_FILE = "repair.json"
_SHOWN = 8
"""Jobs that an answer lists."""


class Job(NamedTuple):
    """A run that runs beside others on one network: the directory it came from, its first rank and its number of ranks."""

    directory: str
    first_rank: int
    num_ranks: int


def jobs_of(directory: Path, num_ranks: int) -> tuple[Job, ...]:
    """The jobs of a run of so many ranks; none where its directory does not say which ranks each job has."""
    if not (directory / REPAIR_FILE).is_file():
        return ()
    try:
        jobs = tuple(Job(**entry) for entry in read_json_object(directory / REPAIR_FILE).get("jobs", ()))
        following = [sum(job.num_ranks for job in jobs[:place]) for place in range(len(jobs) + 1)]
    except (ConfigError, TypeError):
        return ()
    return jobs if following == [*(job.first_rank for job in jobs), num_ranks] else ()


def job_rows(jobs: Sequence[Job], finish_ns: Ints) -> list[Row]:
    """When each job ends."""
    rows = []
    for number, (directory, first, count) in enumerate(jobs[:_SHOWN], 1):
        end_ns = int(finish_ns[first : first + count].max())
        rows.append(Row(f"job {number}", end_ns, "ns", f"ranks {first} to {first + count - 1}: {directory}"))
    return [*rows, *([Row("more jobs", len(jobs) - _SHOWN)] if len(jobs) > _SHOWN else [])]
