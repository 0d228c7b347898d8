"""The `Draft` class: a run under repair, whose parts mends change in place; and the `Log` of what they changed, and why."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from astra_tacos.export.run_directory import SCRIPT, check_script_name, write_run_script
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.network_files import NETWORK
from astra_tacos.planner.run_files import COLLECTIVE
from astra_tacos.rules.inputs import Inputs, TraceFiles, held_trace_files, is_compressed, usable_groups
from astra_tacos.rules.rule import Found
from astra_tacos.run.backend import Backend
from astra_tacos.run.groups import parse_communicator_groups
from astra_tacos.run.run import GROUPS, MEMORY, SYSTEM, WORKLOAD, Run, RunInputs, made_run, write_groups
from astra_tacos.run.system import COMM_KEYS, PER_NODE, PER_NODE_KEY, SystemConfig, parse_remote_memory, parse_system
from astra_tacos.run.trace.node_bytes import framed, new_node
from astra_tacos.run.trace.reader import Load, file_of, load_file, read_held
from astra_tacos.run.trace.scan import FileBytes
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.run.written import write_system
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import write_json
from astra_tacos.workload.lint import LintReport, lint_inputs
from astra_tacos.workload.repairer.node import ALL_RANKS, DraftNode
from astra_tacos.workload.repairer.rank_nodes import CollectiveKind, RankNodes

_OPS_OF_PAUSE = 1500
"""Operations that take more than 1 ns and less than 2 at 1 TFLOP/s."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a run.

    Parameters
    ----------
    rank, node
        Where; None for changes of other files, and of a rank as a whole. The node's id is the one before the repair.
    compute_us
        By how many us the change alters the sum of the rank's compute durations.
    is_assumed
        Whether the change rests on something that the files do not say.
    """

    step: str
    what: str
    reason: str
    rank: int | None = None
    node: int | None = None
    compute_us: int = 0
    is_assumed: bool = False

    @property
    def where(self) -> str:
        """The place, like `rank 3 node 17`; "run" for changes that concern all ranks."""
        if self.rank is None:
            return "run"
        return f"rank {self.rank}" if self.node is None else f"rank {self.rank} node {self.node}"


@dataclass(slots=True)
class Log:
    """The changes of one mend, as it makes them."""

    step: str
    changes: list[Change] = field(default_factory=list)

    def add(
        self, change: str, reason: str, at: DraftNode | int | None = None, *, compute_us: int = 0, is_assumed: bool = False
    ) -> None:
        """Add a change of a node, of a rank or of other files; the other parameters are those of `Change`."""
        rank, node = (at.rank, at.id) if isinstance(at, DraftNode) else (at, None)
        self.changes.append(Change(self.step, change, reason, rank, node, compute_us, is_assumed))

    def set(self, node: DraftNode, name: str, value: int, reason: str, *, is_assumed: bool = False) -> None:
        """Set an attribute that is a whole number, and say what it was."""
        self.add(f"{name} {node.number(name)} became {value}", reason, node, is_assumed=is_assumed)
        node.set(name, value)


@dataclass(slots=True)
class Draft:
    """A run under repair.

    Parameters
    ----------
    groups
        Members of each communicator group by the name that the file gives it, as far as they are a list.
    network_tables
        The tables that the network file names: each as it is named there, and the file.
    custom
        The files of each custom collective, by the prefix that the system's files give.
    surplus
        Ranks beyond the network that have a trace, which is not read.
    """

    name: str
    ranks: list[RankNodes]
    groups: dict[str, list[Any]]
    system: dict[str, Any]
    network_text: str
    network: NetworkConfig
    network_tables: tuple[tuple[Path, Path], ...]
    memory: dict[str, Any]
    custom: dict[str, tuple[Path, ...]]
    per_node: dict[int, str]
    backend: Backend
    defaults: list[str] = field(default_factory=list)
    metadata: list[Any] = field(default_factory=list)
    compressed: list[int] = field(default_factory=list)
    surplus: list[int] = field(default_factory=list)
    _report: LintReport | None = field(default=None, repr=False)

    @property
    def prefix(self) -> str:
        """The prefix of the traces in the run's directory."""
        return f"{WORKLOAD}/{self.name}"

    @property
    def num_ranks(self) -> int:
        """Number of ranks that have a trace."""
        return len(self.ranks)

    def nodes(self, *kinds: int) -> Iterator[DraftNode]:
        """The nodes of some types."""
        return (node for nodes in self.ranks for node in nodes.of_kind(*kinds))

    def collectives(self) -> Iterator[DraftNode]:
        """All collectives."""
        return self.nodes(NodeType.COMM_COLL)

    def collectives_of(self, wanted: Callable[[CollectiveKind], bool]) -> Iterator[DraftNode]:
        """All collectives of the ranks that have some of a wanted kind."""
        for nodes in self.ranks:
            if any(map(wanted, nodes.collective_kinds())):
                yield from nodes.of_kind(NodeType.COMM_COLL)

    def messages(self) -> Iterator[DraftNode]:
        """All sends and receives."""
        return self.nodes(NodeType.COMM_SEND, NodeType.COMM_RECV)

    def fault(self, node: DraftNode, message: str) -> ConfigError:
        """The error that nothing says how to mend a node."""
        return ConfigError(f"{self.name}.{node.rank}.et node {node.id}: {message}")

    def members(self, name: str) -> list[int] | None:
        """Ranks of a group that a node names, None if there is none."""
        if name in ALL_RANKS:
            return list(range(self.num_ranks))
        return self.groups.get(name)

    def new_group(self, members: list[int]) -> str:
        """The name of another group of these ranks, numbered after all that are there."""
        name = str(1 + max((int(name) for name in self.groups if name.isdecimal()), default=0))
        self.groups[name] = members
        return name

    def new_id(self, rank: int) -> int:
        """An id that no node of the rank has."""
        return 1 + self.ranks[rank].highest_id()

    def pause(self, rank: int, name: str) -> DraftNode:
        """A new compute node that takes 1 ns on the GPU, with or without the roofline."""
        node = DraftNode(new_node(self.new_id(rank), name, NodeType.COMP, is_cpu_op=False))
        if self.system.get("roofline-enabled"):
            node.set("num_ops", int(float(self.system.get("peak-perf", 0)) * _OPS_OF_PAUSE))
            node.set("tensor_size", 1)
        return node

    def remove(self, log: Log, gone: Iterable[tuple[DraftNode, str, str]]) -> None:
        """Remove nodes, and say of each what it is and why; what depended on them depends on what they depended on."""
        by_rank: dict[int, dict[int, DraftNode]] = {}
        for node, change, reason in gone:
            log.add(f"removed{change and ' '}{change}", reason, node)
            by_rank.setdefault(node.rank, {})[node.id] = node
        for rank, removed in by_rank.items():
            self._bypass(self.ranks[rank], removed)

    def _bypass(self, nodes: RankNodes, removed: dict[int, DraftNode]) -> None:
        behind: dict[int, tuple[int, ...]] = {}

        def past(node_id: int) -> tuple[int, ...]:
            if node_id not in removed:
                return (node_id,)
            if node_id not in behind:
                deps: dict[int, None] = {}
                seen, stack = {node_id}, [node_id]
                while stack:
                    for dep in removed[stack.pop()].deps:
                        if dep not in removed:
                            deps[dep] = None
                        elif dep not in seen:
                            seen.add(dep)
                            stack.append(dep)
                behind[node_id] = tuple(deps)
            return behind[node_id]

        for node in nodes.depending_on(removed.values()):
            if node.id not in removed:
                node.replace_deps(past)
        nodes.remove(removed.values())

    def report(self) -> LintReport:
        """What `lint` finds in the run as it is when this is first called after `changed`."""
        if self._report is None:
            self._report = lint_inputs(self._as_linted())
        return self._report

    def _as_linted(self) -> Inputs:
        problems: dict[str, list[Found]] = {}
        groups, bad = usable_groups(Path(GROUPS), self.groups, problems)
        custom = {name: self.custom[prefix] for prefix, name in self._custom_names().items()}

        def positions(name: str, limit: int | None) -> TraceFiles:
            compressed = (position for position, file in enumerate(custom[name]) if is_compressed(file))
            return held_trace_files(name, _loads(name, custom[name]), limit, tuple(compressed))

        return Inputs(
            directory=Path(),
            backend=self.backend,
            system_path=Path(SYSTEM),
            groups_path=Path(GROUPS),
            system=self._system_config(),
            network=replace(self.network, source=NETWORK),
            remote_memory=parse_remote_memory(Path(MEMORY), self.memory),
            groups=groups,
            bad_groups=bad,
            groups_ignored=False,
            workload=held_trace_files(self.prefix, self._held(), self.network.num_npus),
            custom=positions,
            run=self.run,
            problems=problems,
        )

    def run(self) -> Run:
        """The run, read as ASTRA-sim would read it once it is written.

        Raises
        ------
        ConfigError
            If ASTRA-sim could not.
        """
        custom = {name: self.custom[prefix] for prefix, name in self._custom_names().items()}

        def collective(name: str, most_positions: int) -> Trace:
            return read_held(name, _loads(name, custom[name][:most_positions]), chunks=False, workload=False)

        network, system = replace(self.network, source=NETWORK), self._system_config()
        groups = parse_communicator_groups(Path(GROUPS), self.groups)
        memory = parse_remote_memory(Path(MEMORY), self.memory)
        held = {rank: load for rank, load in self._held().items() if rank < network.num_npus}
        workload = read_held(self.prefix, held, chunks=False, workload=True)
        return made_run(workload, system, network, groups, memory, collective, Path())

    def changed(self) -> None:
        """Say that the run is no longer the one that `report` was made for."""
        self._report = None

    def found(self, *codes: str) -> bool:
        """Whether `lint` finds one of these codes."""
        report = self.report()
        return any(code in counts for code in codes for counts in (report.errors, report.warnings))

    def inputs(self, folder: Path) -> RunInputs:
        """The files of the run, once it is written to a folder."""
        return RunInputs.in_folder(folder, self.name)

    def write(self, folder: Path) -> None:
        """Write the run into an empty directory.

        Raises
        ------
        ConfigError
            If the script cannot hold the workload's name.
        """
        check_script_name(self.name)
        (folder / WORKLOAD).mkdir()
        for rank in range(self.num_ranks):
            with (folder / f"{self.prefix}.{rank}.et").open("wb") as file:
                file.writelines(self._encoded(rank))
        (folder / NETWORK).write_text(self.network_text, encoding="utf-8")
        for name, source in self.network_tables:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
        write_json(folder / MEMORY, self.memory)
        write_groups(folder, self.groups)
        write_run_script(folder, self.prefix, self.network, "Runs", has_groups=True)
        write_system(folder, self._system_config())
        for prefix, base in self._custom_names().items():
            (folder / COLLECTIVE).mkdir(exist_ok=True)
            for position, trace in enumerate(self.custom[prefix]):
                shutil.copyfile(trace, folder / f"{base}.{position}.et")

    def _encoded(self, rank: int) -> Iterator[bytes]:
        yield framed(self.metadata[rank])
        yield from self.ranks[rank].encoded()

    def _held(self) -> dict[int, Load]:
        """What gives the bytes of the file that each rank would have."""
        return {rank: partial(self._file, rank) for rank in range(self.num_ranks)}

    def _file(self, rank: int) -> FileBytes:
        return file_of(Path(f"{self.prefix}.{rank}.et"), self._encoded(rank))

    def _custom_names(self) -> dict[str, str]:
        """The prefixes that the custom collectives have in the run's directory, by those that the system's files give."""
        names: dict[str, str] = {}
        for prefix in self.custom:
            base = name = Path(prefix).name
            while f"{COLLECTIVE}/{name}" in names.values():
                name = f"{base}_{len(names)}"
            names[prefix] = f"{COLLECTIVE}/{name}"
        return names

    def _system_config(self) -> SystemConfig:
        """The system, which names the custom collectives in the run's directory."""
        names, system = self._custom_names(), dict(self.system)
        for key in COMM_KEYS:
            entry = system.get(f"{key}-implementation-custom")
            if entry:
                system[f"{key}-implementation-custom"] = [names[entry[0]]]
        if self.per_node:
            system[PER_NODE_KEY] = PER_NODE
        else:
            system.pop(PER_NODE_KEY, None)
        per_node = {node: names[prefix] for node, prefix in sorted(self.per_node.items())}
        return replace(parse_system(Path(SYSTEM), system), per_node=per_node)


def _loads(name: str, files: Iterable[Path]) -> dict[int, Load]:
    """What reads the file of each position of a custom collective, by the name that it will have."""
    return {position: partial(load_file, file, Path(f"{name}.{position}.et")) for position, file in enumerate(files)}


OWN_FILES = frozenset({SCRIPT, GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, WORKLOAD, COLLECTIVE})
"""Names of what `Draft.write` writes, but for a table of links."""
