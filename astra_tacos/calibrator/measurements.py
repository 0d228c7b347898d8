"""Measured times of collectives: CSV with columns `size` and `time`, or what nccl-tests and rccl-tests print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tacos.config.decimal_text import parse_decimal, parse_whole
from astra_tacos.config.yaml_text import read_text
from astra_tacos.errors import ConfigError

_LOG_TIME = 5
"""Column of the time in the logs of nccl-tests: size, count, type, redop, root, time."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Times of one program.

    Parameters
    ----------
    path
        The file.
    sizes, times_us
        Sizes of the buffer in bytes, ascending, and times in us.
    skipped
        Lines of sizes without a time, such as those of a run that was stopped.
    """

    path: Path
    sizes: tuple[int, ...]
    times_us: tuple[float, ...]
    skipped: int


def read_measurements(path: Path) -> Measurements:
    """Read a table of times; of several times of one size, the first counts (in nccl-tests: out of place).

    Raises
    ------
    ConfigError
        If the file cannot be read, or has no line with a size and a time.
    """
    found: dict[int, float] = {}
    skipped = 0
    columns: list[str] | None = None
    for line in read_text(path).splitlines():
        text = line.strip()
        is_table = "," in text
        fields = [field.strip() for field in text.split(",")] if is_table else text.split()
        if is_table and "size" in fields and "time" in fields:
            columns = fields
            continue
        size = parse_whole(fields[0]) if fields else None
        at = _LOG_TIME
        if is_table:
            if columns is None or len(fields) < 2:
                continue
            size, at = parse_whole(fields[columns.index("size")]), columns.index("time")
        if size is None or size <= 0 or (not is_table and len(fields) <= _LOG_TIME):
            continue
        time = parse_decimal(fields[at]) if at < len(fields) else None
        if time is None or not time > 0:
            skipped += 1
            continue
        found.setdefault(size, float(time))
    if not found:
        raise ConfigError(
            f"{path}: has no line with a size and a time, expected CSV with columns size,time or a log of nccl-tests"
        )
    sizes = tuple(sorted(found))
    return Measurements(path, sizes, tuple(found[size] for size in sizes), skipped)
