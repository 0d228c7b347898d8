"""Chunk-quantised bounds from what links can carry: into an NPU, out of an NPU, and over the whole network.

A link whose first chunk arrives at `first` and which takes another every `period` has delivered
1 + floor((T - first) / period) of them by T. All-Gather brings (N-1)/N of the chunks into every NPU; Reduce-Scatter, its mirror
image, takes as many partial sums out of every NPU; All-Reduce brings every NPU at least one message per chunk, and takes one out
of it. One chunk costs N-1 messages to spread or to sum up, and 2(N-1) to do both (gossiping with one-way calls).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import NO_LINK, Topology


def ingress(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that the links into the worst NPU need for the messages that it must receive."""
    messages = _all_messages(collective) if collective.gathers else collective.chunks_owned
    links = np.where(topology.channel_down_link == NO_LINK, topology.channel_link, topology.channel_down_link)
    time, npu = _worst_npu(topology, timing, links, topology.link_dst, messages)
    if not collective.gathers:
        time += int(timing.reduction_ns[0])
    return Bound("ingress", time, f"links into NPU {npu}")


def egress(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that the links out of the worst NPU need for the messages that it must send."""
    messages = _all_messages(collective) if collective.reduces else collective.chunks_owned
    time, npu = _worst_npu(topology, timing, topology.channel_link, topology.link_src, messages)
    if not collective.gathers:
        time += int(timing.reduction_ns[0])
    return Bound("egress", time, f"links out of NPU {npu}")


def volume(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that all links together need for all messages."""
    messages = collective.num_phases * (topology.num_npus - 1) * collective.num_chunks
    first, period = _link_times(topology, timing, topology.channel_link)
    used = np.flatnonzero(period)
    group = np.zeros(len(used), np.int64)
    time = _smallest_time(first[used], period[used], group, np.array([messages]))
    return Bound("volume", int(time[0]) + (0 if collective.gathers else int(timing.reduction_ns[0])), "all links together")


def _all_messages(collective: Collective) -> NDArray[np.int64]:
    """int64[num_npus], messages into an NPU that gathers, or out of one that contributes: one for each chunk of others."""
    if collective.num_phases == 2:
        return np.full(collective.num_npus, collective.num_chunks)
    return collective.num_chunks - collective.chunks_owned


def _worst_npu(
    topology: Topology, timing: Timing, channel_port: NDArray[np.int32], link_npu: NDArray[np.int32], messages: NDArray[np.int64]
) -> tuple[int, int]:
    first, period = _link_times(topology, timing, channel_port)
    used = np.flatnonzero(period)
    times = _smallest_time(first[used], period[used], link_npu[used], messages)
    worst = int(times.argmax())
    return int(times[worst]), worst


def _link_times(
    topology: Topology, timing: Timing, channel_port: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First arrival over each link and the least time between two, for the smallest chunk; 0 for links of other kinds."""
    never = np.iinfo(np.int64).max
    first = np.full(topology.num_links, never)
    np.minimum.at(first, channel_port, timing.channel_delay_ns[:, 0])
    period = np.where(first == never, 0, first if timing.is_blocking else timing.link_hold_ns[:, 0])
    return first, period


def _smallest_time(
    first: NDArray[np.int64], period: NDArray[np.int64], group: NDArray[np.integer], messages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Per group of links, the smallest time by which they have delivered so many messages (bisection)."""
    low = np.zeros(len(messages), np.int64)
    high = np.full(len(messages), int(first.max()) + int(messages.max()) * int(period.max()))
    while np.any(low < high):
        middle = (low + high) // 2
        over = middle[group] - first
        delivered = np.zeros(len(messages), np.int64)
        np.add.at(delivered, group, np.where(over >= 0, 1 + over // period, 0))
        enough = delivered >= messages
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    return low
