"""Whole chunks along columns, and their sends with priorities.

Shares of a linear programme are no whole numbers of chunks: every demand gives each column as many chunks as its share has whole
ones, and the rest to columns with the largest remainders, or where links have least to do. As in `parts.trees`, the send
goes first that has to start earliest for its chunk to be everywhere when it is due.

Sends through store-and-forward switches of dimensions, scheduled hop by hop.

There a chunk keeps no link while another is busy: the switch holds it. List scheduling that looks for two free links at once
leaves links idle where many send to one (incast). So sends are scheduled on the graph in which switches are devices that forward,
and the order in which they start there is that of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.composition import with_switches_forwarding
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.grouping import count_before, group_by, members_of
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import Solution
from astra_tacos.synthesizer.columns.routes import Column, Trip
from astra_tacos.synthesizer.parts.send_graph import SendGraph

_STAGGER = 0.9
"""Share of the busiest link's time over which chunks of one demand are due, one after another."""


def choose_columns(solution: Solution, demands: Demands, collective: Collective) -> Ints:
    """int64[num_chunks], the column of each chunk; chunks of one column are spread over those of its demand.

    Parameters
    ----------
    solution
        The columns, and the bytes along each.
    """
    of_demand, rate = np.array([column.demand for column in solution.columns]), demands.rate * demands.copies
    seen = demands.target_in(collective)
    target = np.zeros(collective.num_chunks, np.int64) if seen is None else seen
    key = demands.of_chunk * np.int64(collective.num_npus) + target
    _, group = np.unique(key, return_inverse=True)
    first, chunks = group_by(group, np.arange(collective.num_chunks), int(group.max()) + 1)
    # Load that rounding adds to orbits of links, as time; the columns of the smallest worst load get what is left over.
    excess = np.zeros(len(rate))
    column_of = np.empty(collective.num_chunks, np.int64)
    size = float(collective.chunk_size_bytes.mean())
    for number in range(len(first) - 1):
        own_chunks = chunks[first[number] : first[number + 1]]
        columns = np.flatnonzero(of_demand == demands.of_chunk[own_chunks[0]])
        wanted = solution.bytes[columns] / solution.bytes[columns].sum() * len(own_chunks)
        count = np.floor(wanted + 1e-9).astype(np.int64)
        weight = [_load_for(demands, solution.columns[at], int(target[own_chunks[0]])) for at in columns.tolist()]
        for (links, load), share, num_chunks in zip(weight, wanted.tolist(), count.tolist(), strict=True):
            excess[links] += (num_chunks - share) * load * size / rate[links]
        for _ in range(len(own_chunks) - int(count.sum())):
            worst = [
                float((excess[links] + load * size / rate[links]).max()) + 1e-3 * (num_chunks - share)
                for (links, load), share, num_chunks in zip(weight, wanted.tolist(), count.tolist(), strict=True)
            ]
            best = int(np.argmin(worst))
            count[best] += 1
            links, load = weight[best]
            excess[links] += load * size / rate[links]
        # The k-th of a column's n chunks comes at place (k + 1/2) / n.
        which = np.repeat(np.arange(len(columns)), count)
        place = (count_before(which) + 0.5) / count[which]
        column_of[own_chunks] = columns[which[np.lexsort((which, place))]]
    return column_of


def _load_for(demands: Demands, column: Column, target: int) -> tuple[Ints, Floats]:
    """Orbits of links that chunks for a target use in a column, and how often each link."""
    if not demands.is_personalised:
        return column.rows, column.load
    return demands.load_of([trip for trip in column.trips if trip.target == target])


def make_sends(
    problem: Problem,
    demands: Demands,
    solution: Solution,
    column_of: Ints,
) -> SendGraph:
    """The sends of all chunks along their columns, or the images of these that begin or end at the chunk's owner.

    Parameters
    ----------
    demands
        What is asked of the network, or of one with the same links.
    column_of
        int64[num_chunks], the column of each chunk.
    """
    topology, collective, timing = problem
    channels_of, targets = _channel_finder(topology), demands.target_in(collective)
    delay = timing.link_delay_ns[:, -1].astype(np.float64)
    kind = column_of * np.int64(topology.num_npus) + (0 if targets is None else targets)
    distinct, which = np.unique(kind, return_inverse=True)
    rows = [
        _rows(
            topology,
            solution.columns[key // topology.num_npus],
            None if targets is None else key % topology.num_npus,
            delay,
            channels_of,
            timing,
        )
        for key in distinct.tolist()
    ]
    first = np.cumsum([0, *map(len, rows)])
    begin, row = members_of(first, which)
    chunk = np.repeat(np.arange(collective.num_chunks), np.diff(begin))
    trips = np.array([row[-1][1] + 1 for row in rows])[which]
    before = np.repeat(np.cumsum(trips) - trips, np.diff(begin))
    channel, trip, adds, left = (np.array(column)[row] for column in zip(*chain.from_iterable(rows), strict=True))
    if demands.group.order > 1:  # on fabrics, where every channel is one link
        element = demands.group.element_of(collective.chunk_owner.astype(np.int64))[chunk]
        channel = topology.channel_of_link()[demands.group.move_links(element, topology.channel_link[channel])]
    # Chunks of one demand are due one after another, so that the first ones do not all wait for the last.
    due = _due_ns(demands, collective, solution)[chunk]
    rank = np.unique(np.rint(due - left), return_inverse=True)[1].astype(np.int32)
    of_fabric = (before + trip).astype(np.int32) if topology.forwarding else None
    return SendGraph(chunk.astype(np.int32), channel.astype(np.int32), adds, rank, trip=of_fabric)


def _channel_finder(topology: Topology) -> Callable[[Trip], list[tuple[int, tuple[int, ...]]]]:
    """The channels of a trip, each with its links: one for each link where devices forward, else one from NPU to NPU."""
    if topology.forwarding:
        channel_of_link = topology.channel_of_link().tolist()
        return lambda trip: [(channel_of_link[link], (link,)) for link in trip.links]
    src, dst = topology.channel_src.tolist(), topology.channel_dst.tolist()
    between = {ends: channel for channel, ends in enumerate(zip(src, dst, strict=True))}
    ends_of = topology.link_src, topology.link_dst
    return lambda trip: [(between[int(ends_of[0][trip.links[0]]), int(ends_of[1][trip.links[-1]])], trip.links)]


def _due_ns(demands: Demands, collective: Collective, solution: Solution) -> Floats:
    """float64[num_chunks], when each chunk is due: those of one owner, or of one pair, or all, one after another."""
    owner = np.zeros(collective.num_chunks, np.int64)
    if collective.chunk_target is not None:
        owner = collective.chunk_owner.astype(np.int64) * collective.num_npus + collective.chunk_target
    elif collective.num_phases == 1 or demands.group.order > 1:
        owner = collective.chunk_owner.astype(np.int64)
    due: Floats = count_before(owner) / np.bincount(owner)[owner] * solution.time_ns * _STAGGER
    return due


def _rows(
    topology: Topology,
    column: Column,
    target: int | None,
    delay: Floats,
    channels_of: Callable[[Trip], list[tuple[int, tuple[int, ...]]]],
    timing: Timing,
) -> list[tuple[int, int, bool, float]]:
    """The hops of a column for one chunk: channel, trip, whether it is added at the hop's end, and the time left at its start."""
    trips = [trip for trip in column.trips if target is None or trip.target == target]
    ahead: dict[tuple[int, bool], float] = {}
    rows: list[tuple[int, int, bool, float]] = []
    # From the last trip to the first: what waits for a trip comes after it.
    spread = max((0.0, *_depths(topology, trips, delay)))
    for at in range(len(trips) - 1, -1, -1):
        trip = trips[at]
        src, dst = int(topology.link_src[trip.links[0]]), int(topology.link_dst[trip.links[-1]])
        after = ahead.get((dst, trip.adds), spread if trip.adds else 0.0)
        after += float(timing.reduction_ns[-1]) if trip.adds else 0.0
        hops = channels_of(trip)
        for place in range(len(hops) - 1, -1, -1):
            after += float(delay[list(hops[place][1])].sum())
            rows.append((hops[place][0], at, trip.adds and place == len(hops) - 1, after))
        ahead[src, trip.adds] = max(ahead.get((src, trip.adds), 0.0), after)
    return rows[::-1]


def _depths(topology: Topology, trips: list[Trip], delay: Floats) -> list[float]:
    """How long each trip that copies takes to arrive after the chunk is whole."""
    there: dict[int, float] = {}
    for trip in trips:
        if not trip.adds:
            begin = there.get(int(topology.link_src[trip.links[0]]), 0.0)
            there[int(topology.link_dst[trip.links[-1]])] = begin + float(delay[list(trip.links)].sum())
    return list(there.values())


def as_hops(problem: Problem) -> Problem:
    """The graph whose devices that forward are the switches of a topology, with the collective and its delays there."""
    topology, collective, timing = problem
    graph = with_switches_forwarding(topology)
    among = replace(collective, num_npus=graph.num_npus, members=collective.member_npus.astype(np.int32))
    return Problem.of(graph, among, "pipelined", timing.reduce_bandwidth_gbps)


def from_hops(hops: Schedule, problem: Problem) -> Schedule:
    """The schedule on a topology whose sends begin in the order in which those of a schedule of `as_hops` do."""
    topology = problem.topology
    assert hops.trip is not None
    first = np.flatnonzero(hops.src < topology.num_npus)
    last = np.flatnonzero(hops.dst < topology.num_npus)
    first = first[np.argsort(hops.trip[first], kind="stable")]
    last = last[np.argsort(hops.trip[last], kind="stable")]
    order = np.lexsort((first, hops.start_ns[first]))
    first, last = first[order], last[order]
    channel = topology.channel_of(hops.src[first], hops.dst[last]).astype(np.int32)
    sends = Sends(hops.chunk[first], channel, hops.reduces[last])
    return settle(problem, sends, hops.synthesizer, hops.seed)
