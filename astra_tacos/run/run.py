"""The `Run` class: everything that a run of ASTRA-sim reads, read as ASTRA-sim reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig, configured, read_network
from astra_tacos.network.network_files import NETWORK
from astra_tacos.run.collective_files import CollectiveFiles
from astra_tacos.run.groups import ALL_RANKS, NO_GROUPS, CommunicatorGroups, group_ids, read_communicator_groups
from astra_tacos.run.lattice import CompactTrace, Lattice
from astra_tacos.run.source import Source
from astra_tacos.run.system import RemoteMemory, SystemConfig, read_remote_memory, read_system
from astra_tacos.run.trace.reader import read_names, read_trace
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace, WorkloadColumns
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct

PATTERN_KEYS = {
    CommType.ALL_REDUCE: "all-reduce",
    CommType.ALL_GATHER: "all-gather",
    CommType.REDUCE_SCATTER: "reduce-scatter",
    CommType.ALL_TO_ALL: "all-to-all",
}
"""Collective patterns that ASTRA-sim runs, and their keys in the system JSON."""
NATIVE = -1
"""Entry of `Run.implementation` for nodes that run no custom trace."""
GROUPS, SYSTEM, MEMORY, WORKLOAD = "comm_group.json", "system.json", "remote_memory.json", "workload"
"""Names of files, and of the folder of traces, in a run directory."""
NAME = "w"
"""Name of the workload of a run that is made without one."""
CLASSES, RANKS = f"classes/{NAME}", "ranks.json"
"""The prefix of the traces, and the file of their ranks, in the directory of a compact run."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The files of a run, as ASTRA-sim takes them.

    Parameters
    ----------
    workload
        Prefix of its traces: `PREFIX.<rank>.et`.
    system, network, groups, remote_memory
        Files; None where there is none. A path of groups that contains "empty" stands for no groups, as in ASTRA-sim
        (`Workload.cc`).
    directory
        Where ASTRA-sim is started: relative paths in the system JSON and in the per-node YAML start there.
    ns3
        Configuration of ASTRA-sim's ns-3 backend; None for that of its repository.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> inputs.system.name
    'system.json'
    """

    workload: Path
    system: Path
    network: Path
    groups: Path | None = None
    remote_memory: Path | None = None
    directory: Path = Path()
    ns3: Path | None = None

    @property
    def ignores_groups(self) -> bool:
        """Whether ASTRA-sim takes the path of groups for none, as it has "empty" in it, seen from where ASTRA-sim is started."""
        path = self.groups
        if path is None:
            return False
        return "empty" in str(path.relative_to(self.directory) if path.is_relative_to(self.directory) else path)

    @classmethod
    def in_folder(cls, folder: Path, name: str, ns3: Path | None = None) -> RunInputs:
        """Those of a run directory, whose workload has this name; ASTRA-sim is started there."""
        groups, memory = (path if path.is_file() else None for path in (folder / GROUPS, folder / MEMORY))
        return cls(folder / WORKLOAD / name, folder / SYSTEM, folder / NETWORK, groups, memory, folder, ns3)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """Everything that a run of ASTRA-sim reads: workload, system, network, groups, memory and custom collectives.

    Parameters
    ----------
    workload
        Traces of all ranks, with `workload` columns; of a run with classes those of representatives (`Trace.owners`).
    system, network, groups, remote_memory
        Contents of their files; `remote_memory` is None if no file was given.
    prefixes
        Prefixes of the traces of custom collectives that some node of the workload uses, as the system's files name them.
    collectives
        Traces of these prefixes, in the same order; compact ones in a run with classes.
    implementation
        int32[num_nodes], entry of `prefixes` that a collective node of the workload uses; NATIVE (-1) for other nodes.
    directory
        The directory in which ASTRA-sim is started: relative paths in the system JSON and in the per-node YAML start there.
    slow
        Ranks whose compute takes a factor longer than their traces say, and these factors.
    delay
        Ranks that start later than their traces say, and by how many ns: the first node of such a rank takes this time.
    source
        The run that it was made of, and which of its nodes each node was; None if no node differs from those of its files.
    files
        The files of custom collectives, by their prefix, of a run that is made in memory: they are written with it.
    classes
        The translations that make the traces of all ranks of those of representatives; None for an ordinary run.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, read_run, replay_run
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> run = read_run(replace(inputs, network=Path("configs/network/torus_4x4.yml")))
    >>> int(replay_run(replace(run, slow=((3, 2.0),))).compute_ns[3] // replay_run(run).compute_ns[3])
    2
    """

    workload: Trace
    system: SystemConfig
    network: NetworkConfig
    groups: CommunicatorGroups
    remote_memory: RemoteMemory | None
    prefixes: tuple[str, ...]
    collectives: tuple[Trace | CompactTrace, ...]
    implementation: Ints32
    directory: Path
    slow: tuple[tuple[int, float], ...] = ()
    delay: tuple[tuple[int, int], ...] = ()
    source: Source | None = None
    files: Mapping[str, CollectiveFiles] = field(default_factory=dict)
    classes: Lattice | None = None

    def __repr__(self) -> str:
        trace = self.workload
        return f"<Run: {trace.prefix}, {trace.num_ranks:,} ranks, {trace.num_nodes:,} nodes on {self.network.name}>"

    @property
    def columns(self) -> WorkloadColumns:
        """The attributes of the workload's nodes, as columns."""
        if self.workload.workload is None:
            raise ValueError("the workload was read without its columns")
        return self.workload.workload

    def names(self, rows: Sequence[int] | Ints) -> list[str]:
        """The names of nodes.

        Raises
        ------
        ConfigError
            If a file of the run that it was made of has changed since that was read.
        """
        source = self.source
        if source is None:
            return read_names(self.workload, rows)
        rows = np.asarray(rows, np.int64)
        names = source.run.names(source.row[rows])
        suffix = None if source.labels is None else source.labels.suffix
        return names if suffix is None else [f"{name}{suffix[row]}" for name, row in zip(names, rows.tolist(), strict=True)]

    @property
    def lattice(self) -> Lattice:
        """The translations of a run with classes."""
        if self.classes is None:
            raise ValueError("the run has no classes")
        return self.classes

    def write(self, folder: Path, name: str = NAME) -> Run:
        """Write the run into an empty directory, and read it back: the columns are the same, so that its replay is, too.

        Parameters
        ----------
        name
            Of its workload: `folder/workload/NAME.<rank>.et`. A run with classes has `folder/CLASSES.<class>.et`, and `RANKS`.

        Raises
        ------
        ConfigError
            If a file of the run that it was made of has changed since that was read, or files cannot say what the run is.
        VerificationError
            If the run that is read is another one: a defect of this package.
        """
        from astra_tacos.run.compact_run import read_compact
        from astra_tacos.run.written import check_same, check_unchanged, check_writable, write_run

        check_writable(self)
        is_ordinary = self.classes is None
        try:
            write_run(self, folder, name)
            inputs = RunInputs.in_folder(folder, name)
            again = read_run(inputs) if is_ordinary else read_compact(folder, read_network(inputs.network))
            check_same(self, again)
        except Exception:  # of whatever kind: bytes at the places of nodes are others in a file that has changed
            check_unchanged(self)
            raise
        return replace(again, network=replace(again.network, ns3=self.network.ns3))

    def slowed(self, slow: Mapping[int, float]) -> Run:
        """The run in which the compute of some ranks takes a factor longer.

        Raises
        ------
        ConfigError
            If there is no such rank.
        """
        self._check_ranks("--slow", slow)
        return replace(self, slow=tuple(sorted((rank, factor) for rank, factor in slow.items() if factor != 1)))

    def delayed(self, delay_ns: Mapping[int, int]) -> Run:
        """The run in which some ranks start so many ns later, as if a compute node of that time came before all their nodes.

        Raises
        ------
        ConfigError
            If there is no such rank, the run has classes (`expand` gives the ordinary run), or ranks are delayed already.
        """
        from astra_tacos.run.delayed import with_first_nodes

        self._check_ranks("--delay", delay_ns)
        delay_ns = {rank: time_ns for rank, time_ns in delay_ns.items() if time_ns > 0}
        if not delay_ns:
            return self
        if self.classes is not None or self.delay:
            feature = "ranks that are delayed" if self.delay else "classes"
            raise ConfigError(f"{self.workload.prefix}: a run with {feature}, expected the ordinary run without a delay")
        return with_first_nodes(self, delay_ns)

    def _check_ranks(self, option: str, ranks: Iterable[int]) -> None:
        """Check that ranks of an option are ranks of the network."""
        if unknown := [rank for rank in ranks if not 0 <= rank < self.network.num_npus]:
            raise ConfigError(f"{option}: found rank {unknown[0]}, expected one below {self.network.num_npus}")


def read_run(inputs: RunInputs) -> Run:
    """Read all files of a run.

    As in ASTRA-sim, traces of ranks beyond the network, or of positions beyond a custom collective's groups, are not opened.

    Raises
    ------
    ConfigError
        If a file cannot be read or has wrong contents; the message is one line with file and place.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, read_run
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> run = read_run(replace(inputs, network=Path("configs/network/torus_4x4.yml")))
    >>> run.workload.num_ranks, run.network.num_npus
    (16, 16)
    """
    groups, memory_file, directory = inputs.groups, inputs.remote_memory, inputs.directory
    system = read_system(inputs.system, directory)
    network = configured(read_network(inputs.network), inputs.ns3)
    if groups is None:
        communicator = NO_GROUPS
    elif inputs.ignores_groups:
        communicator = CommunicatorGroups(str(groups), {}, is_ignored=True)
    else:
        communicator = read_communicator_groups(groups)
    memory = None if memory_file is None else read_remote_memory(memory_file)
    trace = read_trace(inputs.workload, chunks=False, workload=True, most_ranks=network.num_npus)
    read = partial(_read_collective, system, directory)
    return made_run(trace, system, network, communicator, memory, read, directory)


def made_run(
    workload: Trace,
    system: SystemConfig,
    network: NetworkConfig,
    groups: CommunicatorGroups,
    remote_memory: RemoteMemory | None,
    read_collective: Callable[[str, int], Trace],
    directory: Path,
) -> Run:
    """The run of what its files say.

    Parameters
    ----------
    read_collective
        Gives the trace of a custom collective, by its prefix in the system's files and the most positions that run it.
    """
    prefixes, implementation = implementations(workload, system)
    positions = _position_counts(workload, implementation, groups, network.num_npus)
    return Run(
        workload=workload,
        system=system,
        network=network,
        groups=groups,
        remote_memory=remote_memory,
        prefixes=prefixes,
        collectives=tuple(map(read_collective, prefixes, positions)),
        implementation=implementation,
        directory=directory,
    )


def implementations(workload: Trace, system: SystemConfig) -> tuple[tuple[str, ...], Ints32]:
    """Find the custom trace of each collective node: that of its id, else that of its pattern (`CollectiveImplLookup.cc`).

    Returns
    -------
    prefixes, implementation
        Prefixes that are used, and int32[num_nodes], the entry of each node among them, NATIVE where it has none.
    """
    columns = workload.workload
    if columns is None:
        raise ValueError("the workload was read without its columns")
    if system.replay_only:
        return (), np.full(workload.num_nodes, NATIVE, np.int32)
    is_collective = (workload.kind == NodeType.COMM_COLL) & np.isin(columns.comm_type, list(PATTERN_KEYS))
    implementation = np.full(workload.num_nodes, NATIVE, np.int32)
    prefixes: dict[str, int] = {}
    for pattern, key in PATTERN_KEYS.items():
        rows = is_collective & (columns.comm_type == pattern)
        if key in system.custom and rows.any():
            implementation[rows] = prefixes.setdefault(system.custom[key], len(prefixes))
    if system.per_node:
        rows = np.flatnonzero(is_collective)
        ids = looked_up(workload.node_id[rows])
        named = np.array(sorted(system.per_node), np.uint64)
        place = np.minimum(np.searchsorted(named, ids), len(named) - 1)
        is_named = named[place] == ids
        numbers = {
            int(node): prefixes.setdefault(system.per_node[int(node)], len(prefixes)) for node in distinct(ids[is_named]).tolist()
        }
        implementation[rows[is_named]] = [numbers[int(node)] for node in ids[is_named].tolist()]
    used = distinct(implementation[implementation >= 0])
    renumber = np.zeros(len(prefixes) + 1, np.int32)
    renumber[used] = np.arange(len(used))
    names = list(prefixes)
    return tuple(names[i] for i in used.tolist()), np.where(implementation >= 0, renumber[implementation], implementation)


def _position_counts(workload: Trace, implementation: Ints32, groups: CommunicatorGroups, num_npus: int) -> list[int]:
    """For each custom collective, the number of traces that the largest group that uses it opens."""
    if workload.workload is None:
        raise ValueError("the workload was read without its columns")
    group, sizes = group_ids(workload.workload), {number: len(ranks) for number, ranks in groups.members.items()}
    sizes[ALL_RANKS] = num_npus
    named = (group[implementation == number] for number in range(int(implementation.max(initial=NATIVE)) + 1))
    return [max(min(sizes.get(group_number, num_npus), num_npus) for group_number in np.unique(used).tolist()) for used in named]


def _read_collective(system: SystemConfig, directory: Path, prefix: str, most_positions: int) -> Trace:
    path = directory / prefix
    if not Path(f"{path}.0.et").is_file():
        why = why_not_found(prefix, directory, Path(system.source))
        raise ConfigError(f"{path}.0.et: {why}; give a path from there, or an absolute one")
    return read_trace(path, chunks=False, most_ranks=most_positions)


def why_not_found(prefix: str, directory: Path, system: Path) -> str:
    """Where ASTRA-sim looks for a custom collective that is not there, and where one is, if it is beside the system file."""
    started, beside = directory.resolve(), system.parent
    problem = f"no such file in {started}, where ASTRA-sim is started (--directory)"
    if beside.resolve() != started and Path(f"{beside / prefix}.0.et").is_file():
        problem += f"; there is one in {beside}, where the system file is"
    return problem


def looked_up(node_id: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The ids by which ASTRA-sim looks up custom traces: the lowest 32 bits (`CollectiveImplLookup.cc`), not always distinct."""
    return node_id & np.uint64(np.iinfo(np.uint32).max)


def pattern_key(comm_type: int) -> str:
    """Name of a pattern in the system JSON, like `all-reduce`."""
    return PATTERN_KEYS[CommType(comm_type)]


def write_groups(folder: Path, groups: Mapping[int, Sequence[int]] | Mapping[str, Sequence[int]]) -> None:
    """Write the communicator groups of a run; where there are none the file says so, `{}`."""
    lines = ",\n".join(f"  {json.dumps(str(group))}: {json.dumps(list(ranks))}" for group, ranks in groups.items())
    (folder / GROUPS).write_text(f"{{\n{lines}\n}}\n" if lines else "{}\n", encoding="utf-8")
