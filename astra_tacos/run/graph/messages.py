"""Matching of sends and receives: the one that planner, linter and bounds use.

ASTRA-sim matches messages by tag, source, destination and size, first in, first out (`network_frontend/analytical/common`,
`ChunkIdGenerator.cc` and `CallbackTracker.cc`). The replay matches them as it runs, and the oracle for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.run.graph.issue_order import IssueOrder
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.patterns import TAGS
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace, precede
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by, row_places


@dataclass(frozen=True, slots=True, eq=False)
class MessageQueues:
    """The sends and the receives of each key: source, destination, tag and size.

    Parameters
    ----------
    first_send, send, first_receive, receive
        Rows by key, in the order of issue (CSR): key k has `send[first_send[k]:first_send[k + 1]]`.
    """

    first_send: Ints
    send: Ints
    first_receive: Ints
    receive: Ints

    @property
    def num_keys(self) -> int:
        """Number of distinct keys."""
        return len(self.first_send) - 1

    def neighbours(self) -> tuple[Ints, Ints, Ints]:
        """Keys, rows of messages, and rows of the next one of the same kind and key; of each key its receives, then its sends."""
        parts = []
        for first, rows in ((self.first_receive, self.receive), (self.first_send, self.send)):
            key = np.repeat(np.arange(self.num_keys), np.diff(first))
            follows = np.flatnonzero(np.diff(key) == 0)
            parts.append((key[follows], rows[follows], rows[follows + 1]))
        key, send, next_one = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        turn = np.argsort(key, kind="stable")
        return key[turn], send[turn], next_one[turn]


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Sends and the receives that they meet if ranks issue their nodes in the given `IssueOrder`.

    Parameters
    ----------
    send, receive
        int64[m], rows of the two ends of each message, by key and then in the order of issue.
    certain
        bool[m], whether these two meet in whatever order ranks issue their nodes: dependencies chain all sends of the key, and
        all of its receives.
    unordered
        int64[n] each, rows of two sends or two receives of one key, one after the other in `IssueOrder`, that nothing orders.
    """

    send: Ints
    receive: Ints
    certain: Bools
    unordered: tuple[Ints, Ints]


def stated_tags(trace: Trace, rows: Ints) -> Ints:
    """int64[len(rows)], tags as ASTRA-sim reads them: signed 32-bit integers, modulo `TAGS`; -1 for negative ones."""
    tag = trace.tag[rows].astype(np.int32).astype(np.int64)
    return np.where(tag < 0, -1, tag % TAGS)


def message_keys(trace: Trace, rows: Ints, lattice: Lattice | None = None) -> tuple[Ints, ...]:
    """int64[len(rows)] each: source, destination, tag and size of sends or receives.

    Parameters
    ----------
    lattice
        Of a trace of representatives, the translations: then the source is a representative, too.
    """
    sends = trace.kind[rows] == NodeType.COMM_SEND
    source_rank, peer = trace.rank[rows], trace.peer[rows]
    if lattice is not None:
        source_rank = lattice.representatives[source_rank]
    source, destination = np.where(sends, source_rank, peer), np.where(sends, peer, source_rank)
    if lattice is not None:
        source, destination = lattice.canonical(source, destination)
    return source, destination, stated_tags(trace, rows), trace.size_bytes[rows]


def queue_messages(trace: Trace, issue: IssueOrder, among: Bools | None = None, lattice: Lattice | None = None) -> MessageQueues:
    """The queues of the messages of a trace that run.

    Parameters
    ----------
    among
        bool[num_nodes], the rows to look at; None for all.
    """
    chosen = issue.runs if among is None else issue.runs & among
    rows = issue.order[chosen[issue.order]]
    rows = rows[(trace.kind[rows] == NodeType.COMM_SEND) | (trace.kind[rows] == NodeType.COMM_RECV)]
    keys, number = row_places(*message_keys(trace, rows, lattice))
    sends = trace.kind[rows] == NodeType.COMM_SEND
    sides = (group_by(number[side], rows[side], len(keys)) for side in (sends, ~sends))
    (first_send, send), (first_receive, receive) = sides
    return MessageQueues(first_send, send, first_receive, receive)


def match_messages(trace: Trace, issue: IssueOrder, queues: MessageQueues) -> Messages:
    """Match the k-th send of each key with its k-th receive."""
    num_sends, num_receives = np.diff(queues.first_send), np.diff(queues.first_receive)
    ends = []
    for first, rows, number, other in (
        (queues.first_send, queues.send, num_sends, num_receives),
        (queues.first_receive, queues.receive, num_receives, num_sends),
    ):
        turn = np.arange(len(rows)) - np.repeat(first[:-1], number)
        ends.append(rows[turn < np.repeat(np.minimum(number, other), number)])
    key, send, next_one = queues.neighbours()
    free = np.flatnonzero(~precede(trace, issue.place, issue.order, send, next_one))
    chained = np.ones(queues.num_keys, np.bool_)
    chained[key[free]] = False
    certain = np.repeat(chained, np.minimum(num_sends, num_receives))
    return Messages(ends[0], ends[1], certain, (send[free], next_one[free]))


def awaited_sends(trace: Trace, issue: IssueOrder, queues: MessageQueues) -> tuple[Ints, Ints]:
    """Rows of receives that end no earlier than the message of some send arrives, in whatever order they are issued, and of it.

    Of n sends of one key, one before a chain of m others is the (n - m)-th to be issued at the latest. A receive behind a chain
    of k others is the (k + 1)-th at the earliest. So the send that it meets is issued no earlier than any that is the (k + 1)-th
    or an earlier one at the latest; the last of those counts.
    """
    from astra_tacos.run.graph import _order_kernels as kernels

    def chains(first: Ints, rows: Ints) -> tuple[Ints, Ints]:
        before, after = kernels.chains(issue.order, issue.place, trace.dep_first, trace.dep, first, rows)
        return before, after

    num_keys, count = queues.num_keys, np.diff(queues.first_send)
    _, after = chains(queues.first_send, queues.send)
    before, _ = chains(queues.first_receive, queues.receive)
    latest = np.repeat(count, count) - 1 - after
    wide = trace.num_nodes + 1
    due = np.repeat(np.arange(num_keys), count) * wide + latest
    by_turn = np.argsort(due, kind="stable")
    key = np.repeat(np.arange(num_keys), np.diff(queues.first_receive))
    at = np.searchsorted(due[by_turn], key * wide + before, side="right") - 1
    certain = np.flatnonzero(at >= queues.first_send[key])
    return queues.receive[certain], queues.send[by_turn[at[certain]]]
