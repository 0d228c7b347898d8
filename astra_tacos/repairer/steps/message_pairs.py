"""Point-to-point messages: each send has its receive, of the same size and tag."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.rank_order import issue_order
from astra_tacos.repairer.step import Step
from astra_tacos.run.tags import TAGS
from astra_tacos.trace.schema import NodeType

_Message = tuple[int, DraftNode]


def pair_messages(draft: Draft, log: Log) -> None:
    """Pair sends and receives: own ranks, peers, sizes and tags; receives that nothing sends to are removed.

    A message goes with the first one of the other side that agrees on peers, tag and size, then on peers and tag, on peers and
    size, or on peers alone where as many are left on both sides; the send's size and tag count. A message of a rank to itself, of
    0 bytes, or with a rank that does not exist moves nothing and is removed. A send that nobody receives gets a receive.
    """
    if not any(True for _ in draft.messages()):
        return
    for rank, node in draft.messages():
        _mend_own(log, rank, node)
    _find_peers(draft, log)
    _remove_idle(draft, log)
    sends, receives = _by_pair(draft, NodeType.COMM_SEND), _by_pair(draft, NodeType.COMM_RECV)
    for pair in sorted(sends.keys() | receives.keys()):
        _pair(draft, log, pair, sends.get(pair, []), receives.get(pair, []))
    if draft.found("M05"):
        _separate(draft, log)


def _mend_own(log: Log, rank: int, node: DraftNode) -> None:
    own = "comm_src" if node.kind == NodeType.COMM_SEND else "comm_dst"
    given = node.number(own)
    if given is not None and given != rank:
        log.add(f"{own} {given} became {rank}", "the node is in this rank's file", rank, node.id)
        node.set(own, rank)


def _peer_name(node: DraftNode) -> str:
    return "comm_dst" if node.kind == NodeType.COMM_SEND else "comm_src"


def _find_peers(draft: Draft, log: Log) -> None:
    """Peers that a message does not state: the one rank that has an open message of its size and tag for this rank."""
    for rank, node in draft.messages():
        if node.number(_peer_name(node)) is not None:
            continue
        candidates = {
            other
            for other, there in draft.messages()
            if there.kind != node.kind
            and there.number(_peer_name(there)) == rank
            and (there.number("comm_tag"), there.number("comm_size")) == (node.number("comm_tag"), node.number("comm_size"))
        }
        if len(candidates) != 1:
            raise ConfigError(
                f"{draft.name}.{rank}.et node {node.id}: a message without {_peer_name(node)}, and {len(candidates)} ranks have "
                "messages like it: which one it belongs to is not known"
            )
        peer = candidates.pop()
        log.add(f"{_peer_name(node)} became {peer}", f"only rank {peer} has a message of its size and tag", rank, node.id)
        node.set(_peer_name(node), peer)


def _remove_idle(draft: Draft, log: Log) -> None:
    for rank, nodes in enumerate(draft.ranks):
        gone = []
        for node in nodes.of_kind(NodeType.COMM_SEND, NodeType.COMM_RECV):
            peer = node.number(_peer_name(node)) or 0
            if peer == rank:
                reason = "a rank needs no network to send to itself"
            elif not 0 <= peer < draft.num_ranks:
                reason = f"rank {peer} does not exist"
            elif node.number("comm_size") == 0:
                reason = "it has 0 bytes: nothing moves"
            else:
                continue
            log.add(f"removed {NodeType(node.kind).name}", reason, rank, node.id)
            gone.append(node)
        draft.bypass(rank, gone)


def _by_pair(draft: Draft, kind: NodeType) -> dict[tuple[int, int], list[_Message]]:
    """Messages by source and destination, in the order of their rank."""
    found: dict[tuple[int, int], list[_Message]] = {}
    for rank, nodes in enumerate(draft.ranks):
        if not nodes.of_kind(kind):
            continue
        for node in issue_order(nodes):
            if node.kind == kind:
                peer = node.number(_peer_name(node)) or 0
                pair = (rank, peer) if kind == NodeType.COMM_SEND else (peer, rank)
                found.setdefault(pair, []).append((rank, node))
    return found


def _size(node: DraftNode) -> int | None:
    size = node.number("comm_size")
    return size if size is not None and size > 0 else None


def _tag(node: DraftNode) -> int | None:
    tag = node.number("comm_tag")
    return tag % TAGS if tag is not None and 0 <= tag < 1 << 31 else None


_AGREEMENTS: tuple[Callable[[DraftNode], tuple[Hashable, ...]], ...] = (
    lambda node: (_tag(node), _size(node)),
    lambda node: (_tag(node),),
    lambda node: (_size(node),),
)


def _pair(draft: Draft, log: Log, pair: tuple[int, int], sends: list[_Message], receives: list[_Message]) -> None:
    pairs: list[tuple[_Message, _Message]] = []
    for key in _AGREEMENTS:
        waiting: dict[tuple[Hashable, ...], list[_Message]] = {}
        for receive in receives:
            waiting.setdefault(key(receive[1]), []).append(receive)
        for send in list(sends):
            found = waiting.get(key(send[1]))
            if found and None not in key(send[1]):
                pairs.append((send, found.pop(0)))
                sends.remove(send)
                receives.remove(pairs[-1][1])
    if len(sends) == len(receives):
        pairs += zip(sends, receives, strict=True)
        sends, receives = [], []
    taken = {_tag(node) for (_, node), _ in pairs}
    for send, receive in pairs:
        _agree(draft, log, send, receive, taken)
    for rank, node in receives:
        log.add("removed COMM_RECV", f"rank {pair[0]} sends nothing like it: it would wait for ever", rank, node.id)
        draft.bypass(rank, [node])
    for rank, node in sends:
        _receive(draft, log, rank, node, pair[1], taken)


def _agree(draft: Draft, log: Log, send: _Message, receive: _Message, taken: set[int | None]) -> None:
    """Give both sides the send's size and tag; the receive's where the send has none."""
    (src, sent), (dst, received) = send, receive
    size = _size(sent) or _size(received) or sent.tensor_bytes() or received.tensor_bytes()
    if not size:
        raise ConfigError(f"{draft.name}.{src}.et node {sent.id}: a message without a size, and its receive has none either")
    tag = _tag(sent) if _tag(sent) is not None else _tag(received)
    if tag is None:
        tag = next(number for number in range(len(taken) + 1) if number not in taken)
        taken.add(tag)
    for rank, node, other, there in ((src, sent, dst, received), (dst, received, src, sent)):
        if node.number("comm_size") != size:
            what = f"comm_size {node.number('comm_size')} became {size}"
            log.add(what, f"the size of the message with rank {other}, node {there.id}", rank, node.id)
            node.set("comm_size", size)
        if _tag(node) != tag:
            what = f"comm_tag {node.number('comm_tag')} became {tag}"
            log.add(what, f"the tag of the message with rank {other}, node {there.id}", rank, node.id)
            node.set("comm_tag", tag)


def _receive(draft: Draft, log: Log, rank: int, node: DraftNode, peer: int, taken: set[int | None]) -> None:
    if _size(node) is None:
        raise ConfigError(
            f"{draft.name}.{rank}.et node {node.id}: a message without a size, and rank {peer} receives nothing like it"
        )
    if _tag(node) is None:
        tag = next(number for number in range(len(taken) + 1) if number not in taken)
        taken.add(tag)
        log.add(f"comm_tag {node.number('comm_tag')} became {tag}", "tags go from 0 to 499,999,999", rank, node.id)
        node.set("comm_tag", tag)
    receive = DraftNode.make(
        draft.new_id(peer),
        f"receive of {node.name}",
        NodeType.COMM_RECV,
        is_cpu_op=False,
        comm_size=node.number("comm_size"),
        comm_src=rank,
        comm_tag=node.number("comm_tag"),
    )
    draft.ranks[peer].append(receive)
    log.add("COMM_RECV added", f"rank {rank}, node {node.id} sends it, and nothing receives it", peer, receive.id)


def _separate(draft: Draft, log: Log) -> None:
    """Tags of their own for messages that have the same tag, peers and size."""
    sends, receives = _by_pair(draft, NodeType.COMM_SEND), _by_pair(draft, NodeType.COMM_RECV)
    for pair, sent in sends.items():
        seen: set[tuple[Hashable, ...]] = set()
        taken = {_tag(node) for _, node in sent}
        rest = list(receives.get(pair, []))
        for rank, node in sent:
            key = _AGREEMENTS[0](node)
            there, received = next(message for message in rest if _AGREEMENTS[0](message[1]) == key)
            rest.remove((there, received))
            if key not in seen:
                seen.add(key)
                continue
            tag = next(number for number in range(len(taken) + 1) if number not in taken)
            taken.add(tag)
            for place, one in ((rank, node), (there, received)):
                what = f"comm_tag {one.number('comm_tag')} became {tag}"
                log.add(what, "another message has the same tag, peers and size, and no order", place, one.id)
                one.set("comm_tag", tag)


STEP = Step("message-pairs", ("A01", "A07", "A08", "A09", "A10", "M01", "M02", "M03", "M04", "M05"), pair_messages)
