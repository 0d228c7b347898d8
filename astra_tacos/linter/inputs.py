"""Tolerant reading of a run's files: a file that cannot be read becomes a `Problem`, and reading continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.config.communicator import group_id, group_members
from astra_tacos.config.json_text import read_json_object
from astra_tacos.config.network import NetworkConfig, read_network
from astra_tacos.config.per_node import read_per_node
from astra_tacos.config.remote_memory import RemoteMemory, read_remote_memory
from astra_tacos.config.system import SystemConfig, parse_system
from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.linter.trace_files import TraceFiles, read_trace_files
from astra_tacos.run.backend import Backend, choose_backend


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


def read_inputs(
    workload: str | Path,
    system: str | Path,
    network: str | Path,
    comm_group: str | Path | None = None,
    remote_memory: str | Path | None = None,
    directory: str | Path = Path(),
    backend: Backend | str | None = None,
) -> Inputs:
    """Read all files of a run; a fault of a file becomes an entry of `problems`, not an exception.

    Parameters
    ----------
    workload
        Prefix of the trace files.
    system
        System file.
    network
        Network file.
    comm_group
        Communicator group file, if any.
    remote_memory
        Remote memory file, if any.
    directory
        Directory in which ASTRA-sim would be started.
    backend
        Network model, by default that of the network.
    """
    directory = Path(directory)
    problems: dict[str, list[FileProblem]] = {}

    def attempt(kind: str, file: str, read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except ConfigError as error:
            problems.setdefault(kind, []).append(FileProblem(file, str(error).removeprefix(f"{file}: ")))
            return None

    network_config: NetworkConfig | None = attempt("network", str(network), read_network, Path(network))
    memory = None if remote_memory is None else attempt("remote_memory", str(remote_memory), read_remote_memory, remote_memory)
    groups, ignored = {}, comm_group is not None and "empty" in str(comm_group)
    if comm_group is not None and not ignored:
        document = attempt("groups", str(comm_group), read_json_object, Path(comm_group)) or {}
        groups = _groups(Path(comm_group), document, problems)
    return Inputs(
        directory=directory,
        backend=choose_backend(backend, network_config),
        system_path=Path(system),
        network_path=Path(network),
        groups_path=None if comm_group is None else Path(comm_group),
        system=_system(Path(system), directory, problems),
        network=network_config,
        remote_memory=memory,
        groups=groups,
        groups_ignored=ignored,
        workload=read_trace_files(str(workload), Path(workload), network_config.num_npus if network_config else None),
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
