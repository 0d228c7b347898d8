"""Synthesizers for networks of NPUs, made to take graphs with devices that forward: they run on the network of pairs.

Pairs of NPUs between which devices only forward are links there. Pairs share links of the fabric, so each gets a fair share of
the slowest link on its fixed route: the bandwidth that a pair has while all pairs send. Each send becomes a trip over devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.chunk_counts import advise_for_trips
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.synthesizer import Synthesizer

_MOST_PAIRS = 1 << 18
_MOST_SENDS = 1 << 22
_ADVISED_SENDS = 100_000
"""Of the number of chunks that is tried beside the fewest: for long pipelines there is column generation."""
_LINKS_OF_TRIP = 4


def on_fabrics(
    entry: Synthesizer, on_pairs: Callable[[Topology, Topology, Collective, Timing, int], Schedule] | None = None
) -> Synthesizer:
    """A synthesizer for networks of NPUs that also takes graphs with devices that forward.

    Parameters
    ----------
    entry
        What it does on networks of NPUs, and still does there.
    on_pairs
        What makes the schedule on the network of pairs, of the fabric and the arguments of `entry.make`; None for that itself.
    """

    def make(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
        if not topology.forwarding:
            return entry.make(topology, collective, timing, seed)
        pairs, of_npus = _seen_by_npus(topology, collective)
        own = timing.of(pairs, of_npus)
        made = entry.make(pairs, of_npus, own, seed) if on_pairs is None else on_pairs(topology, pairs, of_npus, own, seed)
        return over_devices(topology, collective, timing, made)

    def refusal(topology: Topology, collective: Collective) -> str | None:
        if not topology.forwarding:
            return entry.refusal(topology, collective)
        num_pairs = topology.num_endpoints * (topology.num_endpoints - 1)
        if num_pairs > _MOST_PAIRS:
            return f"takes at most {_MOST_PAIRS:,} pairs of NPUs on such graphs, these are {num_pairs:,}"
        if collective.least_sends > _MOST_SENDS:
            return f"schedules at most {_MOST_SENDS:,} sends on such graphs, these are {collective.least_sends:,}"
        return entry.refusal(*_seen_by_npus(topology, collective))

    def work(topology: Topology, collective: Collective) -> int:
        if not topology.forwarding:
            return entry.work(topology, collective)
        return entry.work(*_seen_by_npus(topology, collective)) + _LINKS_OF_TRIP * collective.least_sends

    def advise(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
        if topology.forwarding:
            return advise_for_trips(topology, name, size_bytes, link_model, min(max_sends, _ADVISED_SENDS))
        return 0 if entry.advise is None else entry.advise(topology, name, size_bytes, link_model, max_sends)

    return replace(entry, make=make, refusal=refusal, work=work, advise=advise, does_forwarding=True)


def _seen_by_npus(topology: Topology, collective: Collective) -> tuple[Topology, Collective]:
    """The network of pairs, and the collective on it."""
    members = collective.members if collective.num_members < topology.num_endpoints else None
    return network_of_pairs(topology), replace(collective, num_npus=topology.num_endpoints, members=members)


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
