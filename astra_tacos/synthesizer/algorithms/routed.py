"""Routed: every chunk takes its own path or tree, chosen so that links share the load evenly; then the sends are list-scheduled.

`routing.paths` computes the paths of personalised chunks, `routing.tree_growth` the trees of chunks that several NPUs need or
contribute to; both may pass through NPUs that are not members of the collective. An All-Reduce sums every chunk up one tree and
spreads it down another from the same root: where links come in pairs this reaches the packing rate of spanning trees, which on
meshes is up to twice the rate of a Reduce-Scatter followed by an All-Gather. The sends of trees are ranked by their latest start
times (`parts.trees`). Of the sends of paths that wait for a link, the one goes first whose chunk has the longest way to go;
conflicts at switches are improved afterwards (`parts.mirror.justify`). What only reduces is routed on the mirror image of the
network.

`together` routes several collectives, such as those of disjoint groups. They take turns to choose paths or trees, given the load
of the others. Then all sends are list-scheduled together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.joint import join_collectives, split
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, Timing, compute_timing
from astra_tacos.support.arrays import Floats
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import backwards, justify, mirror
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.parts.trees import Packing, send_graph_along_trees
from astra_tacos.synthesizer.routing.paths import Paths, find_paths, send_graph_along_paths
from astra_tacos.synthesizer.routing.tree_growth import grow_trees, may_choose_roots

BUSY_SHARE = 0.8
"""What routed sends are dispatched with, see `dispatch`."""


Route = Paths | Packing


def find_routes(problem: Problem, seed: int, others_ns: Floats | None = None) -> list[Route]:
    """Paths or trees for all chunks of a collective; where that may help, also trees with other roots than central members.

    Parameters
    ----------
    others_ns
        float64[num_links], for how long others hold each link; they are counted in the result.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    topology, collective = problem.topology, problem.collective
    if collective.is_personalised:
        return [find_paths(problem, seed, others_ns)]
    # Other roots do not always help: links between members may be faster than those to others.
    kinds = (False, True) if may_choose_roots(topology, collective) else (False,)
    return [grow_trees(problem, seed, others_ns, free_roots=free_roots) for free_roots in kinds]


def send_graph_along_route(problem: Problem, route: Route) -> SendGraph:
    """The sends of a route.

    Parameters
    ----------
    route
        One that `find_routes` finds.
    """
    collective = problem.collective
    if isinstance(route, Paths):
        return send_graph_along_paths(problem, route)
    return send_graph_along_trees(collective, route)


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
    timings = [compute_timing(topology, collective, link_model, reduce_bandwidth_gbps) for collective in collectives]
    routes = _route_all(topology, collectives, timings, seed)
    graphs = [
        _send_graph(Problem(topology, collective, delays), route)
        for collective, delays, route in zip(collectives, timings, routes, strict=True)
    ]
    begins = np.cumsum([0, *(collective.num_chunks for collective in collectives)])
    sends = SendGraph(
        np.concatenate([graph.chunk + np.int32(begin) for graph, begin in zip(graphs, begins[:-1], strict=True)]),
        np.concatenate([graph.channel for graph in graphs]),
        np.concatenate([graph.reduces for graph in graphs]),
        # Ranks of different send graphs are not comparable, so they are scaled to proceed at the same pace.
        np.concatenate([graph.rank * np.int64(_RANKS) // max(int(graph.rank.max()), 1) for graph in graphs]).astype(np.int32),
    )
    schedule = justify(dispatch(Problem(topology, joint, timing), sends, "routed", seed, BUSY_SHARE), BUSY_SHARE)
    return split(schedule, collectives, timings)


def _route_all(topology: Topology, collectives: Sequence[Collective], timings: Sequence[Timing], seed: int) -> list[Route]:
    """The routes of all collectives, from the round with the least load on the busiest link.

    In the first round, collectives that have not been routed yet are assumed to load all links as evenly as the first one can.
    Otherwise those routed first would take detours over links that the others need.
    """
    loads: Floats = np.zeros((len(collectives), topology.num_links))
    routes: list[Route | None] = [None] * len(collectives)
    best: list[Route] = []
    best_ns, since = np.inf, 0
    expected_ns = _route(Problem(topology, collectives[0], timings[0]), seed, loads[0]).link_ns.mean()
    for turn in range(_ROUNDS):
        for i, (collective, timing) in enumerate(zip(collectives, timings, strict=True)):
            others = loads.sum(axis=0) - loads[i]
            if turn == 0:
                others = others + expected_ns * (len(collectives) - 1 - i)
            route = _route(Problem(topology, collective, timing), seed + turn, others)
            routes[i], loads[i] = route, route.link_ns - others
        now_ns, since = float(loads.sum(axis=0).max()), since + 1
        if now_ns < best_ns:
            best, best_ns, since = [route for route in routes if route is not None], now_ns, 0
        if len(collectives) == 1 or since == _PATIENCE:
            break
    return best


def _route(problem: Problem, seed: int, others_ns: Floats) -> Route:
    """Paths or trees of one collective, given the load of the others on links."""
    topology, collective, timing = problem
    if collective.only_reduces:
        image = mirror(topology, timing)
        problem = Problem(image.topology, collective, image.timing)
    routes = find_routes(problem, seed, others_ns)
    return min(routes, key=lambda route: float(route.link_ns.max()))


def _send_graph(problem: Problem, route: Route) -> SendGraph:
    """The sends of a route on the network itself."""
    topology, collective, timing = problem
    if not collective.only_reduces:
        return send_graph_along_route(problem, route)
    image = mirror(topology, timing)
    sends = send_graph_along_route(Problem(image.topology, collective, image.timing), route)
    # A reduction runs backwards in time: the last send that spreads becomes the first that sums up.
    rank = sends.rank.max() - sends.rank
    return SendGraph(sends.chunk, image.channel[sends.channel], np.ones(len(sends.chunk), np.bool_), rank)


_FEW_SENDS = 100_000


def routed(problem: Problem, seed: int) -> Schedule:
    """Find a path or tree for every chunk and schedule their sends.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    collective = problem.collective
    if collective.only_reduces:
        return backwards(_spread, problem, seed)
    return _spread(problem, seed)


def _spread(problem: Problem, seed: int) -> Schedule:
    topology = problem.topology
    routes = find_routes(problem, seed)
    graphs = [send_graph_along_route(problem, route) for route in routes]
    # Where ports of switches have to be paired, neither of the two methods is always better.
    tried = (
        justify(dispatch(problem, sends, "routed", seed, share), share)
        for sends in graphs
        for share in ((BUSY_SHARE, np.inf) if topology.has_switches and len(sends.chunk) <= _FEW_SENDS else (BUSY_SHARE,))
    )
    return min(tried, key=lambda schedule: schedule.collective_time_ns)
