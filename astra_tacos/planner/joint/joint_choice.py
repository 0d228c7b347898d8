"""The choice of joint schedules for a whole run, by replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.candidate_runs import CandidateRun, Solutions, order_run
from astra_tacos.planner.joint.joint_sets import JointSet, joint_sets
from astra_tacos.planner.joint.joint_synthesis import MOST_SENDS, JointCollective, JointWorkload, apart, joined
from astra_tacos.planner.plan_result import JointFigures
from astra_tacos.planner.workload import Workload
from astra_tacos.run.run import NATIVE
from astra_tacos.support.arrays import Ints
from astra_tacos.support.units import format_size

_MOST_RANKS = 128
"""Of a set of collectives: routing takes long for more."""
_WORK = 1 << 22
"""Channels examined for the sends of all schedules that are made, about: some seconds a core. Sets that take longest go first."""
_WORTH = 0.99
"""A joint schedule is tried where it takes less than this share of what its collectives take now."""
Planned = Callable[[JointWorkload, Solutions, Ints], Callable[[], CandidateRun]]


@dataclass(frozen=True, slots=True)
class JointLimits:
    """How much may be tried."""

    threads: int
    most_messages: int
    num_channels: int


def choose_joint(
    workload: Workload,
    best: CandidateRun,
    solutions: Solutions,
    synthesize: Callable[[JointSet, int], JointCollective | None],
    planned: Planned,
    limits: JointLimits,
) -> CandidateRun:
    """A faster run in which collectives that are under way at once run joint schedules; `best` if none is faster.

    Tried are all joint schedules that promise to be faster than what runs now, in the order of list scheduling and in that of
    the best run; then those alone that were faster.

    Parameters
    ----------
    solutions
        The best of each case, which the best run may do without.
    synthesize
        Makes the joint schedule of a set, in at most so many messages.
    planned
        Plans a run, to be replayed, given the place of each row and collective in its order.
    """
    nodes = workload.instances.nodes
    has_own = (workload.run.implementation[nodes.row] != NATIVE) & (nodes.named_group == nodes.group)
    own_trace = np.zeros(workload.instances.num_instances, np.bool_)
    np.logical_or.at(own_trace, workload.instances.instance, has_own)

    def may_join(number: int) -> bool:
        return not (own_trace[number] and best.solutions[int(workload.of_instance[number])].keeps_custom)

    sets = [joint_set for joint_set in joint_sets(workload, best.after, may_join) if len(joint_set.ranks) <= _MOST_RANKS]

    apart_ns = max(sum(joint_set.apart_ns for joint_set in sets), 1)

    tasks: list[tuple[JointSet, int]] = []
    left = _WORK // limits.num_channels
    for joint in sets:
        # Sets share the messages that the run may still have, in proportion to the time that they take.
        room = sum(workload.cases[int(workload.of_instance[number])].most_messages for number in joint.instances[0])
        share = (limits.most_messages - best.after.num_messages) * joint.apart_ns / apart_ns / len(joint.instances)
        room = min(max(room, math.floor(share)), MOST_SENDS)
        if 2 * room > left:
            break
        left -= 2 * room
        tasks.append((joint, room))
    with ThreadPoolExecutor(max(limits.threads, 1)) as pool:
        joints = list(pool.map(lambda task: synthesize(*task), tasks))
    chosen = [
        joint for joint in joints if joint is not None and joint.time_ns * len(joint.of.instances) < _WORTH * joint.of.apart_ns
    ]
    acceptance = Acceptance[CandidateRun](best)
    tried: set[tuple[str, ...]] = set()
    while chosen and tuple(joint.name for joint in chosen) not in tried:
        tried.add(tuple(joint.name for joint in chosen))
        run = _fastest(best, solutions, _without_cycles(workload, chosen), planned)
        if run is None:
            break
        chosen = [
            joint for joint, time_ns in zip(run.joint_workload.joints, _spent(run), strict=True) if time_ns < joint.of.apart_ns
        ]
        if acceptance.take(run):
            best = run
    return best


def _without_cycles(workload: Workload, joints: Sequence[JointCollective]) -> JointWorkload:
    """The workload with those joint collectives that do not make others wait for one another."""
    joint_workload = joined(workload, joints)
    if joint_workload is not None:
        return joint_workload
    kept, joint_workload = list[JointCollective](), apart(workload)
    for joint in joints:
        more = joined(workload, [*kept, joint])
        if more is not None:
            kept, joint_workload = [*kept, joint], more
    return joint_workload


def _fastest(best: CandidateRun, solutions: Solutions, joint_workload: JointWorkload, planned: Planned) -> CandidateRun | None:
    """The fastest one of two orders and two choices for what is not joint; None if none can be replayed."""
    known_ns = np.array([*(joint.time_ns for joint in joint_workload.joints), 0], np.int64)[joint_workload.of_instance]
    acceptance = Acceptance[CandidateRun]()
    for chosen in [best.solutions] if best.solutions == solutions else [best.solutions, solutions]:
        for before in (None, best.after):
            acceptance.consider(planned(joint_workload, chosen, order_run(joint_workload.workload, chosen, before, known_ns)))
    return acceptance.best


def _spent(run: CandidateRun) -> list[int]:
    """How long each joint collective takes in a run, from when its last rank begins, all times together."""
    instances = run.joint_workload.workload.instances
    begin, end = np.zeros(instances.num_instances, np.int64), np.zeros(instances.num_instances, np.int64)
    np.maximum.at(begin, instances.instance, run.after.node_issue_ns[instances.nodes.row])
    np.maximum.at(end, instances.instance, run.after.node_finish_ns[instances.nodes.row])
    of_joint, took = run.joint_workload.of_instance, end - begin
    return [int(took[of_joint == number].sum()) for number in range(len(run.joint_workload.joints))]


def joint_figures(run: CandidateRun) -> tuple[JointFigures, ...]:
    """Figures of the joint collectives of a run, those that take longest first."""
    figures = []
    for joint, spent_ns in zip(run.joint_workload.joints, _spent(run), strict=True):
        parts = [f"{name} {format_size(size)}" for name, size, _, _ in joint.of.parts]
        kinds = tuple(f"{parts.count(kind)} x {kind}" for kind in dict.fromkeys(parts))
        count = len(joint.of.instances)
        figures.append(
            JointFigures(
                joint.name,
                kinds,
                joint.of.ranks,
                count,
                max(part.chunks_per_npu for part in joint.parts),
                joint.time_ns,
                joint.of.apart_ns // count,
                spent_ns // count,
            )
        )
    return tuple(sorted(figures, key=lambda figure: (-figure.spent_ns * figure.count, figure.name)))
