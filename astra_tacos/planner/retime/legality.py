"""Whether a scheduled run does what the run before did.

This judge shares nothing with the policies but the attribute of origin. It reads the files of both runs. Every compute node
and message is there once, or in parts whose work adds up to it. Every byte of every collective is in one collective of the
same pattern and group, or, of an All-Reduce, in one Reduce-Scatter and in one All-Gather behind it. Members of a group have
the same collectives in the same order. Whatever waited for something still waits for all of it, where both are cut into parts
for the same share of it. Control dependencies between two nodes of communication only fix an order, and may be gone; those
between two compute nodes only where nothing but collectives waits for the data of one of them, or one other such node alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from astra_tacos.planner.retime.written import FROM
from astra_tacos.planner.workload import Workload
from astra_tacos.run.trace.node_bytes import attribute, read_messages
from astra_tacos.run.trace.schema import CommType, NodeType

_WHOLE = re.compile(r"([0-9]+)")
_PART = re.compile(r"([0-9]+):([0-9]+)/([0-9]+)")
_BYTES = re.compile(r"([0-9]+)\[([0-9]+):([0-9]+)\]")
_NETWORK = (NodeType.COMM_COLL, NodeType.COMM_SEND)
_MOST_SHOWN = 5
"""Faults that an error lists."""
_ENDS = ("comm_src", "comm_dst")
_MESSAGES = (NodeType.COMM_SEND, NodeType.COMM_RECV)
_WORK = ("num_ops", "tensor_size")
_BY_SHARE = (
    (NodeType.COMP, NodeType.COMM_COLL),
    (NodeType.COMM_COLL, NodeType.COMP),
    (NodeType.COMP, NodeType.COMM_SEND),
    (NodeType.COMM_COLL, NodeType.COMM_SEND),
    (NodeType.COMM_RECV, NodeType.COMP),
)
"""What is waited for and what waits: where both are cut, shares may wait for shares."""


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
    pieces
        By the id of an old node, the new ones that it became.
    above
        By the id of a new node, the set of those before it, as bits.
    gradients
        Old compute nodes for whose data nothing but collectives waits, or one other such node alone.
    """

    rank: int
    num_ranks: int
    old: dict[int, Any]
    new: list[Any]
    pieces: dict[int, list[_Piece]] = field(default_factory=dict)
    above: dict[int, int] = field(default_factory=dict)
    gradients: set[int] = field(default_factory=set)


def violations(workload: Workload, prefix: Path) -> tuple[str, ...]:
    """What is wrong with a scheduled run, in words; empty if it does what the run before did."""
    trace = workload.run.workload
    found: list[str] = []
    ranks = []
    for number in range(trace.num_ranks):
        old = read_messages(Path(f"{trace.prefix}.{number}.et"))[1]
        new = read_messages(Path(f"{prefix}.{number}.et"))[1]
        rank = _Rank(number, trace.num_ranks, {node.id: node for node in old}, new, gradients=_gradients(old))
        problems = [*_origins(rank), *_work(rank), *_bytes(rank, workload), *_order(rank)]
        found += (f"rank {number}: {problem}" for problem in problems)
        ranks.append(rank)
        if len(found) >= _MOST_SHOWN:
            return tuple(found[:_MOST_SHOWN])
    if not found:
        found += [*_agreement(ranks, workload), *_deliveries(ranks, workload)]
    return tuple(found[:_MOST_SHOWN])


def _gradients(nodes: list[Any]) -> set[int]:
    kind = {node.id: node.type for node in nodes}
    readers: dict[int, list[int]] = {}
    for node in nodes:
        for dep in node.data_deps:
            readers.setdefault(dep, []).append(node.id)
    found: set[int] = set()
    while True:
        more = {
            number
            for number, users in readers.items()
            if kind.get(number) == NodeType.COMP
            and (all(kind[user] == NodeType.COMM_COLL for user in users) or (len(users) == 1 and users[0] in found))
        }
        if more == found:
            return found
        found = more


def _origins(rank: _Rank) -> Iterator[str]:
    """Read where each new node comes from."""
    for node in rank.new:
        text = attribute(node, FROM)
        if text is None:
            yield f"node {node.id} does not say where it comes from"
            continue
        for one in str(text).split():
            if match := _WHOLE.fullmatch(one):
                old, begin, end = int(match[1]), Fraction(0), Fraction(1)
            elif match := _PART.fullmatch(one):
                old, part, parts = int(match[1]), int(match[2]), int(match[3])
                begin, end = Fraction(part, max(parts, 1)), Fraction(part + 1, max(parts, 1))
            elif match := _BYTES.fullmatch(one):
                old = int(match[1])
                size = int(attribute(rank.old[old], "comm_size")) if old in rank.old else 1
                begin, end = Fraction(int(match[2]), max(size, 1)), Fraction(int(match[3]), max(size, 1))
            else:
                yield f"node {node.id} comes from {one[:40]!r}"
                continue
            if old not in rank.old or rank.old[old].type != node.type:
                yield f"node {node.id} comes from node {old}, which is not there or of another kind"
                continue
            rank.pieces.setdefault(old, []).append(_Piece(node, begin, end))
    for old in rank.old:
        if old not in rank.pieces:
            yield f"node {old} is gone"


def _covers_once(pieces: list[_Piece]) -> bool:
    at = Fraction(0)
    for piece in sorted(pieces, key=lambda piece: (piece.begin, piece.end)):
        if piece.begin != at or (piece.end <= piece.begin and piece.begin != 1):
            return False
        at = piece.end
    return at == 1


def _work(rank: _Rank) -> Iterator[str]:
    """Compute nodes and messages are there once."""
    for old, pieces in rank.pieces.items():
        node = rank.old[old]
        if node.type == NodeType.COMM_COLL:
            continue
        if not _covers_once(pieces):
            yield f"node {old} is not there exactly once"
        elif node.type == NodeType.COMP:
            if sum(piece.node.duration_micros for piece in pieces) != node.duration_micros:
                yield f"the durations of the parts of node {old} do not add up"
            for name in _WORK:
                whole = attribute(node, name)
                if whole is not None and int(whole) > 0 and any(int(attribute(piece.node, name)) < 1 for piece in pieces):
                    yield f"a part of node {old} has no {name}: ASTRA-sim skips it"
                if whole is not None and sum(int(attribute(piece.node, name)) for piece in pieces) != int(whole):
                    yield f"{name} of the parts of node {old} does not add up"
        elif node.type in _MESSAGES:
            same = all(attribute(piece.node, name) == attribute(node, name) for piece in pieces for name in _ENDS)
            sizes = [int(attribute(piece.node, "comm_size")) for piece in pieces]
            if not same or sum(sizes) != int(attribute(node, "comm_size")) or min(sizes) < 1:
                yield f"message {old} is another one"


def _bytes(rank: _Rank, workload: Workload) -> Iterator[str]:
    """Every byte of a collective is in one of the same pattern, or in a Reduce-Scatter and in an All-Gather."""
    members = {name: len(ranks) for name, ranks in workload.run.groups.members.items()}
    carried: dict[int, int] = {}
    for old, pieces in rank.pieces.items():
        node = rank.old[old]
        if node.type != NodeType.COMM_COLL:
            continue
        pattern, size = int(attribute(node, "comm_type")), int(attribute(node, "comm_size"))
        by_pattern: dict[int, list[_Piece]] = {}
        for piece in pieces:
            by_pattern.setdefault(int(attribute(piece.node, "comm_type")), []).append(piece)
            carried[piece.node.id] = carried.get(piece.node.id, 0) + int((piece.end - piece.begin) * size)
            if (attribute(piece.node, "pg_name") or "0") != (attribute(node, "pg_name") or "0"):
                yield f"collective {old} is in another group"
        halves = {int(CommType.REDUCE_SCATTER), int(CommType.ALL_GATHER)}
        if not (set(by_pattern) == {pattern} or (pattern == CommType.ALL_REDUCE and set(by_pattern) == halves)):
            yield f"collective {old} has become {', '.join(CommType(one).name for one in by_pattern)}"
        elif size and not all(_covers_once(of_one) for of_one in by_pattern.values()):
            yield f"not every byte of collective {old} is carried exactly once"
        elif set(by_pattern) == halves != {pattern}:
            for piece in by_pattern[int(CommType.REDUCE_SCATTER)]:
                piece.is_last = False
    ranks = workload.run.network.num_npus
    for node in rank.new:
        if node.type != NodeType.COMM_COLL or node.id not in carried:
            continue
        size, held = int(attribute(node, "comm_size")), carried[node.id]
        count = members.get(int(attribute(node, "pg_name") or 0), ranks)
        text = str(attribute(node, FROM))
        if text.isdecimal() or int(attribute(node, "comm_type")) not in (CommType.REDUCE_SCATTER, CommType.ALL_GATHER):
            fits = size == held
        else:
            whole = size if int(attribute(node, "comm_type")) == CommType.REDUCE_SCATTER else size * count
            fits = held <= whole < max(held + count, count * ranks + 1) or size == held
        if not fits:
            yield f"collective {node.id} has {size:,} bytes, but carries {held:,}"


def _order(rank: _Rank) -> Iterator[str]:
    """Whatever waited for something still does."""
    for node in rank.new:
        bits = 0
        for dep in (*node.data_deps, *node.ctrl_deps):
            if dep not in rank.above:
                yield f"node {node.id} waits for node {dep}, which has no smaller id"
                return
            bits |= rank.above[dep] | 1 << dep
        rank.above[node.id] = bits
    for old, pieces in rank.pieces.items():
        gathers = [piece for piece in pieces if piece.is_last]
        for early in (piece for piece in pieces if not piece.is_last):
            for late in gathers:
                waits = rank.above[late.node.id] >> early.node.id & 1
                if not waits and late.begin < early.end and early.begin < late.end:
                    yield f"the All-Gather {late.node.id} does not wait for the Reduce-Scatter {early.node.id}"
        yield from _waits(rank, rank.old[old], is_data=True)
        yield from _waits(rank, rank.old[old], is_data=False)


def _waits(rank: _Rank, node: Any, *, is_data: bool) -> Iterator[str]:
    later = rank.pieces.get(node.id, [])
    starts = [piece for piece in later if not piece.is_last] or later
    for dep in node.data_deps if is_data else node.ctrl_deps:
        other = rank.old[dep]
        both = (node.type, other.type)
        only_order = all(kind in _NETWORK for kind in both)
        if both == (NodeType.COMP, NodeType.COMP):
            only_order = node.id in rank.gradients or dep in rank.gradients
        if not is_data and only_order:
            continue
        earlier = [piece for piece in rank.pieces.get(dep, []) if piece.is_last]
        by_share = is_data and len(earlier) > 1 and len(starts) > 1 and (other.type, node.type) in _BY_SHARE
        # Pieces of collectives end at whole shards, so each may end a byte of every rank later than the work beside it.
        sizes = [int(attribute(one, "comm_size")) for one in (node, other) if one.type == NodeType.COMM_COLL]
        spare = max((Fraction(len(earlier) * rank.num_ranks, max(size, 1)) for size in sizes), default=Fraction(0))
        for piece in starts:
            for before in earlier:
                waits = rank.above[piece.node.id] >> before.node.id & 1
                if not waits and not (by_share and before.begin + spare >= piece.end):
                    yield f"node {piece.node.id} (of {node.id}) does not wait for node {before.node.id} (of {dep})"


def _agreement(ranks: list[_Rank], workload: Workload) -> Iterator[str]:
    """Members of a group have the same collectives in the same order; ids ascend in the order in which they run."""
    trace, instances = workload.run.workload, workload.instances
    instance_of: list[dict[int, int]] = [{} for _ in ranks]
    for row, rank, number in zip(
        instances.nodes.row.tolist(), instances.nodes.rank.tolist(), instances.instance.tolist(), strict=True
    ):
        instance_of[rank][int(trace.node_id[row])] = number
    first: dict[str, tuple[int, list[Any]]] = {}
    for one in ranks:
        seen: dict[str, list[Any]] = {}
        for node in one.new:
            if node.type != NodeType.COMM_COLL:
                continue
            group = str(attribute(node, "pg_name") or "0")
            content = _content(str(attribute(node, FROM)), instance_of[one.rank])
            seen.setdefault(group, []).append((attribute(node, "comm_type"), attribute(node, "comm_size"), content))
        for group, listed in seen.items():
            number, expected = first.setdefault(group, (one.rank, listed))
            if listed != expected:
                yield f"ranks {number} and {one.rank} have different collectives in group {group}"


def _content(text: str, instance_of: dict[int, int]) -> str:
    """What a node comes from, with numbers that all ranks share."""
    if text.isdecimal():
        return str(instance_of[int(text)])
    return _BYTES.sub(lambda match: f"{instance_of[int(match[1])]}[{match[2]}:{match[3]}]", text)


def _deliveries(ranks: list[_Rank], workload: Workload) -> Iterator[str]:
    """A receive gets that share of the message which it was to get."""
    trace = workload.run.workload
    messages = workload.graph.messages
    receive_of = {
        (int(trace.rank[one]), int(trace.node_id[one])): (int(trace.rank[other]), int(trace.node_id[other]))
        for one, other in zip(messages.send.tolist(), messages.receive.tolist(), strict=True)
    }
    share_of = [
        {piece.node.id: (old, piece.begin, piece.end) for old, pieces in one.pieces.items() for piece in pieces} for one in ranks
    ]
    for (sender, node), (receiver, other) in _matched(ranks).items():
        source, *share = share_of[sender][node]
        target, *got = share_of[receiver][other]
        if receive_of.get((sender, source)) != (receiver, target) or share != got:
            yield f"node {other} of rank {receiver} receives node {node} of rank {sender}, another message or part"


def _matched(ranks: list[_Rank]) -> dict[tuple[int, int], tuple[int, int]]:
    """The rank and id of the receive of each send: first come, first served, by tag, ends and size."""
    waiting: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for kind in _MESSAGES:
        for one in ranks:
            for node in one.new:
                if node.type != kind:
                    continue
                src, dst = (
                    (one.rank, attribute(node, "comm_dst")) if kind == _MESSAGES[0] else (attribute(node, "comm_src"), one.rank)
                )
                key = int(attribute(node, "comm_tag")), int(src), int(dst), int(attribute(node, "comm_size"))
                if kind == NodeType.COMM_SEND:
                    waiting.setdefault(key, []).append((one.rank, node.id))
                elif waiting.get(key):
                    found[waiting[key].pop(0)] = one.rank, node.id
    return found
