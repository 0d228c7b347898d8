"""Writing of a planned run: the trace that every collective runs, and all files except the plan itself.

The workload's trace files get new groups, ids and an order of collectives; unchanged parts keep their bytes. The node log says
what happened to every collective node, and why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.assignment import Assignment, assign
from astra_tacos.planner.joint.joint_synthesis import NO_JOINT, JointWorkload
from astra_tacos.planner.native_configuration import NativeConfiguration
from astra_tacos.planner.run_files import write_configurations, write_ns3_configurations, write_traces
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import NO_CASE, Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.chunks import TraceParts, part_of
from astra_tacos.run.global_order import order_dependencies
from astra_tacos.run.instances import Instances
from astra_tacos.run.patterns import CARRIER, COLLECTIVE_NAMES, GROUP_ATTRIBUTE, PATTERN_ATTRIBUTE, carrying_types, pattern_name
from astra_tacos.run.run import NATIVE, WORKLOAD, RunInputs
from astra_tacos.run.trace.node_bytes import load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.schedule.joint import JOINT
from astra_tacos.support.arrays import Bools, Ints
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

    group: Ints
    own_group: Ints
    node_id: NDArray[np.uint64]
    pattern: Ints
    wait_first: Ints
    wait: Ints


def find_changes(workload: Workload, assignment: Assignment, order: Ints | None, is_joint: Bools) -> Changes:
    """The changes that a plan needs; none for a workload that was planned before.

    Parameters
    ----------
    order
        int64[num_nodes + num_instances], place of each row and collective; None if no node has to wait for more.
    is_joint
        bool[num_instances], whether an instance stands for several collectives.
    """
    nodes, instance = workload.instances.nodes, workload.instances.instance
    assigned = assignment.group[instance]
    group = np.where(assigned != nodes.named_group, assigned, -1)
    own_group = np.where(is_joint[instance] & (group >= 0), nodes.group, -1)
    carrying = carrying_types(nodes.pattern, nodes.size_bytes)
    has_trace = assignment.implementation[instance] >= 0
    is_carried = has_trace & (carrying != nodes.pattern) & (workload.run.columns.comm_type[nodes.row] != carrying)
    pattern = np.where(is_carried, nodes.pattern, -1)
    row, before = np.empty((2, 0), np.int64) if order is None else order_dependencies(workload.graph, order)
    entry_of = np.zeros(workload.run.workload.num_nodes, np.int64)
    entry_of[nodes.row] = np.arange(len(nodes.row))
    entry = entry_of[row]
    return Changes(group, own_group, assignment.node_id, pattern, *group_by(entry, before, len(nodes.row)))


def write_workload(workload: Workload, changes: Changes, prefix: Path) -> None:
    """Write `PREFIX.<rank>.et` of all ranks.

    Raises
    ------
    ConfigError
        If a file cannot be read again.
    """
    trace, columns, nodes = workload.run.workload, workload.run.columns, workload.instances.nodes
    renamed = np.flatnonzero(changes.node_id != trace.node_id[nodes.row])
    new_id = dict(zip(nodes.row[renamed].tolist(), changes.node_id[renamed].tolist(), strict=True))
    exists = np.flatnonzero(np.isin(trace.dep, nodes.row[renamed]))
    followers = distinct(np.searchsorted(trace.dep_first, exists, side="right") - 1)
    is_changed = (changes.group >= 0) | (changes.own_group >= 0) | (changes.pattern >= 0) | (np.diff(changes.wait_first) > 0)
    is_changed[renamed] = True
    changed = np.flatnonzero(is_changed)
    entry_first, entries = group_by(nodes.rank[changed], changed, trace.num_ranks)
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
        for entry in entries[entry_first[rank] : entry_first[rank + 1]].tolist():
            _change(trace, nodes.row, changes, entry, at, new_id)
        path = Path(f"{prefix}.{rank}.et")
        path.write_bytes(replace_nodes(data, columns.byte_offset[begin:end], patched, f"{trace.prefix}.{rank}.et"))


def _change(trace: Trace, rows: Ints, changes: Changes, entry: int, at: Any, new_id: dict[int, int]) -> None:
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


@dataclass(frozen=True, slots=True, eq=False)
class WrittenRun:
    """What was written: names of traces, what they are for by prefix, the assignment of collectives, changes of their nodes."""

    traces: tuple[str, ...]
    parts: dict[str, TraceParts]
    assignment: Assignment
    changes: Changes


def write_run(
    folder: Path,
    inputs: RunInputs,
    made: JointWorkload,
    solutions: tuple[CaseSolution, ...],
    order: Ints | None,
    backend: Backend,
    native: NativeConfiguration | None = None,
) -> WrittenRun:
    """Write everything but the plan itself into an empty directory.

    Parameters
    ----------
    order
        int64[num_nodes + num_instances], place of each row and collective in an order that all ranks can keep; None to leave all
        nodes as they are, with native collectives.
    backend
        The network model that the run is written for: the packet level needs more files.
    native
        How native collectives run, if any is left; None stands for what the system file says.

    Raises
    ------
    ConfigError
        If there are not enough tags or ids, or a file cannot be read again.
    """
    workload = made.workload
    run, instances, cases = workload.run, workload.instances, workload.cases
    used = set(workload.of_instance.tolist())
    chosen = (solution.schedule if number in used else None for number, solution in enumerate(solutions))
    schedules = {case.name: schedule for case, schedule in zip(cases, chosen, strict=True) if schedule}
    schedules |= {joint.name: joint.schedule for joint in made.joints}
    kept, own_trace = _kept(workload, solutions)
    moves_nothing = _moves_nothing(instances)
    idle = {f"nothing_of_{ranks}": ranks for ranks in np.unique(instances.num_members[moves_nothing]).tolist()}
    traces = (*schedules, *kept, *idle)
    entry_of = {name: entry for entry, name in enumerate(traces)}
    of_case = [entry_of.get(case.name, NATIVE) for case in cases]
    synthesized = np.array([*of_case, NATIVE], np.int64)[workload.of_instance]
    own = np.array([NATIVE if name is None else entry_of[name] for name in own_trace], np.int64)
    idling = np.array([entry_of.get(f"nothing_of_{ranks}", NATIVE) for ranks in instances.num_members.tolist()], np.int64)
    own = np.where(moves_nothing, idling, own)
    implementation = np.where(synthesized != NATIVE, synthesized, own)
    of_joint = np.array([*(entry_of[joint.name] for joint in made.joints), NATIVE], np.int64)
    implementation = np.where(made.of_instance == NO_JOINT, implementation, of_joint[made.of_instance])
    if order is None:
        implementation = np.full_like(implementation, NATIVE)
    in_order = None if order is None else order[run.workload.num_nodes :]
    assignment = assign(run.workload, instances, implementation, made.groups, in_order, run.system)
    changes = find_changes(workload, assignment, order, made.of_instance != NO_JOINT)
    (folder / WORKLOAD).mkdir()
    write_workload(workload, changes, folder / WORKLOAD / inputs.workload.name)
    prefixes = write_traces(folder, run.workload, schedules, kept, idle)
    per_node = {node: prefixes[traces[entry]] for node, entry in assignment.per_node.items()}
    keys = native.keys() if native is not None and np.any(implementation == NATIVE) else {}
    write_configurations(folder, inputs, assignment.groups, per_node, run.network, keys)
    if not backend.is_analytical:
        write_ns3_configurations(folder, inputs, run.network)
    collectives = {name: schedule.collective for name, schedule in schedules.items()}
    parts = {name: TraceParts(each.num_npus, (part_of(each),)) for name, each in collectives.items() if each.name != JOINT}
    parts |= {joint.name: TraceParts(len(joint.of.ranks), joint.parts) for joint in made.joints}
    parts |= {name: TraceParts(num_ranks, None) for name, (_, num_ranks) in kept.items()}
    parts |= {name: TraceParts(num_ranks, ()) for name, num_ranks in idle.items()}
    return WrittenRun(traces, {prefixes[name]: parts[name] for name in traces}, assignment, changes)


def _moves_nothing(instances: Instances) -> Bools:
    """bool[num_instances], collectives of one rank or of no bytes, in which ASTRA-sim's native ones stall."""
    runs = np.isin(instances.pattern, [int(pattern) for pattern in COLLECTIVE_NAMES if pattern != CommType.BROADCAST])
    return runs & ((instances.num_members < 2) | (instances.size_bytes < 1))


def _kept(workload: Workload, solutions: tuple[CaseSolution, ...]) -> tuple[dict[str, tuple[Path, int]], list[str | None]]:
    """Custom traces of the run itself that stay, by a name of their own, and each collective's.

    They stay where no synthesizer does the pattern, or where nothing that is synthesized is as fast.
    """
    run, instances = workload.run, workload.instances
    kept: dict[str, tuple[Path, int]] = {}
    own: list[str | None] = [None] * instances.num_instances
    name_of: dict[int, str] = {}
    first = np.unique(instances.instance, return_index=True)[1]
    for number, entry in enumerate(first.tolist()):
        case = int(workload.of_instance[number])
        named = int(run.implementation[instances.nodes.row[entry]])
        is_joint = instances.nodes.named_group[entry] != instances.nodes.group[entry]
        if named == NATIVE or is_joint or case == NO_CASE or not solutions[case].keeps_custom:
            continue
        if named not in name_of:
            prefix = run.directory / run.prefixes[named]
            name = base = f"kept_{prefix.name.removeprefix('kept_')}"
            while name in kept:
                name = f"{base}_{len(kept)}"
            name_of[named] = name
            kept[name] = (prefix, run.collectives[named].num_ranks)
        own[number] = name_of[named]
    return kept, own


COLUMNS = ("rank", "node", "new_node", "pattern", "group", "new_group", "collective", "trace", "after", "why")
"""`after`: the nodes that it was made to wait for, by their old ids."""


def node_rows(made: JointWorkload, solutions: tuple[CaseSolution, ...], written: WrittenRun) -> list[str]:
    """A row of `COLUMNS` for each collective node, as JSON."""
    workload, assignment, changes = made.workload, written.assignment, written.changes
    instances, trace = workload.instances, workload.run.workload
    nodes = instances.nodes
    alone = instances.num_members < 2
    names = {pattern: json.dumps(pattern_name(pattern)) for pattern in np.unique(nodes.pattern).tolist()}
    ran = [*map(json.dumps, written.traces), "null"]
    assert NATIVE == -1  # the last of these
    reasons = []
    for number, case in enumerate(workload.of_instance.tolist()):
        if alone[number]:
            reasons.append("a group of one: nothing to do")
        elif made.of_instance[number] != NO_JOINT:
            reasons.append("one of several in a joint trace")
        else:
            reasons.append("nothing to move" if case < 0 else solutions[case].reason or "synthesized")
    reasons = list(map(json.dumps, reasons))
    waits, begin = trace.node_id[changes.wait].tolist(), changes.wait_first.tolist()
    instance = instances.instance
    columns = (
        *(nodes.rank, trace.node_id[nodes.row], changes.node_id, nodes.pattern, nodes.group),
        *(assignment.group[instance], instance, assignment.implementation[instance]),
    )
    rows = []
    for entry, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        rank, node, new_node, pattern, group, new_group, number, chosen = row
        after = waits[begin[entry] : begin[entry + 1]]
        own = f"{rank}, {node}, {new_node}, {names[pattern]}, {group}, {new_group}, {number}"
        rows.append(f"[{own}, {ran[chosen]}, {after}, {reasons[number]}]")
    return rows
