"""Point-to-point messages: each send has its receive, of the same size and tag."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

import numpy as np

from astra_tacos.run.patterns import TAGS
from astra_tacos.run.system import INT32_MAX
from astra_tacos.run.trace.node_bytes import new_node
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.grouping import row_places
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode


@mend("message-pairs", "A01", "A07", "A08", "A09", "A10", "M01", "M02", "M03", "M04", "M05")
def pair_messages(draft: Draft, log: Log) -> None:
    """Pair sends and receives: own ranks, peers, sizes and tags; receives that nothing sends to are removed.

    A message goes with the first one of the other side that agrees on peers, tag and size, then on peers and tag, on peers and
    size, or on peers alone where as many are left on both sides; the send's size and tag count. A message of a rank to itself, of
    0 bytes, or with a rank that does not exist moves nothing and is removed. A send that nobody receives gets a receive.
    """
    if not any(True for _ in draft.messages()):
        return
    if not _are_paired(draft):
        _pair_all(draft, log)
    if draft.found("M05"):
        _separate(draft, log)


def _are_paired(draft: Draft) -> bool:
    """Whether columns say that each send has its receive, so that there is nothing to do."""
    stated = [nodes.stated_messages() for nodes in draft.ranks]
    columns = [messages for messages in stated if messages is not None]
    if len(columns) < len(stated):
        return False
    rank = np.repeat(np.arange(len(columns)), [len(messages.own) for messages in columns])
    is_send, sender, peer, tag, size = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    if ((sender != rank) | (peer == rank) | (peer >= draft.num_ranks) | (size == 0) | (tag > INT32_MAX)).any():
        return False
    keys = np.where(is_send, sender, peer), np.where(is_send, peer, sender), tag % TAGS, size
    which = row_places(*keys)[1]
    sends, receives = (np.bincount(which[chosen], minlength=len(which)) for chosen in (is_send, ~is_send))
    return bool((sends == receives).all())


def _pair_all(draft: Draft, log: Log) -> None:
    for node in draft.messages():
        key = "comm_src" if node.kind == NodeType.COMM_SEND else "comm_dst"
        if node.number(key) not in (None, node.rank):
            log.set(node, key, node.rank, "the node is in this rank's file")
    _find_peers(draft, log)
    reasons = ((node, _why_idle(draft, node)) for node in draft.messages())
    draft.remove(log, ((node, NodeType(node.kind).name, reason) for node, reason in reasons if reason))
    sends, receives = _by_pair(draft, NodeType.COMM_SEND), _by_pair(draft, NodeType.COMM_RECV)
    for pair in sorted(sends.keys() | receives.keys()):
        _pair(draft, log, pair, sends.get(pair, []), receives.get(pair, []))


def _peer_name(node: DraftNode) -> str:
    return "comm_dst" if node.kind == NodeType.COMM_SEND else "comm_src"


def _find_peers(draft: Draft, log: Log) -> None:
    """Peers that a message does not state: the one rank that has an open message of its size and tag for this rank."""
    for node in draft.messages():
        if node.number(_peer_name(node)) is not None:
            continue
        candidates = {
            there.rank
            for there in draft.messages()
            if there.kind != node.kind
            and there.number(_peer_name(there)) == node.rank
            and (there.number("comm_tag"), there.size) == (node.number("comm_tag"), node.size)
        }
        if len(candidates) != 1:
            why = f"{len(candidates)} ranks have messages like it: which one it belongs to is not known"
            raise draft.fault(node, f"a message without {_peer_name(node)}, and {why}")
        peer = candidates.pop()
        log.add(f"{_peer_name(node)} became {peer}", f"only rank {peer} has a message of its size and tag", node)
        node.set(_peer_name(node), peer)


def _why_idle(draft: Draft, node: DraftNode) -> str | None:
    peer = node.number(_peer_name(node)) or 0
    if peer == node.rank:
        return "a rank needs no network to send to itself"
    if not 0 <= peer < draft.num_ranks:
        return f"rank {peer} does not exist"
    return "it has 0 bytes: nothing moves" if node.size == 0 else None


def _by_pair(draft: Draft, kind: NodeType) -> dict[tuple[int, int], list[DraftNode]]:
    """Messages by source and destination, in the order of their rank."""
    messages_of: dict[tuple[int, int], list[DraftNode]] = {}
    for rank, nodes in enumerate(draft.ranks):
        if not nodes.of_kind(kind):
            continue
        for node in nodes.issued():
            if node.kind == kind:
                peer = node.number(_peer_name(node)) or 0
                pair = (rank, peer) if kind == NodeType.COMM_SEND else (peer, rank)
                messages_of.setdefault(pair, []).append(node)
    return messages_of


def _size(node: DraftNode) -> int | None:
    return node.size if node.size and node.size > 0 else None


def _tag(node: DraftNode) -> int | None:
    tag = node.number("comm_tag")
    return tag % TAGS if tag is not None and 0 <= tag < 1 << 31 else None


_AGREEMENTS: tuple[Callable[[DraftNode], tuple[Hashable, ...]], ...] = (
    lambda node: (_tag(node), _size(node)),
    lambda node: (_tag(node),),
    lambda node: (_size(node),),
)


def _pair(draft: Draft, log: Log, pair: tuple[int, int], sends: list[DraftNode], receives: list[DraftNode]) -> None:
    pairs: list[tuple[DraftNode, DraftNode]] = []
    for key in _AGREEMENTS:
        waiting: dict[tuple[Hashable, ...], deque[DraftNode]] = {}
        for receive in receives:
            waiting.setdefault(key(receive), deque()).append(receive)
        left: list[DraftNode] = []
        met: set[DraftNode] = set()
        for send in sends:
            matches = waiting.get(key(send))
            if matches and None not in key(send):
                pairs.append((send, matches.popleft()))
                met.add(pairs[-1][1])
            else:
                left.append(send)
        sends, receives = left, [receive for receive in receives if receive not in met]
    if len(sends) == len(receives):
        pairs += zip(sends, receives, strict=True)
        sends, receives = [], []
    tags = {_tag(send) for send, _ in pairs}
    for send, receive in pairs:
        _agree(draft, log, send, receive, tags)
    why = f"rank {pair[0]} sends nothing like it: it would wait for ever"
    draft.remove(log, [(node, "COMM_RECV", why) for node in receives])
    for node in sends:
        _receive(draft, log, node, pair[1], tags)


def _agree(draft: Draft, log: Log, sent: DraftNode, received: DraftNode, tags: set[int | None]) -> None:
    """Give both sides the send's size and tag; the receive's where the send has none."""
    size = _size(sent) or _size(received) or sent.tensor_bytes() or received.tensor_bytes()
    if not size:
        raise draft.fault(sent, "a message without a size, and its receive has none either")
    tag = _tag(sent) if _tag(sent) is not None else _tag(received)
    if tag is None:
        tag = _free_tag(tags)
    for node, there in ((sent, received), (received, sent)):
        whose = f"of the message with rank {there.rank}, node {there.id}"
        if node.size != size:
            log.set(node, "comm_size", size, f"the size {whose}")
        if _tag(node) != tag:
            log.set(node, "comm_tag", tag, f"the tag {whose}")


def _free_tag(tags: set[int | None]) -> int:
    """The lowest tag that is not taken, which then is."""
    tag = next(number for number in range(len(tags) + 1) if number not in tags)
    tags.add(tag)
    return tag


def _receive(draft: Draft, log: Log, node: DraftNode, peer: int, tags: set[int | None]) -> None:
    if _size(node) is None:
        raise draft.fault(node, f"a message without a size, and rank {peer} receives nothing like it")
    if _tag(node) is None:
        log.set(node, "comm_tag", _free_tag(tags), "tags go from 0 to 499,999,999")
    message = new_node(
        draft.new_id(peer),
        f"receive of {node.name}",
        NodeType.COMM_RECV,
        is_cpu_op=False,
        comm_size=node.size,
        comm_src=node.rank,
        comm_tag=node.number("comm_tag"),
    )
    receive = DraftNode(message)
    draft.ranks[peer].append(receive)
    log.add("COMM_RECV added", f"rank {node.rank}, node {node.id} sends it, and nothing receives it", receive)


def _separate(draft: Draft, log: Log) -> None:
    """Tags of their own for messages that have the same tag, peers and size."""
    sends, receives = _by_pair(draft, NodeType.COMM_SEND), _by_pair(draft, NodeType.COMM_RECV)
    for pair, sent in sends.items():
        seen: set[tuple[Hashable, ...]] = set()
        tags = set(map(_tag, sent))
        waiting: dict[tuple[Hashable, ...], deque[DraftNode]] = {}
        for message in receives.get(pair, []):
            waiting.setdefault(_AGREEMENTS[0](message), deque()).append(message)
        for node in sent:
            key = _AGREEMENTS[0](node)
            received = waiting[key].popleft()
            if key not in seen:
                seen.add(key)
                continue
            tag = _free_tag(tags)
            for member in (node, received):
                log.set(member, "comm_tag", tag, "another message has the same tag, peers and size, and no order")
