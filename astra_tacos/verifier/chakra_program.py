"""Chakra traces as a `Program`: sends and receives match by tag, source, destination and size; reductions are COMP nodes.

`contents_of` says what nodes move. A receive with `is_rrc` writes its data to places of its own; the COMP node that depends
on it adds them to the chunks. COMP nodes of one rank may run in parallel, so additions to one chunk commute (ASTRA-sim runs the
COMP nodes of a custom collective so).

What the nodes of a Chakra trace say that they move, as offsets in the memory of their ranks.

A node names chunks, `msg_chunk_cnt` neighbouring ones from `msg_chunk_idx` on or those in `msg_chunk_list`, or it names places
(`place_list`). Traces with places are those of collectives with partial sums: of n chunks, places 0 to n - 1 are what a rank
contributes, places n to 2 n - 1 are where results have to be, and the others are its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, ChunkColumns, NumberLists, Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import members_of
from astra_tacos.verifier.program_form import (
    MAX_LOCATIONS,
    NOWHERE,
    Action,
    Alike,
    Buffers,
    Program,
    Region,
    expand,
    match_messages,
    successors,
)
from astra_tacos.verifier.program_order import local_places
from astra_tacos.verifier.violation import Violation

_MAX_TAGS = 500_000_000
"""ASTRA-sim takes tags modulo this (`astra-sim/system/Sys.cc`)."""
_IN_FLIGHT = "can be in flight at once under one tag, source, destination and size"


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Offsets that nodes name; those of a message in the order of its bytes, those of an addition the sum and then its parts.

    Parameters
    ----------
    are_places
        Whether they are places, not chunks.
    first, offset
        int64[num_nodes + 1] and int64[...]: node i names `offset[first[i]:first[i + 1]]`.
    """

    total: int
    are_places: bool
    first: Ints
    offset: Ints

    @property
    def count(self) -> Ints:
        """int64[num_nodes], how many offsets each node names."""
        return np.diff(self.first)

    @property
    def adds(self) -> Bools:
        """bool[num_nodes], whether a node that is no message is an addition."""
        return (self.count > 0) & self.are_places

    def of(self, node: int) -> list[int]:
        """The offsets that a node names."""
        named: list[int] = self.offset[self.first[node] : self.first[node + 1]].tolist()
        return named


def at_node(trace: Trace, row: int | np.signedinteger, code: str, problem: str, chunk: int | None = None) -> Violation:
    """A violation of a node."""
    npu = int(np.searchsorted(trace.rank_first, row, side="right")) - 1
    return Violation(code, f"{trace.describe_node(int(row))}: {problem}", npu=npu, chunk=chunk)


def contents_of(trace: Trace, chunks: ChunkColumns, messages: Ints, violations: list[Violation]) -> Contents | None:
    """What messages and additions name; None if the trace does not tell, or what it tells makes no sense.

    Raises
    ------
    ConfigError
        If numbers of chunks or places are beyond reason.
    """
    kind = trace.kind
    names_range = (chunks.chunk != ABSENT) & (chunks.num_chunks != ABSENT)
    names_list, names_places = (lists.lengths(trace.num_nodes) != ABSENT for lists in (chunks.chunk_lists, chunks.place_lists))
    additions = np.flatnonzero(names_places & (kind == NodeType.COMP))
    are_places = bool(names_places[messages].any()) or len(additions) > 0
    names_chunks = (names_places if are_places else names_range | names_list) & (chunks.total_chunks != ABSENT)
    if not are_places and not names_chunks[messages].any():
        return None
    num_before = len(violations)
    named = np.concatenate((messages, additions))
    wanted = "place_list" if are_places else "msg_chunk_idx, msg_chunk_cnt"
    problem = f"has no {wanted} or total_chunk_cnt, although others have"
    violations += [at_node(trace, row, "missing-attribute", problem) for row in named[~names_chunks[named]]]
    named = named[names_chunks[named]]
    several = named[names_range[named].astype(int) + names_list[named] + names_places[named] > 1]
    problem = "has several of msg_chunk_idx, msg_chunk_list and place_list, expected one"
    violations += [at_node(trace, row, "told-twice", problem) for row in several]
    total = int(chunks.total_chunks[named].max(initial=0))
    _check_size(trace, total * (2 if are_places else 1), "total_chunk_cnt", total)
    uneven = chunks.total_chunks[named] != total
    violations += _out_of_range(trace, named[uneven], total)
    foreign = ~np.isin(kind, (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV))
    problem = "is neither COMP, COMM_SEND nor COMM_RECV, as a collective's nodes have to be"
    violations += [at_node(trace, row, "node-kind", problem) for row in np.flatnonzero(foreign)]
    if total < 1:
        violations += _out_of_range(trace, named[:1], total)
    if len(violations) > num_before:
        return None
    if are_places:
        adds = chunks.reduces & np.isin(np.arange(trace.num_nodes), messages)
        problem = "is_rrc, although places name partial sums that COMP nodes add up"
        violations += [at_node(trace, row, "told-twice", problem) for row in np.flatnonzero(adds)]
        contents = _of_places(trace, chunks.place_lists, named, total, violations)
    else:
        contents = _of_chunks(trace, chunks, named, total, violations)
    short = np.flatnonzero(contents.adds & (kind == NodeType.COMP) & (contents.count < 2))
    violations += [at_node(trace, row, "place-list", "names no parts of its sum") for row in short]
    return contents if len(violations) == num_before else None


def _check_size(trace: Trace, locations: int, counted: str, number: int) -> None:
    if locations * trace.num_ranks > MAX_LOCATIONS:
        raise ConfigError(f"{trace.prefix}: {counted} {number} on {trace.num_ranks} ranks, expected at most {MAX_LOCATIONS}")


def _out_of_range(trace: Trace, rows: Ints, total: int) -> list[Violation]:
    return [at_node(trace, row, "chunk-range", f"chunks are not within the {total} of others") for row in rows]


def _of_chunks(trace: Trace, chunks: ChunkColumns, named: Ints, total: int, violations: list[Violation]) -> Contents:
    """Chunks of messages, and of COMP nodes that name those that they reduce."""
    names = np.zeros(trace.num_nodes, np.bool_)
    names[named] = True
    names |= trace.kind == NodeType.COMP
    chunk, count = chunks.chunk, chunks.num_chunks
    in_list = chunks.chunk_lists.lengths(trace.num_nodes) != ABSENT
    in_range = names & ~in_list & (chunk != ABSENT) & (count != ABSENT)
    sound = in_range & (chunk >= 0) & (count >= 1) & (count <= total) & (chunk <= total - count)
    violations += _out_of_range(trace, np.flatnonzero(in_range & ~sound & (trace.kind != NodeType.COMP)), total)
    length = np.where(sound, count, 0)
    lists = _lists_of(chunks.chunk_lists, np.flatnonzero(names & in_list))
    length[lists.node] = np.diff(lists.first)
    first = np.concatenate(([0], np.cumsum(length)))
    offset = np.empty(first[-1], np.int64)
    ranges = np.flatnonzero(sound)
    offset[expand(first[ranges], length[ranges])] = expand(chunk[ranges], length[ranges])
    offset[expand(first[lists.node], length[lists.node])] = lists.entry
    contents = Contents(total, False, first, offset)
    violations += _outside(trace, contents, lists.node, total)
    return contents


def _of_places(trace: Trace, lists: NumberLists, named: Ints, total: int, violations: list[Violation]) -> Contents:
    lists = _lists_of(lists, np.sort(named))
    length = np.zeros(trace.num_nodes, np.int64)
    length[lists.node] = np.diff(lists.first)
    contents = Contents(total, True, np.concatenate(([0], np.cumsum(length))), lists.entry.astype(np.int64))
    most = int(contents.offset.max(initial=0))
    _check_size(trace, most + 1, "place", most)
    violations += _outside(trace, contents, lists.node, None)
    return contents


def _lists_of(lists: NumberLists, nodes: Ints) -> NumberLists:
    """The lists of some nodes, which ascend and have one."""
    first, at = members_of(lists.first, np.searchsorted(lists.node, nodes))
    return NumberLists(nodes, first, lists.entry[at])


def _outside(trace: Trace, contents: Contents, nodes: Ints, total: int | None) -> list[Violation]:
    """Violations for nodes that name nothing, or what is not there."""
    wrong = contents.offset < 0 if total is None else (contents.offset < 0) | (contents.offset >= total)
    bad = np.zeros(trace.num_nodes, np.bool_)
    bad[np.repeat(np.arange(trace.num_nodes), contents.count)[wrong]] = True
    bad[nodes[contents.count[nodes] == 0]] = True
    if total is not None:
        return _out_of_range(trace, np.flatnonzero(bad), total)
    return [at_node(trace, row, "place-list", "names no places, or some below 0") for row in np.flatnonzero(bad)]


def uneven_sizes(trace: Trace, chunks: ChunkColumns, contents: Contents, messages: Ints, shortest_bytes: int) -> list[Violation]:
    """Violations for messages whose size does not fit what they carry.

    The size is that of the first message of the same neighbouring chunks. Where chunks or places are listed, chunks differ by at
    most a byte in all messages that are longer than the shortest.

    Parameters
    ----------
    shortest_bytes
        Messages of fewer bytes may be as long as this: what a link carries in less than 1 ns, ASTRA-sim's queues do not take.
    """
    size, count = trace.size_bytes[messages], contents.count[messages]
    violations = []
    if not contents.are_places:
        ranges = messages[chunks.chunk_lists.lengths(trace.num_nodes)[messages] == ABSENT]
        moved = np.stack((chunks.chunk[ranges], chunks.num_chunks[ranges]), axis=1)
        _, first, which = np.unique(moved, axis=0, return_index=True, return_inverse=True)
        expected, size_bytes = trace.size_bytes[ranges[first[which.ravel()]]], trace.size_bytes[ranges]
        violations += [
            at_node(trace, ranges[at], "size-uneven", f"has {size_bytes[at]} bytes, others for it {expected[at]}")
            for at in np.flatnonzero((size_bytes != expected) & (np.maximum(size_bytes, expected) > shortest_bytes))
        ]
    if contents.are_places or len(chunks.chunk_lists.node):
        least = int((size // count).min())
        for at in np.flatnonzero(size > np.maximum(count * (least + 1), shortest_bytes)).tolist():
            problem = f"has {size[at]} bytes for {count[at]} chunks, others {least} to {least + 1} bytes for one"
            violations.append(at_node(trace, messages[at], "size-uneven", problem))
    return violations


def chakra_program(trace: Trace, shortest_bytes: int | None = None) -> tuple[Program, list[Violation]]:
    """The program of a trace, and violations of single nodes, dependencies, messages and reductions.

    Parameters
    ----------
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
    alike = zip(successors(send_key, place[sends]), successors(recv_key, place[recvs]), strict=True)
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
        alike=Alike("duplicate-tag", _IN_FLIGHT, *(np.concatenate((sends[first], recvs[second])) for first, second in alike)),
        adds_commute=True,
        buffers=buffers,
    )
    return program, violations


def _paired(
    trace: Trace,
    actions: _Actions,
    matched: tuple[Ints, Ints],
    sends: Ints,
    violations: list[Violation],
) -> tuple[Ints, Ints]:
    """Actions that belong together, chunk by chunk; adds a violation for messages whose ends name different numbers of chunks."""
    sent, received = (np.diff(actions.first)[ends] for ends in matched)
    for at in np.flatnonzero(sent != received).tolist():
        problem = f"sends {sent[at]} chunks, its receive expects {received[at]}"
        violations.append(at_node(trace, sends[matched[0][at]], "chunk-count", problem))
    both = np.minimum(sent, received)
    return expand(actions.first[matched[0]], both), expand(actions.first[matched[1]], both)


def _sound_messages(trace: Trace, rank: Ints, violations: list[Violation]) -> tuple[Ints, Ints]:
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
    for code, fault, problem in faults:
        wrong = message & fault
        sound &= ~wrong
        violations += [at_node(trace, row, code, problem) for row in np.flatnonzero(wrong)]
    return np.flatnonzero(is_send & sound), np.flatnonzero(is_recv & sound)


def _keys(trace: Trace, rank: Ints, rows: Ints, *, sends: bool) -> tuple[Ints, ...]:
    src, dst = (rank[rows], trace.peer[rows]) if sends else (trace.peer[rows], rank[rows])
    return src, dst, trace.tag[rows] % _MAX_TAGS, trace.size_bytes[rows]


def _unmatched(trace: Trace, rank: Ints, sends: Ints, recvs: Ints) -> list[Violation]:
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


def _buffers(trace: Trace, contents: Contents, received: Ints) -> Buffers:
    """The memory that messages and additions refer to; behind the chunks, every receive of a rank that reduces has places."""
    total = contents.total
    if contents.are_places:
        stride = max(int(contents.offset.max(initial=0)) + 1, 2 * total)
        regions = Region("input chunk", 0, is_whole=True), Region("chunk", total, is_whole=True), Region("place", 2 * total)
        return Buffers(stride, regions, result=total)
    room = np.bincount(trace.rank[received], contents.count[received], trace.num_ranks).max(initial=0)
    return Buffers(total + int(room), (Region("chunk", 0, is_whole=True), Region("place", total)))


def _reductions(
    trace: Trace,
    chunks: ChunkColumns,
    contents: Contents,
    edges: tuple[Ints, Ints],
    recvs: Ints,
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
            violations.append(at_node(trace, recv, "reduction-missing", "is_rrc, but no COMP node depends on this node", chunk))
    return pairs


@dataclass(frozen=True, slots=True, eq=False)
class _Actions:
    """Columns of actions, one per chunk that an operation moves: of sends, of receives, of reductions and additions.

    `first` says where the actions of each send and each receive begin, in that order.
    """

    columns: tuple[Ints, ...]
    first: Ints


def _actions(
    trace: Trace,
    contents: Contents | None,
    rank: Ints,
    messages: tuple[Ints, Ints],
    reductions: list[tuple[int, int]],
    reduces: Bools,
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
    own_offset = np.zeros(trace.num_nodes, np.int64)
    own_offset[recvs] = buffers.regions[-1].first + passed - np.append(passed, 0)[begins][rank[recvs]]
    within = np.arange(len(op)) - first[which]
    src = np.where(kind == Action.SEND, named, NOWHERE)
    dst = np.where(kind == Action.SEND, NOWHERE, np.where(reduces[op], base[op] + own_offset[op] + within, named))
    parts: list[tuple[Ints, ...]] = [(op, kind, src, dst, trace.peer[op])]
    reduced, comps = (np.array(column, np.int64) for column in zip(*reductions, strict=True)) if reductions else (at[:0], at[:0])
    begin, at = members_of(contents.first, reduced)
    which = np.repeat(np.arange(len(reduced)), np.diff(begin))
    recv, within = reduced[which], np.arange(len(at)) - begin[which]
    reduce, nowhere = np.full(len(at), Action.REDUCE, np.int64), np.full(len(at), NOWHERE, np.int64)
    parts.append((comps[which], reduce, base[recv] + own_offset[recv] + within, base[recv] + contents.offset[at], nowhere))
    parts.append(_additions(trace, contents, base))
    op, kind, src, dst, peer = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Actions((op, kind, src, dst, np.ones(len(op), np.int64), peer), first)


def _additions(trace: Trace, contents: Contents, base: Ints) -> tuple[Ints, ...]:
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
