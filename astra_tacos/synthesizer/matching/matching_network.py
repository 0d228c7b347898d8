"""A topology and its delays in the layout of the matching kernel, forward or transposed.

For a slow link into an NPU: the NPUs whose chunks reach that NPU sooner over faster links than over the slow link.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.graph import Graph
from astra_tacos.support.grouping import count_before, group_by
from astra_tacos.synthesizer.parts.dispatch import link_occupancy

if TYPE_CHECKING:
    from astra_tacos.synthesizer.matching._table_kernels import Network, Space, State


_MOST_LEVELS = 8
_MOST_NEAR = 16
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """For every NPU v and level: NPUs whose chunks reach v sooner over channels faster than the level than over one of it.

    Parameters
    ----------
    level_ns
        int64[levels], ascending: how long a send over the fastest of a level's channels takes. None if all channels are alike.
    group
        int32[num_npus, levels], the number of the group within which every NPU is near this one, numbered over all levels; -1
        where there is none, or where `near` lists the NPUs.
    near_first, near
        int32[num_npus * levels + 1] and int32[...], the NPUs near to NPU v at level k: `near[near_first[i]:near_first[i + 1]]`
        for i = v * levels + k. At most 16, the nearest.
    """

    level_ns: Ints
    group: Ints32
    near_first: Ints32
    near: Ints32

    def level_of(self, ns: Ints) -> Ints:
        """int64, like `ns`: the level of channels with these delays."""
        return np.maximum(np.searchsorted(self.level_ns, ns, side="right") - 1, 0)


def neighbourhood(num_npus: int, src: Ints32, dst: Ints32, land_ns: Ints) -> Neighbourhood:
    """Compute the neighbourhoods of all NPUs.

    Parameters
    ----------
    num_npus
        Number of NPUs.
    src, dst, land_ns
        Of each channel: its ends, and how long a send of the smallest chunk over it takes.
    """
    level_ns = np.unique(land_ns)[1:]
    if len(level_ns) > _MOST_LEVELS:
        level_ns = level_ns[np.linspace(0, len(level_ns) - 1, _MOST_LEVELS).astype(np.int64)]
    group = np.full((num_npus, len(level_ns)), -1, np.int32)
    places, others = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    groups = 0
    for level, limit_ns in enumerate(level_ns.tolist()):
        faster = land_ns < limit_ns
        into = Graph.of(num_npus, dst[faster], src[faster], land_ns[faster])
        number, member = into.strong_groups()
        size = np.bincount(member, minlength=number)[member]
        npu, other, num_near = _within(into, float(limit_ns))
        is_whole = (num_near == size - 1) & (size > 1)
        # Members of a group share one set, so either all of them have the whole group near, or the group is not used.
        is_whole &= ~np.isin(member, member[~is_whole])
        group[is_whole, level] = groups + member[is_whole]
        groups += number
        listed = ~is_whole[npu]
        places.append(npu[listed] * len(level_ns) + level)
        others.append(other[listed].astype(np.int32))
    place, near = np.concatenate(places), np.concatenate(others)
    order = np.argsort(place, kind="stable")
    near_first = np.searchsorted(place[order], np.arange(num_npus * len(level_ns) + 1)).astype(np.int32)
    return Neighbourhood(level_ns, group, near_first, near[order])


def _within(into: Graph, limit_ns: float) -> tuple[Ints, Ints, Ints]:
    """Pairs of NPUs less than `limit_ns` apart, nearest first, at most 16 for each NPU; and the number of all such pairs."""
    num_npus = into.size
    npus, others, counts = [], [], []
    for begin in range(0, num_npus, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, num_npus))
        distance = into.distances(rows, limit_ns)
        distance[rows - begin, rows] = np.inf
        row, other = np.nonzero(distance < limit_ns)
        order = np.lexsort((distance[row, other], row))
        row, other = row[order], other[order]
        first = np.searchsorted(row, np.arange(len(rows) + 1))
        kept = np.arange(len(row)) - first[row] < _MOST_NEAR
        npus.append(row[kept] + begin)
        others.append(other[kept])
        counts.append(np.diff(first))
    return np.concatenate(npus), np.concatenate(others), np.concatenate(counts)


# How many times a reduction must fit into a send for links to wait for it.
_SHORT = 16


@dataclass(frozen=True, slots=True)
class MatchingNetwork:
    """`tables`: what the kernel knows of it.

    `link_head_start_ns`: int64[num_links], how long before a down-link takes a chunk a send through it has to start.
    `delay_ns`: int64[num_delays], the distinct delays, ascending.
    `most_events`: int64[num_delays], how many events of each delay can be ahead at once.
    """

    tables: Network
    link_head_start_ns: Ints
    delay_ns: Ints
    most_events: Ints

    def state(self, owner: Ints32, is_ready: Bools, late_ns: Ints, link_free_ns: Ints) -> tuple[State, Space]:
        """The kernel's state at the start and its space to work in.

        Parameters
        ----------
        owner, is_ready
            Of each chunk: who holds it at first, whether it does so from the start.
        late_ns
            When anything else becomes ready or free, ascending.
        link_free_ns
            int64[num_links], from when on each link is free; the kernel writes it.
        """
        from astra_tacos.synthesizer.matching._matching_kernels import BLOCK
        from astra_tacos.synthesizer.matching._table_kernels import IN, MATCHED_PORTS, SWITCH_DOWN, SWITCH_UP, Space, State

        tables, num_chunks = self.tables, len(owner)
        num_npus = len(tables.npus) - 1
        num_places = num_npus + len(tables.switches) - 1
        most_in = int(np.diff(tables.npus[:, IN]).max())
        most_ports = int(np.diff(tables.switches[:, [SWITCH_UP, SWITCH_DOWN]], axis=0).max(initial=0))
        words = BLOCK * -(-num_chunks // (64 * BLOCK))
        size = np.minimum(self.most_events, num_chunks * (num_npus - 1)) + 1
        ring_to = np.cumsum(size)
        ring_from = ring_to - size
        late = 0, 0, len(late_ns), 0, len(late_ns)
        queues = np.vstack((np.column_stack((self.delay_ns, ring_from, ring_to, ring_from, ring_from)), late))
        heap_ns, heap_queue = np.empty((2, len(queues)), np.int64)
        if len(late_ns):
            heap_ns[0], heap_queue[0] = late_ns[0], len(queues) - 1

        chunk = np.arange(num_chunks)
        bit = np.left_shift(np.uint64(1), (chunk % 64).astype(np.uint64))
        held, taken_bits = np.zeros((2, num_npus, words), np.uint64)
        np.bitwise_or.at(held, (owner[is_ready], chunk[is_ready] // 64), bit[is_ready])
        np.bitwise_or.at(taken_bits, (owner, chunk // 64), bit)
        group_taken = np.zeros((int(tables.groups.max(initial=-1)) + 1, words), np.uint64)
        for group in tables.groups.T:
            np.bitwise_or.at(group_taken, group[group >= 0], taken_bits[group >= 0])
        matched = min(most_ports, MATCHED_PORTS)
        state = State(
            link_free_ns,
            queues,
            np.empty(ring_to[-1], np.int64),
            heap_ns,
            heap_queue,
            held,
            taken_bits,
            group_taken,
            num_chunks - np.bincount(owner, minlength=num_npus),
            np.ones(num_chunks, np.int64),
            np.full(words, ~np.uint64(0)),
        )
        space = Space(
            np.empty(words, np.uint64),
            np.empty(num_places, np.int64),
            np.zeros(num_places, np.bool_),
            np.empty(max(most_in, most_ports), np.int64),
            np.empty((6, most_ports + 1), np.int64),
            np.empty((matched, matched), np.bool_),
        )
        return state, space


@lru_cache(maxsize=3)
def matching_network(topology: Topology, timing: Timing, *, reverse: bool) -> MatchingNetwork:
    """Lay out a topology; with `reverse`, its transpose, where a chunk is usable only once it would have been reduced.

    Every seed of a search uses the same layout, so the last few are cached; the kernel only reads them.
    """
    from astra_tacos.synthesizer.matching._matching_kernels import KIND_BITS
    from astra_tacos.synthesizer.matching._table_kernels import Network

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

    up_busy, down_busy, head_start = link_occupancy(timing, link, down)
    forward = timing.reduction_ns if reverse else np.zeros_like(timing.reduction_ns)
    land = timing.channel_delay_ns + forward
    if timing.is_blocking and forward.max() * _SHORT <= timing.channel_delay_ns.min():
        # A link that waits until a chunk is reduced loses less than one that takes another chunk a moment before that.
        up_busy = down_busy = land
    delay_ns, parts = _parts(switched, up_busy, down_busy, land)
    channels = np.column_stack((src, dst, link, down, parts.reshape(len(src), -1))).astype(np.int32)
    channel_switch = link_dst[link] - num_npus
    source_first, sources, entering, in_rank = _sources(num_npus, dst, direct, switched, channel_switch, land, up_busy)

    out_first, leaving = group_by(src[direct], direct, num_npus)
    up_first, up_link = group_by(link_src[ups], ups, num_npus)
    in_first = np.searchsorted(dst[entering], np.arange(num_npus + 1))
    switch_up_first, switch_up = group_by(link_dst[ups] - num_npus, ups, num_switches)
    switch_down_first, switch_down = group_by(link_src[downs] - num_npus, downs, num_switches)
    position = np.zeros(len(link_src), np.int64)
    position[ups], position[downs] = count_before(link_dst[ups]), count_before(link_src[downs])
    width = np.diff(switch_down_first)
    table_first = np.concatenate(([0], np.cumsum(np.diff(switch_up_first) * width)))
    table = np.full(table_first[-1], -1, np.int32)
    through = np.flatnonzero(switched)
    switch = channel_switch[through]
    table[table_first[switch] + position[link[through]] * width[switch] + position[down[through]]] = through
    switch_ns = np.full(num_switches + 1, np.iinfo(np.int64).max)
    np.minimum.at(switch_ns, switch, land[through, 0])
    around = neighbourhood(num_npus, src, dst, land[:, 0])
    tables = Network(
        channels,
        np.column_stack((out_first, up_first, in_first, source_first)),
        np.column_stack((link[leaving], dst[leaving])),
        np.column_stack((up_link, link_dst[up_link] - num_npus)),
        np.column_stack(
            (link[entering], src[entering], entering, in_rank, land[entering, 0], around.level_of(land[entering, 0]))
        ),
        sources,
        around.group,
        around.near_first,
        around.near,
        np.where(link_src >= num_npus, link_src, link_dst),
        np.column_stack((switch_up_first, switch_down_first, table_first, switch_ns, around.level_of(switch_ns))),
        switch_up.astype(np.int32),
        switch_down.astype(np.int32),
        table,
        forward,
    )
    queue = (parts >> KIND_BITS)[parts > 0]
    shortest = np.broadcast_to(up_busy.min(axis=1)[:, None, None], parts.shape)[parts > 0]
    most_events = np.bincount(queue, delay_ns[queue] // shortest + 1, len(delay_ns)).astype(np.int64)
    return MatchingNetwork(tables, head_start, delay_ns, most_events)


def _parts(switched: Bools, up_busy: Ints, down_busy: Ints, land: Ints) -> tuple[Ints, Ints]:
    """The distinct delays, and those that follow one another in a channel: int64[num_channels, classes, 3], padded with zeros."""
    from astra_tacos.synthesizer.matching._matching_kernels import FREES_DOWN, FREES_UP, KIND_BITS, LANDS

    delay_ns, queues = np.unique(np.stack((up_busy, land, down_busy), axis=-1), return_inverse=True)
    up, landing, down = np.moveaxis(queues.reshape(*land.shape, 3), -1, 0)
    frees_down = np.where(switched[:, None], FREES_DOWN, 0)
    up_kind = FREES_UP + np.where(landing == up, LANDS, 0) + np.where(down == up, frees_down, 0)
    land_kind = np.where(landing == up, 0, LANDS + np.where(down == landing, frees_down, 0))
    down_kind = np.where((down == up) | (down == landing), 0, frees_down)
    kinds = np.stack((up_kind, land_kind, down_kind), axis=-1)
    parts = np.where(kinds > 0, queues.reshape(kinds.shape) << KIND_BITS | kinds, 0)
    return delay_ns, np.sort(parts, axis=-1)[..., ::-1]


def _sources(
    num_npus: int,
    dst: Ints32,
    direct: Ints,
    switched: Bools,
    channel_switch: Ints32,
    land: Ints,
    up_busy: Ints,
) -> tuple[Ints, Ints, Ints32, Ints32]:
    """The sources of each NPU with their delays, fastest first: its direct in-links and, once each, its switches.

    Also the direct channels among these, in that order, and for each the number of shorter delays among the sources of the same
    NPU.
    """
    through = np.flatnonzero(switched)
    pairs = dst[through].astype(np.int64) * (int(channel_switch.max(initial=0)) + 1) + channel_switch[through]
    through = through[np.unique(pairs, return_index=True)[1]]
    channel = np.concatenate((direct, through))
    switched_source = np.arange(len(channel)) >= len(direct)
    order = np.lexsort((land[channel, 0], dst[channel]))
    channel, switched_source = channel[order], switched_source[order]
    first = np.searchsorted(dst[channel], np.arange(num_npus + 1))
    ns = land[channel, 0]
    slower = np.concatenate((np.zeros(min(1, len(ns)), np.int64), np.cumsum(np.diff(ns) != 0)))
    rank = slower - slower[first[dst[channel]]]
    sources = np.column_stack((ns, up_busy[channel, 0]))
    entering = np.flatnonzero(~switched_source)
    return first, sources, channel[entering].astype(np.int32), rank[entering].astype(np.int32)
