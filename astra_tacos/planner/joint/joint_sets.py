"""Which collectives of a run are under way at about the same time, so that one schedule of all their ranks could do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from astra_tacos.collective import COLLECTIVES
from astra_tacos.planner.workload import Workload
from astra_tacos.run.outcome import RunOutcome

Part = tuple[str, int, int | None, tuple[int, ...]]
"""A collective of a joint schedule: its name, size, root's rank, and ranks in ascending order."""


@dataclass(frozen=True, slots=True)
class JointSet:
    """Collectives that could be one, by what they are.

    Parameters
    ----------
    instances
        Every time that these collectives are under way at once: the instances, in the order of the parts.
    """

    parts: tuple[Part, ...]
    instances: tuple[tuple[int, ...], ...]
    apart_ns: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(sorted(rank for part in self.parts for rank in part[3]))


def joint_sets(workload: Workload, outcome: RunOutcome, may_join: Callable[[int], bool]) -> tuple[JointSet, ...]:
    """Sets of collectives of disjoint groups that a replay shows under way at once, those that take longest first.

    All nodes of a set have been issued before one of them ends. So none waits for another one, and if all are merged, the
    workload still has no cycle.
    """
    instances = workload.instances
    num = instances.num_instances
    issue, finish = (column[instances.nodes.row] for column in (outcome.node_issue_ns, outcome.node_finish_ns))
    begin, end = np.full(num, -1, np.int64), np.full(num, np.iinfo(np.int64).max)
    over = np.full(num, -1, np.int64)
    np.maximum.at(begin, instances.instance, issue)
    np.minimum.at(end, instances.instance, finish)
    np.maximum.at(over, instances.instance, finish)
    order = np.lexsort((np.arange(num), begin))
    joins = np.array([*(case.collective in COLLECTIVES for case in workload.cases), False])[workload.of_instance]
    joins &= (begin >= 0) & (begin < end)
    waiting = [number for number in order[joins[order]].tolist() if may_join(number)]
    begins, ends, overs = begin.tolist(), end.tolist(), over.tolist()
    members = {group: frozenset(ranks) for group, ranks in instances.nodes.members.items()}
    group = instances.group.tolist()
    instances_of: dict[tuple[Part, ...], list[tuple[int, ...]]] = {}
    apart: dict[tuple[Part, ...], int] = {}
    while waiting:
        first = waiting[0]
        latest = begins[first] + (ends[first] - begins[first]) // 2
        chosen, cutoff, members_taken = [first], min(ends[first], latest + 1), set(members[group[first]])
        rest = []
        for place, number in enumerate(waiting[1:], 1):
            if begins[number] >= cutoff:
                rest += waiting[place:]
                break
            if members_taken.isdisjoint(members[group[number]]):
                chosen.append(number)
                members_taken |= members[group[number]]
                cutoff = min(cutoff, ends[number])
            else:
                rest.append(number)
        waiting = rest
        if len(chosen) < 2:
            continue
        ordered = sorted(((_part(workload, number), number) for number in chosen), key=lambda part: part[0][3])
        key = tuple(part for part, _ in ordered)
        instances_of.setdefault(key, []).append(tuple(number for _, number in ordered))
        apart[key] = apart.get(key, 0) + max(overs[number] for number in chosen) - max(begins[number] for number in chosen)
    sets = (JointSet(key, tuple(times), apart[key]) for key, times in instances_of.items())
    return tuple(sorted(sets, key=lambda joint_set: (-joint_set.apart_ns, joint_set.instances)))


def _part(workload: Workload, number: int) -> Part:
    instances = workload.instances
    case = workload.cases[int(workload.of_instance[number])]
    ranks = tuple(sorted(instances.nodes.members[int(instances.group[number])]))
    root = int(instances.root[number])
    return case.collective, case.size_bytes, root if root >= 0 else None, ranks
