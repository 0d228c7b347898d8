"""Reading of the traces of a prefix, even if some of the files are missing or damaged."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.errors import ConfigError
from astra_tacos.temporaries import scratch_directory
from astra_tacos.trace.reader import read_trace
from astra_tacos.trace.trace import DANGLING, NumberLists, Trace

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, eq=False)
class TraceFiles:
    """The files `PREFIX.<rank>.et` of a workload or of a custom collective.

    Parameters
    ----------
    prefix
        The prefix as the user wrote it.
    path
        The prefix relative to the current directory, from which files are opened.
    ranks
        Ranks that have a file.
    trace
        Nodes of the readable files; other ranks have no rows. None if no file is readable.
    unreadable
        The fault of each unreadable file, by rank.
    compressed
        Ranks whose file is compressed by gzip.
    """

    prefix: str
    path: Path
    ranks: tuple[int, ...]
    trace: Trace | None
    unreadable: Mapping[int, str] = field(default_factory=dict)
    compressed: tuple[int, ...] = ()

    def file(self, rank: int) -> str:
        """Name of a rank's file, as findings give it."""
        return f"{self.prefix}.{rank}.et"


def read_trace_files(prefix: str, path: Path, limit: int | None = None) -> TraceFiles:
    """Read the traces of a prefix, as far as they are readable.

    Parameters
    ----------
    prefix, path
        The prefix as the user wrote it, and as it is opened.
    limit
        Number of ranks to read; files of later ranks are only counted. None for all.
    """
    files = _files(path)
    wanted = {rank: file for rank, file in files.items() if limit is None or rank < limit}
    compressed = tuple(rank for rank, file in wanted.items() if _starts_compressed(file))
    trace, unreadable = _read(path, wanted)
    return TraceFiles(prefix, path, tuple(files), trace, unreadable, compressed)


def _files(path: Path) -> dict[int, Path]:
    """File of each rank, by rank."""
    pattern = re.compile(re.escape(path.name) + r"\.(0|[1-9][0-9]{0,6})\.et")
    try:
        entries = [(match, entry) for entry in path.parent.iterdir() if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return {}
    return dict(sorted((int(match[1]), entry) for match, entry in entries if entry.is_file()))


def _starts_compressed(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(2) == _GZIP_MAGIC
    except OSError:
        return False


def _read(path: Path, files: Mapping[int, Path]) -> tuple[Trace | None, dict[int, str]]:
    if not files:
        return None, {}
    # The reader needs sound files of ranks 0, 1, ... without gaps: symbolic links give the readable files such numbers.
    with scratch_directory() as folder:
        whole = _read_linked(folder / "all", list(files.values()))
        if isinstance(whole, Trace):
            return _spread([whole], list(files), path), {}
        parts: dict[int, Trace] = {}
        unreadable: dict[int, str] = {}
        for rank, file in files.items():
            part = _read_linked(folder / f"rank{rank}", [file])
            if isinstance(part, Trace):
                parts[rank] = part
            else:
                unreadable[rank] = part
    return (_spread(list(parts.values()), list(parts), path) if parts else None), unreadable


def _read_linked(prefix: Path, files: list[Path]) -> Trace | str:
    """The trace, or its fault without the name of the file."""
    for place, file in enumerate(files):
        Path(f"{prefix}.{place}.et").symlink_to(file.resolve())
    try:
        return read_trace(prefix, chunks=True, workload=True)
    except ConfigError as error:
        _, _, what = str(error).partition(".et: ")
        return what or str(error)


def _spread(parts: list[Trace], ranks: list[int], path: Path) -> Trace:
    """One trace of all parts, whose ranks get their original numbers back; ranks between them have no rows."""
    merged = parts[0] if len(parts) == 1 else _concatenate(parts)
    counts = np.zeros(ranks[-1] + 1, np.int64)
    counts[ranks] = np.diff(merged.rank_first)
    return dataclasses.replace(merged, prefix=str(path), rank_first=np.concatenate(([0], np.cumsum(counts))))


def _concatenate(parts: list[Trace]) -> Trace:
    names = tuple(dict.fromkeys(name for part in parts if part.workload for name in part.workload.group_names))
    place = {name: number for number, name in enumerate(names)}
    begins = np.cumsum([0, *(part.num_nodes for part in parts)])
    columns: dict[str, object] = {"prefix": parts[0].prefix}
    for entry in dataclasses.fields(Trace):
        values = [getattr(part, entry.name) for part in parts]
        if entry.name in ("rank_first", "dep_first"):
            columns[entry.name] = _lengthen(values)
        elif entry.name == "dep":
            shifted = [np.where(dep == DANGLING, dep, dep + begin) for dep, begin in zip(values, begins, strict=False)]
            columns[entry.name] = np.concatenate(shifted)
        elif entry.name in ("workload", "chunks"):
            columns[entry.name] = _concatenate_columns(values, names, place, begins)
        elif entry.name != "prefix":
            columns[entry.name] = np.concatenate(values)
    return Trace(**columns)  # type: ignore[arg-type]


def _lengthen(firsts: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = np.concatenate([np.diff(first) for first in firsts])
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _concatenate_columns(
    values: list[object], names: tuple[str, ...], place: Mapping[str, int], begins: NDArray[np.int64]
) -> object:
    if any(value is None for value in values):
        return None
    columns: dict[str, object] = {}
    for entry in dataclasses.fields(values[0]):  # type: ignore[arg-type]
        arrays = [getattr(value, entry.name) for value in values]
        if entry.name == "group_names":
            columns[entry.name] = names
        elif entry.name == "group":
            maps = [np.array([*(place[name] for name in value.group_names), -1], np.int32) for value in values]  # type: ignore[attr-defined]
            columns[entry.name] = np.concatenate([table[group] for table, group in zip(maps, arrays, strict=True)])
        elif isinstance(arrays[0], NumberLists):
            columns[entry.name] = _concatenate_lists(arrays, begins)
        else:
            columns[entry.name] = np.concatenate(arrays)
    return type(values[0])(**columns)


def _concatenate_lists(parts: list[NumberLists], begins: NDArray[np.int64]) -> NumberLists:
    node = np.concatenate([part.node + begin for part, begin in zip(parts, begins, strict=False)])
    return NumberLists(node, _lengthen([part.first for part in parts]), np.concatenate([part.entry for part in parts]))
