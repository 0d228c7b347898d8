"""Checks M: sends and receives that have no partner, or match the wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.run import NATIVE
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.grouping import row_places
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.finding import Findings, Found, Severity, check
from astra_tacos.workload.linter.messages import Messages, message_keys, sound_messages
from astra_tacos.workload.linter.trace_view import TraceView

_MOST_TRACE_MESSAGES = 20_000_000
"""Most messages of custom collectives, over all groups, whose tags are compared with others."""
_MOST_USERS = 64
"""Most nodes of a rank that are compared for each pair of collectives whose tags collide."""


def _matched(facts: Facts) -> Iterator[tuple[TraceView, Messages]]:
    """The matched messages of the workload and of each custom trace, if all files of the trace are readable."""
    if facts.inputs.workload.trace is not None and facts.communicates:
        yield facts.workload, facts.messages
    for number, messages in facts.custom_messages.items():
        yield facts.custom[number], messages


def _message(view: TraceView, row: int) -> str:
    """Size, tag and peer of a message in words, without its own rank."""
    return f"{view.trace.size_bytes[row]:,} bytes, tag {view.trace.tag[row]}"


def _peer(view: TraceView, row: int) -> str:
    return f"{'rank' if view.is_workload else 'position'} {view.trace.peer[row]}"


@check("M01", "receive without a send")
def unmatched_receive(facts: Facts) -> Findings:
    """A receive has no send.

    Its rank stalls silently. ASTRA-sim matches messages by tag, source, destination and size, which must all be equal
    (`common/CallbackTracker.cc`).

    Remedy: add the send, or remove the receive.
    """
    for view, messages in _matched(facts):
        rows = messages.lost_recv
        plain = rows[~np.isin(rows, [*messages.other_size, *messages.other_tag])]
        yield view.each(plain, _describe(view, "nothing from", "comes"), "add the send, or take it out")


@check("M02", "send without a receive", Severity.WARNING)
def unmatched_send(facts: Facts) -> Findings:
    """A send has no receive.

    ASTRA-sim runs on: the sender continues when the message has arrived. The trace is wrong nevertheless: on real hardware the
    sender would wait, or the data would be lost.

    Remedy: add the receive, or remove the send.
    """
    for view, messages in _matched(facts):
        rows = messages.lost_send
        plain = rows[~np.isin(rows, [*messages.other_size.values(), *messages.other_tag.values()])]
        yield view.each(plain, _describe(view, "", "receives nothing like it"), "add the receive, or take it out")


def _describe(view: TraceView, before: str, after: str) -> Callable[[int], str]:
    def describe(row: int) -> str:
        return f"{_message(view, row)}: {before}{' ' if before else ''}{_peer(view, row)} {after}"

    return describe


@check("M03", "send and receive differ in size")
def size_mismatch(facts: Facts) -> Findings:
    """A send and its receive have different sizes.

    ASTRA-sim matches messages by size, too (`common/CallbackTracker.cc`), so that these two never match: the receiver stalls
    silently, and the sender continues.

    Remedy: write the same comm_size on both sides.
    """
    for view, messages in _matched(facts):
        for recv, send in messages.other_size.items():
            yield _near_miss(view, recv, send, "the same comm_size on both sides")


@check("M04", "send and receive differ in tag")
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
    what = f"waits for {_message(view, recv)}; {_peer(view, recv)}, node {view.node(send)} sends {_message(view, send)}"
    return view.at(recv, what, remedy)


@check("M05", "messages alike within a trace", Severity.WARNING)
def alike_in_trace(facts: Facts) -> Findings:
    """Two messages of one trace have the same tag, source, destination and size, and no order.

    ASTRA-sim matches such messages in the order in which their nodes are issued (`common/ChunkIdGenerator.cc`). If dependencies
    do not order both the sends and the receives, data may arrive in the wrong receive, whose dependents start too early or late.

    Remedy: give each message its own tag.
    """
    for view in facts.views:
        if view.is_workload and not facts.communicates:
            continue
        count = facts.num_npus if view.is_workload else view.num_ranks
        rows = np.flatnonzero(sound_messages(view, count))
        sends = view.trace.kind[rows] == NodeType.COMM_SEND
        keys = message_keys(view, rows)
        order = np.lexsort((view.place[rows], sends, *keys[::-1]))
        rows = rows[order]
        same = sends[order][1:] == sends[order][:-1]
        for column in keys:
            same &= column[order][1:] == column[order][:-1]
        first, second = rows[:-1][same], rows[1:][same]
        free = np.flatnonzero(~view.precede(first, second))
        if len(free):
            nodes = [view.node(first[free[0]]), view.node(second[free[0]])]
            more = f"; {len(free):,} such pairs" if len(free) > 1 else ""
            what = f"nodes {nodes[0]} and {nodes[1]} {_verb(view, first[free[0]])} the same, and nothing orders them"
            yield view.at(first[free[0]], f"{what} ({_message(view, first[free[0]])}){more}", "give each its own tag")


def _verb(view: TraceView, row: int) -> str:
    sends = view.trace.kind[row] == NodeType.COMM_SEND
    return f"{'send to' if sends else 'receive from'} {_peer(view, row)}"


@check("M06", "tags of different collectives collide", Severity.WARNING)
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
    order = np.lexsort((owners, *columns[::-1]))
    columns, owners = tuple(column[order] for column in columns), owners[order]
    same = np.ones(len(order) - 1, np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    met = np.flatnonzero(same & (owners[1:] != owners[:-1]))
    first, place = row_places(owners[met], owners[met + 1])
    for at, shared in zip(met[first].tolist(), np.bincount(place).tolist(), strict=True):
        one, other = owners[at], owners[at + 1]
        src, dst, tag, size = (column[at] for column in columns)
        rows = _unordered_users(facts, one, other, (src, dst), (tag, size))
        if rows is None:
            continue
        what = f"{names[one]} and {names[other]} share {shared:,} message{'s' * (shared > 1)}"
        example = f"as tag {tag}, {size:,} bytes from rank {src} to {dst}"
        nodes = f"nothing orders nodes {view.node(rows[0])} and {view.node(rows[1])}"
        yield view.at(rows[0], f"{what}, such {example}, and {nodes}", "give each a range of tags")


_OWN = -1
"""Stands for the workload's own messages among the users of tags."""


def _key_table(facts: Facts) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.int64], dict[int, str]]:
    """Keys of messages between ranks, the number of each one's user, and the users' names.

    A user is the workload itself, or a custom trace in a group.
    """
    view, collectives = facts.workload, facts.collectives
    rows = np.flatnonzero(sound_messages(view, facts.num_npus) & view.rows(NodeType.COMM_SEND))
    parts = [message_keys(view, rows)]
    owners = [np.full(len(rows), _OWN)]
    names = {_OWN: "the workload's own messages"}
    custom = np.flatnonzero(collectives.run != NATIVE)
    total = 0
    sorts, first = np.unique(collectives.sort[custom], return_index=True)
    for sort, entry in zip(sorts.tolist(), custom[first].tolist(), strict=True):
        run, group = collectives.run[entry], collectives.group[entry]
        if run not in facts.custom:
            continue
        trace = facts.custom[run]
        sends = np.flatnonzero(sound_messages(trace, trace.num_ranks) & trace.rows(NodeType.COMM_SEND))
        total += len(sends)
        if total > _MOST_TRACE_MESSAGES:
            break
        members = np.array(sorted(collectives.members[group]), np.int64)
        src, dst, tag, size = message_keys(trace, sends)
        inside = (src < len(members)) & (dst < len(members))
        parts.append((members[src[inside]], members[dst[inside]], tag[inside], size[inside]))
        owners.append(np.full(inside.sum(), sort))
        names[sort] = facts.implementations[0][run] + (f" in group {group}" if group else "")
    columns = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return columns, np.concatenate(owners), names


def _unordered_users(facts: Facts, one: int, other: int, ends: tuple[int, int], key: tuple[int, int]) -> tuple[int, int] | None:
    """Two unordered rows of the source, or of the destination, that use a key; None if all are ordered."""
    view, collectives = facts.workload, facts.collectives
    for rank, kind in zip(ends, (NodeType.COMM_SEND, NodeType.COMM_RECV), strict=True):
        users = []
        for owner in (one, other):
            if owner == _OWN:
                rows = np.flatnonzero(sound_messages(view, facts.num_npus) & view.rows(kind) & (view.rank == rank))
                src, dst, tag, size = message_keys(view, rows)
                users.append(rows[(src == ends[0]) & (dst == ends[1]) & (tag == key[0]) & (size == key[1])])
            else:
                users.append(collectives.row[(collectives.sort == owner) & (collectives.rank == rank)])
        first = np.repeat(users[0][:_MOST_USERS], len(users[1][:_MOST_USERS]))
        second = np.tile(users[1][:_MOST_USERS], len(users[0][:_MOST_USERS]))
        free = np.flatnonzero(~view.precede(first, second) & ~view.precede(second, first))
        if len(free):
            return first[free[0]], second[free[0]]
    return None
