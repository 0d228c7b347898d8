"""Joint routing of several collectives, such as those of disjoint groups: common link prices and one schedule for all.

The collectives take turns to choose their paths or trees (see `routed`), given the load that the others put on the links. Then
all sends are list-scheduled on the links together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.joint import join_collectives, split
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, Timing, compute_timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import justify, mirror
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.routing.route import BUSY_SHARE, Route, find_route, send_graph_along_route
from astra_tacos.synthesizer.routing.tree_growth import may_have_idle_roots

_ROUNDS = 8
_PATIENCE = 2
_RANKS = 1 << 20


def together(
    topology: Topology,
    collectives: Sequence[Collective],
    link_model: LinkModel,
    reduce_bandwidth_gbps: float = 0.0,
    seed: int = 0,
) -> tuple[Schedule, ...]:
    """A schedule for each collective, in their order; on the links they do not overlap (see `verify_together`).

    Raises
    ------
    ConfigError
        If there is no collective, or they differ in their number of NPUs.
    SynthesisError
        If chunks are too small or too large for the links, or some NPU cannot be reached.
    """
    joint = join_collectives(collectives)
    timing = compute_timing(topology, joint, link_model, reduce_bandwidth_gbps)
    timings = [compute_timing(topology, each, link_model, reduce_bandwidth_gbps) for each in collectives]
    routes = _route_all(topology, collectives, timings, seed)
    graphs = [_send_graph(topology, *each) for each in zip(collectives, timings, routes, strict=True)]
    begins = np.cumsum([0, *(each.num_chunks for each in collectives)])
    sends = SendGraph(
        np.concatenate([graph.chunk + np.int32(begin) for graph, begin in zip(graphs, begins[:-1], strict=True)]),
        np.concatenate([graph.channel for graph in graphs]),
        np.concatenate([graph.reduces for graph in graphs]),
        # Ranks of different send graphs are not comparable, so they are scaled to proceed at the same pace.
        np.concatenate([graph.rank * np.int64(_RANKS) // max(int(graph.rank.max()), 1) for graph in graphs]).astype(np.int32),
    )
    schedule = justify(dispatch(topology, joint, timing, sends, "routed", seed, BUSY_SHARE), BUSY_SHARE)
    return split(schedule, collectives, timings)


def _route_all(topology: Topology, collectives: Sequence[Collective], timings: Sequence[Timing], seed: int) -> list[Route]:
    """The routes of all collectives, from the round with the least load on the busiest link.

    In the first round, collectives that have not been routed yet are assumed to load all links as evenly as the first one can.
    Otherwise those routed first would take detours over links that the others need.
    """
    loads: NDArray[np.float64] = np.zeros((len(collectives), topology.num_links))
    routes: list[Route | None] = [None] * len(collectives)
    best: list[Route] = []
    best_ns, since = np.inf, 0
    expected_ns = _route(topology, collectives[0], timings[0], seed, loads[0]).link_ns.mean()
    for turn in range(_ROUNDS):
        for i, (collective, timing) in enumerate(zip(collectives, timings, strict=True)):
            others = loads.sum(axis=0) - loads[i]
            if turn == 0:
                others = others + expected_ns * (len(collectives) - 1 - i)
            found = _route(topology, collective, timing, seed + turn, others)
            routes[i], loads[i] = found, found.link_ns - others
        now_ns, since = float(loads.sum(axis=0).max()), since + 1
        if now_ns < best_ns:
            best, best_ns, since = [each for each in routes if each is not None], now_ns, 0
        if len(collectives) == 1 or since == _PATIENCE:
            break
    return best


def _route(topology: Topology, collective: Collective, timing: Timing, seed: int, others_ns: NDArray[np.float64]) -> Route:
    """Paths or trees of one collective, given the load of the others on links."""
    if collective.only_reduces:
        image = mirror(topology, timing)
        topology, timing = image.topology, image.timing
    kinds = (False, True) if may_have_idle_roots(collective) else (False,)
    found = [find_route(topology, collective, timing, seed, others_ns, idle_roots=idle_roots) for idle_roots in kinds]
    return min(found, key=lambda route: float(route.link_ns.max()))


def _send_graph(topology: Topology, collective: Collective, timing: Timing, route: Route) -> SendGraph:
    """The sends of a route on the network itself."""
    if not collective.only_reduces:
        return send_graph_along_route(topology, collective, timing, route)
    image = mirror(topology, timing)
    sends = send_graph_along_route(image.topology, collective, image.timing, route)
    # A reduction runs backwards in time: the last send that spreads becomes the first that sums up.
    rank = sends.rank.max() - sends.rank
    return SendGraph(sends.chunk, image.channel[sends.channel], np.ones(len(sends.chunk), np.bool_), rank)
