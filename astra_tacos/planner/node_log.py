"""The node log of a plan: what happened to every collective node of the workload, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tacos.planner.assignment import Assignment
from astra_tacos.planner.joint_workload import NO_JOINT, JointWorkload
from astra_tacos.planner.rewrite import Changes
from astra_tacos.planner.solution import Solution
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.run import NATIVE

COLUMNS = ("rank", "node", "new_node", "pattern", "group", "new_group", "collective", "trace", "after", "why")
"""`after`: the nodes that it was made to wait for, by their old ids."""


def node_rows(
    made: JointWorkload, solutions: tuple[Solution, ...], assignment: Assignment, changes: Changes, traces: tuple[str, ...]
) -> list[list[Any]]:
    """A row of `COLUMNS` for each collective node; `traces` are the names of the traces written.

    Parameters
    ----------
    made
        The run and its collectives, some of which may be joint.
    solutions
        The result of each distinct collective.
    assignment
        Groups and ids of the instances.
    changes
        Changes of nodes.
    traces
        Names of the traces written.
    """
    workload = made.workload
    instances, trace = workload.instances, workload.run.workload
    nodes = instances.nodes
    alone = instances.num_members < 2
    rows = []
    names = {pattern: pattern_name(pattern) for pattern in np.unique(nodes.pattern).tolist()}
    columns = (nodes.row, nodes.rank, instances.instance, assignment.implementation[instances.instance])
    for entry, (row, rank, number, chosen) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        case = int(workload.of_instance[number])
        if alone[number]:
            why = "a group of one: nothing to do"
        elif made.of_instance[number] != NO_JOINT:
            why = "one of several in a joint trace"
        elif case < 0:
            why = "nothing to move"
        else:
            why = solutions[case].reason or "synthesized"
        waits = changes.wait[changes.wait_first[entry] : changes.wait_first[entry + 1]]
        rows.append(
            [
                rank,
                int(trace.node_id[row]),
                int(changes.node_id[entry]),
                names[int(nodes.pattern[entry])],
                int(nodes.group[entry]),
                int(assignment.group[number]),
                number,
                None if chosen == NATIVE else traces[chosen],
                [int(node) for node in trace.node_id[waits].tolist()],
                why,
            ]
        )
    return rows
