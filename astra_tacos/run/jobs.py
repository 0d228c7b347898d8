"""The jobs of a run: the runs that `import` put side by side, and the ranks of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.own_files import read_own
from astra_tacos.support.rows import Row

REPAIR_FILE = "repair.json"
_FILES = ("plan.json", REPAIR_FILE)
"""The files of a directory that say which jobs its run has."""
_SHOWN = 8
"""Jobs that an answer lists."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run that runs beside others on one network: the directory it came from, its first rank and its number of ranks."""

    directory: str
    first_rank: int
    num_ranks: int


class _Document(msgspec.Struct):
    jobs: tuple[Job, ...] = ()


def jobs_of(directory: Path, num_ranks: int) -> tuple[Job, ...]:
    """The jobs of a run of so many ranks; none where its directory does not say which ranks each job has."""
    path = next((directory / name for name in _FILES if (directory / name).is_file()), None)
    if path is None:
        return ()
    try:
        jobs = read_own(path, _Document, "import or plan").jobs
    except ConfigError:
        return ()
    following = [sum(job.num_ranks for job in jobs[:place]) for place in range(len(jobs) + 1)]
    return jobs if following == [*(job.first_rank for job in jobs), num_ranks] else ()


def job_figures(jobs: Sequence[Job], finish_ns: Ints, before_ns: Ints | None = None) -> list[dict[str, Any]]:
    """The jobs, ready for JSON: when each ends, and ended before."""
    figures = []
    for job in jobs:
        ranks = slice(job.first_rank, job.first_rank + job.num_ranks)
        before = {} if before_ns is None else {"before_ns": int(before_ns[ranks].max())}
        figures.append(asdict(job) | before | {"time_ns": int(finish_ns[ranks].max())})
    return figures


def job_rows(jobs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """When each job of `job_figures` ends, and ended before."""
    rows = []
    for number, job in enumerate(jobs[:_SHOWN], 1):
        first, count = job["first_rank"], job["num_ranks"]
        before = f"{job['before_ns']:,} ns before, " if "before_ns" in job else ""
        note = f"{before}ranks {first} to {first + count - 1}: {job['directory']}"
        rows.append(Row(f"job {number}", job["time_ns"], "ns", note))
    return [*rows, *([Row("more jobs", len(jobs) - _SHOWN)] if len(jobs) > _SHOWN else [])]
