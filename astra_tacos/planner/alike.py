"""Cases whose groups see one network under other numbers: one of them is synthesized, the others run its schedule, renumbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import ROOTED, make_collective
from astra_tacos.network.failures import find_renumbering
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.planner.group_topology import Machine
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis import native_together_ns
from astra_tacos.planner.workload import DistinctCollective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import renumbered
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.verifier.schedule_oracle import verify


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """The case that another one is like.

    Parameters
    ----------
    npu
        int64[num_members], the position in this case's groups that each position in the other's groups is.
    """

    number: int
    npu: Ints


def find_alike(cases: Sequence[DistinctCollective]) -> dict[int, Alike | None]:
    """For each case, another one that is like it and comes before it here; None if there is none.

    Cases on regular networks come first, as more algorithms apply there, and then by their first groups, so that a plan of a plan
    has the same ones synthesized.
    """
    alike_of: dict[int, Alike | None] = {}
    firsts: dict[tuple[object, ...], list[int]] = {}

    def place(number: int) -> tuple[bool, tuple[int, ...], int]:
        views = cases[number].views.values()
        return not any(view.topology.dimensions for view in views), min(cases[number].groups), number

    for number in sorted(range(len(cases)), key=place):
        case = cases[number]
        key = case.pattern, case.size_bytes, case.root is None, case.num_members, case.max_sends, case.has_routed_links
        alike_of[number] = None
        for earlier in firsts.setdefault(key, []):
            other = cases[earlier]
            npu = find_renumbering(_networks(other), _networks(case), (other.root, case.root))
            if npu is not None:
                alike_of[number] = Alike(earlier, npu)
                break
        else:
            firsts[key].append(number)
    return alike_of


def _networks(case: DistinctCollective) -> list[Topology]:
    """The views of a case that differ in links; others differ in whether they are known to be regular."""
    networks: list[Topology] = []
    for view in case.views.values():
        if not any(_is_same(view.topology, known) for known in networks):
            networks.append(view.topology)
    return networks


def renumbered_solution(
    solution: CaseSolution,
    other: DistinctCollective,
    case: DistinctCollective,
    npu: Ints,
    machine: Machine,
) -> CaseSolution | None:
    """The solution of a case by that of one that it is like; None if it has to be synthesized after all.

    It has to be if the other case has no schedule, the oracle objects, or the groups of this case take another time together:
    they may share routes in other ways.

    Parameters
    ----------
    case, npu
        The case, and the positions in its groups that those of the other's are.
    """
    schedule = None if solution.schedule is None else _renumbered(solution.schedule, other, case, npu)
    if schedule is None or verify(schedule):
        return None
    try:
        native_ns = native_together_ns(case, machine)
        if solution.together_ns is not None:
            groups = case.pattern, case.size_bytes, case.groups
            if machine.replay_together(schedule, *groups) != solution.together_ns:
                return None
    except AstraTacosError:
        return None
    if native_ns is not None and native_ns < solution.time_ns:
        return None
    return replace(solution, schedule=schedule, native_ns=native_ns, defects=())


def _renumbered(schedule: Schedule, other: DistinctCollective, case: DistinctCollective, npu: Ints) -> Schedule | None:
    networks = zip(_networks(other), _networks(case), strict=True)
    topology = next((there for here, there in networks if _is_same(here, schedule.topology)), None)
    if topology is None or schedule.collective.name != case.collective:
        return None
    root = (case.root or 0) if case.collective in ROOTED else None
    old_collective = schedule.collective
    collective = make_collective(case.collective, case.num_members, case.size_bytes, old_collective.chunks_per_npu, root)
    return renumbered(schedule, topology, collective, npu)


def _is_same(left: Topology, right: Topology) -> bool:
    """Whether channels of one are those of the other: synthesizers that turn a network around make another object of it."""
    return left is right or all(np.array_equal(*pair) for pair in zip(_channels(left), _channels(right), strict=True))


def _channels(topology: Topology) -> tuple[NDArray[np.generic], ...]:
    """Ends of all channels, and bandwidths and latencies of their links."""
    columns: list[NDArray[np.generic]] = [topology.channel_src, topology.channel_dst]
    for link in (topology.channel_link, topology.channel_down_link):
        for figure in (topology.link_bandwidth_gibps, topology.link_latency_ns):
            columns.append(np.where(link == NO_LINK, 0, figure[link]))
    return tuple(columns)
