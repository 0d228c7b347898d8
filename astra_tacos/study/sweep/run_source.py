"""Training runs of a sweep: the places of their files, and a digest of their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.run.system import read_system
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.study.sweep.field import naming
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import open_regular

RUN_KEYS = ("workload", "system", "comm_group", "remote_memory", "directory")


@dataclass(frozen=True, slots=True)
class RunSource:
    """The files of a training run.

    Parameters
    ----------
    paths
        Absolute paths in the order of `RUN_KEYS`: prefix of the trace files, system file, communicator group file, remote memory
        file, and the directory in which ASTRA-sim is started.
    digest
        SHA-256 over the content of all these files and of the traces that the system file names, in hexadecimal.
    num_ranks
        Number of trace files.
    """

    paths: tuple[str, str, str | None, str | None, str]
    digest: str
    num_ranks: int


def read_run_source(
    places: Mapping[str, str],
    folder: Path,
    workload: str,
    system: str,
    comm_group: str | None,
    remote_memory: str | None,
    directory: str | None,
) -> RunSource:
    """Find the files of a run and compute the digest of their content.

    Parameters
    ----------
    places
        Place of each of `RUN_KEYS` in the sweep file, for errors.
    folder
        Directory to which relative paths refer.
    workload
        Prefix of the trace files.
    system
        System file.
    comm_group
        Communicator group file, if any.
    remote_memory
        Remote memory file, if any.
    directory
        Directory in which ASTRA-sim is started, to which paths in the system file refer; by default that of the system file.

    Raises
    ------
    ConfigError
        If a file is missing or cannot be read.
    """
    folder = folder.resolve()
    system_path = Path(os.path.normpath(folder / system))
    start = system_path.parent if directory is None else Path(os.path.normpath(folder / directory))
    if not start.is_dir():
        raise ConfigError(f"{places['directory']}: {start}: no such directory, expected that in which ASTRA-sim is started")
    with naming(places["system"]):
        config = read_system(system_path, start)
    with naming(places["workload"]):
        ranks = trace_files(folder / workload)
    digest = hashlib.sha256()
    _add(digest, "system", system_path)
    for rank, path in enumerate(ranks):
        _add(digest, f"workload {rank}", path)
    optional = {
        "groups": ("comm_group", comm_group),
        "remote memory": ("remote_memory", remote_memory),
        "per node": ("system", config.per_node_source),
    }
    for role, (key, name) in optional.items():
        if name is None:
            continue
        with naming(places[key]):
            _add(digest, role, (start if role == "per node" else folder) / name)
    for prefix in sorted({*config.custom.values(), *config.per_node.values()}):
        if not Path(f"{start / prefix}.0.et").is_file():
            continue  # if the run uses it, reading the run reports the missing file
        for rank, path in enumerate(trace_files(start / prefix)):
            _add(digest, f"collective {prefix} {rank}", path)
    groups, memory = (None if name is None else os.path.normpath(folder / name) for name in (comm_group, remote_memory))
    prefix = os.path.normpath(folder / workload)
    return RunSource((prefix, str(system_path), groups, memory, str(start)), digest.hexdigest(), len(ranks))


def _add(digest: hashlib._Hash, role: str, path: Path) -> None:
    """Add the role of a file and the digest of its content, so that files in different roles cannot be exchanged unnoticed."""
    with open_regular(path, "a file of a run") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    digest.update(f"{role} {content}\n".encode())
