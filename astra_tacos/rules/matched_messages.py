"""The messages of a trace that lint looks at: those that meet, and those that meet nothing."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.graph.messages import Messages, match_messages, message_keys, queue_messages, stated_tags
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class MatchedMessages:
    """The sends and receives of a trace that have all attributes.

    Parameters
    ----------
    met
        Those that meet.
    lost_send, lost_recv
        int64[...], rows without a counterpart. A row is left out if its counterpart may be one that lacks an attribute.
    other_size, other_tag
        Lost receives, each with the lost send that differs from it in size only, or in tag only.
    """

    met: Messages
    lost_send: Ints
    lost_recv: Ints
    other_size: dict[int, int]
    other_tag: dict[int, int]


def sound_messages(view: TraceView, num_ranks: int) -> Bools:
    """bool[num_nodes], whether a row is a send or receive that runs, has size, tag and peer, and a peer with a readable file."""
    trace = view.trace
    readable = np.zeros(max(num_ranks, trace.num_ranks), np.bool_)
    readable[: trace.num_ranks] = np.diff(trace.rank_first) > 0
    inside = (trace.peer >= 0) & (trace.peer < num_ranks) & (trace.peer != view.rank)
    message = view.sends_or_receives & view.runs & inside
    tagged = stated_tags(trace, np.arange(trace.num_nodes)) >= 0
    sound: Bools = message & (trace.size_bytes > 0) & tagged & readable[np.where(inside, trace.peer, 0)]
    return sound


def match_sound_messages(view: TraceView, num_ranks: int) -> MatchedMessages:
    """Match the messages of a workload or of a custom collective on `num_ranks` ranks."""
    queues = queue_messages(view.trace, view.issue, sound_messages(view, num_ranks))
    met = match_messages(view.trace, view.issue, queues)
    lost_send, lost_recv = (
        _without(view, rows, paired, num_ranks) for rows, paired in ((queues.send, met.send), (queues.receive, met.receive))
    )
    other_size, other_tag = _candidates(view, lost_send, lost_recv)
    return MatchedMessages(met, lost_send, lost_recv, other_size, other_tag)


def _without(view: TraceView, rows: Ints, paired: Ints, num_ranks: int) -> Ints:
    """The rows of `rows` that are not paired and that no message without an attribute may meet."""
    is_paired = np.zeros(view.trace.num_nodes, np.bool_)
    is_paired[paired] = True
    lost = rows[~is_paired[rows]]
    return lost[~_excused(view, lost, num_ranks)]


def _excused(view: TraceView, rows: Ints, num_ranks: int) -> Bools:
    """bool[len(rows)], whether the counterpart may be a message that lacks an attribute, which is a finding of its own."""
    unsound = view.sends_or_receives & ~sound_messages(view, num_ranks)
    sends = view.trace.kind == NodeType.COMM_SEND
    excused = np.zeros(len(rows), np.bool_)
    for kind in (True, False):
        ranks = np.unique(view.rank[unsound & (sends == kind)])
        excused |= (sends[rows] != kind) & np.isin(view.trace.peer[rows], ranks)
    return excused


def _candidates(view: TraceView, sends: Ints, recvs: Ints) -> tuple[dict[int, int], dict[int, int]]:
    """Two maps from a lost receive to a lost send: one that differs in size only, and one that differs in tag only."""
    pairs: tuple[dict[int, int], dict[int, int]] = ({}, {})
    matched: set[int] = set()
    for match_of, kept in zip(pairs, ((0, 1, 2), (0, 1, 3)), strict=True):
        waiting: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
        send_keys, recv_keys = message_keys(view.trace, sends), message_keys(view.trace, recvs)
        for row, *key in zip(sends.tolist(), *(send_keys[column].tolist() for column in kept), strict=True):
            if row not in matched:
                waiting[tuple(key)].append(row)
        for row, *key in zip(recvs.tolist(), *(recv_keys[column].tolist() for column in kept), strict=True):
            if row not in matched and waiting[tuple(key)]:
                match_of[row] = waiting[tuple(key)].popleft()
                matched |= {row, match_of[row]}
    return pairs
