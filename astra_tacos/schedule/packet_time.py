"""How long messages, and link-serialised schedules, take on ASTRA-sim's ns-3 backend: each message is timed by itself.

A message is over when its last acknowledgement is back. Where the opposite link carries messages, too, a port also sends the
acknowledgements of what arrives there. So a message is timed alone, and while an equal one comes the other way, packet by packet;
between both, by how much the opposite link carries. `replayer._packet_kernels` names the files of `astra-network-ns3`.
"""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.packet_links import PacketLinks, transmission_ns
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.partial_sums import addition_ns
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import class_sizes, time_by
from astra_tacos.support.arrays import Floats, Ints

_SIMULATED = 1024
"""Packets of a message that are timed one by one."""


def packet_time_ns(schedule: Schedule, ns3: Ns3Config) -> int:
    """When a schedule ends on the packet level if no two messages share a link at a time, in ns.

    If sends hold their links until they arrive, each message waits for the one before it on each of its links. Otherwise the
    links of ns-3 are taken to be queues, as those of the congestion-aware model are: a message holds a link for its packets
    and the acknowledgements of the other direction. Traces keep the order at the source of a link. Where messages of several
    NPUs go down one link of a switch, nothing keeps it there, and where several are in flight on a link, they share it.

    Over devices that forward, the packets of a chunk are taken to go the way of its trip, one by one. ns-3 may send them another.

    Parameters
    ----------
    schedule
        The schedule; of its times only the order counts.
    ns3
        How ns-3 is configured.

    Raises
    ------
    ConfigError
        If ns-3 cannot have the network (`PacketLinks`).
    """
    topology, sizes = schedule.topology, class_sizes(schedule)
    links = PacketLinks(topology.name, topology, ns3)
    shared = _shared(schedule, links.opposite)
    timing = schedule.sizes.timing
    if timing.is_blocking and not topology.forwarding:
        timing = replace(timing, channel_delay_ns=message_ns(links, sizes, shared[topology.channel_link]))
    else:
        hold, first = _held_ns(links, sizes, shared)
        if topology.forwarding:
            delay = _trips_ns(schedule, links, hold, first)
            over_channels = delay[topology.channel_link]
        else:
            over_channels = message_ns(links, sizes, shared[topology.channel_link])
            delay = _hops_ns(topology, over_channels, first)
        timing = replace(timing, link_hold_ns=hold, link_delay_ns=delay, channel_delay_ns=over_channels)
    return time_by(schedule, timing, addition_ns(schedule.additions.size_bytes, timing.reduce_bandwidth_gbps))


def _held_ns(links: PacketLinks, size_bytes: Ints, shared: Floats) -> tuple[Ints, Ints]:
    """int64[num_links, num_sizes] each: for how long messages hold links, and when their first packets are over them."""
    full, rest = np.divmod(size_bytes, links.ns3.payload_bytes)
    of_full, of_ack = (column[:, None] for column in _full_and_ack(links.bits_per_s, links.ns3))
    of_rest = np.where(rest > 0, _transmissions(links.bits_per_s, rest + links.ns3.header_bytes), 0)
    acks = of_ack * (full + (rest > 0)) * shared[:, None]
    hold = np.round(of_full * full + of_rest + acks).astype(np.int64)
    return hold, links.delay_ns[:, None] + np.where(full > 0, of_full, of_rest)


def _trips_ns(schedule: Schedule, links: PacketLinks, hold_ns: Ints, first_ns: Ints) -> Ints:
    """int64[num_links, num_sizes], delays of links with devices that forward.

    Into such a device it is that of the first packet, as the others follow it. Into an NPU it is the time in which all packets
    come over the slowest link of the trip, and the last acknowledgement goes back: the mean of the trips that end by the link.
    """
    topology, row = schedule.topology, schedule.message_row
    assert schedule.trip is not None
    link, size_class = topology.channel_link[schedule.channel[row]].astype(np.int64), schedule.sizes.size_class
    trip = np.unique(schedule.trip[row], return_inverse=True)[1]
    acknowledging = (links.delay_ns + _full_and_ack(links.bits_per_s, links.ns3)[1])[links.opposite]
    slowest = np.zeros(int(trip.max(initial=-1)) + 1, np.int64)
    np.maximum.at(slowest, trip, hold_ns[link, size_class])
    returning = np.bincount(trip, acknowledging[link], len(slowest))
    last = np.flatnonzero(topology.link_dst[link] < topology.num_endpoints)
    place = link[last] * hold_ns.shape[1] + size_class[last]
    count = np.bincount(place, minlength=hold_ns.size)
    mean = np.bincount(place, (slowest + returning)[trip[last]], hold_ns.size) / np.maximum(count, 1)
    trip_ns = links.delay_ns[:, None] + np.round(mean).astype(np.int64).reshape(hold_ns.shape)
    return np.asarray(np.where(count.reshape(hold_ns.shape) > 0, trip_ns, first_ns), np.int64)


def _hops_ns(topology: Topology, delay_ns: Ints, first_ns: Ints) -> Ints:
    """int64[num_links, num_sizes], delays of links that make up those of channels: packets cross a switch one by one."""
    up, down = topology.channel_link, topology.channel_down_link
    through = down != NO_LINK
    hops = first_ns.copy()
    hops[up[~through]] = delay_ns[~through]
    np.maximum.at(hops, down[through], delay_ns[through] - first_ns[up[through]])
    return hops


def message_ns(links: PacketLinks, size_bytes: Ints, shared: Floats) -> Ints:
    """int64[num_channels, num_sizes], time from a message's start to its last acknowledgement where no other message is.

    Parameters
    ----------
    links
        The links of ns-3.
    size_bytes
        int64[num_sizes].
    shared
        float64[num_channels], for how much of its packets the channel's port also sends an acknowledgement, 0 to 1.
    """
    topology = links.topology
    up, through, down = topology.channel_link, topology.channel_down_link != NO_LINK, topology.channel_down_link
    full, rest = np.divmod(size_bytes, links.ns3.payload_bytes)
    of_full, of_ack = _full_and_ack(links.bits_per_s, links.ns3)
    window = links.windows(topology.channel_src.astype(np.int64), topology.channel_dst.astype(np.int64))
    hops = [np.where(through, column[down], 0) for column in (of_full, of_ack, links.delay_ns)]
    columns = (of_full[up], of_ack[up], links.delay_ns[up], *hops, -(-window // links.ns3.payload_bytes))
    paths, of_channel = np.unique(np.stack(columns), axis=1, return_inverse=True)
    packets = full + (rest > 0)
    either = [
        np.array([[_exchange_ns(_Path(*path), count, both) for count in packets.tolist()] for path in paths.T.tolist()])
        for both in (False, True)
    ]
    alone, both_ways = (table.reshape(paths.shape[1], len(packets))[of_channel.ravel()] for table in either)
    time_ns = alone + (both_ways - alone) * shared[:, None]
    return np.asarray(np.round(time_ns - _shorter_last(links, rest, packets)), np.int64)


class _Path(NamedTuple):
    """What packets and acknowledgements take at the ports of a channel, in ns, and how many packets may be on their way."""

    up_full: int
    up_ack: int
    up_delay: int
    down_full: int
    down_ack: int
    down_delay: int
    at_once: int  # 0 for any number


@functools.cache
def _exchange_ns(path: _Path, num_packets: int, both_ways: bool) -> float:
    """Time of a message of full packets, alone or while an equal one comes the other way; long ones go on as they began.

    Of two equal messages each port does what its opposite does, so one NPU's port and the switch's port to it say all.
    """
    if num_packets > _SIMULATED:
        halfway, most = _exchange_ns(path, _SIMULATED // 2, both_ways), _exchange_ns(path, _SIMULATED, both_ways)
        return most + (num_packets - _SIMULATED) * (most - halfway) / (_SIMULATED - _SIMULATED // 2)
    now, out_free, sent = 0, 0, 0  # of the NPU's port, and when the switch's is free
    arriving: deque[int] = deque()  # packets at the destination, which acknowledges them
    acknowledged: deque[int] = deque()

    def through_switch(left: int, takes: int, free: int) -> tuple[int, int]:
        """When what left a port arrives, and when the switch's port is free again."""
        if not path.down_full:
            return left + path.up_delay, free
        free = max(left + path.up_delay, free) + takes
        return free + path.down_delay, free

    done = returned = 0
    while returned < num_packets:
        while acknowledged and acknowledged[0] <= now:
            done = acknowledged.popleft()
            returned += 1
        if returned == num_packets:
            break
        if arriving and (not both_ways or arriving[0] <= now):
            due = arriving.popleft()
            left = (now if both_ways else due) + path.up_ack
            if both_ways:
                now = left
            arrival, free = through_switch(left, path.down_ack, out_free if both_ways else 0)
            out_free = free if both_ways else out_free
            acknowledged.append(arrival)
        elif sent < num_packets and (not path.at_once or sent - returned < path.at_once):
            now += path.up_full
            arrival, out_free = through_switch(now, path.down_full, out_free)
            arriving.append(arrival)
            sent += 1
        else:
            now = min(queue[0] for queue in (arriving, acknowledged) if queue)
    return float(done)


def _shorter_last(links: PacketLinks, rest: Ints, packets: Ints) -> Ints:
    """int64[num_channels, num_sizes], by how much earlier a message ends as its last packet is not full."""
    up, down = links.topology.channel_link, links.topology.channel_down_link
    of_full = _full_and_ack(links.bits_per_s, links.ns3)[0][:, None]
    saved = np.where(rest > 0, of_full - _transmissions(links.bits_per_s, rest + links.ns3.header_bytes), 0)
    through, is_alone = (down != NO_LINK)[:, None], packets == 1
    slower = np.where(of_full[down] > of_full[up], saved[down], saved[up])
    return np.asarray(np.where(through, np.where(is_alone, saved[up] + saved[down], slower), saved[up]), np.int64)


def _full_and_ack(bits_per_s: Ints, ns3: Ns3Config) -> tuple[Ints, Ints]:
    """int64[num_rates] each, time in ns that a port of each rate takes for a full packet, and for an acknowledgement."""
    full, ack = _transmissions(bits_per_s, np.array([ns3.payload_bytes + ns3.header_bytes, ns3.ack_bytes])).T
    return full, ack


def _transmissions(bits_per_s: Ints, sizes: Ints) -> Ints:
    """int64[num_rates, num_sizes], time in ns that a port of each rate takes for a packet of each size."""
    rates, of_rate = np.unique(bits_per_s, return_inverse=True)
    distinct, of_size = np.unique(sizes, return_inverse=True)
    table = np.array([[transmission_ns(size, rate) for size in distinct.tolist()] for rate in rates.tolist()], np.int64)
    return np.asarray(table.reshape(len(rates), len(distinct))[of_rate][:, of_size], np.int64)


def _shared(schedule: Schedule, back: Ints) -> Floats:
    """float64[num_links], for what part of the time in which a link is held the opposite one (`back`) is, too."""
    topology, use = schedule.topology, link_use(schedule)
    span = int(use.end_ns.max(initial=0)) + 1
    begin = use.link * span + use.start_ns
    order = np.argsort(begin)
    begins, durations = begin[order], (use.end_ns - use.start_ns)[order]
    before = np.concatenate(([0], np.cumsum(durations)))

    def held_until(place: Ints) -> Ints:
        """Time for which links up to one of them, and this one up to an instant, are held."""
        last = np.searchsorted(begins, place, side="right") - 1
        here = np.minimum(place - begins[np.maximum(last, 0)], durations[np.maximum(last, 0)])
        return np.where(last < 0, 0, before[np.maximum(last, 0)] + here)

    opposite = back[use.link] * span
    both = held_until(opposite + use.end_ns) - held_until(opposite + use.start_ns)
    held = np.bincount(use.link, use.end_ns - use.start_ns, topology.num_links)
    share = np.bincount(use.link, both, topology.num_links) / np.maximum(held, 1)
    return np.asarray(np.minimum(share, 1), np.float64)
