"""Trips: the hops of a chunk from one NPU over devices that forward to another NPU.

A reducing device may be where a trip begins or ends, as an NPU, or be passed on the way, as any device that forwards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError


def check_endpoints(topology: Topology, collective: Collective) -> None:
    """Check that no member of a collective is a device that only forwards.

    Raises
    ------
    ConfigError
        If one is.
    """
    if topology.forwarding and int(collective.member_npus.max()) >= topology.num_endpoints:
        raise ConfigError(
            f"{topology.name}: devices {topology.num_endpoints} to {topology.num_npus - 1} only forward, expected a "
            f"{collective.name} of NPUs, 0 to {topology.num_endpoints - 1}"
        )


def stop_keys(
    topology: Topology, channel: NDArray[np.int32], trip: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where rows come from and go to, as numbers that are equal where one row of a trip goes on from another.

    Returns
    -------
    into, out_of
        int64[num_sends] each: the stop that a row goes to, and the one that it leaves; -1 where a trip begins or ends: at an NPU,
        or at a reducing device that no row of the trip leaves, or comes to.
    """
    src, dst = topology.channel_src[channel].astype(np.int64), topology.channel_dst[channel].astype(np.int64)
    first = trip.astype(np.int64) * topology.num_npus
    into = np.where(dst >= topology.num_endpoints, first + dst, -1)
    out_of = np.where(src >= topology.num_endpoints, first + src, -1)
    if topology.reducing:
        ends = topology.holds[dst] & ~np.isin(into, out_of)
        begins = topology.holds[src] & ~np.isin(out_of, into)
        into[ends], out_of[begins] = -1, -1
    return into, out_of


def row_before(topology: Topology, channel: NDArray[np.int32], trip: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64[num_sends], the row of its trip into the device that each row leaves; -1 if it leaves an NPU, or none leads there.

    Where several rows of a trip lead into one device, which no legal schedule has, it is any of them.
    """
    into, out_of = stop_keys(topology, channel, trip)
    arrivals = np.flatnonzero(into >= 0)
    order = arrivals[np.argsort(into[arrivals], kind="stable")]
    before = np.full(len(channel), -1, np.int64)
    if len(order):
        at = np.minimum(np.searchsorted(into[order], out_of), len(order) - 1)
        found = (out_of >= 0) & (into[order[at]] == out_of)
        before[found] = order[at[found]]
    return before
