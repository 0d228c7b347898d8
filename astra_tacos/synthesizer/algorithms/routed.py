"""Routed: every chunk takes its own path or tree, chosen so that links share the load evenly; then the sends are list-scheduled.

`routing.paths` computes the paths of personalised chunks, `routing.tree_growth` the trees of chunks that several NPUs need or
contribute to; both may pass through NPUs that are not members of the collective. An All-Reduce sums every chunk up one tree and
spreads it down another from the same root: where links come in pairs this reaches the packing rate of spanning trees, which on
meshes is up to twice the rate of a Reduce-Scatter followed by an All-Gather. The sends of trees are ranked by their latest start
times (`parts.trees`). Of the sends of paths that wait for a link, the one goes first whose chunk has the longest way to go;
conflicts at switches are improved afterwards (`parts.mirror.justify`).
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import backwards, justify
from astra_tacos.synthesizer.routing.route import BUSY_SHARE, find_routes, send_graph_along_route

_FEW_SENDS = 500_000


def routed(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Find a path or tree for every chunk and schedule their sends.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        In which order chunks choose; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if collective.only_reduces:
        return backwards(_spread, topology, collective, timing, seed)
    return _spread(topology, collective, timing, seed)


def _spread(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    routes = find_routes(topology, collective, timing, seed)
    graphs = [send_graph_along_route(topology, collective, timing, route) for route in routes]
    # Where ports of switches have to be paired, neither of the two methods is always better.
    tried = (
        justify(dispatch(topology, collective, timing, sends, "routed", seed, share), share)
        for sends in graphs
        for share in ((BUSY_SHARE, np.inf) if topology.has_switches and len(sends.chunk) <= _FEW_SENDS else (BUSY_SHARE,))
    )
    return min(tried, key=lambda schedule: schedule.collective_time_ns)
