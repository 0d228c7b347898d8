"""How many whole chunks, of the smallest size, links can deliver by a time.

A link whose first chunk is at its final place at `first_ns`, and which takes another one every `period_ns`, has delivered
1 + floor((T - first) / period) chunks by time T. `first_ns` is the shortest time of one chunk from NPU to NPU over the link; the
first chunk of a Broadcast has to reach the link from the root before, the last one of a Reduce has to go on to the root after.
Under `blocking` a chunk holds the link until it has arrived, under `pipelined` only while it serialises.

Only different chunks are counted. In an All-Gather a link has no chunks but those of its source until others arrive there: after
`own` chunks it waits for `stall_ns`, unless sending them takes as long. In a Reduce-Scatter, the mirror image, all chunks except
those of the link's destination have to arrive that much earlier, because the destination must pass them on.

Latency bound: a chunk of one NPU has to travel to the NPU that is farthest from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints
from astra_tacos.support.graph import Graph

_SWEEPS = 16
"""Searches from the NPU that the last one found farthest, in networks that are too large for all pairs."""
_ALL_SOURCES_UP_TO = 512
"""NPUs from each of which distances are computed; of more, sweeps find a far pair."""
UNREACHED = 1 << 60
"""More ns than any chunk takes, for devices that none reaches."""


def diameter(problem: Problem) -> Bound:
    """The largest time, over pairs of NPUs, of the smallest chunk on the fastest path from one to the other.

    With a root, one of the pair is the root. Else, past 512 NPUs not every source is tried: each sweep starts where the last one
    found the farthest NPU. Whatever pair that finds still bounds the time from below. An All-Reduce takes this long once, not
    twice: its two phases need not follow one another (each NPU may send what it has to all others).
    """
    collective, timing = problem.collective, problem.timing
    if collective.root is not None:
        from_root = root_distance_ns(problem)
        members = collective.member_npus
        far = int(members[from_root[members].argmax()])
        ends = (collective.root, far) if collective.root_owns and not collective.reduces else (far, collective.root)
        return Bound("diameter", int(from_root[far]), f"NPU {ends[0]} to NPU {ends[1]}", ends)
    members = collective.member_npus
    graph = _graph(problem)
    if collective.part_bytes is not None:
        return _farthest_pair(collective, graph)
    every = len(members) <= _ALL_SOURCES_UP_TO
    best, pair = 0.0, (0, 0)
    sources = members if every else members[:1]
    for _ in range(1 if every else _SWEEPS):
        distance = graph.distances(sources)[:, members]
        row, column = np.unravel_index(int(distance.argmax()), distance.shape)
        if distance[row, column] <= best:
            break
        best, pair = float(distance[row, column]), (int(sources[row]), int(members[column]))
        sources = members[[column]]
    time = int(best)
    if collective.num_phases == 2:
        time += timing.least_reduction_ns  # what arrives there has been added to something at least once
    return Bound("diameter", time, f"NPU {pair[0]} to NPU {pair[1]}", pair)


def _farthest_pair(collective: Collective, graph: Graph) -> Bound:
    """The largest time over pairs of which one has something for the other, which need not be all."""
    assert collective.chunk_target is not None
    sources = np.unique(collective.chunk_owner)[:_ALL_SOURCES_UP_TO]
    of_these = np.flatnonzero(collective.chunk_owner <= sources[-1])
    row = np.searchsorted(sources, collective.chunk_owner[of_these])
    time = graph.distances(sources)[row, collective.chunk_target[of_these]]
    far = int(time.argmax())
    pair = int(collective.chunk_owner[of_these[far]]), int(collective.chunk_target[of_these[far]])
    return Bound("diameter", int(time[far]), f"NPU {pair[0]} to NPU {pair[1]}", pair)


@lru_cache(maxsize=2)
def root_distance_ns(problem: Problem) -> Ints:
    """int64[num_npus], time of the smallest chunk from the root; or to the root, including reductions if it reduces.

    Devices that have no way there, such as a switch without links, are `UNREACHED`.
    """
    collective = problem.collective
    graph = _graph(problem)
    spreads = collective.root_owns and not collective.reduces
    distance = (graph if spreads else graph.turned).from_nearest(np.array([collective.root], np.int64))
    return np.where(np.isfinite(distance), distance, UNREACHED).astype(np.int64)


def _graph(problem: Problem) -> Graph:
    topology, collective, timing = problem
    hop = timing.channel_delay_ns[:, 0].astype(np.float64)
    if collective.only_reduces and not topology.forwarding:
        hop = hop + float(timing.reduction_ns[0])  # every partial sum is added where it arrives
    return topology.channel_graph(hop)


_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Deliveries:
    """int64[num_links] each, see the module; `period_ns` is 0 for links that no channel uses."""

    first_ns: Ints
    period_ns: Ints
    own: Ints
    stall_ns: Ints

    def smallest_times(self, links: NDArray[np.integer], group: NDArray[np.integer], messages: Ints) -> Ints:
        """For each group of links, the smallest time by which they have delivered that many messages."""
        from astra_tacos.bounds._bound_kernels import smallest_times

        used = self.period_ns[links] > 0
        links, group = links[used], group[used]
        if not len(links):
            return np.zeros(len(messages), np.int64)
        first, period, num_own, stall = (column[links] for column in (self.first_ns, self.period_ns, self.own, self.stall_ns))
        latest = int((first + stall).max()) + int(messages.max()) * int(period.max())
        times: Ints = smallest_times(first, period, num_own, stall, group.astype(np.int64), messages, latest)
        return times


@lru_cache(maxsize=2)
def deliveries(problem: Problem) -> Deliveries:
    """What each link can deliver in a collective."""
    topology, collective, timing = problem
    delay = timing.channel_delay_ns[:, 0]
    switched = topology.channel_down_link != NO_LINK
    ports = ((topology.channel_link, slice(None)), (topology.channel_down_link, switched))

    def least_by_link(of_channel: Ints) -> Ints:
        least = np.full(topology.num_links, _NEVER)
        for links, which in ports:
            np.minimum.at(least, links[which], of_channel[which])
        return least

    near, far = topology.channel_src, topology.channel_dst
    if collective.only_reduces:
        near, far = far, near
    away = root_distance_ns(problem) if collective.root_owns else np.zeros(topology.num_npus, np.int64)
    first = least_by_link(delay + away[near])
    used = first != _NEVER
    period = np.where(used, least_by_link(delay) if timing.is_blocking else timing.link_hold_ns[:, 0], 0)
    num_own = np.full(topology.num_links, collective.num_chunks)
    stall = np.zeros(topology.num_links, np.int64)
    if collective.num_phases == 1 and not collective.root_owns:
        arrival = np.full(topology.num_npus, _NEVER)
        # Nothing is added where devices only forward; the last addition is counted apart.
        np.minimum.at(arrival, far, delay + (0 if topology.forwarding else last_step_ns(collective, timing)))
        # The same chunk may use a port once for every channel.
        num_own = np.zeros(topology.num_links, np.int64)
        for links, which in ports:
            num_own += np.bincount(links[which], collective.chunks_owned[near[which]], topology.num_links).astype(np.int64)
        stall = np.where(used, np.maximum(least_by_link(arrival[near]) - num_own * period, 0), 0)
    return Deliveries(np.where(used, first, 0), period, num_own, stall)


def smallest_time(problem: Problem, links: Ints, messages: int) -> int:
    """The smallest time by which these links together have delivered that many messages, and the last one is usable.

    In a collective that only reduces, a message is usable once it has been reduced.

    Parameters
    ----------
    links
        int64[n], the links.
    """
    collective, timing = problem.collective, problem.timing
    group = np.zeros(len(links), np.int64)
    times = deliveries(problem).smallest_times(links, group, np.array([messages]))
    return int(times[0]) + last_step_ns(collective, timing)


def last_step_ns(collective: Collective, timing: Timing) -> int:
    """Time of the reduction after the last arrival, in collectives that gather nothing afterwards.

    None where devices add: an NPU may then get a sum that its own contribution is part of.
    """
    return int(timing.reduction_ns[0]) if collective.only_reduces and not len(timing.device_reduction_ns) else 0
