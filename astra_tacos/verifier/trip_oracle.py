"""Check of trips: what leaves a device that only forwards is what a hop of the same trip brought there, once and as it came.

Devices that forward hold no copies and add nothing, except that a trip may begin or end at a reducing device, as at an NPU. So
all hops of a trip together do what one send from its first stop to its last would do, and the rules for what may be sent and what
is known then are those of any other schedule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule
from astra_tacos.verifier.violation import Violation


def check_trips(schedule: Schedule, valid: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Violation]]:
    """The first and the last hop of each trip that is one, and what is wrong with others.

    Parameters
    ----------
    schedule
        A schedule on a topology with forwarding devices.
    valid
        int64[n], rows whose chunk and channel exist; others are hops of no trip.

    Returns
    -------
    first, last
        int64[num_trips], rows.
    violations
        Of trips that begin or end at a forwarding device, whose hops do not follow one another in place or time, that carry
        several chunks, come to a device twice or pass an NPU, or that reduce before their last hop.
    """
    topology = schedule.topology
    assert schedule.trip is not None
    order = valid[np.lexsort((valid, schedule.end_ns[valid], schedule.start_ns[valid], schedule.trip[valid]))]
    trip, chunk, channel = schedule.trip[order], schedule.chunk[order], schedule.channel[order]
    src, dst = topology.channel_src[channel], topology.channel_dst[channel]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = trip[1:] != trip[:-1]
    ends = np.append(begins[1:], True)
    goes_on = ~begins
    before = np.maximum(np.arange(len(order)) - 1, 0)
    num_npus = topology.num_endpoints
    holds = np.arange(topology.num_npus) < num_npus
    holds[[device.device for device in topology.reducing]] = True
    number = np.cumsum(begins) - 1
    stop = number * topology.num_npus + dst
    _, place, visits = np.unique(stop, return_inverse=True, return_counts=True)
    origin = src[np.flatnonzero(begins)][number] if len(order) else src
    wrong = (
        (
            "trip-start",
            begins & (src >= num_npus) & ~holds[src],
            "leaves a device that only forwards before anything has come there",
        ),
        ("trip-gap", goes_on & (src != dst[before]), "does not leave where the hop before it on its trip ended"),
        ("trip-chunk", goes_on & (chunk != chunk[before]), "carries another chunk than the hop before it on its trip"),
        (
            "trip-early",
            goes_on & (schedule.start_ns[order] < schedule.end_ns[order[before]]),
            "starts before the hop before it on its trip has arrived",
        ),
        ("trip-pass", ~ends & (dst < num_npus), "comes to an NPU before its trip ends"),
        ("trip-end", ends & ~holds[dst], "ends at a device that only forwards"),
        ("trip-twice", (visits[place.ravel()] > 1) | (dst == origin), "comes to a device where its trip has been"),
        ("trip-adds", schedule.reduces[order] & ~ends, "is added to what a device has that only forwards"),
    )
    violations, sound = [], np.ones(int(number[-1]) + 1 if len(order) else 0, np.bool_)
    for code, which, text in wrong:
        sound[number[which]] = False
        for at in np.flatnonzero(which).tolist():
            row, device, ends_at = int(order[at]), int(src[at]), int(dst[at])
            where = f"chunk {chunk[at]}, {topology.describe_device(device)} to {topology.describe_device(ends_at)}"
            violations.append(Violation(code, f"send {row} ({where}, at {schedule.start_ns[row]} ns) {text}", row, device))
    whole = np.flatnonzero(sound)
    return order[np.flatnonzero(begins)[whole]], order[np.flatnonzero(ends)[whole]], violations
