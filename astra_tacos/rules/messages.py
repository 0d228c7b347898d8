"""Checks M: sends and receives that have no partner, or match the wrong one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.matched_messages import MatchedMessages, sound_messages
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.graph.messages import message_keys
from astra_tacos.run.run import NATIVE
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import row_places
from astra_tacos.support.rows import Severity

_MOST_USERS = 64
"""Most nodes of a rank that are compared for each pair of collectives whose tags collide."""
_OWN = -1
"""Stands for the workload's own messages among the users of tags."""


def _matched(facts: Facts) -> Iterator[tuple[TraceView, MatchedMessages]]:
    """The matched messages of the workload and of each custom trace, if all files of the trace are readable."""
    if facts.inputs.workload.trace is not None and facts.communicates:
        yield facts.workload, facts.messages
    for number, messages in facts.custom_messages.items():
        yield facts.custom[number], messages


_MESSAGE = "{bytes} bytes, tag {tag}"


@rule("M01", "receive without a send")
def unmatched_receive(facts: Facts) -> Findings:
    """A receive has no send.

    Its rank stalls silently. ASTRA-sim matches messages by tag, source, destination and size, which must all be equal
    (`common/CallbackTracker.cc`).

    Remedy: add the send, or remove the receive.
    """
    for view, messages in _matched(facts):
        rows = messages.lost_recv
        plain = rows[~np.isin(rows, [*messages.other_size, *messages.other_tag])]
        yield view.each(plain, f"{_MESSAGE}: nothing from {{peer}} comes", "add the send, or take it out")


@rule("M02", "send without a receive", Severity.WARNING)
def unmatched_send(facts: Facts) -> Findings:
    """A send has no receive.

    ASTRA-sim runs on: the sender continues when the message has arrived. The trace is wrong nevertheless: on real hardware the
    sender would wait, or the data would be lost.

    Remedy: add the receive, or remove the send.
    """
    for view, messages in _matched(facts):
        rows = messages.lost_send
        plain = rows[~np.isin(rows, [*messages.other_size.values(), *messages.other_tag.values()])]
        yield view.each(plain, f"{_MESSAGE}: {{peer}} receives nothing like it", "add the receive, or take it out")


@rule("M03", "send and receive differ in size")
def size_mismatch(facts: Facts) -> Findings:
    """A send and its receive have different sizes.

    ASTRA-sim matches messages by size, too (`common/CallbackTracker.cc`), so that these two never match: the receiver stalls
    silently, and the sender continues.

    Remedy: write the same comm_size on both sides.
    """
    for view, messages in _matched(facts):
        for recv, send in messages.other_size.items():
            yield _near_miss(view, recv, send, "the same comm_size on both sides")


@rule("M04", "send and receive differ in tag")
def tag_mismatch(facts: Facts) -> Findings:
    """A send and its receive have different tags.

    The two never match: the receiver stalls silently, and the sender continues. Tags are taken modulo 500,000,000
    (`system/Sys.cc`, `front_end_sim_recv`).

    Remedy: write the same comm_tag on both sides.
    """
    for view, messages in _matched(facts):
        for recv, send in messages.other_tag.items():
            yield _near_miss(view, recv, send, "the same comm_tag on both sides")


def _near_miss(view: TraceView, recv: int, send: int, remedy: str) -> Found:
    sent = view.text(_MESSAGE, send)
    mismatch = view.text(f"waits for {_MESSAGE}; {{peer}}, node {view.node(send)} sends {sent}", recv)
    return view.at(recv, mismatch, remedy)


@rule("M05", "messages with the same tag, peers and size", Severity.WARNING, left_to_timing=True)
def alike_in_trace(facts: Facts) -> Findings:
    """Two messages of one trace have the same tag, source, destination and size, and no order.

    ASTRA-sim matches such messages in the order in which their nodes are issued (`common/ChunkIdGenerator.cc`). If dependencies
    do not order both the sends and the receives, data may arrive in the wrong receive, whose dependents start too early or late.

    Remedy: give each message its own tag.
    """
    for view, messages in _matched(facts):
        first, second = messages.met.unordered
        if len(first):
            row, other = first[0], second[0]
            more = f"; {len(first):,} such pairs" if len(first) > 1 else ""
            verb = "send to" if view.trace.kind[row] == NodeType.COMM_SEND else "receive from"
            ambiguity = f"nodes {view.node(row)} and {view.node(other)} {verb} {{peer}} the same, and nothing orders them"
            yield view.at(row, view.text(f"{ambiguity} ({_MESSAGE}){more}", row), "give each its own tag")


@rule("M06", "tags of different collectives collide", Severity.WARNING, left_to_timing=True)
def tag_collision(facts: Facts) -> Findings:
    """Messages of different collectives, or of a collective and of the workload itself, may be mistaken for each other.

    All messages share one space of tags: those with the same tag (modulo 500,000,000), source, destination and size match first
    in, first out (`system/Sys.cc`, `front_end_sim_send`; `common/ChunkIdGenerator.cc`). If dependencies do not order them on both
    the source and the destination, a receive may get the data of the other message.

    Remedy: give each collective, and the workload's own messages, a separate range of tags (`first_tag` of the exporter).
    """
    view = facts.communicating
    columns, owners, names = _key_table(facts)
    if not len(owners):
        return
    key = row_places(*columns)[1]
    order = np.lexsort((owners, key))
    columns, owners, key = tuple(column[order] for column in columns), owners[order], key[order]
    met = np.flatnonzero((key[1:] == key[:-1]) & (owners[1:] != owners[:-1]))
    first, place = row_places(owners[met], owners[met + 1])
    for at, shared in zip(met[first].tolist(), np.bincount(place).tolist(), strict=True):
        first_owner, second_owner = owners[at], owners[at + 1]
        src, dst, tag, size = (column[at] for column in columns)
        rows = _unordered_users(facts, first_owner, second_owner, (src, dst), (tag, size))
        if rows is None:
            continue
        shared_messages = f"{names[first_owner]} and {names[second_owner]} share {shared:,} message{'s' * (shared > 1)}"
        example = f"as tag {tag}, {size:,} bytes from rank {src} to {dst}"
        nodes = f"nothing orders nodes {view.node(rows[0])} and {view.node(rows[1])}"
        yield view.at(rows[0], f"{shared_messages}, such {example}, and {nodes}", "give each a range of tags")


def _key_table(facts: Facts) -> tuple[tuple[Ints, ...], Ints, dict[int, str]]:
    """Keys of messages between ranks, the number of each one's user, and the users' names.

    A user is the workload itself, or a custom trace in a group.
    """
    view, collectives = facts.workload, facts.collectives
    rows = np.flatnonzero(sound_messages(view, facts.num_npus) & view.rows(NodeType.COMM_SEND))
    parts = [message_keys(view.trace, rows)]
    owners = [np.full(len(rows), _OWN)]
    names = {_OWN: "the workload's own messages"}
    custom = np.flatnonzero(collectives.run != NATIVE)
    sorts, first = np.unique(collectives.sort[custom], return_index=True)
    for sort, entry in zip(sorts.tolist(), custom[first].tolist(), strict=True):
        run, group = collectives.run[entry], collectives.group[entry]
        if run not in facts.custom:
            continue
        trace = facts.custom[run]
        sends = np.flatnonzero(sound_messages(trace, trace.num_ranks) & trace.rows(NodeType.COMM_SEND))
        members = np.array(sorted(collectives.members[group]), np.int64)
        src, dst, tag, size = message_keys(trace.trace, sends)
        inside = (src < len(members)) & (dst < len(members))
        parts.append((members[src[inside]], members[dst[inside]], tag[inside], size[inside]))
        owners.append(np.full(inside.sum(), sort))
        names[sort] = facts.implementations[0][run] + (f" in group {group}" if group else "")
    columns = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return columns, np.concatenate(owners), names


def _unordered_users(
    facts: Facts, first_owner: int, second_owner: int, ends: tuple[int, int], key: tuple[int, int]
) -> tuple[int, int] | None:
    """Two unordered rows of the source, or of the destination, that use a key; None if all are ordered."""
    view, collectives = facts.workload, facts.collectives
    for rank, kind in zip(ends, (NodeType.COMM_SEND, NodeType.COMM_RECV), strict=True):
        users = []
        for owner in (first_owner, second_owner):
            if owner == _OWN:
                rows = np.flatnonzero(sound_messages(view, facts.num_npus) & view.rows(kind) & (view.rank == rank))
                src, dst, tag, size = message_keys(view.trace, rows)
                users.append(rows[(src == ends[0]) & (dst == ends[1]) & (tag == key[0]) & (size == key[1])])
            else:
                users.append(collectives.row[(collectives.sort == owner) & (collectives.rank == rank)])
        first = np.repeat(users[0][:_MOST_USERS], len(users[1][:_MOST_USERS]))
        second = np.tile(users[1][:_MOST_USERS], len(users[0][:_MOST_USERS]))
        free = np.flatnonzero(~view.precede(first, second) & ~view.precede(second, first))
        if len(free):
            return first[free[0]], second[free[0]]
    return None
