"""The workload's trace files with new groups, ids and an order of collectives; unchanged parts keep their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.assignment import Assignment
from astra_tacos.planner.collective_nodes import IssueOrder
from astra_tacos.planner.global_order import MergedGraph
from astra_tacos.planner.instances import Instances
from astra_tacos.planner.order_dependencies import order_dependencies
from astra_tacos.run.patterns import CARRIER, GROUP_ATTRIBUTE, PATTERN_ATTRIBUTE, carrying_type
from astra_tacos.run.trace.node_bytes import load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace, WorkloadColumns
from astra_tacos.support.grouping import distinct, group_by


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Changes of collective nodes; entries are those of `CollectiveNodes`.

    Parameters
    ----------
    group
        int64[n], id of another group, -1 where it stays.
    own_group
        int64[n], id of the node's own group where it runs a joint trace, -1 elsewhere.
    node_id
        uint64[n], the id that it has from now on.
    pattern
        int64[n], the pattern to remember where another type carries it, -1 elsewhere.
    wait_first, wait
        int64[n + 1] and int64[...], rows of the collective and the sends that each has to wait for from now on.
    """

    group: NDArray[np.int64]
    own_group: NDArray[np.int64]
    node_id: NDArray[np.uint64]
    pattern: NDArray[np.int64]
    wait_first: NDArray[np.int64]
    wait: NDArray[np.int64]


def find_changes(
    trace: Trace,
    columns: WorkloadColumns,
    issue: IssueOrder,
    instances: Instances,
    graph: MergedGraph,
    assignment: Assignment,
    order: NDArray[np.int64] | None,
    is_joint: NDArray[np.bool_],
) -> Changes:
    """The changes that a plan needs; none for a workload that was planned before.

    Parameters
    ----------
    trace
        The workload.
    columns
        Its other columns.
    issue
        The order in which ASTRA-sim issues the nodes of each rank.
    instances
        Its collective instances.
    graph
        The dependencies, with the nodes of an instance merged into one vertex.
    assignment
        Groups and ids of the instances.
    order
        int64[num_nodes + num_instances], place of each row and collective; None if no node has to wait for more.
    is_joint
        bool[num_instances], whether an instance stands for several collectives.
    """
    nodes, instance = instances.nodes, instances.instance
    assigned = assignment.group[instance]
    group = np.where(assigned != nodes.named_group, assigned, -1)
    own_group = np.where(is_joint[instance] & (group >= 0), nodes.group, -1)
    carrying = np.array(list(map(carrying_type, nodes.pattern.tolist(), nodes.size_bytes.tolist())), np.int64)
    has_trace = assignment.implementation[instance] >= 0
    is_carried = has_trace & (carrying != nodes.pattern) & (columns.comm_type[nodes.row] != carrying)
    pattern = np.where(is_carried, nodes.pattern, -1)
    nothing = np.empty(0, np.int64)
    row, before = (nothing, nothing) if order is None else order_dependencies(trace, issue, instances, graph, order)
    entry_of = np.zeros(trace.num_nodes, np.int64)
    entry_of[nodes.row] = np.arange(len(nodes.row))
    entry = entry_of[row]
    return Changes(group, own_group, assignment.node_id, pattern, *group_by(entry, before, len(nodes.row)))


def write_workload(trace: Trace, columns: WorkloadColumns, instances: Instances, changes: Changes, prefix: Path) -> int:
    """Write `PREFIX.<rank>.et` of all ranks; returns how many nodes changed.

    Raises
    ------
    ConfigError
        If a file cannot be read again.
    """
    nodes = instances.nodes
    renamed = np.flatnonzero(changes.node_id != trace.node_id[nodes.row])
    new_id = dict(zip(nodes.row[renamed].tolist(), changes.node_id[renamed].tolist(), strict=True))
    exists = np.flatnonzero(np.isin(trace.dep, nodes.row[renamed]))
    followers = distinct(np.searchsorted(trace.dep_first, exists, side="right") - 1)
    entry_first, _ = group_by(nodes.rank, np.arange(len(nodes.row)), trace.num_ranks)
    changed = 0
    for rank in range(trace.num_ranks):
        begin, end = int(trace.rank_first[rank]), int(trace.rank_first[rank + 1])
        data = load_rank(trace, rank)
        patched: dict[int, Any] = {}

        def at(row: int, data: bytes = data, begin: int = begin, patched: dict[int, Any] = patched) -> Any:
            if row - begin not in patched:
                patched[row - begin] = node_at(data, int(columns.byte_offset[row]))
            return patched[row - begin]

        # Dependencies follow their nodes' ids before any is added, so that old and new ids never mix.
        own = renamed[slice(*np.searchsorted(nodes.rank[renamed], (rank, rank + 1)))]
        ids = dict(zip(trace.node_id[nodes.row[own]].tolist(), changes.node_id[own].tolist(), strict=True))
        for row in followers[slice(*np.searchsorted(followers, (begin, end)))].tolist():
            for deps in (at(row).data_deps, at(row).ctrl_deps):
                deps[:] = [ids.get(dep, dep) for dep in deps]
        for entry in range(int(entry_first[rank]), int(entry_first[rank + 1])):
            _change(trace, nodes.row, changes, entry, at, new_id)
        path = Path(f"{prefix}.{rank}.et")
        path.write_bytes(replace_nodes(data, columns.byte_offset[begin:end], patched, f"{trace.prefix}.{rank}.et"))
        changed += len(patched)
    return changed


def _change(trace: Trace, rows: NDArray[np.int64], changes: Changes, entry: int, at: Any, new_id: dict[int, int]) -> None:
    """Change one collective node, if there is any change for it."""
    row = int(rows[entry])
    if row in new_id:
        at(row).id = new_id[row]
    if changes.group[entry] >= 0:
        set_attribute(at(row), "pg_name", "string_val", str(int(changes.group[entry])))
    if changes.own_group[entry] >= 0:
        set_attribute(at(row), GROUP_ATTRIBUTE, "string_val", str(int(changes.own_group[entry])))
    if changes.pattern[entry] >= 0:
        set_attribute(at(row), "comm_type", "int64_val", int(CARRIER))
        set_attribute(at(row), PATTERN_ATTRIBUTE, "string_val", CommType(int(changes.pattern[entry])).name)
    for before in changes.wait[changes.wait_first[entry] : changes.wait_first[entry + 1]].tolist():
        at(row).ctrl_deps.append(new_id.get(before, int(trace.node_id[before])))
