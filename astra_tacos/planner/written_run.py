"""Writing of a planned run: the trace that every collective runs, and all files except the plan itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.assignment import Assignment, assign
from astra_tacos.planner.distinct_collective import NO_CASE
from astra_tacos.planner.instances import Instances
from astra_tacos.planner.joint_workload import NO_JOINT, JointWorkload
from astra_tacos.planner.native_configuration import NativeConfiguration
from astra_tacos.planner.rewrite import Changes, find_changes, write_workload
from astra_tacos.planner.run_files import WORKLOAD, RunInputs, write_configurations, write_ns3_configurations
from astra_tacos.planner.solution import Solution
from astra_tacos.planner.trace_folder import write_traces
from astra_tacos.planner.workload import Workload
from astra_tacos.run.backend import Backend
from astra_tacos.run.patterns import COLLECTIVE_NAMES
from astra_tacos.run.run import NATIVE
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace_parts import TraceParts, part_of
from astra_tacos.schedule.joint import JOINT


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
    solutions: tuple[Solution, ...],
    order: NDArray[np.int64] | None,
    backend: Backend,
    native: NativeConfiguration | None = None,
) -> WrittenRun:
    """Write everything but the plan itself into an empty directory.

    Parameters
    ----------
    folder
        Empty directory to write into.
    inputs
        Files of the run.
    made
        The run and its collectives, some of which may be joint.
    solutions
        The result of each distinct collective.
    order
        int64[num_nodes + num_instances], place of each row and collective in an order that all ranks can keep; None to leave all
        nodes as they are, with native collectives.
    backend
        The model that the script runs.
    native
        How native collectives run, if any is left; None stands for what the system file says.

    Raises
    ------
    ConfigError
        If there are not enough tags or ids, or a file cannot be read again.
    """
    workload = made.workload
    run, instances, cases = workload.run, workload.instances, workload.cases
    schedules = {case.name: solution.schedule for case, solution in zip(cases, solutions, strict=True) if solution.schedule}
    used = set(np.unique(workload.of_instance).tolist())
    schedules = {
        case.name: schedules[case.name] for number, case in enumerate(cases) if number in used and case.name in schedules
    }
    schedules |= {joint.name: joint.schedule for joint in made.joints}
    kept, own_trace = _kept(workload, solutions)
    idle = {f"nothing_of_{ranks}": ranks for ranks in np.unique(instances.num_members[_moves_nothing(instances)]).tolist()}
    traces = (*schedules, *kept, *idle)
    entry_of = {name: entry for entry, name in enumerate(traces)}
    of_case = [entry_of.get(case.name, NATIVE) for case in cases]
    synthesized = np.array([*of_case, NATIVE], np.int64)[workload.of_instance]
    own = np.array([NATIVE if name is None else entry_of[name] for name in own_trace], np.int64)
    idling = np.array([entry_of.get(f"nothing_of_{ranks}", NATIVE) for ranks in instances.num_members.tolist()], np.int64)
    own = np.where(_moves_nothing(instances), idling, own)
    implementation = np.where(synthesized != NATIVE, synthesized, own)
    of_joint = np.array([*(entry_of[joint.name] for joint in made.joints), NATIVE], np.int64)
    implementation = np.where(made.of_instance == NO_JOINT, implementation, of_joint[made.of_instance])
    if order is None:
        implementation = np.full_like(implementation, NATIVE)
    in_order = None if order is None else order[run.workload.num_nodes :]
    assignment = assign(run.workload, instances, implementation, made.groups, in_order, run.system)
    changes = find_changes(
        run.workload, run.columns, workload.issue, instances, workload.graph, assignment, order, made.of_instance != NO_JOINT
    )
    (folder / WORKLOAD).mkdir()
    write_workload(run.workload, run.columns, instances, changes, folder / WORKLOAD / inputs.workload.name)
    link_orders = {case.name: solution.link_order for case, solution in zip(cases, solutions, strict=True)}
    prefixes = write_traces(folder, run.workload, schedules, kept, idle, link_orders)
    per_node = {node: prefixes[traces[entry]] for node, entry in assignment.per_node.items()}
    keys = native.keys() if native is not None and np.any(implementation == NATIVE) else {}
    write_configurations(folder, inputs, assignment.groups, per_node, run.network, backend, keys)
    if not backend.is_analytical:
        write_ns3_configurations(folder, inputs, run.network, bool(assignment.groups))
    collectives = {name: schedule.collective for name, schedule in schedules.items()}
    parts = {name: TraceParts(each.num_npus, (part_of(each),)) for name, each in collectives.items() if each.name != JOINT}
    parts |= {joint.name: TraceParts(len(joint.of.ranks), joint.parts) for joint in made.joints}
    parts |= {name: TraceParts(num_ranks, None) for name, (_, num_ranks) in kept.items()}
    parts |= {name: TraceParts(num_ranks, ()) for name, num_ranks in idle.items()}
    return WrittenRun(traces, {prefixes[name]: parts[name] for name in traces}, assignment, changes)


def _moves_nothing(instances: Instances) -> NDArray[np.bool_]:
    """bool[num_instances], collectives of one rank or of no bytes, in which ASTRA-sim's native ones stall."""
    runs = np.isin(instances.pattern, [int(pattern) for pattern in COLLECTIVE_NAMES if pattern != CommType.BROADCAST])
    return runs & ((instances.num_members < 2) | (instances.size_bytes < 1))


def _kept(workload: Workload, solutions: tuple[Solution, ...]) -> tuple[dict[str, tuple[Path, int]], list[str | None]]:
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
