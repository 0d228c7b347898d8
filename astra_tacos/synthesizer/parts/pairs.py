"""The pairs of NPUs of a fabric between which devices only forward, as a network of NPUs.

Algorithms for NPUs see it in place of the fabric. Pairs share links of the fabric, so each gets a fair share of the slowest link
on its fixed route: what it has while all pairs send.

Schedules on the network of pairs, made schedules of the fabric: each send becomes a trip over devices that forward.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph


@lru_cache(maxsize=4)
def network_of_pairs(topology: Topology) -> Topology:
    """NPUs with a link for each pair that a route joins which passes no other NPU.

    Parameters
    ----------
    topology
        A graph with devices that forward.
    """
    src, dst = np.nonzero((DeviceRoutes(topology).relays() == 0) & ~np.eye(topology.num_endpoints, dtype=np.bool_))
    first, link = DeviceRoutes(topology).find(src, dst)
    users = np.bincount(link, minlength=topology.num_links)
    share = topology.link_bandwidth_gibps[link] / users[link]
    count = topology.num_endpoints
    return Topology(
        f"pairs of {topology.name}",
        count,
        0,
        src.astype(np.int32),
        dst.astype(np.int32),
        np.minimum.reduceat(share, first[:-1]),
        np.add.reduceat(topology.link_latency_ns[link], first[:-1]),
        np.full(len(src), NO_DIMENSION, np.int16),
    )


def num_pairs(topology: Topology) -> int:
    """How many pairs there are at most."""
    return topology.num_endpoints * (topology.num_endpoints - 1)


def hops_of(topology: Topology) -> NDArray[np.int64]:
    """int64[num_links of the network of pairs], the links of the fabric on the route of each pair."""
    pairs = network_of_pairs(topology)
    return np.diff(DeviceRoutes(topology).find(pairs.link_src, pairs.link_dst)[0])


_MOST_ROUTES = 64
"""Equally good routes of a pair among which its chunks take turns."""


def over_devices(topology: Topology, collective: Collective, timing: Timing, schedule: Schedule) -> Schedule:
    """The sends of a schedule on `network_of_pairs`, over devices, as soon as links are free, in the order of the schedule.

    Chunks of a pair take turns on routes that are equally good.

    Parameters
    ----------
    topology, collective, timing
        The fabric, the collective on it, and the delays of its chunks.
    schedule
        Sends of the same chunks between NPUs.

    Raises
    ------
    SynthesisError
        If it sends partial sums, whose parts devices would have to tell apart.
    """
    if schedule.sums is not None:
        raise SynthesisError("sends partial sums, which no trip over devices that forward carries")
    first, link = DeviceRoutes(topology).find(
        schedule.src, schedule.dst, schedule.dst + (schedule.chunk % _MOST_ROUTES).astype(np.int64)
    )
    hops = np.diff(first)
    channel_of_link = topology.channel_of_link()
    trip = np.repeat(np.arange(schedule.num_sends), hops)
    is_last = np.zeros(len(link), np.bool_)
    is_last[first[1:] - 1] = True
    rank = np.unique(schedule.start_ns, return_inverse=True)[1]
    graph = SendGraph(
        schedule.chunk[trip],
        channel_of_link[link].astype(np.int32),
        schedule.reduces[trip] & is_last,
        rank[trip].astype(np.int32),
        trip=trip.astype(np.int32),
    )
    return dispatch(topology, collective, timing, graph, schedule.synthesizer, schedule.seed)
