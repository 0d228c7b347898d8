"""Column generation: trees and paths in graphs of links, as a linear programme weighs them.

Every chunk takes a tree (or to a single target, a path) whose edges are links, or routes over forwarding devices, between NPUs.
Which trees, and how much along each, is the solution of a linear programme that packs them into the bandwidth of links, as
ForestColl does by splitting off switches and growing trees (Zhao et al., arXiv 2402.06787). Columns need no switches that take in
as much as they give out, and all routes count, not only shortest ones. With many chunks, the time comes close to the programme's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.rotations import find_rotations
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.synthesizer.chunk_counts import advise_for_trips, most_promising
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution, solve
from astra_tacos.synthesizer.columns.trip_sends import as_hops, choose_columns, from_hops, make_sends
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import mirror, mirrored
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.work import trip_work

_REFERENCE = (1 << 30, 1)
"""Bytes and chunks for each NPU of a collective whose shares serve those of any size."""
_LOOK_AT_PAIR = 1_500
"""Sends examined that a pair of an NPU and one whose trees have to be found counts as in the programme."""
_MOST_NPUS, _MOST_ALIKE, _MOST_ORBITS = 128, 2048, 4
_MOST_SENDS = 1 << 22
_FEW_FOR_EACH, _SENDS_OF_BOTH = 2, 1 << 21
"""Chunks for each NPU up to which sums are made backwards in time only, and sends up to which both ways are tried."""
_NAME = "column-generation"
_GATHERING = {False: "all-gather", True: "broadcast"}
_AS_ALL_GATHER = (False, True, False)


def refuse_dimensions(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if topology.dimensions and not topology.forwarding:
        return "it is a network of dimensions, expected a graph of links"
    npus = topology.num_endpoints
    if npus > _MOST_ALIKE:
        return f"solves programmes of at most {_MOST_ALIKE:,} NPUs, these are {npus:,}"
    if npus > _MOST_NPUS and _orbits(topology, collective) > _MOST_ORBITS:
        return f"solves programmes of at most {_MOST_NPUS} NPUs that are not alike, these are {npus:,}"
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    return None


def programme_work(topology: Topology, collective: Collective) -> int:
    """Work of a linear programme over trees or paths, and of their sends.

    Where devices forward, no other synthesizer comes close to what the programme finds, so it counts as a small one there.
    """
    work = trip_work(topology, collective)
    if topology.forwarding:
        return work
    return work + _LOOK_AT_PAIR * topology.num_endpoints * _orbits(topology, collective)


def advise_for_trees(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU with which it should come close to its best.

    Parameters
    ----------
    topology, name, size_bytes, link_model, max_sends
        As `advise_for_trips` and `most_promising` take them.
    """
    advise = advise_for_trips if topology.forwarding else most_promising
    return advise(topology, name, size_bytes, link_model, max_sends)


def _orbits(topology: Topology, collective: Collective) -> int:
    """Of how many NPUs trees or paths have to be found, as others do the same."""
    if collective.root is not None or collective.num_members < topology.num_endpoints:
        return collective.num_members
    return topology.num_endpoints // find_rotations(topology).order


def column_generation(problem: Problem, seed: int) -> Schedule:
    """Choose trees or paths by a linear programme and schedule the sends of chunks along them."""
    collective = problem.collective
    if not collective.reduces:
        return _spread(problem, seed)
    schedules = []
    if collective.num_chunks > _FEW_FOR_EACH * collective.num_members or collective.num_members == 2:
        schedules.append(_spread(problem, seed))
    if not schedules or schedules[0].num_sends <= _SENDS_OF_BOTH:
        other = _backwards if collective.only_reduces else _one_after_the_other
        schedules.append(other(problem, seed))
    return min(schedules, key=lambda schedule: schedule.collective_time_ns)


def _backwards(problem: Problem, seed: int) -> Schedule:
    """What is summed up is what would be spread on the mirror image of the network, backwards in time."""
    topology, collective, timing = problem
    image = mirror(topology, timing)
    gathering = replace(collective, name=_GATHERING[collective.root is not None], reduces=False, gathers=True)
    spread = _spread(Problem(image.topology, gathering, image.timing), seed)
    return mirrored(replace(spread, collective=collective, timing=timing), image, topology, timing)


def _one_after_the_other(problem: Problem, seed: int) -> Schedule:
    """An All-Reduce as a Reduce-Scatter to chunks' owners and an All-Gather from them, which begins as soon as it can.

    This is often faster than trees of both phases at once, of which some have much to do in the end.
    """
    topology, collective, timing = problem
    scattered = _backwards(Problem(topology, replace(collective, gathers=False), timing), seed)
    gathered = _spread(Problem(topology, replace(collective, reduces=False), timing), seed)
    trip = None
    if scattered.trip is not None and gathered.trip is not None:
        trip = np.concatenate((scattered.trip, gathered.trip + (scattered.trip.max(initial=-1) + 1))).astype(np.int32)
    start_ns = np.concatenate((scattered.start_ns, gathered.start_ns + scattered.collective_time_ns))
    sends = SendGraph(
        np.concatenate((scattered.chunk, gathered.chunk)),
        np.concatenate((scattered.channel, gathered.channel)),
        np.concatenate((scattered.reduces, gathered.reduces)),
        np.unique(start_ns, return_inverse=True)[1].astype(np.int32),
        trip=trip,
    )
    return dispatch(problem, sends, _NAME, seed)


def _spread(problem: Problem, seed: int) -> Schedule:
    """Trees or paths as the programme weighs them, and their sends."""
    return along_shares(problem, _NAME, seed)


def along_shares(
    problem: Problem,
    name: str,
    seed: int,
    with_devices: bool | None = None,
    cut: tuple[int, int] = _REFERENCE,
) -> Schedule:
    """The schedule of whole chunks along the columns of `best_shares`.

    Parameters
    ----------
    with_devices, cut
        As `best_shares` takes them.
    """
    topology, collective = problem.topology, problem.collective
    solution = best_shares(topology, collective, seed, with_devices, cut)
    demands = Demands(topology, collective, seed, with_devices)
    return schedule_columns(problem, solution, demands, name, seed)


def schedule_columns(problem: Problem, solution: Solution, demands: Demands, name: str, seed: int) -> Schedule:
    """The schedule of whole chunks along the columns of a solution."""
    topology, collective, timing = problem
    solution = solution.scaled(float(demands.total / solution.total))
    column_of = choose_columns(solution, demands, collective)
    if topology.has_switches and not timing.is_blocking:
        hops = as_hops(problem)
        sends = make_sends(hops, demands, solution, column_of)
        return from_hops(dispatch(hops, sends, name, seed), problem)
    sends = make_sends(problem, demands, solution, column_of)
    return dispatch(problem, sends, name, seed)


def best_shares(
    topology: Topology,
    collective: Collective,
    seed: int = 0,
    with_devices: bool | None = None,
    cut: tuple[int, int] = _REFERENCE,
) -> Solution:
    """The best columns, and the bytes along each, of a collective of some size, whatever its chunks.

    Parameters
    ----------
    with_devices
        Whether trees may branch at reducing devices and servers, or at servers only; None for NPUs that are members.
    cut
        The size in bytes, and the chunks for each NPU.
    """
    kind = (collective.reduces, collective.gathers, collective.is_personalised)
    name = collective.name if kind != _AS_ALL_GATHER or collective.root is not None else _GATHERING[False]
    return _solved(topology, name, collective.root, collective.member_npus.tobytes(), seed, with_devices, cut)


@lru_cache(maxsize=24)
def _solved(
    topology: Topology,
    name: str,
    root: int | None,
    members: bytes,
    seed: int,
    with_devices: bool | None,
    cut: tuple[int, int],
) -> Solution:
    collective = make_collective(name, topology.num_npus, *cut, root, np.frombuffer(members, np.int64).tolist())
    return solve(Demands(topology, collective, seed, with_devices))
