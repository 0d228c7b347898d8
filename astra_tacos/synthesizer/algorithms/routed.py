"""Routed: every chunk takes a path or tree of its own, chosen so that links share the work evenly; then sends are scheduled.

See `congestion.paths` for the paths of personalised chunks, and `congestion.tree_growth` for the trees of chunks that several
NPUs need or contribute to; both may pass through NPUs that are no members of the collective. Trees are scheduled as `trees` does
it. Of the sends of paths that wait for a link, the one goes first whose chunk has the longest way to go; what does not fit
together at switches is improved afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.algorithms.trees import plan_along_trees
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.packing.justify import justify
from astra_tacos.synthesizer.packing.mirror import mirror, mirrored
from astra_tacos.synthesizer.packing.pack import Packing
from astra_tacos.synthesizer.routing.paths import Paths, find_paths
from astra_tacos.synthesizer.routing.tree_growth import grow_trees
from astra_tacos.topology.topology import Topology

BUSY_SHARE = 0.8
_FEW_SENDS = 500_000


def routed(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Find a path or tree for every chunk and schedule their sends.

    Parameters
    ----------
    seed
        In which order chunks choose; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if collective.only_reduces:
        image = mirror(topology, timing)
        return mirrored(_spread(image.topology, collective, image.timing, seed), image, topology, timing)
    return _spread(topology, collective, timing, seed)


def _spread(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    plan = _plan_of(topology, collective, timing, _find(topology, collective, timing, seed))
    # Where ports of switches are to be paired, neither way of doing it is always better.
    shares = (BUSY_SHARE, np.inf) if topology.has_switches and len(plan.chunk) <= _FEW_SENDS else (BUSY_SHARE,)
    tried = (justify(dispatch(topology, collective, timing, plan, "routed", seed, share), share) for share in shares)
    return min(tried, key=lambda schedule: schedule.collective_time_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Paths, or trees and the tree of each chunk; and for how long each link is held."""

    paths: Paths | tuple[Packing, NDArray[np.int64]]

    @property
    def link_ns(self) -> NDArray[np.float64]:
        return self.paths.link_ns if isinstance(self.paths, Paths) else self.paths[0].link_ns


def route(topology: Topology, collective: Collective, timing: Timing, seed: int, others_ns: NDArray[np.float64]) -> Route:
    """Paths or trees for all chunks of a collective, beside what others hold links for (counted in the result)."""
    if collective.only_reduces:
        image = mirror(topology, timing)
        return _find(image.topology, collective, image.timing, seed, others_ns)
    return _find(topology, collective, timing, seed, others_ns)


def plan_of_route(topology: Topology, collective: Collective, timing: Timing, found: Route) -> SendGraph:
    """The sends of a route."""
    if not collective.only_reduces:
        return _plan_of(topology, collective, timing, found)
    image = mirror(topology, timing)
    plan = _plan_of(image.topology, collective, image.timing, found)
    # Backwards in time, what spreads last sums up first.
    return SendGraph(plan.chunk, image.channel[plan.channel], np.ones(len(plan.chunk), np.bool_), plan.rank.max() - plan.rank)


def _find(
    topology: Topology, collective: Collective, timing: Timing, seed: int, others_ns: NDArray[np.float64] | None = None
) -> Route:
    search = find_paths if collective.is_personalised else grow_trees
    return Route(search(topology, collective, timing, seed, others_ns))


def _plan_of(topology: Topology, collective: Collective, timing: Timing, found: Route) -> SendGraph:
    if isinstance(found.paths, Paths):
        return _plan(topology, collective, timing, found.paths)
    return plan_along_trees(collective, *found.paths)


def _plan(topology: Topology, collective: Collective, timing: Timing, paths: Paths) -> SendGraph:
    """Sends along the paths, those with the longest way ahead first."""
    from astra_tacos.synthesizer.routing._path_kernels import sends_of_paths

    assert collective.chunk_target is not None
    channel_first = np.searchsorted(topology.channel_src, np.arange(topology.num_npus + 1))
    channel_ns = np.ascontiguousarray(timing.channel_delay_ns[:, -1])
    room = 0
    while True:
        columns = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
        count = sends_of_paths(
            paths.bundle,
            collective.chunk_owner,
            collective.chunk_target,
            topology.num_npus,
            topology.link_src,
            paths.last,
            channel_first,
            topology.channel_dst,
            channel_ns,
            *columns,
        )
        if count <= room:
            break
        room = count
    chunk, channel, ahead_ns, _ = columns
    way = np.unique(-ahead_ns, return_inverse=True)[1]
    turn = _turns(collective)
    rank = way * (turn.max() + 1) + turn[chunk]
    if rank.max() > np.iinfo(np.int32).max:
        rank = np.unique(rank, return_inverse=True)[1]
    return SendGraph(chunk, channel, np.zeros(count, np.bool_), rank.astype(np.int32))


def _turns(collective: Collective) -> NDArray[np.int64]:
    """int64[num_chunks], whose turn it is among equally urgent chunks: one chunk of every pair, the nearest higher NPU first.

    So the chunks of an NPU do not all go to NPU 0 first, where they would wait for one another.
    """
    assert collective.chunk_target is not None
    owner, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    pair = owner * collective.num_npus + target
    order = np.argsort(pair, kind="stable")
    begins = np.flatnonzero(np.concatenate(([True], np.diff(pair[order]) != 0)))
    within = np.empty_like(pair)
    within[order] = np.arange(len(pair)) - np.repeat(begins, np.diff(np.append(begins, len(pair))))
    turns: NDArray[np.int64] = within * collective.num_npus + (target - owner) % collective.num_npus
    return turns
