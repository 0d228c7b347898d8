"""Bytes that must enter a set of NPUs, over the bandwidth of the links into it, and the distances before and after these links.

See `astra_tacos.bounds.cut` for what must cross which border. Two things delay it:

- It has to reach the border. What is reduced has to come from every contributor outside, so also from the farthest; other data
  may come from the nearest that owns any.
- It has to go on from the border. What is gathered has to go to every NPU of the set that needs it, so also to the farthest;
  other data may be for the nearest.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.bounds.any_algorithm.carrying import (
    first_arrival_ns,
    link_latency_ns,
    links_time_ns,
    rate_bytes_per_ns,
    smallest_time_ns,
    whole_ns,
)
from astra_tacos.bounds.any_algorithm.latency import MOST_STEPS, distances_ns, nearest_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.cut import crossing, cut_of, slowest_sides, tightest_sides
from astra_tacos.bounds.partition import worst_partition
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Bools, Floats, Ints


def cut(problem: Problem) -> Bound:
    """The worst of the sets that the bound for whole chunks tries, too."""
    topology, collective = problem.topology, problem.collective
    bounds = [Bound("cut", 0, "nothing has to cross a cut")]
    for side, links in _entered(topology, collective):
        amount = float(bytes_of(collective).entering(side[None])[0])
        if not amount > 0:
            continue
        rate = rate_bytes_per_ns(topology, links)
        time = whole_ns(smallest_time_ns(rate, _offsets_ns(topology, collective, side, links, rate), amount))
        bounds.append(cut_of(topology, side, links, time))
    return max(bounds, key=lambda bound: bound.time_ns)


def _entered(topology: Topology, collective: Collective) -> list[tuple[Bools, Ints]]:
    """Sets of NPUs, bool[num_npus], and the links into each."""
    sides = []
    if not collective.is_personalised:
        for inward, is_asked in ((True, collective.gathers), (False, collective.reduces)):
            if is_asked:
                for side in tightest_sides(topology, collective, inward=inward):
                    entered = side if inward else ~side
                    sides.append((entered[: topology.num_npus], crossing(topology, entered)))
    if collective.is_personalised or collective.members is not None:
        sides += slowest_sides(topology, bytes_of(collective))
    return sides


def _offsets_ns(
    topology: Topology,
    collective: Collective,
    side: Bools,
    links: Ints,
    rate: Floats,
) -> Floats:
    """float64[len(links)], before which no byte that counts can have crossed each link and reached an NPU that needs it.

    Parameters
    ----------
    side
        bool[num_npus], the set that is entered.
    links
        int64[n], the links into it.
    rate
        float64[n], their bandwidths, by which the farthest NPU is chosen.
    """
    tails, heads = topology.link_src[links], topology.link_dst[links]
    given, needed = (_ends(collective, side, inside=inside) for inside in (False, True))
    before = _distance_ns(topology, tails, given, rate, farthest=collective.reduces, towards=True)
    after = _distance_ns(topology, heads, needed, rate, farthest=collective.gathers, towards=False)
    return np.maximum(first_arrival_ns(topology)[links], before + link_latency_ns(topology)[links] + after)


def _ends(collective: Collective, side: Bools, *, inside: bool) -> Ints:
    """NPUs in a set that need something from outside, or NPUs outside that something in it has to come from."""
    is_near, owner = side if inside else ~side, collective.chunk_owner
    if collective.gathers if inside else collective.reduces:
        members = collective.member_npus
        return members[is_near[members]]
    if collective.chunk_target is None:
        return np.unique(owner[is_near[owner]])
    enters = ~side[owner] & side[collective.chunk_target]
    return np.unique((collective.chunk_target if inside else owner)[enters])


def _distance_ns(
    topology: Topology,
    ends: NDArray[np.integer],
    npus: Ints,
    rate: Floats,
    *,
    farthest: bool,
    towards: bool,
) -> Floats:
    """float64[len(ends)], latency between ends of links and the nearest of some NPUs, or one NPU that is far from all ends.

    Parameters
    ----------
    ends
        int[n], devices at the ends of links.
    npus
        int64[m], NPUs.
    rate
        float64[n], what the distances are weighted with to choose the NPU that is far.
    farthest
        Whether to take one NPU for all ends; any is right, so the one with the largest mean distance.
    """
    devices, which = np.unique(ends, return_inverse=True)
    if not farthest or len(devices) * topology.num_links > MOST_STEPS:
        nearest: Floats = nearest_ns(topology, npus, towards=not towards)[ends]
        return nearest
    distance = distances_ns(topology, devices, towards=towards)[which.ravel()][:, npus]
    chosen: Floats = distance[:, int((rate @ distance).argmax())]
    return chosen


def partition(problem: Problem) -> Bound:
    """The worst of the partitions that are tried, which are those of the bound for whole chunks.

    The proof is that of `astra_tacos.bounds.partition`, byte by byte: it asks for no chunks and no algorithm. It lets every byte
    that crosses carry all that its sending part knows of that place in the buffer, which a sum does, and what is sent apart does
    not.
    """
    topology, collective = problem.topology, problem.collective
    return worst_partition(topology, bytes_of(collective), partial(links_time_ns, topology))
