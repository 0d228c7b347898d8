"""Latency: information has to travel between NPUs, over the links and through the switches between them.

Under `blocking`, latency also bounds by rounds: a link that a message holds until it has arrived takes one message at a time,
however small. An NPU that receives over links which a message holds for d1, d2, ... ns or longer knows by time t of no more
contributions than

    K(t) = 1 + sum over links e of K(t - d_e) + K(t - 2 d_e) + ...,      K(0) = 1,

because the last message over a link began at t - d_e or before, the one before that at t - 2 d_e, and no message brings more than
its sender knew when it began. One link gives doubling: K(k d) = 2**k. The NPU that needs something of n members waits until K
is n. Turned around in time, the same holds for an NPU that n members need something of.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.bounds.any_algorithm.carrying import first_arrival_ns, link_latency_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Floats
from astra_tacos.support.graph import Graph

MOST_STEPS = 20_000_000
"""Links, times devices from which distances are wanted: more are not computed."""
_ALL_AT_ONCE = 256
"""Devices of a network between all of which distances are kept: several bounds ask for some of them."""


def rounds(problem: Problem) -> Bound:
    """Time until an NPU can know of all members that it needs something of, or all members of it; 0 under `pipelined`."""
    topology, collective, timing = problem
    if not timing.is_blocking:
        return Bound("rounds", 0, "links do not wait for a message to arrive")
    arrival = first_arrival_ns(topology)
    spreads = collective.root is not None and collective.root_owns and not collective.reduces
    ends = topology.link_src if spreads else topology.link_dst
    at_npus = np.flatnonzero((ends < topology.num_npus) & np.isfinite(arrival))
    # No NPU has a k-th shortest hold that is shorter than the shortest k-th of all.
    order = at_npus[np.lexsort((arrival[at_npus], ends[at_npus]))]
    place = np.arange(len(order)) - np.searchsorted(ends[order], ends[order])
    holds = np.full(int(place.max()) + 1, np.inf)
    np.minimum.at(holds, place, arrival[order])
    if holds[0] <= 0:
        return Bound("rounds", 0, "an NPU may hear of all others at once")
    wanted = collective.num_members
    if collective.part_bytes is not None:
        wanted = 1 + int((bytes_of(collective).pairs > 0).sum(axis=0).max())
    time = _first_time_to_know(holds.tolist(), wanted)
    return Bound(
        "rounds", int(time), f"{len(holds)} link{'s' * (len(holds) != 1)} an NPU, which a message holds until it arrives"
    )


def _first_time_to_know(holds: list[float], wanted: int) -> float:
    """The least t with K(t) >= wanted.

    K is a step function. With L_e(t) = K(t - d_e) + L_e(t - d_e), a step of K at time t, and one of L_e, is a step of L_e at
    t + d_e; a step of any L_e is one of K.
    """
    count = Counter(holds)
    steps: dict[float, Counter[float]] = {0.0: Counter()}  # by time, the steps of each hold's L
    due = [0.0]
    known = 0
    while True:
        time = heappop(due)
        arriving = steps.pop(time)
        step = sum(arriving[hold] * links for hold, links in count.items()) if time else 1
        known += step
        if known >= wanted:
            return time
        for hold in count:
            if step + arriving[hold]:
                if time + hold not in steps:
                    steps[time + hold] = Counter()
                    heappush(due, time + hold)
                steps[time + hold][hold] += step + arriving[hold]


def distances_ns(topology: Topology, devices: NDArray[np.integer], *, towards: bool = False) -> Floats:
    """float64[len(devices), num_devices], the least latency from each of some devices to every other, or `towards` it."""
    if topology.num_devices <= _ALL_AT_ONCE:
        known = _all_distances_ns(topology)
        of_devices: Floats = (known.T if towards else known)[devices]
        return of_devices
    return _graph(topology, towards).distances(devices)


@lru_cache(maxsize=4)
def _all_distances_ns(topology: Topology) -> Floats:
    """float64[num_devices, num_devices], the least latency from each device to every other."""
    return _graph(topology).distances()


def nearest_ns(topology: Topology, devices: NDArray[np.integer], *, towards: bool = False) -> Floats:
    """float64[num_devices], the least latency from any of some devices to every other, or towards any of them."""
    return _graph(topology, towards).from_nearest(devices)


@lru_cache(maxsize=4)
def _graph(topology: Topology, towards: bool = False) -> Graph:
    """The links with their latencies, the other way round for ways `towards` devices."""
    graph = topology.link_graph(link_latency_ns(topology))
    return graph.turned if towards else graph
