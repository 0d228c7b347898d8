"""What the collective of a case takes at least, on the links that its groups may use."""

from __future__ import annotations

from functools import lru_cache

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.any_algorithm.latency import diameter
from astra_tacos.bounds.any_algorithm.ports import egress, ingress
from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.planner.distinct_collective import DistinctCollective
from astra_tacos.planner.solution import Solution
from astra_tacos.schedule.timing import timing_of_sizes

_MOST_EXACT = 8
"""Groups of a case on a fabric for which all bounds are found; where there are more, only those that are quick."""


def least_ns(case: DistinctCollective, solution: Solution) -> int | None:
    """Lower bound on the time of any algorithm on the links that it may use; None where nothing is synthesized for the case.

    On a fabric it holds for all groups of the case: they see routes that are alike, but may have different links around them.
    """
    if solution.schedule is None:
        return None
    if case.fabric is not None:
        return _on_fabric(case)
    schedule = solution.schedule
    return lower_bound(schedule.topology, schedule.collective, schedule.timing).time_ns


@lru_cache(maxsize=256)
def _on_fabric(case: DistinctCollective) -> int:
    assert case.fabric is not None  # checked by the caller
    fabric = case.fabric
    bound = _all_bounds if len(case.groups) <= _MOST_EXACT else quick_bound
    return min(bound(fabric, collective_of_group(case, group, fabric)) for group in case.groups)


def collective_of_group(case: DistinctCollective, members: tuple[int, ...], topology: Topology) -> Collective:
    """The collective of one group of a case, on the whole network."""
    root = None if case.root is None else members[case.root]
    return make_collective(case.collective, topology.num_npus, case.size_bytes, 1, root, members)


def quick_bound(topology: Topology, collective: Collective) -> int:
    """The largest of the bounds that are quick to find, in ns."""
    timing = timing_of_sizes(topology, collective.class_size_bytes, "pipelined", 0.0, may_be_instant=True)
    return max(bound(topology, collective, timing).time_ns for bound in (ingress, egress, diameter))


def _all_bounds(topology: Topology, collective: Collective) -> int:
    timing = timing_of_sizes(topology, collective.class_size_bytes, "pipelined", 0.0, may_be_instant=True)
    return lower_bound(topology, collective, timing).time_ns
