"""A schedule of a part of a topology as one of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing


def moved_to(schedule: Schedule, topology: Topology, link: NDArray[np.int64]) -> Schedule:
    """The same sends, in the same order on every link, on a topology that has all links of the schedule's and more.

    Parameters
    ----------
    schedule
        The schedule.
    topology
        The whole topology, with the same devices.
    link
        int64[links of the schedule's topology], which link each of them is there.
    """
    own = schedule.topology
    ups = link[own.channel_link]
    downs = np.where(own.channel_down_link == NO_LINK, NO_LINK, link[own.channel_down_link])
    keys = topology.channel_link.astype(np.int64) * (topology.num_links + 1) + topology.channel_down_link
    order = np.argsort(keys)
    channel = order[np.searchsorted(keys[order], ups * (topology.num_links + 1) + downs)].astype(np.int32)
    timing = compute_timing(topology, schedule.collective, schedule.timing.link_model, schedule.timing.reduce_bandwidth_gbps)
    sends = replace(schedule.sends, channel=channel[schedule.channel])
    return settle(topology, schedule.collective, timing, sends, schedule.synthesizer, schedule.seed)
