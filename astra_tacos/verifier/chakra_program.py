"""Chakra traces as a `Program`: sends and receives match by tag, source, destination and size; reductions are COMP nodes.

`chakra_contents` says what nodes move. A receive with `is_rrc` writes its data to places of its own; the COMP node that depends
on it adds them to the chunks. COMP nodes of one rank may run in parallel, so additions to one chunk commute (ASTRA-sim runs the
COMP nodes of a custom collective so).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, ChunkColumns, Trace
from astra_tacos.support.csr import members_of
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.chakra_contents import Contents, at_node, contents_of, uneven_sizes
from astra_tacos.verifier.messages import match_messages, successors
from astra_tacos.verifier.program_form import NOWHERE, Action, Buffers, Program, Region, expand
from astra_tacos.verifier.program_order import local_places
from astra_tacos.verifier.violation import Violation

_MAX_TAGS = 500_000_000
"""ASTRA-sim takes tags modulo this (`astra-sim/system/Sys.cc`)."""


def chakra_program(trace: Trace, shortest_bytes: int | None = None) -> tuple[Program, list[Violation]]:
    """The program of a trace, and violations of single nodes, dependencies, messages and reductions.

    Parameters
    ----------
    trace
        The trace, read with its chunks.
    shortest_bytes
        Messages of fewer bytes may be as long as this; None leaves sizes to `check_parts`, which knows those of chunks.

    Raises
    ------
    ConfigError
        If the trace has more chunks than a collective can have, or was read without its chunks.
    """
    chunks = trace.chunks
    if chunks is None:
        raise ConfigError(f"{trace.prefix}: read without its chunks, expected a trace with them")
    violations: list[Violation] = []
    rank = trace.rank
    after = np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))
    dangling = after[trace.dep == DANGLING]
    violations += [at_node(trace, row, "dangling-dependency", "depends on a node that does not exist") for row in dangling]
    before, after = trace.dep[trace.dep != DANGLING], after[trace.dep != DANGLING]
    sends, recvs = _sound_messages(trace, rank, violations)
    place = local_places(trace.num_nodes, before, after)
    send_key, recv_key = _keys(trace, rank, sends, sends=True), _keys(trace, rank, recvs, sends=False)
    matched_send, matched_recv = match_messages(send_key, place[sends], recv_key, place[recvs])
    violations += _unmatched(trace, rank, np.delete(sends, matched_send), np.delete(recvs, matched_recv))
    alike = [successors(send_key, place[sends]), successors(recv_key, place[recvs])]
    messages = np.concatenate((sends, recvs))
    contents = contents_of(trace, chunks, messages, violations) if len(messages) else None
    buffers, reductions = None, []
    if contents is not None:
        if shortest_bytes is not None:
            violations += uneven_sizes(trace, chunks, contents, messages, shortest_bytes)
        buffers = _buffers(trace, contents, recvs)
        reductions = _reductions(trace, chunks, contents, (before, after), recvs, violations)
    actions = _actions(trace, contents, rank, (sends, recvs), reductions, chunks.reduces, buffers)
    order = np.argsort(actions.columns[0], kind="stable")
    action_of = np.empty(len(order), np.int64)
    action_of[order] = np.arange(len(order))
    op, kind, src, dst, count, peer = (column[order] for column in actions.columns)
    message_send, message_recv = _paired(trace, actions, (matched_send, len(sends) + matched_recv), sends, violations)
    program = Program(
        num_ranks=trace.num_ranks,
        op_rank=rank,
        describe=trace.describe_node,
        before=before,
        after=after,
        action_op=op,
        action_kind=kind,
        action_src=src,
        action_dst=dst,
        action_count=count,
        action_peer=peer,
        message_send=action_of[message_send],
        message_recv=action_of[message_recv],
        alike_first=np.concatenate((sends[alike[0][0]], recvs[alike[1][0]])),
        alike_second=np.concatenate((sends[alike[0][1]], recvs[alike[1][1]])),
        adds_commute=True,
        buffers=buffers,
    )
    return program, violations


def _paired(
    trace: Trace,
    actions: _Actions,
    matched: tuple[NDArray[np.int64], NDArray[np.int64]],
    sends: NDArray[np.int64],
    violations: list[Violation],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Actions that belong together, chunk by chunk; adds a violation for messages whose ends name different numbers of chunks."""
    sent, received = (np.diff(actions.first)[ends] for ends in matched)
    for at in np.flatnonzero(sent != received).tolist():
        what = f"sends {sent[at]} chunks, its receive expects {received[at]}"
        violations.append(at_node(trace, sends[matched[0][at]], "chunk-count", what))
    both = np.minimum(sent, received)
    return expand(actions.first[matched[0]], both), expand(actions.first[matched[1]], both)


def _sound_messages(
    trace: Trace, rank: NDArray[np.int64], violations: list[Violation]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the sends and receives that have all attributes for matching; adds a violation for each of the others."""
    is_send, is_recv = trace.kind == NodeType.COMM_SEND, trace.kind == NodeType.COMM_RECV
    message = is_send | is_recv
    faults = (
        ("missing-attribute", trace.size_bytes == ABSENT, "has no comm_size"),
        ("missing-attribute", trace.tag == ABSENT, "has no comm_tag"),
        ("missing-attribute", trace.peer == ABSENT, "has neither comm_dst nor comm_src"),
        ("bad-size", (trace.size_bytes != ABSENT) & (trace.size_bytes < 1), "has a comm_size below 1"),
        ("bad-tag", trace.tag < ABSENT, "has a tag below 0"),
        ("bad-peer", (trace.peer < ABSENT) | (trace.peer >= trace.num_ranks), f"has a peer outside 0 to {trace.num_ranks - 1}"),
        ("bad-peer", trace.peer == rank, "is its own peer"),
    )
    sound = message.copy()
    for code, fault, what in faults:
        wrong = message & fault
        sound &= ~wrong
        violations += [at_node(trace, row, code, what) for row in np.flatnonzero(wrong)]
    return np.flatnonzero(is_send & sound), np.flatnonzero(is_recv & sound)


def _keys(trace: Trace, rank: NDArray[np.int64], rows: NDArray[np.int64], *, sends: bool) -> tuple[NDArray[np.int64], ...]:
    src, dst = (rank[rows], trace.peer[rows]) if sends else (trace.peer[rows], rank[rows])
    return src, dst, trace.tag[rows] % _MAX_TAGS, trace.size_bytes[rows]


def _unmatched(trace: Trace, rank: NDArray[np.int64], sends: NDArray[np.int64], recvs: NDArray[np.int64]) -> list[Violation]:
    """Violations for sends and receives without a counterpart; one for both if they differ in size only."""
    waiting: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row, src, dst, tag in zip(recvs.tolist(), *(k.tolist() for k in _keys(trace, rank, recvs, sends=False)[:3]), strict=True):
        waiting[src, dst, tag].append(row)
    violations = []
    for row, src, dst, tag in zip(sends.tolist(), *(k.tolist() for k in _keys(trace, rank, sends, sends=True)[:3]), strict=True):
        rest = waiting[src, dst, tag]
        if rest:
            recv = rest.pop(0)
            sizes = f"sends {trace.size_bytes[row]} bytes, {trace.describe_node(recv)} expects {trace.size_bytes[recv]}"
            violations.append(at_node(trace, row, "size-mismatch", f"{sizes} (tag {tag})"))
        else:
            violations.append(at_node(trace, row, "unmatched-send", f"no receive at rank {dst} with tag {tag}"))
    for (src, _, tag), rows in waiting.items():
        violations += [at_node(trace, row, "unmatched-recv", f"no send from rank {src} with tag {tag}") for row in rows]
    return violations


def _buffers(trace: Trace, contents: Contents, received: NDArray[np.int64]) -> Buffers:
    """The memory that messages and additions refer to; behind the chunks, every receive of a rank that reduces has places."""
    total = contents.total
    if contents.are_places:
        stride = max(int(contents.offset.max(initial=0)) + 1, 2 * total)
        own = Region("input chunk", 0, is_whole=True), Region("chunk", total, is_whole=True), Region("place", 2 * total)
        return Buffers(stride, own, result=total)
    room = np.bincount(trace.rank[received], contents.count[received], trace.num_ranks).max(initial=0)
    return Buffers(total + int(room), (Region("chunk", 0, is_whole=True), Region("place", total)))


def _reductions(
    trace: Trace,
    chunks: ChunkColumns,
    contents: Contents,
    edges: tuple[NDArray[np.int64], NDArray[np.int64]],
    recvs: NDArray[np.int64],
    violations: list[Violation],
) -> list[tuple[int, int]]:
    """Pairs of a reducing receive and the COMP node that does it: the one that names its chunks, else the only one there is."""
    before, after = edges
    following: dict[int, list[int]] = defaultdict(list)
    reducing = np.flatnonzero(
        chunks.reduces[before] & (trace.kind[before] == NodeType.COMM_RECV) & (trace.kind[after] == NodeType.COMP)
    )
    for recv, comp in zip(before[reducing].tolist(), after[reducing].tolist(), strict=True):
        following[recv].append(comp)
    names_none = (chunks.chunk == ABSENT) & (contents.count == 0)
    pairs = []
    for recv in recvs[chunks.reduces[recvs]].tolist():
        named = contents.of(recv)
        chunk = named[0]
        near = list(dict.fromkeys(following[recv]))
        comps = [comp for comp in near if contents.of(comp) == named] or [comp for comp in near if names_none[comp]]
        if len(comps) == 1:
            pairs.append((recv, comps[0]))
        elif comps:
            violations.append(at_node(trace, recv, "reduction-twice", f"{len(comps)} COMP nodes reduce what arrives", chunk))
        else:
            violations.append(at_node(trace, recv, "reduction-missing", "is_rrc, but no COMP node depends on it", chunk))
    return pairs


@dataclass(frozen=True, slots=True, eq=False)
class _Actions:
    """Columns of actions, one per chunk that an operation moves: of sends, of receives, of reductions and additions.

    `first` says where the actions of each send and each receive begin, in that order.
    """

    columns: tuple[NDArray[np.int64], ...]
    first: NDArray[np.int64]


def _actions(
    trace: Trace,
    contents: Contents | None,
    rank: NDArray[np.int64],
    messages: tuple[NDArray[np.int64], NDArray[np.int64]],
    reductions: list[tuple[int, int]],
    reduces: NDArray[np.bool_],
    buffers: Buffers | None,
) -> _Actions:
    sends, recvs = messages
    both = np.concatenate(messages)
    kind = np.repeat((Action.SEND, Action.RECV), (len(sends), len(recvs))).astype(np.int64)
    if contents is None or buffers is None:
        nowhere = np.full(len(both), NOWHERE, np.int64)
        columns = both, kind, nowhere, nowhere, np.ones(len(both), np.int64), trace.peer[both]
        return _Actions(columns, np.arange(len(both) + 1))
    base = rank * buffers.stride
    first, at = members_of(contents.first, both)
    which = np.repeat(np.arange(len(both)), np.diff(first))
    op, kind = both[which], kind[which]
    named = base[op] + contents.offset[at]
    # A reducing receive has places of its own behind the buffer of its rank.
    size = np.where(reduces[recvs], contents.count[recvs], 0)
    passed = np.cumsum(size) - size
    begins = np.searchsorted(rank[recvs], np.arange(trace.num_ranks))
    own = np.zeros(trace.num_nodes, np.int64)
    own[recvs] = buffers.regions[-1].first + passed - np.append(passed, 0)[begins][rank[recvs]]
    within = np.arange(len(op)) - first[which]
    src = np.where(kind == Action.SEND, named, NOWHERE)
    dst = np.where(kind == Action.SEND, NOWHERE, np.where(reduces[op], base[op] + own[op] + within, named))
    parts: list[tuple[NDArray[np.int64], ...]] = [(op, kind, src, dst, trace.peer[op])]
    reduced, comps = (np.array(column, np.int64) for column in zip(*reductions, strict=True)) if reductions else (at[:0], at[:0])
    _, at = members_of(contents.first, reduced)
    which = np.repeat(np.arange(len(reduced)), contents.count[reduced])
    recv = reduced[which]
    within = np.arange(len(at)) - np.repeat(np.cumsum(contents.count[reduced]) - contents.count[reduced], contents.count[reduced])
    reduce, nowhere = np.full(len(at), Action.REDUCE, np.int64), np.full(len(at), NOWHERE, np.int64)
    parts.append((comps[which], reduce, base[recv] + own[recv] + within, base[recv] + contents.offset[at], nowhere))
    parts.append(_additions(trace, contents, base))
    op, kind, src, dst, peer = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Actions((op, kind, src, dst, np.ones(len(op), np.int64), peer), first)


def _additions(trace: Trace, contents: Contents, base: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Of each addition, the first part goes to the place of the sum, and the others are added to it there."""
    nodes = np.flatnonzero(contents.adds & (trace.kind == NodeType.COMP))
    first, at = members_of(contents.first, nodes)
    which = np.repeat(np.arange(len(nodes)), np.diff(first))
    within = np.arange(len(at)) - first[which]
    part = within > 0
    op = nodes[which][part]
    kind = np.where(within[part] == 1, Action.COPY, Action.REDUCE).astype(np.int64)
    src, dst = base[op] + contents.offset[at[part]], base[op] + contents.offset[contents.first[op]]
    return op, kind, src, dst, np.full(len(op), NOWHERE, np.int64)
