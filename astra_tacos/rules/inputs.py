"""Tolerant reading of a run's files: a file that cannot be read becomes a `Found`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.network_config import NetworkConfig, read_network
from astra_tacos.rules.rule import Found
from astra_tacos.run.backend import Backend, choose_backend, stock_backend
from astra_tacos.run.compact_run import expand, read_compact
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.groups import group_members, named_group
from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.run import RANKS, SYSTEM, Run, RunInputs, read_run
from astra_tacos.run.system import RemoteMemory, SystemConfig, parse_system, read_remote_memory, with_per_node
from astra_tacos.run.trace.reader import Load, read_files, read_held, read_trace
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object

_GZIP_MAGIC = b"\x1f\x8b"
_Problems = dict[str, list[Found]]


@dataclass(frozen=True, slots=True, eq=False)
class TraceFiles:
    """The files `PREFIX.<rank>.et` of a workload or of a custom collective.

    Parameters
    ----------
    prefix
        Their prefix, as findings give it.
    ranks
        Those that have a file.
    trace
        Nodes of the readable files; other ranks have no rows. None if no file is readable.
    """

    prefix: str
    ranks: Sequence[int]
    trace: Trace | None
    unreadable: Mapping[int, str] = field(default_factory=dict)
    compressed: tuple[int, ...] = ()

    def file(self, rank: int) -> str:
        """Name of a rank's file, as findings give it: of a run with classes the file of its class."""
        numbers = None if self.trace is None else self.trace.files
        return f"{self.prefix}.{rank if numbers is None else numbers[rank]}.et"


def read_trace_files(prefix: str, path: Path, limit: int | None = None) -> TraceFiles:
    """Read the traces of a prefix, as far as they are readable.

    Parameters
    ----------
    limit
        Number of ranks to read; files of later ranks are only counted. None for all.
    """
    files = rank_files(path)
    wanted = {rank: file for rank, file in files.items() if limit is None or rank < limit}
    compressed = tuple(rank for rank, file in wanted.items() if is_compressed(file))

    def read(ranks: list[int]) -> Trace:
        return read_files(str(path), [wanted[rank] for rank in ranks], chunks=True, workload=True)

    return TraceFiles(prefix, tuple(files), *_read(list(wanted), read), compressed)


def held_trace_files(
    prefix: str, held: Mapping[int, Load], limit: int | None = None, compressed: tuple[int, ...] = ()
) -> TraceFiles:
    """The traces of a prefix that need not be written, as far as they are readable; the parameters are those of `read_held`."""
    wanted = [rank for rank in held if limit is None or rank < limit]

    def read(ranks: list[int]) -> Trace:
        return read_held(prefix, {rank: held[rank] for rank in ranks}, chunks=True, workload=True)

    return TraceFiles(prefix, tuple(held), *_read(wanted, read), tuple(rank for rank in wanted if rank in compressed))


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


def _read(wanted: list[int], read: Callable[[list[int]], Trace]) -> tuple[Trace | None, dict[int, str]]:
    """The trace of the readable files, whose ranks keep their numbers, and the faults of the other files."""
    ranks, unreadable = wanted, {}
    try:
        trace = read(ranks) if ranks else None
    except ConfigError:
        for rank in wanted:
            try:
                read([rank])
            except ConfigError as error:
                unreadable[rank] = str(error).partition(".et: ")[2] or str(error)
        ranks = [rank for rank in wanted if rank not in unreadable]
        trace = read(ranks) if ranks else None
    if trace is None:
        return None, unreadable
    counts = np.zeros(ranks[-1] + 1, np.int64)
    counts[ranks] = np.diff(trace.rank_first)
    return replace(trace, rank_first=np.concatenate(([0], np.cumsum(counts)))), unreadable


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The inputs of a run, as far as they are readable.

    Parameters
    ----------
    directory
        Where ASTRA-sim is started.
    backend
        The network model; the network's default if the user named none.
    system, network, remote_memory
        Contents of the files; None if a file cannot be used.
    groups_path, groups
        Path of the groups, None if no file is given; and the valid groups by id.
    groups_ignored
        Whether ASTRA-sim reads no groups, because their path contains "empty".
    custom
        Reads the traces of a custom collective: those of a prefix, of so many positions (None for all).
    run
        Reads the run as ASTRA-sim does.
    problems
        Faults by kind of file: system, network, remote_memory, groups, per_node; faults of single groups: group_id,
        group_members.
    """

    directory: Path
    backend: Backend
    system_path: Path
    groups_path: Path | None
    system: SystemConfig | None
    network: NetworkConfig | None
    remote_memory: RemoteMemory | None
    groups: Mapping[int, tuple[int, ...]]
    bad_groups: tuple[int, ...]
    groups_ignored: bool
    workload: TraceFiles
    custom: Callable[[str, int | None], TraceFiles]
    run: Callable[[], Run]
    problems: Mapping[str, list[Found]]


def _attempt(problems: _Problems, kind: str, file: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """What a file says; None if it cannot be used, which becomes a problem of a kind."""
    try:
        return read(file, *arguments)
    except ConfigError as error:
        problems.setdefault(kind, []).append(Found(str(error).removeprefix(f"{file}: "), file=str(file)))
        return None


def usable_groups(
    path: Path, listed: Mapping[str, object], problems: _Problems
) -> tuple[dict[int, tuple[int, ...]], tuple[int, ...]]:
    """The valid groups of a file by id, and the ids of others; what is wrong with a group is added to `problems`."""
    groups: dict[int, tuple[int, ...]] = {}
    bad: list[int] = []
    for name, ranks in listed.items():
        group = _attempt(problems, "group_id", path, named_group, name, groups)
        if group is None:
            continue
        if (members := _attempt(problems, "group_members", path, group_members, group, ranks)) is None:
            bad.append(group)
        else:
            groups[group] = members
    return groups, tuple(bad)


def read_inputs(inputs: RunInputs, backend: Backend | str | None = None) -> Inputs:
    """Read all files of a run; a fault of a file becomes an entry of `problems`, not an exception.

    Parameters
    ----------
    backend
        Network model, by default that of the network.
    """
    problems: dict[str, list[Found]] = {}

    attempt = partial(_attempt, problems)

    network: NetworkConfig | None = attempt("network", inputs.network, read_network)
    remote, given = inputs.remote_memory, inputs.groups
    ignored = inputs.ignores_groups
    listed = (attempt("groups", given, read_json_object) or {}) if given is not None and not ignored else {}
    groups, bad = usable_groups(given or Path(), listed, problems)
    system: SystemConfig | None = attempt("system", inputs.system, lambda path: parse_system(path, read_json_object(path)))
    if system is not None and system.per_node_source is not None:
        system = _with_per_node(system, inputs, problems)
    return Inputs(
        directory=inputs.directory,
        backend=stock_backend(network) if backend is None else choose_backend(backend),
        system_path=inputs.system,
        groups_path=given,
        system=system,
        network=network,
        remote_memory=None if remote is None else attempt("remote_memory", remote, read_remote_memory),
        groups=groups,
        bad_groups=bad,
        groups_ignored=ignored,
        workload=read_trace_files(str(inputs.workload), inputs.workload, network.num_npus if network else None),
        custom=lambda prefix, limit: read_trace_files(prefix, inputs.directory / prefix, limit),
        run=partial(read_run, inputs),
        problems=problems,
    )


def compact_inputs(inputs: CompactInputs, backend: Backend | str | None = None) -> Inputs:
    """The ordinary run that a compact one stands for. The file of each rank is that of its class.

    Parameters
    ----------
    backend
        Network model, by default that of the network.

    Raises
    ------
    ConfigError
        If a file is not what it should be, or the run has too many ranks.
    """
    compact = read_compact(inputs.folder, read_network(inputs.network))
    run = expand(compact)
    lattices = {
        prefix: collective.lattice
        for prefix, collective in zip(compact.prefixes, compact.collectives, strict=True)
        if isinstance(collective, CompactTrace)
    }

    def custom(prefix: str, _: int | None) -> TraceFiles:
        some = read_trace(inputs.folder / prefix, workload=True)
        trace = replace(CompactTrace(some, lattices[prefix]).expand(), files=None)  # findings give positions, not classes
        return TraceFiles(prefix, tuple(range(trace.num_ranks)), trace)

    return Inputs(
        directory=inputs.folder,
        backend=stock_backend(run.network) if backend is None else choose_backend(backend),
        system_path=inputs.folder / SYSTEM,
        groups_path=inputs.folder / RANKS,
        system=run.system,
        network=run.network,
        remote_memory=run.remote_memory,
        groups=run.groups.members,
        bad_groups=(),
        groups_ignored=False,
        workload=TraceFiles(run.workload.prefix, tuple(range(run.workload.num_ranks)), run.workload),
        custom=custom,
        run=lambda: run,
        problems={},
    )


def _with_per_node(system: SystemConfig, inputs: RunInputs, problems: dict[str, list[Found]]) -> SystemConfig:
    """The system with its per-node collectives; without them if their file is bad."""
    source = system.per_node_source or ""
    try:
        return with_per_node(system, inputs.directory)
    except ConfigError as error:
        problem = str(error).removeprefix(f"{inputs.directory / source}: ")
        problems.setdefault("per_node", []).append(Found(problem, file=source))
        return system
