"""Measured times of collectives: what nccl-tests and rccl-tests write, and CSV with one time a row."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_tacos.study.calibrator.nccl_tests import (
    COLLECTIVES,
    PLACEMENT_NAMES,
    Placement,
    Shape,
    TestOutput,
    check_time,
    plain_name,
    read_tests,
    whole_of,
)
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import parse_decimal
from astra_tacos.support.formats.plain_text import read_text

_NAMES = {plain_name(name): name for name in COLLECTIVES}
_MACHINE = ("machine", "setup", "nccl", "arm", "nvls")
"""Columns that tell machines, or settings of one, apart: a fit takes one value of each."""
_NEEDED = ("collective", "size_bytes", "time_us")


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """A measured time of a collective, and the line it stands on.

    `algorithm` is what the file says: `ring`, `tree`, `nvls`, or empty where the library chose. `placement` is
    that of the buffers.
    """

    collective: str
    algorithm: str
    nodes: int
    gpus: int
    size_bytes: int
    time_us: float
    source: str
    placement: Placement = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Parameters
    ----------
    shape
        Nodes, and GPUs of each, for files that do not say them.
    where
        Values of columns of CSV files: other rows do not count.
    collective
        What files measured that do not say it.
    place
        The placement of buffers that counts; None for both.
    """

    shape: Shape | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    collective: str | None = None
    place: Placement = None


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """Times, and notes on what was left out."""

    rows: list[CollectiveTime]
    notes: list[str]


def read_collectives(paths: Sequence[Path], reading: Reading) -> CollectiveTimes:
    """All times of some files.

    Raises
    ------
    ConfigError
        With the number of the line, if a line is no measurement, or a file has none.
    """
    files = [_read_file(path, reading) for path in paths]
    return CollectiveTimes([row for file in files for row in file.rows], [note for file in files for note in file.notes])


def _read_file(path: Path, reading: Reading) -> CollectiveTimes:
    text = read_text(path)
    tests = read_tests(path, text, reading.collective, reading.shape)
    lines = text.splitlines()
    if tests is not None:
        rows, notes = _of_tests(tests), tests.notes()
    elif lines and "," in lines[0]:
        rows, notes = _read_csv(path, lines, reading), []
    else:
        rows, notes = [], []
    if not rows:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise ConfigError(f"{path}: has no times{why}, expected a log of nccl-tests or CSV with columns {', '.join(_NEEDED)}")
    chosen = [row for row in rows if reading.place in (None, row.placement)]
    if not chosen:
        has = " and ".join(dict.fromkeys(PLACEMENT_NAMES[row.placement] for row in rows))
        raise ConfigError(f"{path}: has times {has}, expected some {PLACEMENT_NAMES[reading.place]} (--place)")
    if len(chosen) < len(rows):
        notes = [*notes, f"times left out: {len(rows) - len(chosen)}, not {PLACEMENT_NAMES[reading.place]}"]
    return CollectiveTimes(chosen, [f"{path}: {note}" for note in notes])


def _of_tests(tests: TestOutput) -> list[CollectiveTime]:
    rows = []
    for time in tests.times:
        if not time.collective:
            raise ConfigError(f"{time.source}: a time before a line that names the test, expected one: give --collective")
        if time.shape is None:
            raise ConfigError(f"{time.source}: no line of the log says the ranks and their hosts: give --network")
        rows.append(CollectiveTime(time.collective, "", *time.shape, time.size_bytes, time.time_us, time.source, time.placement))
    return rows


def _collective(where: str, name: str) -> str:
    collective = _NAMES.get(plain_name(name))
    if collective is None:
        raise ConfigError(f"{where}: collective {name!r}, expected one of {', '.join(COLLECTIVES)}")
    return collective


def _algorithm(where: str, name: str) -> str:
    for kind in ("nvls", "tree", "ring"):
        if kind in name.lower():
            return kind
    if name:
        raise ConfigError(f"{where}: algorithm {name!r}, expected ring, tree, nvls or none: --where takes some rows")
    return ""


def _time(where: str, name: str, text: str) -> float | None:
    """A time, None for none."""
    if text in ("", "N/A"):
        return None
    return check_time(where, name, parse_decimal(text), text)


def _read_csv(path: Path, lines: Sequence[str], reading: Reading) -> list[CollectiveTime]:
    table = csv.reader(lines)
    head = [name.strip() for name in next(table)]
    if "shape" in head:
        raise ConfigError(f"{path}:1: column shape, expected nodes and gpus_per_node: times on tori are not fitted")
    needed = [name for name in _NEEDED if name != "collective" or reading.collective is None]
    needed += [] if reading.shape is not None else ["nodes", "gpus_per_node"]
    if missing := [name for name in (*needed, *reading.where) if name not in head]:
        raise ConfigError(f"{path}:1: has no column {', '.join(missing)}, only {', '.join(head)}")
    if wrong := [name for name in head if re.fullmatch(r"time(_inplace)?(_(ms|ns|s))?|size(_(kb|mb|kib|mib))?", name)]:
        raise ConfigError(f"{path}:1: column {wrong[0]}, expected times in time_us and sizes in size_bytes")
    times = []
    seen: dict[str, str] = {}
    for fields in table:
        line = f"{path}:{table.line_num}"
        if not fields:
            continue
        if len(fields) != len(head):
            raise ConfigError(f"{line}: has {len(fields)} fields, the first line has {len(head)}")
        row = dict(zip(head, map(str.strip, fields), strict=True))
        if any(row[name] != value for name, value in reading.where.items()):
            continue
        for name in _MACHINE:
            if seen.setdefault(name, row.get(name, "")) != row.get(name, ""):
                raise ConfigError(f"{line}: {name} is {row[name]}, was {seen[name]}: --where {name}=... takes one")
        nodes, gpus = reading.shape or (0, 0)
        if "nodes" in row and "gpus_per_node" in row:
            nodes, gpus = (whole_of(line, name, row[name]) for name in ("nodes", "gpus_per_node"))
        size = whole_of(line, "size_bytes", row["size_bytes"])
        kind = _collective(line, row.get("collective") or reading.collective or "")
        algorithm = _algorithm(line, row.get("algorithm", ""))
        if nodes * gpus < 2:
            raise ConfigError(f"{line}: {nodes} nodes of {gpus} GPUs, expected two GPUs or more")
        for name, placement in (("time_us", False), ("time_inplace_us", True)):
            time = _time(line, name, row.get(name, ""))
            if time is not None and size:
                times.append(CollectiveTime(kind, algorithm, nodes, gpus, size, time, line, placement))
    return times
