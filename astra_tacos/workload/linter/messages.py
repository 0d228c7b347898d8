"""Matching of the sends of a trace with its receives.

ASTRA-sim matches messages by tag, source, destination and size, first in, first out (`network_frontend/analytical/common`,
`ChunkIdGenerator.cc` and `CallbackTracker.cc`). Tags are taken modulo 500,000,000 (`system/Sys.cc`, `front_end_sim_send`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import row_places
from astra_tacos.workload.linter.trace_view import TraceView


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """The sends and receives of a trace that have all attributes.

    Parameters
    ----------
    send, recv
        int64[m], rows of the two ends of each message.
    alone
        bool[m], whether no other message has the same key, so that the match is certain.
    lost_send, lost_recv
        int64[...], rows without a counterpart. A row is left out if its counterpart may be one that lacks an attribute.
    other_size, other_tag
        Lost receives, each with the lost send that differs from it in size only, or in tag only.
    """

    send: Ints
    recv: Ints
    alone: Bools
    lost_send: Ints
    lost_recv: Ints
    other_size: dict[int, int]
    other_tag: dict[int, int]


def message_keys(view: TraceView, rows: Ints) -> tuple[Ints, ...]:
    """int64[len(rows)] each: source, destination, tag and size of sends or receives."""
    sends = view.trace.kind[rows] == NodeType.COMM_SEND
    own, peer = view.rank[rows], view.trace.peer[rows]
    return np.where(sends, own, peer), np.where(sends, peer, own), view.tags[rows], view.trace.size_bytes[rows]


def sound_messages(view: TraceView, num_ranks: int) -> Bools:
    """bool[num_nodes], whether a row is a send or receive that runs, has size, tag and peer, and a peer with a readable file."""
    trace = view.trace
    readable = np.zeros(max(num_ranks, trace.num_ranks), np.bool_)
    readable[: trace.num_ranks] = np.diff(trace.rank_first) > 0
    inside = (trace.peer >= 0) & (trace.peer < num_ranks) & (trace.peer != view.rank)
    message = view.sends_or_receives & view.runs & inside
    sound: Bools = message & (trace.size_bytes > 0) & (view.tags >= 0) & readable[np.where(inside, trace.peer, 0)]
    return sound


def ordered_messages(view: TraceView, num_ranks: int) -> tuple[Ints, Bools, Ints]:
    """The rows of sound messages in an order, whether each is a send, and its number among the distinct keys.

    Messages ascend by key. Of one key, receives come before sends, and each of these in the order of the trace.
    """
    rows = np.flatnonzero(sound_messages(view, num_ranks))
    key = row_places(*message_keys(view, rows))[1]
    sends = view.trace.kind[rows] == NodeType.COMM_SEND
    order = np.lexsort((view.place[rows], sends, key))
    return rows[order], sends[order], key[order]


def match_messages(view: TraceView, num_ranks: int) -> Messages:
    """Match the messages of a workload or of a custom collective on `num_ranks` ranks."""
    rows, sends, key = ordered_messages(view, num_ranks)
    num_keys = key[-1] + 1 if len(key) else 0
    num_sends, num_recvs = (np.bincount(key[kind], minlength=num_keys) for kind in (sends, ~sends))
    begins = np.concatenate(([0], np.cumsum(num_sends + num_recvs)))[:-1]
    turn = np.arange(len(rows)) - begins[key] - np.where(sends, num_recvs[key], 0)  # receives are sorted before sends
    paired = turn < np.minimum(num_sends, num_recvs)[key]
    excused = _excused(view, rows, num_ranks)
    lost_send, lost_recv = rows[sends & ~paired & ~excused], rows[~sends & ~paired & ~excused]
    send, recv = rows[sends & paired], rows[~sends & paired]
    alone = (num_sends == 1)[key[~sends & paired]] & (num_recvs == 1)[key[~sends & paired]]
    other_size, other_tag = _candidates(view, lost_send, lost_recv)
    return Messages(send, recv, alone, lost_send, lost_recv, other_size, other_tag)


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
    taken: set[int] = set()
    for found, kept in zip(pairs, ((0, 1, 2), (0, 1, 3)), strict=True):
        waiting: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
        send_keys, recv_keys = message_keys(view, sends), message_keys(view, recvs)
        for row, *key in zip(sends.tolist(), *(send_keys[column].tolist() for column in kept), strict=True):
            if row not in taken:
                waiting[tuple(key)].append(row)
        for row, *key in zip(recvs.tolist(), *(recv_keys[column].tolist() for column in kept), strict=True):
            if row not in taken and waiting[tuple(key)]:
                found[row] = waiting[tuple(key)].popleft()
                taken |= {row, found[row]}
    return pairs
