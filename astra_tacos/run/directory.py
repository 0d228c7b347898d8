"""A directory as a run: the one place that finds the files of a run in a directory, ordinary, planned or compact.

An ordinary run has `workload/PREFIX.<rank>.et`, `system.json`, `network.yml`, `comm_group.json` and `remote_memory.json`, and
ASTRA-sim is started in its directory. A compact one has `ranks.json` and traces of classes.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.network.network_config import read_network
from astra_tacos.network.network_files import NETWORK
from astra_tacos.run.compact_run import read_compact
from astra_tacos.run.run import GROUPS, MEMORY, RANKS, SYSTEM, WORKLOAD, Run, RunInputs, read_run
from astra_tacos.run.system import default_system
from astra_tacos.support import temporaries
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import write_json

_log = logging.getLogger(__name__)
_FIRST_TRACE = ".0.et"
_LISTED = 8
"""Entries of a directory that an error lists."""
_PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class CompactInputs:
    """The files of a compact run: its directory, which has all but the network, and the network.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import Parallelism, Step, Transformer, generate, CompactInputs
    >>> step = Step(Transformer(2, 256, 1024, 4, 1000, 128, 4), Parallelism(dp=16))
    >>> generated = generate(step, "steps", network="configs/network/torus_4x4.yml", compact=True)
    >>> CompactInputs(generated.path, Path("configs/network/torus_4x4.yml")).folder.name
    'steps'
    """

    folder: Path
    network: Path


def read_found(inputs: RunInputs | CompactInputs) -> Run:
    """Read the files of a run, ordinary or compact.

    Raises
    ------
    ConfigError
        If a file cannot be read or has wrong contents.
    """
    if isinstance(inputs, CompactInputs):
        return read_compact(inputs.folder, read_network(inputs.network))
    return read_run(inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a user gives of a run beside its directory, by the fields of `RunInputs`; it counts before what is inside."""

    workload: Path | None = None
    system: Path | None = None
    network: Path | None = None
    groups: Path | None = None
    remote_memory: Path | None = None
    directory: Path | None = None


def workloads_in(directory: Path) -> list[Path]:
    """The prefixes of traces in the folder of workloads of a directory, by name."""
    return sorted(
        path.with_name(path.name.removesuffix(_FIRST_TRACE)) for path in (directory / WORKLOAD).glob(f"*{_FIRST_TRACE}")
    )


def is_compact(directory: Path) -> bool:
    """Whether a directory is a compact run."""
    return (directory / RANKS).is_file()


def holds_run(directory: Path) -> bool:
    """Whether a directory has the traces of a run, ordinary or compact."""
    return is_compact(directory) or bool(workloads_in(directory))


def find_files(directory: Path, command: str | None, given: Given = Given()) -> Given:
    """Find the files of an ordinary run in a directory: those that are given, else those inside; None where there is neither.

    Parameters
    ----------
    command
        What the user typed, which an error shows with the option that is missing; None where a program calls.

    Raises
    ------
    ConfigError
        If there is no directory, or no workload or more than one in it.
    """
    if not directory.is_dir():
        problem = "not a directory, expected the directory of a run (--workload takes a prefix of traces)"
        raise ConfigError(
            f"{directory}: {problem if directory.exists() else 'no such directory, expected the directory of a run'}"
        )
    workload = given.workload
    if workload is None:
        prefixes = workloads_in(directory)
        if len(prefixes) != 1:
            names = ", ".join(prefix.name for prefix in prefixes[:_LISTED]) + (", ..." if len(prefixes) > _LISTED else "")
            problem = f"found workloads {names}" if prefixes else f"found {_listed(directory)}"
            expected = "one" if prefixes else f"the traces of a run, {WORKLOAD}/PREFIX.<rank>.et"
            prefix = shlex.quote(str(prefixes[0])) if prefixes else "PREFIX"
            remedy = "" if command is None else f": `{command} --workload {prefix}`"
            raise ConfigError(f"{directory}: {problem}, expected {expected}{remedy}")
        (workload,) = prefixes

    def inside(name: str) -> Path | None:
        return directory / name if (directory / name).is_file() else None

    groups = inside(GROUPS)
    return Given(
        workload=workload,
        system=given.system or inside(SYSTEM),
        network=given.network or inside(NETWORK),
        groups=given.groups or (groups if groups is not None and groups.stat().st_size else None),
        remote_memory=given.remote_memory or inside(MEMORY),
        directory=given.directory or directory,
    )


def find_run(directory: Path, command: str | None, given: Given = Given()) -> RunInputs | CompactInputs:
    """Find a run in a directory. A system that is missing is the one that `lint --fix` writes, which a warning says.

    Parameters
    ----------
    command
        What the user typed, which an error shows with the option that is missing; None where a program calls.
    given
        What counts before the files inside; of a compact run, only a network may be given.

    Raises
    ------
    ConfigError
        If the workload or the network is not found, or a compact run is given more than a network.
    """
    if is_compact(directory):
        if given != Given(network=given.network):
            raise ConfigError(f"{directory} is a compact run, which has all files: expected --network alone")
        return CompactInputs(directory, _network(directory, command, given))
    given_files = find_files(directory, command, given)
    network = _network(directory, command, given_files)
    assert given_files.workload is not None and given_files.directory is not None  # find_files
    system = given_files.system or _default_system(directory, network)
    return RunInputs(given_files.workload, system, network, given_files.groups, given_files.remote_memory, given_files.directory)


def _network(directory: Path, command: str | None, given: Given) -> Path:
    """The network of a run: the given one, or the one inside."""
    network = given.network or directory / NETWORK
    if given.network is None and not network.is_file():
        remedy = "network='N.yml'" if command is None else f"`{command} --network N.yml`"
        raise ConfigError(f"{directory}: found {_listed(directory)}, expected {NETWORK} with it: {remedy}")
    return network


def _default_system(directory: Path, network: Path) -> Path:
    """A system file of native rings for a run that has none."""
    dimensions = len(read_network(network).dimensions)
    _log.warning("%s: no %s: native rings, as lint --fix writes (--system FILE says another)", directory, SYSTEM)
    path = temporaries.create_scratch_directory() / SYSTEM  # goes when the process ends
    write_json(path, default_system(dimensions))
    return path


def _listed(directory: Path) -> str:
    """The entries of a directory, in words."""
    names = sorted(path.name for path in directory.iterdir())
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "") or "nothing"


def next_command(directory: Path, network: Path | None = None) -> str:
    """The command that plans the run of a directory; `network` is its network where there is none inside (None: any)."""
    has_network = (directory / NETWORK).is_file()
    option = "" if has_network else f" --network {shlex.quote(str(network or 'N.yml'))}"
    output = _PLANNED if Path(_PLANNED).resolve() != directory.resolve() else f"{_PLANNED}_again"
    return f"astra-tacos plan {shlex.quote(str(directory))}{option} --output {output}"
