"""Measured times of collectives: logs of nccl-tests and rccl-tests, and CSV with one time a row.

Sizes are those of nccl-tests: the vector of All-Reduce, Broadcast and Reduce, the n blocks of All-Gather, Reduce-Scatter and
All-to-All, one message of Send-Receive.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import parse_decimal, parse_whole, read_text

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "sendrecv", "send")
_NAMES = {name.replace("_", ""): name for name in COLLECTIVES}
_MACHINE = ("machine", "setup", "nccl", "arm", "nvls")
"""Columns that tell machines, or settings of one, apart: a fit takes one value of each."""
_NEEDED = ("collective", "size_bytes", "time_us")
_TEST = re.compile(r"# Collective test starting: (\S+?)(?:_perf)?$")
_RANK = re.compile(r"#\s+Rank\s+\d+ .*\bon\s+(\S+)\s+device\b")
_HEAD = re.compile(r"#\s+size\s+count\s")
_UNITS = re.compile(r"#\s+\(B\)\s")


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """A measured time of a collective, and the line it stands on.

    `algorithm` is what the file says: `ring`, `tree`, `nvls`, or empty where the library chose.
    """

    collective: str
    algorithm: str
    nodes: int
    gpus: int
    size_bytes: int
    time_us: float
    source: str


def read_collectives(path: Path, shape: tuple[int, int] | None, where: Mapping[str, str]) -> list[CollectiveTime]:
    """All times of a file, of both placements of buffers.

    Parameters
    ----------
    path
        A log or CSV.
    shape
        Nodes, and GPUs of each, for files that do not say them.
    where
        Values of columns of CSV files: other rows do not count.

    Raises
    ------
    ConfigError
        With the number of the line, if a line is no measurement, or if the file has none.
    """
    text = read_text(path)
    lines = text.splitlines()
    is_log = not lines or lines[0].startswith("#") or "," not in lines[0]
    found = _read_log(path, lines, shape) if is_log else _read_csv(path, lines, shape, where)
    if not found:
        raise ConfigError(f"{path}: has no times, expected a log of nccl-tests or CSV with columns {', '.join(_NEEDED)}")
    return found


def _collective(where: str, name: str) -> str:
    found = _NAMES.get(name.lower().replace("_", "").replace("-", ""))
    if found is None:
        raise ConfigError(f"{where}: collective {name!r}, expected one of {', '.join(COLLECTIVES)}")
    return found


def _algorithm(where: str, name: str) -> str:
    for kind in ("nvls", "tree", "ring"):
        if kind in name.lower():
            return kind
    if name:
        raise ConfigError(f"{where}: algorithm {name!r}, expected ring, tree, nvls or none: --where takes some rows")
    return ""


def _positive(where: str, name: str, text: str) -> int:
    value = parse_whole(text)
    if value is None or value < 0:
        raise ConfigError(f"{where}: {name} is {text!r}, expected a whole number")
    return value


def _time(where: str, name: str, text: str) -> float | None:
    """A time, None for none."""
    if text in ("", "N/A"):
        return None
    value = parse_decimal(text)
    if value is None or not 0 < value < float("inf"):
        raise ConfigError(f"{where}: {name} is {text!r}, expected microseconds")
    return float(value)


def _read_csv(path: Path, lines: Sequence[str], shape: tuple[int, int] | None, where: Mapping[str, str]) -> list[CollectiveTime]:
    table = csv.reader(lines)
    head = [name.strip() for name in next(table)]
    needed = _NEEDED if shape is not None else (*_NEEDED, "nodes", "gpus_per_node")
    if missing := [name for name in (*needed, *where) if name not in head]:
        raise ConfigError(f"{path}:1: has no column {', '.join(missing)}, only {', '.join(head)}")
    if wrong := [name for name in head if re.fullmatch(r"time(_inplace)?(_(ms|ns|s))?|size(_(kb|mb|kib|mib))?", name)]:
        raise ConfigError(f"{path}:1: column {wrong[0]}, expected times in time_us and sizes in size_bytes")
    found = []
    seen: dict[str, str] = {}
    for fields in table:
        line = f"{path}:{table.line_num}"
        if not fields:
            continue
        if len(fields) != len(head):
            raise ConfigError(f"{line}: has {len(fields)} fields, the first line has {len(head)}")
        row = dict(zip(head, map(str.strip, fields), strict=True))
        if any(row[name] != value for name, value in where.items()):
            continue
        for name in _MACHINE:
            if seen.setdefault(name, row.get(name, "")) != row.get(name, ""):
                raise ConfigError(f"{line}: {name} is {row[name]}, was {seen[name]}: --where {name}=... takes one")
        nodes, gpus = shape or (0, 0)
        if "nodes" in row and "gpus_per_node" in row:
            nodes, gpus = (_positive(line, name, row[name]) for name in ("nodes", "gpus_per_node"))
        size, kind = _positive(line, "size_bytes", row["size_bytes"]), _collective(line, row["collective"])
        algorithm = _algorithm(line, row.get("algorithm", ""))
        if nodes * gpus < 2:
            raise ConfigError(f"{line}: {nodes} nodes of {gpus} GPUs, expected two GPUs or more")
        times = (_time(line, name, row.get(name, "")) for name in ("time_us", "time_inplace_us"))
        found += [CollectiveTime(kind, algorithm, nodes, gpus, size, time, line) for time in times if time is not None and size]
    return found


def _read_log(path: Path, lines: Sequence[str], shape: tuple[int, int] | None) -> list[CollectiveTime]:
    """Times of the tests of a log; a file's name says the collective where no line does (`all_reduce_perf.log`)."""
    named = re.search("|".join((*COLLECTIVES, *_NAMES)), path.name)
    collective = _collective(str(path), named.group()) if named else ""
    hosts: list[str] = []
    times: list[int] = []
    width = 0
    found = []
    for number, text in enumerate(lines, 1):
        line = f"{path}:{number}"
        if test := _TEST.match(text):
            collective, hosts, times = _collective(line, test.group(1)), [], []
        elif rank := _RANK.match(text):
            hosts.append(rank.group(1))
        elif _HEAD.match(text):
            names = text.lstrip("# ").split()
            times, width = [at for at, name in enumerate(names) if name == "time"], len(names)
        elif _UNITS.match(text) and "(us)" not in text:
            raise ConfigError(f"{line}: times are not in us, expected the columns of nccl-tests")
        elif re.match(r"\s*\d+\s+\d+\s+[a-z]", text):
            if not times or not collective:
                raise ConfigError(f"{line}: a time before the line that names {'columns' if collective else 'the collective'}")
            fields = text.split()
            if len(fields) != width:
                raise ConfigError(f"{line}: has {len(fields)} fields, expected {width}")
            if not hosts and shape is None:
                raise ConfigError(f"{line}: no line of the log says the ranks and their hosts: give --network")
            nodes = len(set(hosts))
            nodes, gpus = (nodes, len(hosts) // nodes) if hosts else shape or (0, 0)
            if len(set(Counter(hosts).values())) > 1:
                raise ConfigError(f"{line}: {len(hosts)} ranks on {nodes} hosts, expected as many on each")
            size = _positive(line, "size", fields[0])
            both = (_time(line, "time", fields[at]) for at in times)
            found += [CollectiveTime(collective, "", nodes, gpus, size, time, line) for time in both if time is not None and size]
    return found
