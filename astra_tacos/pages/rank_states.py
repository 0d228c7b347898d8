"""The state of every rank over a recorded replay: computing, communicating, both, waiting for a message, or idle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.pages.style import Kind
from astra_tacos.run.recording import COLLECTIVE, COMPUTE, MEMORY, RECEIVE, SEND, Nodes, RecordedReplay
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.grouping import distinct, in_ranges

STATES = (
    Kind("compute", "#4477aa"),
    Kind("compute and communication", "#66ccee"),
    Kind("exposed communication", "#ee6677"),
    Kind("waiting for a message", "#ccbb44"),
    Kind("idle", "#e6e6e6"),
)
"""The states, by number. ASTRA-sim counts the last three states together as exposed communication."""
COMPUTES, OVERLAPS, EXPOSED, WAITS, IDLE = range(len(STATES))
NO_NODE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Intervals of time in which the state and the nodes of a rank do not change.

    The segments of a rank are in order of time and cover the time from 0 until the rank has finished.

    Parameters
    ----------
    rank_first
        int64[num_ranks + 1], index of the first segment of each rank, and the number of segments.
    start_ns, end_ns
        int64[n], start and end of each segment.
    state
        uint8[n], state of each segment, an index of `STATES`.
    compute
        int64[n], the compute node that runs; NO_NODE where none does.
    communication
        int64[n], the collective, message or memory access that runs or, in the state WAITS, the receive that is waited for;
        NO_NODE where there is none.
    """

    rank_first: Ints
    start_ns: Ints
    end_ns: Ints
    state: NDArray[np.uint8]
    compute: Ints
    communication: Ints

    @property
    def rank(self) -> Ints:
        """int64[n], rank of each segment."""
        return np.repeat(np.arange(len(self.rank_first) - 1), np.diff(self.rank_first))

    def totals(self) -> Ints:
        """Time of each rank in each state in ns, int64[num_ranks, len(STATES)]."""
        spent = np.zeros((len(self.rank_first) - 1, len(STATES)), np.int64)
        np.add.at(spent, (self.rank, self.state), self.end_ns - self.start_ns)
        return spent


def find_segments(nodes: Nodes, replay: RecordedReplay) -> Segments:
    """The segments of all ranks in a replay.

    A rank runs at most one compute node and one collective, send or memory access at a time. It can have many receives, posted
    long before their messages arrive; they count only while the rank does nothing else, and then the rank waits for the receive
    that ends next.
    """
    rank = nodes.rank
    took_time = replay.end_ns > np.maximum(replay.issue_ns, -1)
    took_time &= replay.issue_ns >= 0
    rows = {
        COMPUTES: np.flatnonzero(took_time & (nodes.kind == COMPUTE)),
        EXPOSED: np.flatnonzero(took_time & np.isin(nodes.kind, (COLLECTIVE, SEND, MEMORY))),
        WAITS: np.flatnonzero(took_time & (nodes.kind == RECEIVE)),
    }
    every = np.concatenate(list(rows.values()))
    ranks = np.arange(nodes.num_ranks)
    times, at = np.unique(
        np.concatenate((np.zeros(len(ranks), np.int64), replay.finish_ns, replay.issue_ns[every], replay.end_ns[every])),
        return_inverse=True,
    )
    key = np.concatenate((ranks, ranks, rank[every], rank[every])) * len(times) + at
    moments = distinct(key)  # of all ranks, in order; a segment begins at each moment except the last one of a rank

    def place(of_rank: Ints, ns: Ints) -> Ints:
        return np.searchsorted(moments, of_rank * len(times) + np.searchsorted(times, ns))

    compute, communication = (
        _node_of_moment(nodes, place(rank[nodes], replay.issue_ns[nodes]), place(rank[nodes], replay.end_ns[nodes]), len(moments))
        for nodes in (rows[COMPUTES], rows[EXPOSED])
    )
    receives = rows[WAITS]
    opened = place(rank[receives], replay.issue_ns[receives])
    closed = place(rank[receives], replay.end_ns[receives])
    awaited = next_to_end(receives, opened, closed, len(moments))
    waits = (compute == NO_NODE) & (communication == NO_NODE) & (awaited != NO_NODE)
    state = np.select(
        ((compute != NO_NODE) & (communication != NO_NODE), compute != NO_NODE, communication != NO_NODE, waits),
        (OVERLAPS, COMPUTES, EXPOSED, WAITS),
        IDLE,
    ).astype(np.uint8)
    communication = np.where(waits, awaited, communication)
    of_rank, ns = moments // len(times), times[moments % len(times)]
    return _merged(of_rank, ns, replay.finish_ns, state, compute, communication)


def _node_of_moment(rows: Ints, begin: Ints, end: Ints, num_moments: int) -> Ints:
    """The node that runs from each moment to the next, int64[num_moments], NO_NODE where none does; nodes must not overlap.

    Parameters
    ----------
    rows
        int64[n], the nodes.
    begin, end
        int64[n], the moments at which each node begins and ends.
    """
    node = np.full(num_moments, NO_NODE, np.int64)
    node[in_ranges(begin, end)[1]] = np.repeat(rows, end - begin)
    return node


def next_to_end(rows: Ints, begin: Ints, end: Ints, num_moments: int) -> Ints:
    """Of the nodes that run at each moment, the one that ends first, int64[num_moments]; NO_NODE where none runs.

    Parameters
    ----------
    rows
        int64[n], the nodes.
    begin
        int64[n], the moment at which each begins.
    end
        int64[n], the moment at which each ends.
    """
    order = np.lexsort((begin, end))
    begin, end = begin[order], end[order]
    # `first` is the first node in that order at each moment, as in a sparse table: two blocks whose length is a power of two
    # cover the time of a node, and blocks are halved until each is a single moment.
    first = np.full(num_moments, len(rows))
    level = np.frexp((end - begin).astype(np.float64))[1] - 1  # -1 for nodes that end when they begin
    for power in range(int(level.max(initial=-1)), -1, -1):
        chosen = np.flatnonzero(level == power)
        np.minimum.at(first, begin[chosen], chosen)
        np.minimum.at(first, end[chosen] - (1 << power), chosen)
        if power:
            half = 1 << (power - 1)
            first[half:] = np.minimum(first[half:], first[:-half])
    node: Ints = np.append(rows[order], NO_NODE)[first]
    return node


def _merged(
    rank: Ints,
    ns: Ints,
    finish_ns: Ints,
    state: NDArray[np.uint8],
    compute: Ints,
    communication: Ints,
) -> Segments:
    """Segments from moments: neighbours with equal state and nodes are joined, and times after a rank's finish are dropped."""
    kept = np.flatnonzero(ns < finish_ns[rank])
    rank, ns, state, compute, communication = rank[kept], ns[kept], state[kept], compute[kept], communication[kept]
    changes = np.zeros(len(kept), np.bool_)
    changes[:1] = True
    for column in (rank, state, compute, communication):
        changes[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(changes)
    of_rank, start = rank[first], ns[first]
    last = np.append(of_rank[1:] != of_rank[:-1], True)
    end = np.where(last, finish_ns[of_rank], np.append(start[1:], 0))
    rank_first = np.searchsorted(of_rank, np.arange(len(finish_ns) + 1))
    return Segments(rank_first, start, end, state[first], compute[first], communication[first])


def coarser(segments: Segments, resolution_ns: int) -> Segments:
    """Join neighbouring segments that are shorter than a resolution and begin within the same multiple of it.

    A joined segment has the state that takes most of its time, and no nodes.
    """
    rank, starts = segments.rank, segments.start_ns
    short = segments.end_ns - starts < resolution_ns
    begins = np.ones(len(starts), np.bool_)
    begins[1:] = ~(short[1:] & short[:-1]) | (rank[1:] != rank[:-1])
    begins[1:] |= starts[1:] // resolution_ns != starts[:-1] // resolution_ns
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(starts)) - 1
    spent = np.zeros((len(first), len(STATES)), np.int64)
    np.add.at(spent, (np.cumsum(begins) - 1, segments.state), segments.end_ns - starts)
    alone = first == last
    return Segments(
        np.searchsorted(rank[first], np.arange(len(segments.rank_first))),
        starts[first],
        segments.end_ns[last],
        spent.argmax(axis=1).astype(np.uint8),
        np.where(alone, segments.compute[first], NO_NODE),
        np.where(alone, segments.communication[first], NO_NODE),
    )


def state_over_time(segments: Segments, edges_ns: Floats) -> Floats:
    """Mean number of ranks in each state between two edges of time, float64[len(STATES), len(edges_ns) - 1]."""
    shares = np.empty((len(STATES), len(edges_ns) - 1))
    for number in range(len(STATES)):
        chosen = segments.state == number
        spent = _time_since(segments.start_ns[chosen], edges_ns) - _time_since(segments.end_ns[chosen], edges_ns)
        shares[number] = np.diff(spent) / np.diff(edges_ns)
    return shares


def _time_since(moments: Ints, edges_ns: Floats) -> Floats:
    """At each edge, the sum of the times since all moments before the edge, float64[len(edges_ns)] in ns."""
    ordered = np.sort(moments)
    total = np.concatenate(([0], np.cumsum(ordered)))
    passed = np.searchsorted(ordered, edges_ns)
    since: Floats = passed * edges_ns - total[passed]
    return since
