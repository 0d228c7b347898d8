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
from astra_tacos.schedule.timing import LinkModel, Timing
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution, solve
from astra_tacos.synthesizer.columns.switch_hops import as_hops, from_hops
from astra_tacos.synthesizer.columns.trip_sends import choose_columns, make_sends
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.topology.topology import Topology
from astra_tacos.units import bytes_per_ns

_REFERENCE_BYTES = 1 << 30
_MOST_NPUS = 128
_MOST_SENDS = 1 << 22
_MOST_CHUNKS = 1 << 16
_HOPS = 2.2
"""Links of a trip, about."""
_SHORT_NS, _OF_LATENCY = 250.0, 0.25
"""Holds that are short: truncated to whole ns they are still right, and a latency is long beside them."""


def refuse_without_forwarding(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no use for it, or is too large; None if it is not."""
    if not topology.forwarding:
        return "expected a graph with devices that only forward"
    if topology.num_endpoints > _MOST_NPUS:
        return f"solves programmes of at most {_MOST_NPUS} NPUs, these are {topology.num_endpoints:,}"
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    return None


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
        return from_hops(dispatch(*hops, make_sends(*hops, solution, column_of), name, seed), topology, collective, timing)
    sends = make_sends(topology, collective, timing, solution, column_of)
    return dispatch(topology, collective, timing, sends, name, seed)


@lru_cache(maxsize=8)
def _solved(topology: Topology, name: str, root: int | None, members: bytes, seed: int) -> Solution:
    """The solution for a collective of the reference size, whatever its chunks."""
    npus = np.frombuffer(members, np.int64).tolist()
    collective = make_collective(name, topology.num_npus, _REFERENCE_BYTES, 1, root, npus)
    return solve(Demands(topology, collective, seed))


def advise_for_trips(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU with which it should come close to its best: links hold chunks briefly, and few trips fill the pipeline.

    Parameters
    ----------
    topology
        The network, one with forwarding devices.
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.
    link_model
        How long a chunk holds a link.
    max_sends
        Of the schedule.
    """
    whole = make_collective(name, topology.num_npus, size_bytes, 1, members=topology.endpoints)
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    short_ns = max(_SHORT_NS, _OF_LATENCY * float(topology.link_latency_ns.max()))
    most = float(whole.class_size_bytes[0]) / (float(rate.min() if link_model == "blocking" else rate.max()) * short_ns)
    most = min(most, max_sends / (_HOPS * whole.least_sends), _MOST_CHUNKS / whole.num_chunks)
    count = int(max(most, 1.0))
    shift = max(count.bit_length() - 3, 0)  # round numbers, so that similar networks get the same
    return count >> shift << shift
