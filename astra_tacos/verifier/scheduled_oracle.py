"""Whether a run whose nodes were made of those of another does what that run did.

This judge reads the files of both runs, and matches messages and collectives by itself. An attribute of each node says what the
node was made of. Every compute node and message is there once, or in parts whose work adds up to it. Every byte of every
collective is in one collective of the same pattern and group, or, of an All-Reduce, in one Reduce-Scatter and in one All-Gather
behind it. Members of a group have the same collectives in the same order. Whatever waited for something still waits for all of
it, where both are cut into parts for the same share of it. Control dependencies between two nodes of communication only fix an
order, and may be gone; those between two compute nodes only where nothing but collectives waits for the data of one of them, or
one other such node alone. `Rewriting` counts what is no longer as it was.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import Any

from astra_tacos.run.groups import group_ids
from astra_tacos.run.patterns import ORIGIN_ATTRIBUTE, TAGS, pattern_name
from astra_tacos.run.run import Run
from astra_tacos.run.trace.node_bytes import attribute, load_rank, read_messages
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.verifier.run_collectives import collective_nodes
from astra_tacos.verifier.violation import Violation

_WHOLE = re.compile(r"([0-9]+)")
_PART = re.compile(r"([0-9]+):([0-9]+)/([0-9]+)")
_BYTES = re.compile(r"([0-9]+)\[([0-9]+):([0-9]+)\]")
_NETWORK = (NodeType.COMM_COLL, NodeType.COMM_SEND)
_ENDS = ("comm_src", "comm_dst")
_MESSAGES = (NodeType.COMM_SEND, NodeType.COMM_RECV)
_WORK = ("num_ops", "tensor_size")
_GONE = "only fixed an order and {is} gone"
_HALVES = {int(CommType.REDUCE_SCATTER), int(CommType.ALL_GATHER)}
_BY_SHARE = (
    (NodeType.COMP, NodeType.COMM_COLL),
    (NodeType.COMM_COLL, NodeType.COMP),
    (NodeType.COMP, NodeType.COMM_SEND),
    (NodeType.COMM_COLL, NodeType.COMM_SEND),
    (NodeType.COMM_RECV, NodeType.COMP),
)
"""What is waited for and what waits: where both are cut, shares may wait for shares."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How much of a run is not as it was, though the run does what it did.

    Parameters
    ----------
    nodes_cut
        Nodes of the run before that are there in parts.
    collectives_merged
        Collective nodes that carry bytes of several ones before.
    all_reduces_halved
        All-Reduce nodes that have become a Reduce-Scatter and an All-Gather.
    communication_orders_gone, compute_orders_gone
        Control dependencies between two nodes of communication, and between two compute nodes, that nothing keeps.
    collectives_padded
        Collective nodes of more bytes than they carry, as all members have shares of one size.
    waits_within_padding
        Waits of one part for another that are gone, as the two have only such spare bytes in common.
    """

    nodes_cut: int = 0
    collectives_merged: int = 0
    all_reduces_halved: int = 0
    communication_orders_gone: int = 0
    compute_orders_gone: int = 0
    collectives_padded: int = 0
    waits_within_padding: int = 0

    def to_json(self) -> dict[str, int]:
        """All counts."""
        return asdict(self)

    def lines(self) -> tuple[str, ...]:
        """The counts that are not 0, in words."""
        texts = (
            (self.nodes_cut, "node{s} cut into parts that add up to {it}"),
            (self.collectives_merged, "collective node{s} made of several"),
            (self.all_reduces_halved, "All-Reduce node{s} made a Reduce-Scatter and an All-Gather"),
            (
                self.communication_orders_gone,
                f"control dependenc{{y}} between nodes of communication {_GONE}",
            ),
            (self.compute_orders_gone, f"control dependenc{{y}} between compute nodes {_GONE}"),
            (self.collectives_padded, "collective node{s} with spare bytes, so that all members have equal shares"),
            (self.waits_within_padding, "wait{s} between parts that share only spare bytes {is} gone"),
        )
        singular = {"s": "", "it": "it", "y": "y", "is": "is"}
        many = {"s": "s", "it": "them", "y": "ies", "is": "are"}
        return tuple(f"{count:,} {text.format(**(singular if count == 1 else many))}" for count, text in texts if count)


@dataclass(frozen=True, slots=True)
class _Collective:
    """What a collective node has to do; `ranks` are those of its own group, `run_as` is what it meets others by."""

    pattern: int
    size_bytes: int
    root: int
    ranks: tuple[int, ...]
    group: int
    run_as: tuple[int, int]


_Collectives = dict[int, _Collective]
"""By the id of the node."""


@dataclass(slots=True)
class _Piece:
    """What of an old node a new node is: a share of it, in which form."""

    node: Any
    begin: Fraction
    end: Fraction
    is_last: bool = True


@dataclass(slots=True)
class _Rank:
    """A rank before and after.

    Parameters
    ----------
    new
        The nodes after, each behind all that it waits for.
    old_collectives, new_collectives
        Collectives before and after.
    place_of
        The rank after by the number of the rank before.
    pieces
        By the id of an old node, the new ones that it became.
    at, above
        By the id of a new node, its place in `new`, and the set of the places before it, as bits.
    gradients
        Old compute nodes for whose data nothing but collectives waits, or one other such node alone.
    counts
        The fields of `Rewriting`.
    """

    old: dict[int, Any]
    new: list[Any]
    old_collectives: _Collectives
    new_collectives: _Collectives
    place_of: list[int]
    gradients: set[int]
    pieces: dict[int, list[_Piece]] = field(default_factory=dict)
    at: dict[int, int] = field(default_factory=dict)
    above: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def num_ranks(self) -> int:
        return len(self.place_of)

    def waits(self, late: Any, early: Any) -> bool:
        """Whether a new node starts after another one."""
        return bool(self.above[late.id] >> self.at[early.id] & 1)


@dataclass(frozen=True, slots=True)
class _Listed:
    """What ranks have to agree on: messages and collectives of one rank, in order.

    Parameters
    ----------
    old, new
        Messages before and after.
    shares
        By the id of a message after, of which message it is which share.
    collectives
        Of each group, and whatever its nodes meet by: what each node is, and what of the run before it carries.
    """

    old: list[_Message]
    new: list[_Message]
    shares: dict[int, tuple[int, Fraction, Fraction]]
    collectives: dict[tuple[Any, ...], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class _Message:
    """A send or receive: its node, and its tag, ends and size."""

    node: int
    is_send: bool
    key: tuple[int, ...]


def has_other_origins(before: Run, after: Run) -> bool:
    """Whether nodes of the run after say what they were made of, and did not say just that in the run before."""
    for rank in range(after.workload.num_ranks):
        if ORIGIN_ATTRIBUTE.encode() not in load_rank(after.workload, rank):
            continue
        old, new = (read_messages(run.workload.file(rank))[1] for run in (before, after))
        if [attribute(node, ORIGIN_ATTRIBUTE) for node in old] != [attribute(node, ORIGIN_ATTRIBUTE) for node in new]:
            return True
    return False


def judge_scheduled(before: Run, after: Run, moved: Ints) -> tuple[list[Violation], Rewriting]:
    """What is wrong with a run whose nodes say what they were made of, and how much is not as it was.

    Parameters
    ----------
    before, after
        Runs of equally many ranks.
    moved
        int64[num_ranks], where the ranks are that nodes of the run before name as peers and roots.
    """
    old_collectives, new_collectives = _collectives(before, moved), _collectives(after, None)
    place_of = moved.tolist()
    instances = _instances(before, old_collectives, place_of)
    counts: Counter[str] = Counter()
    violations: list[Violation] = []
    listed: list[_Listed] = []
    for number in range(before.workload.num_ranks):
        old, new = (read_messages(run.workload.file(number))[1] for run in (before, after))
        in_file = {node.id: place for place, node in enumerate(new)}
        rank = _Rank(
            {node.id: node for node in old},
            _issued(new, in_file.__getitem__),
            old_collectives[number],
            new_collectives[number],
            place_of,
            _gradients(old),
        )
        problems = [*_whole(rank, new), *_origins(rank), *_work(rank), *_bytes(rank)]
        problems += () if problems else _order(rank)
        problems += () if problems else _unordered(rank)
        violations += (Violation(code, f"rank {number}: {text}", npu=number) for code, text in problems)
        counts += rank.counts
        if not violations:
            listed.append(_list(rank, number, old, instances[number]))
    if not violations:
        violations += [*_agreement(listed), *_deliveries(listed)]
    return violations, Rewriting(**counts)


_Problem = tuple[str, str]
"""The code of a violation, and what is wrong, in words."""


def _collectives(run: Run, moved: Ints | None) -> list[_Collectives]:
    """The collectives of each rank."""
    trace, nodes = run.workload, collective_nodes(run, moved)
    collectives_of_rank: list[_Collectives] = [{} for _ in range(trace.num_ranks)]
    rows = (trace.rank[nodes.row], trace.node_id[nodes.row], run.implementation[nodes.row], group_ids(run.columns)[nodes.row])
    columns = (column.tolist() for column in (*rows, nodes.pattern, nodes.size_bytes, nodes.root, nodes.group))
    for rank, node, implementation, named, pattern, size, root, group in zip(*columns, strict=True):
        ranks = nodes.members.get(group, ())
        collectives_of_rank[rank][node] = _Collective(pattern, size, root, ranks, group, (implementation, named))
    return collectives_of_rank


def _issued(nodes: list[Any], key: Callable[[int], int] = int) -> list[Any]:
    """Nodes in an order in which a rank can issue them: of those that are ready, the one whose id has the lowest key first."""
    known = {node.id: node for node in nodes}
    waits = {node.id: {dep for dep in (*node.data_deps, *node.ctrl_deps) if dep in known} for node in nodes}
    later: dict[int, list[int]] = defaultdict(list)
    for number, deps in waits.items():
        for dep in deps:
            later[dep].append(number)
    left = {number: len(deps) for number, deps in waits.items()}
    ready = [(key(number), number) for number, count in left.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(known[number])
        for other in later[number]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (key(other), other))
    return order


def _instances(before: Run, collectives_of_rank: list[_Collectives], place_of: list[int]) -> list[dict[int, Any]]:
    """For each rank, by the id of its node, the collective that the node is part of: the same object on all ranks.

    The k-th nodes of one group, pattern, size and root are one collective; those of one name where all ranks have the same
    distinct names, unless ranks would then wait for each other in a cycle.
    """
    by_turn: list[dict[int, Any]] = [{} for _ in collectives_of_rank]
    names: dict[Any, dict[int, list[str]]] = defaultdict(dict)
    ranks = []
    for rank, collectives in enumerate(collectives_of_rank):
        nodes = _issued(read_messages(before.workload.file(rank))[1])
        ranks.append(nodes)
        for node in nodes:
            if node.id in collectives:
                collective = collectives[node.id]
                kind = collective.group, collective.pattern, collective.size_bytes, collective.root
                listed = names[kind].setdefault(rank, [])
                by_turn[rank][node.id] = (kind, len(listed))
                listed.append(node.name)
    named = {
        kind
        for kind, of_rank in names.items()
        if len({tuple(sorted(listed)) for listed in of_rank.values()}) == 1
        and all(len(set(listed)) == len(listed) for listed in of_rank.values())
        and len({tuple(listed) for listed in of_rank.values()}) > 1
    }
    if not named:
        return by_turn
    by_name = [
        {node: (kind, names[kind][rank][turn]) if kind in named else (kind, turn) for node, (kind, turn) in collectives.items()}
        for rank, collectives in enumerate(by_turn)
    ]
    return by_turn if _has_cycle(ranks, by_name, place_of) else by_name


def _has_cycle(ranks: list[list[Any]], instances: list[dict[int, Any]], place_of: list[int]) -> bool:
    """Whether ranks wait for each other in a cycle, if nodes of one collective run at once."""

    def vertex(rank: int, node: int) -> Any:
        return instances[rank].get(node, (rank, node))

    graph: TopologicalSorter[Any] = TopologicalSorter()
    messages = []
    for rank, nodes in enumerate(ranks):
        known = {node.id for node in nodes}
        for node in nodes:
            deps = known.intersection((*node.data_deps, *node.ctrl_deps))
            graph.add(vertex(rank, node.id), *(vertex(rank, dep) for dep in deps))
        messages.append(_messages(rank, nodes, place_of))
    for (sender, node), (receiver, other) in _matched(messages).items():
        graph.add(vertex(receiver, other), vertex(sender, node))
    try:
        graph.prepare()
    except CycleError:
        return True
    return False


def _gradients(nodes: list[Any]) -> set[int]:
    kind = {node.id: node.type for node in nodes}
    readers: dict[int, list[int]] = {}
    for node in nodes:
        for dep in node.data_deps:
            readers.setdefault(dep, []).append(node.id)
    gradients: set[int] = set()
    while True:
        more = {
            number
            for number, users in readers.items()
            if kind.get(number) == NodeType.COMP
            and (all(kind[user] == NodeType.COMM_COLL for user in users) or (len(users) == 1 and users[0] in gradients))
        }
        if more == gradients:
            return gradients
        gradients = more


def _number(node: Any, name: str) -> int:
    """A whole number that a node has as an attribute; 0 without."""
    value = attribute(node, name)
    return value if isinstance(value, int) else 0


def _whole(rank: _Rank, nodes: list[Any]) -> Iterator[_Problem]:
    """All nodes can run."""
    known = {node.id for node in nodes}
    if len(known) < len(nodes):
        yield "nodes-changed", f"{len(nodes) - len(known)} nodes have ids of others"
    for node in nodes:
        for dep in {*node.data_deps, *node.ctrl_deps} - known:
            yield "dependency-lost", f"node {node.id} waits for node {dep}, which is not there"
    if len(rank.new) < len(known):
        yield "dependency-lost", f"{len(known) - len(rank.new)} nodes wait for one another in a cycle"


def _origins(rank: _Rank) -> Iterator[_Problem]:
    """Read where each new node comes from."""
    for node in rank.new:
        text = attribute(node, ORIGIN_ATTRIBUTE)
        if text is None:
            yield "nodes-added", f"node {node.id} does not say where it comes from"
            continue
        sources = str(text).split()
        rank.counts["collectives_merged"] += len({source.partition("[")[0] for source in sources}) > 1
        for source in sources:
            if match := _WHOLE.fullmatch(source):
                old, begin, end = int(match[1]), Fraction(0), Fraction(1)
            elif match := _PART.fullmatch(source):
                old, part, parts = int(match[1]), int(match[2]), int(match[3])
                begin, end = Fraction(part, max(parts, 1)), Fraction(part + 1, max(parts, 1))
            elif match := _BYTES.fullmatch(source):
                old = int(match[1])
                size = rank.old_collectives[old].size_bytes if old in rank.old_collectives else 1
                begin, end = Fraction(int(match[2]), max(size, 1)), Fraction(int(match[3]), max(size, 1))
            else:
                yield "nodes-changed", f"node {node.id} comes from {source[:40]!r}"
                continue
            if old not in rank.old or rank.old[old].type != node.type:
                yield "nodes-changed", f"node {node.id} comes from node {old}, which is not there or of another kind"
                continue
            rank.pieces.setdefault(old, []).append(_Piece(node, begin, end))
    for old in rank.old:
        if old not in rank.pieces:
            yield "nodes-changed", f"node {old} is gone"


def _covers_once(pieces: list[_Piece]) -> bool:
    at = Fraction(0)
    for piece in sorted(pieces, key=lambda piece: (piece.begin, piece.end)):
        if piece.begin != at or (piece.end <= piece.begin and piece.begin != 1):
            return False
        at = piece.end
    return at == 1


def _work(rank: _Rank) -> Iterator[_Problem]:
    """All nodes but collectives are there once."""
    for old, pieces in rank.pieces.items():
        node = rank.old[old]
        if node.type == NodeType.COMM_COLL and old in rank.old_collectives:
            continue
        rank.counts["nodes_cut"] += len(pieces) > 1
        if not _covers_once(pieces):
            yield "nodes-changed", f"node {old} is not there exactly once"
        elif node.type in _MESSAGES:
            ends = [_renumbered(attribute(node, name), rank.place_of) for name in _ENDS]
            same = all([attribute(piece.node, name) for name in _ENDS] == ends for piece in pieces)
            sizes = [_number(piece.node, "comm_size") for piece in pieces]
            if not same or sum(sizes) != _number(node, "comm_size") or (len(sizes) > 1 and min(sizes) < 1):
                yield "nodes-changed", f"message {old} is another one"
        else:
            if any(attribute(piece.node, "is_cpu_op") != attribute(node, "is_cpu_op") for piece in pieces):
                yield "nodes-changed", f"node {old} runs elsewhere"
            if sum(piece.node.duration_micros for piece in pieces) != node.duration_micros:
                yield "nodes-changed", f"the durations of the parts of node {old} do not add up"
            for name in _WORK:
                total = _number(node, name)
                if total > 0 and any(_number(piece.node, name) < 1 for piece in pieces):
                    yield "nodes-changed", f"a part of node {old} has no {name}: ASTRA-sim skips it"
                parts = [_number(piece.node, name) for piece in pieces]
                if sum(parts) != total and not (total < 0 and set(parts) == {total}):
                    yield "nodes-changed", f"{name} of the parts of node {old} does not add up"


def _renumbered(rank: Any, place_of: list[int]) -> Any:
    return place_of[rank] if isinstance(rank, int) and 0 <= rank < len(place_of) else rank


def _bytes(rank: _Rank) -> Iterator[_Problem]:
    """Every byte of a collective is in one of the same pattern, or in a Reduce-Scatter and in an All-Gather."""
    carried: Counter[int] = Counter()
    for old, pieces in rank.pieces.items():
        if old not in rank.old_collectives:
            continue
        old_collective = rank.old_collectives[old]
        by_pattern: dict[int, list[_Piece]] = defaultdict(list)
        for piece in pieces:
            if piece.node.id not in rank.new_collectives:
                yield "wrong-collective", f"node {piece.node.id} is no collective"
                return
            new_collective = rank.new_collectives[piece.node.id]
            by_pattern[new_collective.pattern].append(piece)
            carried[piece.node.id] += int((piece.end - piece.begin) * old_collective.size_bytes)
            if (new_collective.ranks, new_collective.root) != (old_collective.ranks, old_collective.root):
                yield "wrong-collective", f"collective {old} is in another group, or has another root"
        is_halved = set(by_pattern) == _HALVES != {old_collective.pattern}
        rank.counts["all_reduces_halved"] += is_halved
        rank.counts["nodes_cut"] += max(len(of_one) for of_one in by_pattern.values()) > 1
        if set(by_pattern) != {old_collective.pattern} and not (is_halved and old_collective.pattern == CommType.ALL_REDUCE):
            names = ", ".join(pattern_name(pattern) for pattern in by_pattern)
            yield "wrong-collective", f"collective {old} has become {names}"
        elif old_collective.size_bytes and not all(_covers_once(of_one) for of_one in by_pattern.values()):
            yield "wrong-collective", f"not every byte of collective {old} is carried exactly once"
        elif is_halved:
            for piece in by_pattern[int(CommType.REDUCE_SCATTER)]:
                piece.is_last = False
    for node in rank.new:
        if node.id not in carried:
            continue
        new_collective, held = rank.new_collectives[node.id], carried[node.id]
        size, count = new_collective.size_bytes, len(new_collective.ranks)
        fits = size == held
        if not fits and not str(attribute(node, ORIGIN_ATTRIBUTE)).isdecimal() and new_collective.pattern in _HALVES:
            total = size if new_collective.pattern == CommType.REDUCE_SCATTER else size * count
            fits = held <= total < max(held + count, count * rank.num_ranks + 1)
            rank.counts["collectives_padded"] += fits and total > held
        if not fits:
            yield "wrong-collective", f"collective {node.id} has {size:,} bytes, but carries {held:,}"


def _order(rank: _Rank) -> Iterator[_Problem]:
    """Whatever waited for something still does."""
    for at, node in enumerate(rank.new):
        bits = 0
        for dep in (*node.data_deps, *node.ctrl_deps):
            bits |= rank.above[dep] | 1 << rank.at[dep]
        rank.at[node.id], rank.above[node.id] = at, bits
    for old, pieces in rank.pieces.items():
        gathers = [piece for piece in pieces if piece.is_last]
        for early in (piece for piece in pieces if not piece.is_last):
            for late in gathers:
                if late.begin < early.end and early.begin < late.end and not rank.waits(late.node, early.node):
                    text = f"the All-Gather {late.node.id} does not wait for the Reduce-Scatter {early.node.id}"
                    yield "dependency-lost", text
        yield from _waits(rank, rank.old[old], is_data=True)
        yield from _waits(rank, rank.old[old], is_data=False)


def _waits(rank: _Rank, node: Any, *, is_data: bool) -> Iterator[_Problem]:
    later = rank.pieces[node.id]
    starts = [piece for piece in later if not piece.is_last] or later
    for dep in node.data_deps if is_data else node.ctrl_deps:
        if dep not in rank.old:
            continue
        other = rank.old[dep]
        earlier = [piece for piece in rank.pieces[dep] if piece.is_last]
        by_share = is_data and len(earlier) > 1 and len(starts) > 1 and (other.type, node.type) in _BY_SHARE
        # Pieces of collectives end at whole shards, so each may end a byte of every rank later than the work beside it.
        sizes = [rank.old_collectives[waiter.id].size_bytes for waiter in (node, other) if waiter.id in rank.old_collectives]
        spare = max((Fraction(len(earlier) * rank.num_ranks, max(size, 1)) for size in sizes), default=Fraction(0))
        lost = [
            (piece, before)
            for piece in starts
            for before in earlier
            if not rank.waits(piece.node, before.node) and not (by_share and before.begin >= piece.end)
        ]
        if not is_data and lost and (only_order := _only_order(rank, node, other)):
            rank.counts[only_order] += 1
            continue
        for piece, before in lost:
            if by_share and before.begin + spare >= piece.end:
                rank.counts["waits_within_padding"] += 1
                continue
            text = f"node {piece.node.id} (of {node.id}) does not wait for node {before.node.id} (of {dep})"
            yield "dependency-lost", text


def _only_order(rank: _Rank, node: Any, other: Any) -> str:
    """What counts control dependencies of this kind, which only fix an order; "" if one does more."""
    if node.type in _NETWORK and other.type in _NETWORK:
        return "communication_orders_gone"
    both_compute = node.type == other.type == NodeType.COMP
    return "compute_orders_gone" if both_compute and not rank.gradients.isdisjoint((node.id, other.id)) else ""


def _unordered(rank: _Rank) -> Iterator[_Problem]:
    """Collectives of one group are in one order."""
    last: dict[tuple[Any, ...], Any] = {}
    for node in rank.new:
        new_collective = rank.new_collectives.get(node.id)
        if new_collective is None or len(new_collective.ranks) < 2:
            continue
        key = new_collective.ranks, new_collective.run_as[1]
        if key in last and not rank.waits(node, last[key]):
            yield "no-order", f"nothing orders nodes {last[key].id} and {node.id}"
        last[key] = node


def _list(rank: _Rank, number: int, old: list[Any], instance_of: dict[int, Any]) -> _Listed:
    """What the other ranks have to agree with, of a rank in which nothing is wrong."""
    shares: dict[int, tuple[int, Fraction, Fraction]] = {}
    contents: dict[int, list[Any]] = defaultdict(list)
    for source, pieces in rank.pieces.items():
        for piece in pieces:
            shares[piece.node.id] = source, piece.begin, piece.end
            if source in rank.old_collectives:
                contents[piece.node.id].append((instance_of.get(source), piece.begin, piece.end))
    collectives: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for node in rank.new:
        new_collective = rank.new_collectives.get(node.id)
        if new_collective is not None and len(new_collective.ranks) > 1:
            carried = frozenset(contents[node.id])
            key = new_collective.ranks, new_collective.run_as[1]
            collectives[key].append(
                (new_collective.pattern, new_collective.size_bytes, new_collective.root, new_collective.run_as, carried)
            )
    before = _messages(number, _issued(old), rank.place_of)
    after = _messages(number, rank.new, list(range(rank.num_ranks)))
    return _Listed(before, after, shares, collectives)


def _agreement(listed: list[_Listed]) -> Iterator[Violation]:
    """Members of a group have the same collectives in the same order."""
    for key in dict.fromkeys(key for rank_lists in listed for key in rank_lists.collectives):
        ranks = key[0]
        of_rank = {rank: listed[rank].collectives.get(key) if rank < len(listed) else None for rank in ranks}
        for other in ranks:
            if of_rank[other] != of_rank[ranks[0]]:
                text = f"ranks {ranks[0]} and {other} have different collectives in group {key[1]}"
                yield Violation("out-of-step", text, npu=other)


def _messages(rank: int, nodes: list[Any], place_of: list[int]) -> list[_Message]:
    """The sends and receives of a rank."""
    messages = []
    for node in nodes:
        if node.type in _MESSAGES:
            is_send = node.type == NodeType.COMM_SEND
            peer = _renumbered(_number(node, "comm_dst" if is_send else "comm_src"), place_of)
            ends = (rank, peer) if is_send else (peer, rank)
            messages.append(_Message(node.id, is_send, (_number(node, "comm_tag") % TAGS, *ends, _number(node, "comm_size"))))
    return messages


def _matched(messages: list[list[_Message]]) -> dict[tuple[int, int], tuple[int, int]]:
    """The rank and id of the receive of each send: first come, first served, by tag, ends and size."""
    waiting: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for rank, messages_of_rank in enumerate(messages):
        for message in messages_of_rank:
            if not message.is_send:
                waiting[message.key].append((rank, message.node))
    for receives in waiting.values():
        receives.reverse()
    return {
        (rank, message.node): waiting[message.key].pop()
        for rank, messages_of_rank in enumerate(messages)
        for message in messages_of_rank
        if message.is_send and waiting[message.key]
    }


def _deliveries(listed: list[_Listed]) -> Iterator[Violation]:
    """A receive gets that share of the message which it was to get."""
    before, after = _matched([rank_lists.old for rank_lists in listed]), _matched([rank_lists.new for rank_lists in listed])
    for (sender, node), (receiver, other) in after.items():
        source, *share = listed[sender].shares[node]
        target, *got = listed[receiver].shares[other]
        if before.get((sender, source)) != (receiver, target) or share != got:
            text = f"node {other} of rank {receiver} receives node {node} of rank {sender}, another message or part"
            yield Violation("wrong-message", text, npu=receiver)
    num_sends = sum(message.is_send for rank_lists in listed for message in rank_lists.old)
    lost = sum(message.is_send for rank_lists in listed for message in rank_lists.new) - len(after)
    if lost > num_sends - len(before):
        yield Violation("wrong-message", f"nobody receives {lost} messages, expected {num_sends - len(before)}")
