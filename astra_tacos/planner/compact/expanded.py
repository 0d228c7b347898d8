"""The files of the ordinary run that a planned compact one stands for, with which ASTRA-sim runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.export.run_directory import write_run_script
from astra_tacos.planner.run_files import COLLECTIVE, PER_NODE, copy_network, write_groups
from astra_tacos.run.backend import Backend
from astra_tacos.run.compact_run import CompactRun
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.run import MEMORY, NETWORK, SYSTEM, WORKLOAD
from astra_tacos.run.trace.node_bytes import attribute, load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.schema import NodeType

NAME = "w"
"""Name of its workload."""


def write_expanded(some: CompactRun, traces: Mapping[str, SymmetricTraces], folder: Path, backend: Backend) -> None:
    """Write a run directory beside the files of a compact run.

    Parameters
    ----------
    some
        The compact run, as it was read from its directory.
    traces
        Its custom collectives, by the prefix of their files.
    folder
        An empty directory to write into.
    backend
        The network model that the script runs.

    Raises
    ------
    ConfigError
        If it has too many ranks, or a file cannot be read again.
    """
    whole, source = some.expand(), some.run.directory
    (folder / WORKLOAD).mkdir()
    _write_workload(some, whole.workload.peer, group_ids(whole.columns), folder)
    (folder / COLLECTIVE).mkdir()
    for prefix, each in traces.items():
        each.write(folder / prefix, range(each.positions.num_ranks))
    for name in (SYSTEM, PER_NODE, MEMORY):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    copy_network(source / NETWORK, folder)
    groups = whole.groups.members
    write_groups(folder, groups)
    needs = backend.needs(len(some.run.network.dimensions))
    write_run_script(folder, f"{WORKLOAD}/{NAME}", backend, "Runs", needs=needs, has_groups=bool(groups))


def _write_workload(some: CompactRun, peer: np.ndarray, group: np.ndarray, folder: Path) -> None:
    """Write the traces of all ranks: those of their representatives, with their own peers and groups."""
    trace, lattice = some.run.workload, some.lattice
    place = lattice.places(np.arange(lattice.num_ranks))
    first = np.concatenate(([0], np.cumsum(np.diff(trace.rank_first)[place])))
    ids = group_ids(some.run.columns)
    for own in range(trace.num_ranks):
        begin, end = trace.rank_first[own : own + 2].tolist()
        data, offsets = load_rank(trace, own), some.run.columns.byte_offset[begin:end]
        messages = np.flatnonzero(np.isin(trace.kind[begin:end], (NodeType.COMM_SEND, NodeType.COMM_RECV)))
        grouped = np.flatnonzero((trace.kind[begin:end] == NodeType.COMM_COLL) & (ids[begin:end] != ALL_RANKS))
        nodes = {row: node_at(data, int(offsets[row])) for row in (*messages.tolist(), *grouped.tolist())}
        for rank in np.flatnonzero(place == own).tolist():
            for row in messages.tolist():
                ends = ("comm_src", "comm_dst") if trace.kind[begin + row] == NodeType.COMM_SEND else ("comm_dst", "comm_src")
                for name, value in zip(ends, (rank, int(peer[first[rank] + row])), strict=True):
                    if attribute(nodes[row], name) is not None:
                        _set(nodes[row], name, value)
            for row in grouped.tolist():
                set_attribute(nodes[row], "pg_name", "string_val", str(int(group[first[rank] + row])))
            path = folder / WORKLOAD / f"{NAME}.{rank}.et"
            path.write_bytes(replace_nodes(data, offsets, nodes, str(path)))


def _set(node: object, name: str, value: int) -> None:
    """Change an attribute of a node, whatever type its value has."""
    for entry in node.attr:  # type: ignore[attr-defined]
        if entry.name == name:
            setattr(entry, entry.WhichOneof("value"), value)
