"""Writing of runs: what a run in memory has changed goes into the bytes of the files that it was made of; all else stays.

A node keeps its unknown fields and attributes. A node that nothing has changed keeps its bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import read_network
from astra_tacos.network.network_files import copy_network
from astra_tacos.run.compact_run import write_ranks
from astra_tacos.run.lattice import CompactTrace, Lattice
from astra_tacos.run.patterns import GROUP_ATTRIBUTE, ORIGIN_ATTRIBUTE, PATTERN_ATTRIBUTE, ROOT_ATTRIBUTES
from astra_tacos.run.run import CLASSES, MEMORY, SYSTEM, WORKLOAD, Run, write_groups
from astra_tacos.run.source import Labels, Source
from astra_tacos.run.system import NO_MEMORY, PER_NODE, RemoteMemory, SystemConfig, read_remote_memory
from astra_tacos.run.trace.node_bytes import (
    framed,
    load_rank,
    node_at,
    replace_nodes,
    set_attribute,
    set_number,
)
from astra_tacos.run.trace.reader import read_files
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, Trace, WorkloadColumns
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import AstraTacosError, ConfigError, VerificationError
from astra_tacos.support.files import write_json
from astra_tacos.support.grouping import members_of

_OF_TRACE = {"comm_size": "size_bytes", "comm_tag": "tag"}
"""Attributes that are columns of the trace."""
_OF_COLUMNS = ("comm_type", "num_ops", "tensor_size")
"""Attributes that are columns of its workload."""
_ENDS = {NodeType.COMM_SEND: ("comm_src", "comm_dst"), NodeType.COMM_RECV: ("comm_dst", "comm_src")}
"""The attributes with a message's own rank, and with its peer."""
_NODES = ("rank_first", "node_id", "kind", "duration_us", "size_bytes", "peer", "tag", "dep_first", "dep")
_COLUMNS = tuple(field.name for field in fields(WorkloadColumns) if field.name not in ("group", "group_names", "byte_offset"))


def check_same(run: Run, again: Run) -> None:
    """Check that the run that was read of its files is the run in memory, but for what says where files and bytes are.

    Raises
    ------
    VerificationError
        If it is not: a defect of this package.
    """
    differ = _differing(run.workload, again.workload)
    differ += [] if np.array_equal(run.implementation, again.implementation) else ["implementation"]
    for left, other in zip(*map(_traces, (run, again)), strict=False):
        differ += _unequal(left, other, _NODES)
    others = {
        "groups": (run.groups.members, again.groups.members),
        "collectives": (run.prefixes, again.prefixes),
        "classes": (run.classes, again.classes),
        "positions": (_positions(run), _positions(again)),
        "system": (replace(run.system, source=""), replace(again.system, source="")),
        "network": (replace(run.network, source="", ns3=again.network.ns3), replace(again.network, source="")),
        "memory": tuple(replace(written_memory(written_run.remote_memory), source="") for written_run in (run, again)),
    }
    differ += [name for name, (first, second) in others.items() if first != second]
    if differ:
        raise VerificationError(f"DEFECT of astra_tacos: the written run is read with other {differ[0]}")


def check_writable(run: Run) -> None:
    """Check that files can say what a run is.

    Raises
    ------
    ConfigError
        If ranks are slow or delayed, or a run with classes has a custom collective without classes of its positions.
    """
    if run.slow or run.delay:
        raise ConfigError("a run with slow or delayed ranks is no run of files, expected the run without them")
    uncompacted = [] if run.classes is None else [prefix for prefix in run.prefixes if prefix not in _positions(run)]
    if uncompacted:
        raise ConfigError(f"{uncompacted[0]}: a collective of all positions in a run with classes, expected the ordinary run")


def check_unchanged(run: Run) -> None:
    """Check that the files that a run was made of are as they were when they were read.

    Raises
    ------
    ConfigError
        If one of them is not.
    """
    before = run if run.source is None else run.source.run
    trace = before.workload
    files = [trace.file(rank) for rank in range(trace.num_ranks)]
    changed = []
    try:
        again = read_files(trace.prefix, files, chunks=False, workload=True)
        differ = _differing(trace, again) or _unequal(before.columns, again.workload, ("byte_offset",))
        changed += [trace.prefix] if differ else []
        network = read_network(before.network.source)
        changed += [] if replace(network, ns3=before.network.ns3) == before.network else [network.source]
        memory = before.remote_memory
        changed += [] if memory is None or read_remote_memory(memory.source) == memory else [memory.source]
    except (AstraTacosError, OSError) as error:
        raise ConfigError(f"{error}; expected files that stay as they are while they are read") from None
    if changed:
        raise ConfigError(f"{changed[0]}: has changed since it was read, expected a file that stays as it is")


def _differing(left: Trace, right: Trace) -> list[str]:
    """The columns in which two workloads differ, but for where the bytes of nodes are."""
    assert left.workload is not None and right.workload is not None
    differ = _unequal(left, right, _NODES) + _unequal(left.workload, right.workload, _COLUMNS)
    return differ + ([] if np.array_equal(*_numbered_groups(left.workload, right.workload)) else ["group"])


def _unequal(left: object, right: object, names: Iterable[str]) -> list[str]:
    """The arrays of these names that are unequal."""
    return [name for name in names if not np.array_equal(getattr(left, name), getattr(right, name))]


def _numbered_groups(left: WorkloadColumns, right: WorkloadColumns) -> tuple[Ints, Ints]:
    """int64[num_nodes] each, the groups that the nodes of two workloads name, as numbers: equal for equal names."""
    number = {name: at for at, name in enumerate(dict.fromkeys((*left.group_names, *right.group_names)))}
    left_group, right_group = (
        np.array([*map(number.get, columns.group_names), ABSENT], np.int64)[columns.group] for columns in (left, right)
    )
    return left_group, right_group


def _traces(run: Run) -> tuple[Trace, ...]:
    """The traces of custom collectives, of all positions or of representatives."""
    return tuple(collective.trace if isinstance(collective, CompactTrace) else collective for collective in run.collectives)


def _positions(run: Run) -> dict[str, Lattice]:
    """The translations of the positions of custom collectives that have some, by the prefix of their traces."""
    pairs = zip(run.prefixes, run.collectives, strict=True)
    return {prefix: trace.lattice for prefix, trace in pairs if isinstance(trace, CompactTrace)}


def written_memory(memory: RemoteMemory | None) -> RemoteMemory:
    """The remote memory of a run that is written: one without any has a file that says so."""
    return RemoteMemory(MEMORY, "none", keys=frozenset(NO_MEMORY)) if memory is None else replace(memory, source=MEMORY)


def write_system(folder: Path, system: SystemConfig) -> None:
    """Write a system JSON, and the YAML of per-node collectives beside it, if there are some."""
    write_json(folder / SYSTEM, dict(system.raw))
    if system.per_node:
        lines = (f"{node}: {prefix}\n" for node, prefix in sorted(system.per_node.items()))
        (folder / PER_NODE).write_text("".join(lines), encoding="utf-8")


def write_run(run: Run, folder: Path, name: str) -> None:
    """Write a run into an empty directory: workload, collectives, system, network, groups or the ranks of classes, and memory.

    Raises
    ------
    ConfigError
        If a file of the run that it was made of has changed since that was read.
    """
    source = run.source or Source(run, np.arange(run.workload.num_nodes))
    before = source.run
    if run.classes is None:
        prefix = folder / WORKLOAD / name
        write_groups(folder, run.groups.members)
    else:
        prefix = folder / CLASSES
        write_ranks(folder, run.classes, run.groups.members, _positions(run))
    prefix.parent.mkdir()
    write_nodes(run.workload, before.workload, source.row, prefix, source.labels)
    for collective, files in run.files.items():
        (folder / collective).parent.mkdir(parents=True, exist_ok=True)
        files.write(folder / collective)
    write_system(folder, run.system)
    copy_network(Path(before.network.source), folder)
    if before.remote_memory is not None:
        shutil.copyfile(before.remote_memory.source, folder / MEMORY)
    elif run.classes is None:
        write_json(folder / MEMORY, NO_MEMORY)


def write_nodes(trace: Trace, before: Trace, row: Ints, prefix: Path, labels: Labels | None = None) -> None:
    """Write `PREFIX.<rank>.et` of all ranks.

    Parameters
    ----------
    trace, before
        The nodes, and those that they were made of, which have files; both with `workload` columns.
    row
        int64[num_nodes], the row in `before` of each node. Nodes of one rank are made of nodes of one rank.

    Raises
    ------
    ConfigError
        If a file has changed since it was read.
    """
    assert before.workload is not None
    edits = _Edits(trace, before, row, labels)
    of_rank = before.rank[row[trace.rank_first[:-1]]]  # every file of a run has a node
    for rank, old_rank in enumerate(of_rank.tolist()):
        begin, end = trace.rank_first[rank : rank + 2].tolist()
        old_begin, old_end = before.rank_first[old_rank : old_rank + 2].tolist()
        data, offset = load_rank(before, old_rank), before.workload.byte_offset[old_begin:old_end]
        places = row[begin:end] - old_begin
        changed = {
            at: edits.of(node_at(data, int(offset[places[at]])), begin + at)
            for at in np.flatnonzero(edits.which[begin:end]).tolist()
        }
        path = Path(f"{prefix}.{rank}.et")
        if np.array_equal(places, np.arange(old_end - old_begin)):
            path.write_bytes(replace_nodes(data, offset, changed, str(before.file(old_rank))))
        else:
            nodes = (
                changed[at] if at in changed else node_at(data, int(offset[place])) for at, place in enumerate(places.tolist())
            )
            path.write_bytes(b"".join((data[: int(offset.min())], *map(framed, nodes))))


class _Edits:
    """The differences of nodes from those that they were made of; `check_same` refuses those of columns without a setter."""

    def __init__(self, trace: Trace, before: Trace, row: Ints, labels: Labels | None) -> None:
        assert trace.workload is not None and before.workload is not None
        self._trace, self._columns, self._before, self._row, self._labels = trace, trace.workload, before, row, labels
        self._old_columns = before.workload
        of_node: dict[Callable[[Any, int], None], Bools] = {
            self._set_labels: np.full(trace.num_nodes, labels is not None),
            self._set_id: self._differs("node_id"),
            self._set_deps: self._other_deps(),
            self._set_duration: self._differs("duration_us"),
            self._set_group: self._other_group(),
            self._set_own_group: self._differs_column("own_group"),
            **{partial(self._set_number, name): self._differs(column) for name, column in _OF_TRACE.items()},
            self._set_peer: self._differs("peer"),
            self._set_own: self._differs_column("own"),
            **{partial(self._set_number, name): self._differs_column(name) for name in _OF_COLUMNS},
            self._set_pattern: self._differs_column("carried_pattern"),
            self._set_root: self._differs_column("root"),
        }
        self._setters: list[Callable[[Any, int], None]] = list(of_node)
        self.which: NDArray[np.uint32] = np.zeros(trace.num_nodes, np.uint32)
        for bit, differs in enumerate(of_node.values()):
            self.which |= differs.astype(np.uint32) << np.uint32(bit)

    def of(self, node: Any, row: int) -> Any:
        """A node of the source as the run has it at a row."""
        left = int(self.which[row])
        for setter in self._setters:
            if left & 1:
                setter(node, row)
            left >>= 1
        return node

    def _differs(self, name: str) -> Bools:
        differs: Bools = getattr(self._trace, name) != getattr(self._before, name)[self._row]
        return differs

    def _differs_column(self, name: str) -> Bools:
        differs: Bools = getattr(self._columns, name) != getattr(self._old_columns, name)[self._row]
        return differs

    def _other_group(self) -> Bools:
        """Whether nodes name another group."""
        was, now = _numbered_groups(self._old_columns, self._columns)
        differs: Bools = now != was[self._row]
        return differs

    def _other_deps(self) -> Bools:
        """Whether nodes wait for others, or for nodes that have another id."""
        was, now, row = self._before, self._trace, self._row
        first, entries = members_of(was.dep_first, row)
        differs: Bools = np.diff(first) != np.diff(now.dep_first)
        differs |= self._old_columns.num_data[row] != self._columns.num_data
        same = np.flatnonzero(~differs)
        at, of_now = members_of(now.dep_first, same)
        of_was = entries[members_of(first, same)[1]]
        old_dep, other = was.dep[of_was], now.dep[of_now]
        exists = (old_dep != DANGLING) & (other != DANGLING)
        unlike = np.where(exists, was.node_id[old_dep] != now.node_id[other], old_dep != other)
        differs[np.repeat(same, np.diff(at))[unlike]] = True
        return differs

    def _set_id(self, node: Any, row: int) -> None:
        node.id = int(self._trace.node_id[row])

    def _set_deps(self, node: Any, row: int) -> None:
        trace = self._trace
        begin, end = trace.dep_first[row : row + 2].tolist()
        was = (*node.data_deps, *node.ctrl_deps)
        now = [
            was[place] if dep == DANGLING else int(trace.node_id[dep]) for place, dep in enumerate(trace.dep[begin:end].tolist())
        ]
        num_data = int(self._columns.num_data[row])
        node.data_deps[:], node.ctrl_deps[:] = now[:num_data], now[num_data:]

    def _set_duration(self, node: Any, row: int) -> None:
        node.duration_micros = int(self._trace.duration_us[row])

    def _set_group(self, node: Any, row: int) -> None:
        set_attribute(node, "pg_name", "string_val", self._columns.group_names[int(self._columns.group[row])])

    def _set_own_group(self, node: Any, row: int) -> None:
        set_attribute(node, GROUP_ATTRIBUTE, "string_val", str(int(self._columns.own_group[row])))

    def _set_number(self, name: str, node: Any, row: int) -> None:
        columns: Trace | WorkloadColumns = self._trace if name in _OF_TRACE else self._columns
        set_number(node, name, int(getattr(columns, _OF_TRACE.get(name, name))[row]))

    def _set_peer(self, node: Any, row: int) -> None:
        set_number(node, _ENDS[node.type][1], int(self._trace.peer[row]))

    def _set_own(self, node: Any, row: int) -> None:
        set_number(node, _ENDS[node.type][0], int(self._columns.own[row]))

    def _set_pattern(self, node: Any, row: int) -> None:
        set_attribute(node, PATTERN_ATTRIBUTE, "string_val", CommType(int(self._columns.carried_pattern[row])).name)

    def _set_root(self, node: Any, row: int) -> None:
        named = (entry.name for entry in node.attr if entry.name in ROOT_ATTRIBUTES)
        set_number(node, next(named, ROOT_ATTRIBUTES[0]), int(self._columns.root[row]))

    def _set_labels(self, node: Any, row: int) -> None:
        assert self._labels is not None
        node.name += self._labels.suffix[row]
        set_attribute(node, ORIGIN_ATTRIBUTE, "string_val", self._labels.made_of[row])
