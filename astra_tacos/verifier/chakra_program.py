"""Chakra traces as a `Program`: sends and receives match by tag, source, destination and size; reductions are COMP nodes.

A receive with `is_rrc` writes its data to its own location; the COMP node that depends on it adds them to the chunk. COMP nodes
of one rank may run in parallel, as in a custom collective of ASTRA-sim, so that additions to one chunk commute.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from astra_tacos.errors import ConfigError
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import ABSENT, DANGLING, ChunkColumns, Trace
from astra_tacos.verifier.messages import match_messages, successors
from astra_tacos.verifier.program_form import MAX_LOCATIONS, NOWHERE, Action, Buffers, Program, Region
from astra_tacos.verifier.program_order import local_places
from astra_tacos.verifier.violation import Violation

_MAX_TAGS = 500_000_000
"""ASTRA-sim takes tags modulo this (`astra-sim/system/Sys.cc`)."""


def chakra_program(trace: Trace) -> tuple[Program, list[Violation]]:
    """The program of a trace, and violations of single nodes, dependencies, messages and reductions.

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
    violations += [_at(trace, row, "dangling-dependency", "depends on a node that does not exist") for row in dangling]
    before, after = trace.dep[trace.dep != DANGLING], after[trace.dep != DANGLING]
    sends, recvs = _sound_messages(trace, rank, violations)
    place = local_places(trace.num_nodes, before, after)
    send_key, recv_key = _keys(trace, rank, sends, sends=True), _keys(trace, rank, recvs, sends=False)
    matched_send, matched_recv = match_messages(send_key, place[sends], recv_key, place[recvs])
    violations += _unmatched(trace, rank, np.delete(sends, matched_send), np.delete(recvs, matched_recv))
    alike = [successors(send_key, place[sends]), successors(recv_key, place[recvs])]
    buffers = _buffers(trace, chunks, np.concatenate((sends, recvs)), violations)
    reductions = _reductions(trace, chunks, before, after, recvs, violations) if buffers else []
    actions = _actions(trace, chunks, rank, sends, recvs, reductions, buffers)
    order = np.argsort(actions[0], kind="stable")
    action_of = np.empty(len(order), np.int64)
    action_of[order] = np.arange(len(order))
    op, kind, src, dst, count, peer = (column[order] for column in actions)
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
        message_send=action_of[matched_send],
        message_recv=action_of[len(sends) + matched_recv],
        alike_first=np.concatenate((sends[alike[0][0]], recvs[alike[1][0]])),
        alike_second=np.concatenate((sends[alike[0][1]], recvs[alike[1][1]])),
        adds_commute=True,
        buffers=buffers,
    )
    return program, violations


def _at(trace: Trace, row: int | np.signedinteger, code: str, what: str, chunk: int | None = None) -> Violation:
    npu = int(np.searchsorted(trace.rank_first, row, side="right")) - 1
    return Violation(code, f"{trace.describe_node(int(row))}: {what}", npu=npu, chunk=chunk)


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
        violations += [_at(trace, row, code, what) for row in np.flatnonzero(wrong)]
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
            violations.append(_at(trace, row, "size-mismatch", f"{sizes} (tag {tag})"))
        else:
            violations.append(_at(trace, row, "unmatched-send", f"no receive at rank {dst} with tag {tag}"))
    for (src, _, tag), rows in waiting.items():
        violations += [_at(trace, row, "unmatched-recv", f"no send from rank {src} with tag {tag}") for row in rows]
    return violations


def _buffers(trace: Trace, chunks: ChunkColumns, messages: NDArray[np.int64], violations: list[Violation]) -> Buffers | None:
    """The memory that messages refer to; None if the trace does not state it, or states it inconsistently."""
    columns = np.stack((chunks.chunk[messages], chunks.num_chunks[messages], chunks.total_chunks[messages]))
    told = (columns != ABSENT).all(axis=0)
    if not told.any():
        return None
    found = len(violations)
    what = "has no msg_chunk_idx, msg_chunk_cnt or total_chunk_cnt, although others have"
    violations += [_at(trace, row, "missing-attribute", what) for row in messages[~told]]
    total = int(columns[2].max())
    if total * trace.num_ranks > MAX_LOCATIONS:
        raise ConfigError(f"{trace.prefix}: total_chunk_cnt {total} on {trace.num_ranks} ranks, expected at most {MAX_LOCATIONS}")
    chunk, count, _ = columns
    outside = told & ((columns[2] != total) | (chunk < 0) | (count < 1) | (chunk > total - count))
    violations += [_at(trace, row, "chunk-range", f"chunks are not within the {total} of others") for row in messages[outside]]
    foreign = ~np.isin(trace.kind, (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV))
    what = "is neither COMP, COMM_SEND nor COMM_RECV, as a collective's nodes have to be"
    violations += [_at(trace, row, "node-kind", what) for row in np.flatnonzero(foreign)]
    if len(violations) > found:
        return None
    violations += _uneven(trace, chunks, messages)
    received = trace.kind[messages] == NodeType.COMM_RECV
    room = np.bincount(trace.rank[messages], np.where(received, count, 0), trace.num_ranks).max()
    return Buffers(total + int(room), (Region("chunk", 0, is_whole=True), Region("place", total)))


def _uneven(trace: Trace, chunks: ChunkColumns, messages: NDArray[np.int64]) -> list[Violation]:
    """Violations for messages that have another size than the first message with the same chunks."""
    moved = np.stack((chunks.chunk[messages], chunks.num_chunks[messages]), axis=1)
    _, first, which = np.unique(moved, axis=0, return_index=True, return_inverse=True)
    expected = trace.size_bytes[messages[first[which.ravel()]]]
    return [
        _at(trace, messages[at], "size-uneven", f"has {trace.size_bytes[messages[at]]} bytes, others for it {expected[at]}")
        for at in np.flatnonzero(trace.size_bytes[messages] != expected)
    ]


def _reductions(
    trace: Trace,
    chunks: ChunkColumns,
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    recvs: NDArray[np.int64],
    violations: list[Violation],
) -> list[tuple[int, int]]:
    """Pairs of a reducing receive and its COMP node: the one that names the chunk, else the one that names no chunk."""
    following: dict[int, list[int]] = defaultdict(list)
    edges = np.flatnonzero(
        chunks.reduces[before] & (trace.kind[before] == NodeType.COMM_RECV) & (trace.kind[after] == NodeType.COMP)
    )
    for recv, comp in zip(before[edges].tolist(), after[edges].tolist(), strict=True):
        following[recv].append(comp)
    pairs = []
    for recv in recvs[chunks.reduces[recvs]].tolist():
        chunk = int(chunks.chunk[recv])
        near = list(dict.fromkeys(following[recv]))
        comps = [comp for comp in near if chunks.chunk[comp] == chunk] or [comp for comp in near if chunks.chunk[comp] == ABSENT]
        if len(comps) == 1:
            pairs.append((recv, comps[0]))
        elif comps:
            violations.append(_at(trace, recv, "reduction-twice", f"{len(comps)} COMP nodes reduce what arrives", chunk))
        else:
            violations.append(_at(trace, recv, "reduction-missing", "is_rrc, but no COMP node depends on it", chunk))
    return pairs


def _actions(
    trace: Trace,
    chunks: ChunkColumns,
    rank: NDArray[np.int64],
    sends: NDArray[np.int64],
    recvs: NDArray[np.int64],
    reductions: list[tuple[int, int]],
    buffers: Buffers | None,
) -> tuple[NDArray[np.int64], ...]:
    """Columns of actions, in the order sends, receives, reductions."""
    reduced = np.array([recv for recv, _ in reductions], np.int64)
    ops = np.concatenate((sends, recvs, np.array([comp for _, comp in reductions], np.int64)))
    source = np.concatenate((sends, recvs, reduced))
    kind = np.repeat((Action.SEND, Action.RECV, Action.REDUCE), (len(sends), len(recvs), len(reduced))).astype(np.int64)
    nowhere = np.full(len(ops), NOWHERE, np.int64)
    peer = np.where(kind == Action.REDUCE, NOWHERE, trace.peer[source])
    if buffers is None:
        return ops, kind, nowhere, nowhere, np.ones(len(ops), np.int64), peer
    chunk_at = rank[source] * buffers.stride + chunks.chunk[source]
    # A reducing receive has its own place behind the buffer of its rank.
    own = np.zeros(trace.num_nodes, np.int64)
    size = np.where(chunks.reduces[recvs], chunks.num_chunks[recvs], 0)
    passed = np.cumsum(size) - size
    begins = np.searchsorted(rank[recvs], np.arange(trace.num_ranks))
    own[recvs] = passed - np.append(passed, 0)[begins][rank[recvs]]
    own_at = rank[source] * buffers.stride + buffers.regions[1].first + own[source]
    src = np.where(kind == Action.SEND, chunk_at, np.where(kind == Action.REDUCE, own_at, NOWHERE))
    dst = np.where(kind == Action.SEND, NOWHERE, np.where((kind == Action.RECV) & chunks.reduces[source], own_at, chunk_at))
    return ops, kind, src, dst, chunks.num_chunks[source], peer
