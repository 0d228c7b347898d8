"""Schedules on the network of pairs, made schedules of the fabric: each send becomes a trip over devices that forward."""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph

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
