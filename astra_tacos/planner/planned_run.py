"""A planned run: which trace every collective runs, with new groups, ids and an order of collectives.

The node log says what happened to every collective node, and why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.chakra import ScheduleFiles
from astra_tacos.network.network_files import NETWORK
from astra_tacos.planner.assignment import Assignment, assign, tag_ranges
from astra_tacos.planner.joint.joint_synthesis import NO_JOINT, JointWorkload
from astra_tacos.planner.run_files import COLLECTIVE
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import NO_CASE, Workload
from astra_tacos.run.chunks import TraceParts, part_of
from astra_tacos.run.collective_files import CollectiveFiles, CopiedFiles, IdleFiles
from astra_tacos.run.graph.global_order import order_dependencies
from astra_tacos.run.graph.instances import Instances
from astra_tacos.run.groups import CommunicatorGroups
from astra_tacos.run.patterns import (
    CARRIER,
    COLLECTIVE_NAMES,
    TAGS,
    carrying_types,
    pattern_name,
)
from astra_tacos.run.run import GROUPS, NATIVE, SYSTEM, WORKLOAD, Run, implementations
from astra_tacos.run.source import made_of
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.run.written import written_memory
from astra_tacos.schedule.joint import JOINT
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by


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


def _changed(workload: Workload, changes: Changes) -> Trace:
    """The workload with changed nodes."""
    trace, columns, row = workload.run.workload, workload.run.columns, workload.instances.nodes.row
    node_id = trace.node_id.copy()
    node_id[row] = changes.node_id
    names = (*columns.group_names, *(str(group) for group in np.unique(changes.group[changes.group >= 0]).tolist()))
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    group, own_group = columns.group.copy(), columns.own_group.copy()
    moved, joint, carried = (np.flatnonzero(column >= 0) for column in (changes.group, changes.own_group, changes.pattern))
    group[row[moved]] = [number[str(group_number)] for group_number in changes.group[moved].tolist()]
    own_group[row[joint]] = changes.own_group[joint]
    comm_type, pattern = columns.comm_type.copy(), columns.carried_pattern.copy()
    comm_type[row[carried]], pattern[row[carried]] = int(CARRIER), changes.pattern[carried]
    waits = np.diff(changes.wait_first)
    more = np.zeros(trace.num_nodes + 1, np.int64)
    more[row + 1] = waits
    return replace(
        trace,
        prefix=f"{WORKLOAD}/{Path(trace.prefix).name}",
        node_id=node_id,
        dep_first=trace.dep_first + np.cumsum(more),
        dep=np.insert(trace.dep, np.repeat(trace.dep_first[row + 1], waits), changes.wait),
        workload=replace(
            columns,
            comm_type=comm_type,
            group=group,
            group_names=tuple(number),
            own_group=own_group,
            carried_pattern=pattern,
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A run whose collectives run what was planned.

    Parameters
    ----------
    traces
        Names of the traces of collectives.
    parts
        What each trace is for, by the prefix of its files.
    assignment, changes
        What collectives run, and what has changed of their nodes.
    """

    run: Run
    traces: tuple[str, ...]
    parts: dict[str, TraceParts]
    assignment: Assignment
    changes: Changes


def planned_run(
    joint_workload: JointWorkload,
    solutions: tuple[CaseSolution, ...],
    order: Ints | None,
    native: NativeConfiguration | None = None,
) -> PlannedRun:
    """The run in which collectives run what is planned.

    Parameters
    ----------
    order
        int64[num_nodes + num_instances], place of each row and collective in an order that all ranks can keep; None to leave all
        nodes as they are, with native collectives.
    native
        How native collectives run, if any is left; None stands for what the system file says.

    Raises
    ------
    ConfigError
        If there are not enough tags or ids.
    """
    workload = joint_workload.workload
    run, instances, cases = workload.run, workload.instances, workload.cases
    used = set(workload.of_instance.tolist())
    chosen = (solution.schedule if number in used else None for number, solution in enumerate(solutions))
    schedules = {case.name: schedule for case, schedule in zip(cases, chosen, strict=True) if schedule}
    schedules |= {joint.name: joint.schedule for joint in joint_workload.joints}
    kept, own_trace = _kept(workload, solutions)
    moves_nothing = _moves_nothing(instances)
    idle = {f"nothing_of_{ranks}": IdleFiles(ranks) for ranks in np.unique(instances.num_members[moves_nothing]).tolist()}
    traces = (*schedules, *kept, *idle)
    entry_of = {name: entry for entry, name in enumerate(traces)}
    of_case = [entry_of.get(case.name, NATIVE) for case in cases]
    synthesized = np.array([*of_case, NATIVE], np.int64)[workload.of_instance]
    own_entry = np.array([NATIVE if name is None else entry_of[name] for name in own_trace], np.int64)
    idling = np.array([entry_of.get(f"nothing_of_{ranks}", NATIVE) for ranks in instances.num_members.tolist()], np.int64)
    own_entry = np.where(moves_nothing, idling, own_entry)
    implementation = np.where(synthesized != NATIVE, synthesized, own_entry)
    of_joint = np.array([*(entry_of[joint.name] for joint in joint_workload.joints), NATIVE], np.int64)
    implementation = np.where(joint_workload.of_instance == NO_JOINT, implementation, of_joint[joint_workload.of_instance])
    if order is None:
        implementation = np.full_like(implementation, NATIVE)
    in_order = None if order is None else order[run.workload.num_nodes :]
    assignment = assign(run.workload, instances, implementation, joint_workload.groups, in_order, run.system)
    changes = find_changes(workload, assignment, order, joint_workload.of_instance != NO_JOINT)
    files = {f"{COLLECTIVE}/{name}": trace for name, trace in (_with_tags(run, schedules, kept) | kept | idle).items()}
    per_node = {node: f"{COLLECTIVE}/{traces[entry]}" for node, entry in assignment.per_node.items()}
    is_native = native is not None and bool(np.any(implementation == NATIVE))
    system = native.system(run.system) if native is not None and is_native else run.system
    system = replace(system.with_traces(per_node), source=SYSTEM)
    trace = _changed(workload, changes)
    prefixes, of_node = implementations(trace, system)
    planned = Run(
        workload=trace,
        system=system,
        network=replace(run.network, source=NETWORK),
        groups=CommunicatorGroups(GROUPS, assignment.groups),
        remote_memory=written_memory(run.remote_memory),
        prefixes=prefixes,
        collectives=tuple(files[prefix].trace(prefix) for prefix in prefixes),
        implementation=of_node,
        directory=Path(),
        source=made_of(run, np.arange(trace.num_nodes)),
        files=files,
    )
    collectives = {name: schedule.collective for name, schedule in schedules.items()}
    parts = {
        name: TraceParts(collective.num_npus, (part_of(collective),))
        for name, collective in collectives.items()
        if collective.name != JOINT
    }
    parts |= {joint.name: TraceParts(len(joint.of.ranks), joint.parts) for joint in joint_workload.joints}
    parts |= {name: TraceParts(trace.nodes.num_ranks, None) for name, trace in kept.items()}
    parts |= {name: TraceParts(trace.num_ranks, ()) for name, trace in idle.items()}
    return PlannedRun(planned, traces, {f"{COLLECTIVE}/{name}": parts[name] for name in traces}, assignment, changes)


def _with_tags(run: Run, schedules: dict[str, Schedule], kept: dict[str, CopiedFiles]) -> dict[str, CollectiveFiles]:
    """The files of schedules, each with a range of tags of its own."""
    names = sorted(schedules)
    used = np.concatenate((run.workload.tag, *(trace.nodes.tag for trace in kept.values())))
    first_tags = tag_ranges(run.workload.prefix, used, [schedules[name].num_messages for name in names], TAGS)
    return {name: ScheduleFiles(schedules[name], first_tag) for name, first_tag in zip(names, first_tags, strict=True)}


def _moves_nothing(instances: Instances) -> Bools:
    """bool[num_instances], collectives of one rank or of no bytes, in which ASTRA-sim's native ones stall."""
    runs = np.isin(instances.pattern, [int(pattern) for pattern in COLLECTIVE_NAMES if pattern != CommType.BROADCAST])
    return runs & ((instances.num_members < 2) | (instances.size_bytes < 1))


def _kept(workload: Workload, solutions: tuple[CaseSolution, ...]) -> tuple[dict[str, CopiedFiles], list[str | None]]:
    """Custom traces of the run itself that stay, by a name of their own, and each collective's.

    They stay where no synthesizer does the pattern, or where nothing that is synthesized is as fast.
    """
    run, instances = workload.run, workload.instances
    kept: dict[str, CopiedFiles] = {}
    names: list[str | None] = [None] * instances.num_instances
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
            trace = run.collectives[named]
            assert isinstance(trace, Trace)  # compact ones are of compact runs
            kept[name] = CopiedFiles(prefix, trace)
        names[number] = name_of[named]
    return kept, names


COLUMNS = ("rank", "node", "new_node", "pattern", "group", "new_group", "collective", "trace", "after", "why")
"""`after`: the nodes that it was made to wait for, by their old ids."""


def node_rows(joint_workload: JointWorkload, solutions: tuple[CaseSolution, ...], planned: PlannedRun) -> list[str]:
    """A row of `COLUMNS` for each collective node, as JSON."""
    workload, assignment, changes = joint_workload.workload, planned.assignment, planned.changes
    instances, trace = workload.instances, workload.run.workload
    nodes = instances.nodes
    alone = instances.num_members < 2
    names = {pattern: json.dumps(pattern_name(pattern)) for pattern in np.unique(nodes.pattern).tolist()}
    ran = [*map(json.dumps, planned.traces), "null"]
    assert NATIVE == -1  # the last of these
    reasons = []
    for number, case in enumerate(workload.of_instance.tolist()):
        if alone[number]:
            reasons.append("a group of one: nothing to do")
        elif joint_workload.of_instance[number] != NO_JOINT:
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
    after = (waits[low:high] for low, high in pairwise(begin))
    return [
        f"[{rank}, {node}, {new_node}, {names[pattern]}, {group}, {new_group}, {number}, "
        f"{ran[chosen]}, {waited}, {reasons[number]}]"
        for rank, node, new_node, pattern, group, new_group, number, chosen, waited in zip(
            *(column.tolist() for column in columns), after, strict=True
        )
    ]
