"""A workload in which collectives that run one joint schedule are one collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.distinct_collective import NO_CASE
from astra_tacos.planner.global_order import has_circle, merge
from astra_tacos.planner.instances import Instances
from astra_tacos.planner.joint_synthesis import JointCollective
from astra_tacos.planner.workload import Workload

NO_JOINT = -1


@dataclass(frozen=True, slots=True, eq=False)
class JointWorkload:
    """A workload whose collectives may be joint.

    Parameters
    ----------
    workload
        Joint collectives are one instance each, of a group of all their ranks, and of no case.
    joints
        The joint collectives.
    of_instance
        int64[num_instances], which of them each instance is, NO_JOINT for the others.
    groups
        Communicator groups of the run, with one for each joint collective.
    """

    workload: Workload
    joints: tuple[JointCollective, ...]
    of_instance: NDArray[np.int64]
    groups: dict[int, tuple[int, ...]]


def apart(workload: Workload) -> JointWorkload:
    """A workload of which nothing is joint."""
    none = np.full(workload.instances.num_instances, NO_JOINT, np.int64)
    return JointWorkload(workload, (), none, dict(workload.run.groups.members))


def joined(workload: Workload, joints: Sequence[JointCollective]) -> JointWorkload | None:
    """The workload with some collectives joined; None if they would wait for one another in a circle.

    Parameters
    ----------
    workload
        The run and its collectives.
    joints
        Joint collectives, no instance in two of them.
    """
    instances, groups = workload.instances, dict(workload.run.groups.members)
    members = dict(instances.nodes.members)
    number_of = np.arange(instances.num_instances)
    joint_of = np.full(instances.num_instances, NO_JOINT, np.int64)
    group = instances.group.copy()
    root = instances.root.copy()
    for number, joint in enumerate(joints):
        ranks = joint.of.ranks
        own = _named_already(workload, joint, ranks)
        if own is None:
            own = max(groups, default=0) + 1
            groups[own] = ranks
        members[own] = ranks
        for times in joint.of.instances:
            number_of[list(times)] = times[0]
            joint_of[times[0]], group[times[0]], root[times[0]] = number, own, -1
    kept, renumbered = np.unique(number_of, return_inverse=True)
    nodes = replace(instances.nodes, members=members)
    columns = (group[kept], instances.pattern[kept], instances.size_bytes[kept], root[kept])
    together = Instances(nodes, renumbered.reshape(-1)[instances.instance], *columns)
    graph = merge(workload.run.workload, workload.issue, together)
    if has_circle(graph):
        return None
    of_instance = np.where(joint_of[kept] == NO_JOINT, workload.of_instance[kept], NO_CASE)
    return JointWorkload(
        replace(workload, instances=together, graph=graph, of_instance=of_instance), tuple(joints), joint_of[kept], groups
    )


def _named_already(workload: Workload, joint: JointCollective, ranks: tuple[int, ...]) -> int | None:
    """The group that all nodes of a joint collective name, if they do, as a plan of a plan is the same plan."""
    instances = workload.instances
    chosen = np.isin(instances.instance, [number for times in joint.of.instances for number in times])
    named = np.unique(instances.nodes.named_group[chosen])
    if len(named) != 1 or workload.run.groups.members.get(int(named[0])) != ranks:
        return None
    is_own = (instances.nodes.named_group[chosen] == instances.nodes.group[chosen]).any()
    return None if is_own else int(named[0])
