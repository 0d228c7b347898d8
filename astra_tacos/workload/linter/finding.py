"""The `Check` class: a code, a severity, and the function that finds the fault; and what it finds.

Tolerant reading of a run's files: a file that cannot be read becomes a `FileProblem`, and reading continues.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig, read_network
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.groups import group_id, group_members
from astra_tacos.run.run import RunInputs
from astra_tacos.run.system import RemoteMemory, SystemConfig, parse_system, read_per_node, read_remote_memory
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.trace import DANGLING, NumberLists, Trace
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.temporaries import scratch_directory
from astra_tacos.support.text_files import describe, read_json_object

if TYPE_CHECKING:
    from astra_tacos.workload.linter.facts import Facts


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
    files = rank_files(path)
    wanted = {rank: file for rank, file in files.items() if limit is None or rank < limit}
    compressed = tuple(rank for rank, file in wanted.items() if is_compressed(file))
    trace, unreadable = _read(path, wanted)
    return TraceFiles(prefix, path, tuple(files), trace, unreadable, compressed)


def rank_files(path: Path) -> dict[int, Path]:
    """File of each rank, by rank, of the traces of a prefix."""
    pattern = re.compile(re.escape(path.name) + r"\.(0|[1-9][0-9]{0,6})\.et")
    try:
        entries = [(match, entry) for entry in path.parent.iterdir() if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return {}
    return dict(sorted((int(match[1]), entry) for match, entry in entries if entry.is_file()))


def is_compressed(file: Path) -> bool:
    """Whether a file is compressed by gzip."""
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


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A fault of a configuration file, because of which the file or a part of it cannot be used."""

    file: str
    message: str
    group: int | None = None
    """The communicator group that is left out because of the fault, if it concerns one."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The inputs of a run, as far as they are readable.

    Parameters
    ----------
    directory
        The directory in which ASTRA-sim is started.
    backend
        The network model; the network's default if the user named none.
    system, network, remote_memory
        Contents of the files; None if a file cannot be used.
    groups_path, groups
        Path of the groups, None if no file is given; and the valid groups by id.
    groups_ignored
        Whether ASTRA-sim reads no groups, because their path contains "empty".
    workload
        Traces of the ranks.
    problems
        Faults by kind of file: system, network, remote_memory, groups, per_node; faults of single groups: group_id,
        group_members.
    """

    directory: Path
    backend: Backend
    system_path: Path
    network_path: Path
    groups_path: Path | None
    system: SystemConfig | None
    network: NetworkConfig | None
    remote_memory: RemoteMemory | None
    groups: Mapping[int, tuple[int, ...]]
    groups_ignored: bool
    workload: TraceFiles
    problems: Mapping[str, tuple[FileProblem, ...]]


def read_inputs(inputs: RunInputs, backend: Backend | str | None = None) -> Inputs:
    """Read all files of a run; a fault of a file becomes an entry of `problems`, not an exception.

    Parameters
    ----------
    inputs
        The files.
    backend
        Network model, by default that of the network.
    """
    problems: dict[str, list[FileProblem]] = {}

    def attempt(kind: str, file: str, read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except ConfigError as error:
            problems.setdefault(kind, []).append(FileProblem(file, str(error).removeprefix(f"{file}: ")))
            return None

    network: NetworkConfig | None = attempt("network", str(inputs.network), read_network, inputs.network)
    remote, given = inputs.remote_memory, inputs.groups
    memory = None if remote is None else attempt("remote_memory", str(remote), read_remote_memory, remote)
    groups, ignored = {}, given is not None and "empty" in str(given)
    if given is not None and not ignored:
        groups = _groups(given, attempt("groups", str(given), read_json_object, given) or {}, problems)
    return Inputs(
        directory=inputs.directory,
        backend=choose_backend(backend, network),
        system_path=inputs.system,
        network_path=inputs.network,
        groups_path=given,
        system=_system(inputs.system, inputs.directory, problems),
        network=network,
        remote_memory=memory,
        groups=groups,
        groups_ignored=ignored,
        workload=read_trace_files(str(inputs.workload), inputs.workload, network.num_npus if network else None),
        problems={kind: tuple(found) for kind, found in problems.items()},
    )


def _system(path: Path, directory: Path, problems: dict[str, list[FileProblem]]) -> SystemConfig | None:
    """The system; without its per-node collectives if only their file is bad."""
    try:
        config = parse_system(path, read_json_object(path))
    except ConfigError as error:
        problems.setdefault("system", []).append(FileProblem(str(path), str(error).removeprefix(f"{path}: ")))
        return None
    if config.per_node_source is None:
        return config
    opened = directory / config.per_node_source
    try:
        return replace(config, per_node=read_per_node(opened))
    except ConfigError as error:
        what = str(error).removeprefix(f"{opened}: ")
        if not opened.exists() and (path.parent / config.per_node_source).exists():
            what += f"; there is one in {path.parent}"
        problems.setdefault("per_node", []).append(FileProblem(config.per_node_source, what))
        return config


def _groups(path: Path, document: Mapping[str, Any], problems: dict[str, list[FileProblem]]) -> dict[int, tuple[int, ...]]:
    groups: dict[int, tuple[int, ...]] = {}
    for name, ranks in document.items():
        group = group_id(name)
        if group is None or group in groups:
            what = f"group {describe(name)}" + (" is given twice" if group is not None else " is no whole number of 1 or more")
            problems.setdefault("group_id", []).append(FileProblem(str(path), what))
            continue
        try:
            groups[group] = group_members(path, group, ranks)
        except ConfigError as error:
            what = str(error).removeprefix(f"{path}: ")
            problems.setdefault("group_members", []).append(FileProblem(str(path), what, group))
    return groups


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """ASTRA-sim will stall, abort or compute something else."""
    WARNING = "warning"
    """ASTRA-sim may stall, depending on timing, or ignores a setting."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a run, with its place and a remedy."""

    code: str
    severity: Severity
    message: str
    """The fault, in words."""
    remedy: str
    """What to do about the fault."""
    file: str | None = None
    rank: int | None = None
    node: int | None = None

    @property
    def where(self) -> str:
        """File and node, like `workload/w.3.et node 17`; the name of a trace's file contains the rank."""
        place = self.file or "the run"
        return place if self.node is None else f"{place} node {self.node}"


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as a check returns it, without the check's code, and without a severity unless it differs from the check's."""

    message: str
    remedy: str = ""
    file: str | None = None
    rank: int | None = None
    node: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Findings of one kind at many rows of a trace; the text of each is made only when it is shown."""

    rows: NDArray[np.int64]
    describe: Callable[[int], Found]


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of fault that the linter looks for.

    Parameters
    ----------
    code
        A letter for the family and two digits. A code is never reused for another fault.
    severity
        Severity of the findings, except of those that have their own.
    title
        The fault in a few words.
    find
        The function that finds the fault. Its docstring is the explanation: what ASTRA-sim does, why, and the remedy.
    """

    code: str
    severity: Severity
    title: str
    find: Callable[[Facts], Iterable[Found | FoundRows]]

    @property
    def explanation(self) -> str:
        """Text that says what happens in ASTRA-sim, why, and what to do about it."""
        return inspect.cleandoc(self.find.__doc__ or "")
