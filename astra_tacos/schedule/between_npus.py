"""A schedule on a graph with devices that forward as messages from NPU to NPU, which is what traces of NPUs can say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError


def between_npus(schedule: Schedule) -> Schedule:
    """The trips of a schedule, each as one send of the NPU where it begins to the one where it ends.

    Messages of traces take the way that the network gives them, whatever the way of the trip was. The topology of the result
    says so as far as traces need it: what an NPU sends over the first link of its fixed route (`DeviceRoutes`) goes through a
    switch behind that link, so that the order of sends on it is known. Links of such a switch have the latency and the slowest
    bandwidth of the rest of the route. Starts and ends are those of the trips.

    Parameters
    ----------
    schedule
        The schedule; without devices that forward it is returned as it is.

    Raises
    ------
    ConfigError
        If devices add, or hops carry several chunks or what not all hops of the trip agree on.
    """
    old = schedule.topology
    if schedule.trip is None:
        return schedule
    if old.reducing:
        raise ConfigError(f"{old.name}: devices add (reducing), expected none: messages between NPUs cannot say so")
    if schedule.message_first is not None:
        raise ConfigError(f"{old.name}: several chunks in a message over devices that forward, expected one chunk")
    begins, ends = _ends_of_trips(schedule)
    src, dst = schedule.src[begins].astype(np.int64), schedule.dst[ends].astype(np.int64)
    topology = _ports(old, src, dst)
    collective = schedule.collective.renumbered(np.arange(old.num_npus), old.num_endpoints)
    return Schedule(
        topology,
        collective,
        schedule.timing.of(topology, collective),
        schedule.chunk[begins],
        topology.channel_of(src, dst).astype(np.int32),
        schedule.reduces[ends],
        schedule.start_ns[begins],
        schedule.end_ns[ends],
        schedule.synthesizer,
        schedule.seed,
        sums=schedule.sums,
        value=None if schedule.value is None else schedule.value[begins],
        link_order=schedule.link_order,
        in_flight=schedule.in_flight,
    )


def _ends_of_trips(schedule: Schedule) -> tuple[Ints, Ints]:
    """The first and the last row of each trip, in the order of the first ones."""
    npus, trip = schedule.topology.num_endpoints, schedule.trip
    assert trip is not None
    begins, ends = (np.flatnonzero(column < npus) for column in (schedule.src, schedule.dst))
    of_end = ends[np.argsort(trip[ends], kind="stable")]
    if len(begins) != len(ends) or not np.array_equal(np.sort(trip[begins]), trip[of_end]):
        raise ConfigError(f"{schedule.topology.name}: a trip does not lead from one NPU to one other")
    place = np.searchsorted(trip[of_end], trip[begins])
    return begins, of_end[place]


def _ports(old: Topology, src: Ints, dst: Ints) -> Topology:
    """NPUs and, for each link out of one that routes of these pairs begin with and go on from, a switch behind it."""
    npus = old.num_endpoints
    pair = np.unique(src * npus + dst)
    src, dst = np.divmod(pair, npus)
    first, link = DeviceRoutes(old).find(src, dst)
    begin, hops = first[:-1], np.diff(first)
    latency = np.add.reduceat(old.link_latency_ns[link], begin)
    bandwidth = np.minimum.reduceat(old.link_bandwidth_gibps[link], begin)
    leaves, direct = link[begin], np.flatnonzero(hops == 1)
    through = np.flatnonzero(hops > 1)
    port, of_pair = np.unique(leaves[through], return_inverse=True)
    columns: tuple[tuple[NDArray[Any], ...], ...] = (
        (old.link_src[port], npus + np.arange(len(port)), old.link_bandwidth_gibps[port], old.link_latency_ns[port]),
        (npus + of_pair, dst[through], bandwidth[through], latency[through] - old.link_latency_ns[leaves[through]]),
        (src[direct], dst[direct], bandwidth[direct], latency[direct]),
    )
    link_src, link_dst, gibps, ns = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Topology(
        old.name,
        npus,
        len(port),
        link_src.astype(np.int32),
        link_dst.astype(np.int32),
        gibps,
        ns,
        np.full(len(link_src), NO_DIMENSION, np.int16),
    )
