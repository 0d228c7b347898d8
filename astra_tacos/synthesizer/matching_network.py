"""A topology and its delays laid out as the matching kernel wants them, forwards or transposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import NO_LINK, Topology

_DIRECT = 0
_SWITCH = 1


@dataclass(frozen=True, slots=True)
class MatchingNetwork:
    """`arrays`: the kernel's arguments from `channel_src` to `num_delays`, in its order.

    `link_head_start_ns`: int64[num_links], how long before a down-link takes a chunk a send through it has to start.
    `most_events`: how many events can be ahead at once.
    """

    arrays: tuple[Any, ...]
    link_head_start_ns: NDArray[np.int64]
    most_events: int


def matching_network(topology: Topology, timing: Timing, *, reverse: bool) -> MatchingNetwork:
    """Lay out a topology; with `reverse`, its transpose, where a chunk is usable only once it would have been reduced."""
    num_npus, num_switches = topology.num_npus, topology.num_switches
    src, dst = topology.channel_src, topology.channel_dst
    link, down = topology.channel_link, topology.channel_down_link
    link_src, link_dst = topology.link_src, topology.link_dst
    switched = down != NO_LINK
    if reverse:
        src, dst = dst, src
        link, down = np.where(switched, down, link), np.where(switched, link, down)
        link_src, link_dst = link_dst, link_src
    direct = np.flatnonzero(~switched)
    ups = np.flatnonzero(link_dst >= num_npus)
    downs = np.flatnonzero(link_src >= num_npus)

    up_busy, down_busy, head_start = _busy(timing, link, down)
    forward = timing.reduction_ns if reverse else np.zeros_like(timing.reduction_ns)
    land = timing.channel_delay_ns + forward
    delays = np.unique(np.concatenate((up_busy.ravel(), down_busy.ravel(), land.ravel())))
    queues = (np.searchsorted(delays, times).astype(np.int32) for times in (up_busy, down_busy, land))

    switch_up_first, switch_up = _group_by(link_dst[ups] - num_npus, ups, num_switches)
    switch_down_first, switch_down = _group_by(link_src[downs] - num_npus, downs, num_switches)
    arrays = (
        src,
        dst,
        link,
        down,
        *_group_by(src[direct], direct, num_npus),
        *_group_by(link_src[ups], ups, num_npus),
        *_group_by(dst[direct], direct, num_npus),
        *_sources(num_npus, src, dst, direct, switched, link_dst[link] - num_npus, land, up_busy),
        np.where(link_src >= num_npus, link_src, link_dst),
        switch_up_first,
        switch_up,
        switch_down_first,
        switch_down,
        *_switch_tables(link, down, switched, (switch_up_first, switch_up), (switch_down_first, switch_down)),
        _switch_land_ns(link_dst[link] - num_npus, switched, land, num_switches),
        up_busy,
        down_busy,
        land,
        forward,
        *queues,
        len(delays),
    )
    in_flight = np.zeros(topology.num_links, np.int64)
    np.maximum.at(in_flight, link, land.max(axis=1) // up_busy.min(axis=1) + 2)
    return MatchingNetwork(arrays, head_start, 3 * int(in_flight.sum()))


def _busy(
    timing: Timing, link: NDArray[np.int32], down: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How long a send keeps its up-link and its down-link, both counted from its start, and the down-links' head start.

    Under store and forward a down-link is taken only when the chunk reaches the switch. Counted from the start of the send,
    that is a shift by the up-link's delay; where up-links differ, the smallest delay of a down-link's up-links is used.
    """
    if timing.is_blocking:
        return timing.channel_delay_ns, timing.channel_delay_ns, np.zeros(len(timing.link_hold_ns), np.int64)
    switched = down != NO_LINK
    shift = timing.link_delay_ns[link[switched]]
    head_start = np.full(len(timing.link_hold_ns), np.iinfo(np.int64).max)
    np.minimum.at(head_start, down[switched], shift.min(axis=1))
    down_busy = np.zeros_like(timing.channel_delay_ns)
    down_busy[switched] = timing.link_hold_ns[down[switched]] + shift - head_start[down[switched]][:, None]
    head_start[head_start == np.iinfo(np.int64).max] = 0
    return timing.link_hold_ns[link], down_busy, head_start


def _sources(
    num_npus: int,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    direct: NDArray[np.int64],
    switched: NDArray[np.bool_],
    channel_switch: NDArray[np.int32],
    land: NDArray[np.int64],
    up_busy: NDArray[np.int64],
) -> tuple[NDArray[Any], ...]:
    """Whence each NPU can be reached, fastest first: its direct in-links and, once each, its switches."""
    through = np.flatnonzero(switched)
    pairs = dst[through].astype(np.int64) * (int(channel_switch.max(initial=0)) + 1) + channel_switch[through]
    through = through[np.unique(pairs, return_index=True)[1]]
    channel = np.concatenate((direct, through))
    kind = np.repeat(np.array((_DIRECT, _SWITCH), np.uint8), (len(direct), len(through)))
    place = np.concatenate((src[direct], channel_switch[through]))
    order = np.lexsort((land[channel, 0], dst[channel]))
    channel, kind, place = channel[order], kind[order], place[order]
    first = np.searchsorted(dst[channel], np.arange(num_npus + 1))
    return first, kind, place.astype(np.int32), land[channel, 0], up_busy[channel, 0]


def _switch_tables(
    link: NDArray[np.int32],
    down: NDArray[np.int32],
    switched: NDArray[np.bool_],
    ups: tuple[NDArray[np.int64], NDArray[np.int32]],
    downs: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each switch, a table of channels, up-links by down-links, -1 on an NPU's way back to itself."""
    num_links = int(max(link.max(), down.max())) + 1
    position = np.zeros((2, num_links), np.int64)
    switch_of = np.zeros(num_links, np.int64)
    for side, (first, members) in enumerate((ups, downs)):
        owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
        position[side, members] = np.arange(len(members)) - first[owner]
        switch_of[members] = owner
    width = np.diff(downs[0])
    table_first = np.concatenate(([0], np.cumsum(np.diff(ups[0]) * width)))
    table = np.full(int(table_first[-1]), -1, np.int32)
    channels = np.flatnonzero(switched)
    up, out = link[channels], down[channels]
    switch = switch_of[up]
    table[table_first[switch] + position[0, up] * width[switch] + position[1, out]] = channels
    return table_first, table


def _switch_land_ns(
    channel_switch: NDArray[np.int32], switched: NDArray[np.bool_], land: NDArray[np.int64], num_switches: int
) -> NDArray[np.int64]:
    """int64[num_switches], how long the fastest send through each switch takes."""
    fastest = np.full(num_switches, np.iinfo(np.int64).max)
    np.minimum.at(fastest, channel_switch[switched], land[switched, 0])
    return fastest


def _group_by(
    group: NDArray[np.integer], member: NDArray[np.integer], num_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Where each group begins, int64[num_groups + 1], and the members sorted by group, int32[len(member)]."""
    order = np.argsort(group, kind="stable")
    first = np.zeros(num_groups + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=num_groups), out=first[1:])
    return first, member[order].astype(np.int32)
