"""Column generation: trees and paths over devices that forward, as a linear programme weighs them; for fabrics.

Every chunk takes a tree (or to a single target, a path) whose edges are routes over forwarding devices from NPU to NPU. Which
trees, and how much along each, is the solution of a linear programme that packs them into the bandwidth of links, as ForestColl
does by splitting off switches and growing trees (Zhao et al., arXiv 2402.06787). Columns need no switches that take in as much as
they give out, and all routes count, not only shortest ones. With many chunks, the time comes close to the programme's.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution, solve
from astra_tacos.synthesizer.columns.switch_hops import as_hops, from_hops
from astra_tacos.synthesizer.columns.trip_sends import choose_columns, make_sends
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.topology.rotations import find_rotations
from astra_tacos.topology.topology import Topology

_REFERENCE_BYTES = 1 << 30
_MOST_NPUS, _MOST_ALIKE, _MOST_ORBITS = 128, 2048, 4
_MOST_SENDS = 1 << 22


def refuse_without_forwarding(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if not topology.forwarding:
        return "expected a graph with devices that only forward"
    npus = topology.num_endpoints
    if npus > _MOST_ALIKE:
        return f"solves programmes of at most {_MOST_ALIKE:,} NPUs, these are {npus:,}"
    if npus > _MOST_NPUS and _orbits(topology, collective) > _MOST_ORBITS:
        return f"solves programmes of at most {_MOST_NPUS} NPUs that are not alike, these are {npus:,}"
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    return None


def _orbits(topology: Topology, collective: Collective) -> int:
    """Of how many NPUs trees or paths have to be found, as others do the same."""
    if collective.root is not None or collective.num_members < topology.num_endpoints:
        return collective.num_members
    return topology.num_endpoints // find_rotations(topology).order


def column_generation(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Choose trees or paths by a linear programme and schedule the sends of chunks along them.

    Parameters
    ----------
    topology
        The network, one with forwarding devices.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Of ties between trees; the same arguments give the same schedule.
    """
    members = collective.member_npus.tobytes()
    solution = _solved(topology, collective.name, collective.root, members, seed)
    demands = Demands(topology, collective, seed)
    return schedule_columns(topology, collective, timing, solution, demands, "column-generation", seed)


def schedule_columns(
    topology: Topology, collective: Collective, timing: Timing, solution: Solution, demands: Demands, name: str, seed: int
) -> Schedule:
    """The schedule of whole chunks along the columns of a solution.

    Parameters
    ----------
    topology, collective, timing
        The network, the collective and its delays.
    solution
        Of a collective of the same kind, of any size.
    demands
        Those of the collective.
    name, seed
        Of the synthesizer.
    """
    solution = solution.scaled(float(demands.total / solution.total))
    column_of = choose_columns(solution, demands, collective)
    if topology.has_switches and not timing.is_blocking:
        hops = as_hops(topology, collective, timing)
        sends = make_sends(*hops, demands, solution, column_of)
        return from_hops(dispatch(*hops, sends, name, seed), topology, collective, timing)
    sends = make_sends(topology, collective, timing, demands, solution, column_of)
    return dispatch(topology, collective, timing, sends, name, seed)


@lru_cache(maxsize=8)
def _solved(topology: Topology, name: str, root: int | None, members: bytes, seed: int) -> Solution:
    """The solution for a collective of the reference size, whatever its chunks."""
    npus = np.frombuffer(members, np.int64).tolist()
    collective = make_collective(name, topology.num_npus, _REFERENCE_BYTES, 1, root, npus)
    return solve(Demands(topology, collective, seed))
