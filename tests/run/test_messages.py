"""The matching of messages: what it calls certain holds in whatever order ranks issue their nodes."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from astra_tacos.run.graph.issue_order import find_issue_order
from astra_tacos.run.graph.messages import awaited_sends, match_messages, queue_messages
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace

SEND, RECV, COMP = NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP


def trace_of(ranks):
    """Of two ranks; a node is its kind, the nodes of the rank that it waits for, and its tag. All messages have 8 bytes."""
    first = np.cumsum([0, *map(len, ranks)])
    nodes = [(rank, *node) for rank, listed in enumerate(ranks) for node in listed]
    deps = [[int(first[rank]) + dep for dep in waits] for rank, _, waits, _ in nodes]
    size = np.full(len(nodes), 8)
    peer = np.array([1 - rank for rank, *_ in nodes])
    ids = np.concatenate([np.arange(len(listed), dtype=np.uint64) for listed in ranks])
    kind, tag = np.array([node[1] for node in nodes], np.uint8), np.array([node[3] for node in nodes])
    dep_first = np.cumsum([0, *map(len, deps)])
    return Trace("w", first, ids, kind, size, size, peer, tag, dep_first, np.array([d for each in deps for d in each], np.int64))


def orders(trace, rank):
    """All orders in which a rank may issue its nodes."""
    rows = range(trace.rank_first[rank], trace.rank_first[rank + 1])
    deps = {row: set(trace.dep[trace.dep_first[row] : trace.dep_first[row + 1]].tolist()) for row in rows}
    return [order for order in permutations(rows) if all(deps[row] <= set(order[:at]) for at, row in enumerate(order))]


def met(trace, order):
    """The receive of each send, first in, first out."""
    sent, got = {}, {}
    for row in order:
        rank, peer, tag = int(trace.rank[row]), int(trace.peer[row]), int(trace.tag[row])
        if trace.kind[row] == SEND:
            sent.setdefault((rank, peer, tag), []).append(row)
        elif trace.kind[row] == RECV:
            got.setdefault((peer, rank, tag), []).append(row)
    return {send: receive for key in sent for send, receive in zip(sent[key], got.get(key, []), strict=False)}


def drawn(source):
    ranks = []
    for rank in (0, 1):
        kinds = [(SEND, RECV)[rank]] * source.randint(1, 3) + [(RECV, SEND)[rank]] * source.randint(0, 1)
        kinds += [COMP] * source.randint(0, 1)
        source.shuffle(kinds)
        dense = source.choice((0.2, 0.8))
        ranks.append(
            [(kind, [i for i in range(at) if source.random() < dense], source.randint(0, 1)) for at, kind in enumerate(kinds)]
        )
    return trace_of(ranks)


@pytest.mark.parametrize("seed", range(60))
def test_certain_messages_meet_in_every_order_of_issue(seed):
    trace = drawn(Random(seed))
    issue = find_issue_order(trace)
    queues = queue_messages(trace, issue)
    messages = match_messages(trace, issue, queues)
    pairs = dict(zip(messages.send.tolist(), messages.receive.tolist(), strict=True))
    certain = {send for send, sure in zip(messages.send.tolist(), messages.certain.tolist(), strict=True) if sure}
    assert pairs == met(trace, issue.order.tolist())
    receives, sends = (rows.tolist() for rows in awaited_sends(trace, issue, queues))
    for one, other in product(orders(trace, 0), orders(trace, 1)):
        found = met(trace, (*one, *other))
        assert all(found[send] == pairs[send] for send in certain)
        place = {row: at for order in (one, other) for at, row in enumerate(order)}
        source_of = {receive: send for send, receive in found.items()}
        for receive, send in zip(receives, sends, strict=True):
            assert receive not in source_of or place[source_of[receive]] >= place[send]


def test_what_is_alone_or_in_chains_is_certain():
    chain = [(SEND, [], 0), (SEND, [0], 0)]
    got = [(RECV, [], 0), (RECV, [0], 0)]

    def certain(*ranks):
        trace = trace_of(ranks)
        issue = find_issue_order(trace)
        return match_messages(trace, issue, queue_messages(trace, issue)).certain.tolist()

    assert certain([(SEND, [], 0)], [(RECV, [], 0)]) == [True]
    assert certain(chain, got) == [True, True]
    assert certain(chain, [(RECV, [], 0), (RECV, [], 0)]) == [False, False]
    assert certain(chain, [(RECV, [], 0)]) == [True]
    assert certain([(SEND, [], 0), (SEND, [], 0)], [(RECV, [], 0)]) == [False]
    assert certain([(SEND, [], 0), (SEND, [], 1)], [(RECV, [], 1), (RECV, [], 0)]) == [True, True]
