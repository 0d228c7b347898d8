"""What the nodes of a Chakra trace say that they move, as offsets in the memory of their ranks.

A node names chunks, `msg_chunk_cnt` neighbouring ones from `msg_chunk_idx` on or those in `msg_chunk_list`, or it names places
(`place_list`). Traces with places are those of collectives with partial sums: of n chunks, places 0 to n - 1 are what a rank
contributes, places n to 2 n - 1 are where results have to be, and the others are its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, ChunkColumns, NumberLists, Trace
from astra_tacos.support.csr import members_of
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.program_form import MAX_LOCATIONS, expand
from astra_tacos.verifier.violation import Violation


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Offsets that nodes name; those of a message in the order of its bytes, those of an addition the sum and then its parts.

    Parameters
    ----------
    total
        Chunks of the collective.
    are_places
        Whether they are places, not chunks.
    first, offset
        int64[num_nodes + 1] and int64[...]: node i names `offset[first[i]:first[i + 1]]`.
    """

    total: int
    are_places: bool
    first: NDArray[np.int64]
    offset: NDArray[np.int64]

    @property
    def count(self) -> NDArray[np.int64]:
        """int64[num_nodes], how many offsets each node names."""
        return np.diff(self.first)

    @property
    def adds(self) -> NDArray[np.bool_]:
        """bool[num_nodes], whether a node that is no message is an addition."""
        return (self.count > 0) & self.are_places

    def of(self, node: int) -> list[int]:
        """The offsets that a node names."""
        named: list[int] = self.offset[self.first[node] : self.first[node + 1]].tolist()
        return named


def at_node(trace: Trace, row: int | np.signedinteger, code: str, what: str, chunk: int | None = None) -> Violation:
    """A violation of a node.

    Parameters
    ----------
    trace
        The trace that has the node.
    row
        Row of the node.
    code, what
        Code of the violation, and what is wrong with the node.
    chunk
        The chunk that it is about.
    """
    npu = int(np.searchsorted(trace.rank_first, row, side="right")) - 1
    return Violation(code, f"{trace.describe_node(int(row))}: {what}", npu=npu, chunk=chunk)


def contents_of(trace: Trace, chunks: ChunkColumns, messages: NDArray[np.int64], violations: list[Violation]) -> Contents | None:
    """What messages and additions name; None if the trace does not tell, or what it tells makes no sense.

    Parameters
    ----------
    trace, chunks
        The trace.
    messages
        Rows of sends and receives.
    violations
        Gains one for everything that is wrong.

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
    told = (names_places if are_places else names_range | names_list) & (chunks.total_chunks != ABSENT)
    if not are_places and not told[messages].any():
        return None
    found = len(violations)
    named = np.concatenate((messages, additions))
    wanted = "place_list" if are_places else "msg_chunk_idx, msg_chunk_cnt"
    what = f"has no {wanted} or total_chunk_cnt, although others have"
    violations += [at_node(trace, row, "missing-attribute", what) for row in named[~told[named]]]
    named = named[told[named]]
    several = named[names_range[named].astype(int) + names_list[named] + names_places[named] > 1]
    what = "has several of msg_chunk_idx, msg_chunk_list and place_list, expected one"
    violations += [at_node(trace, row, "told-twice", what) for row in several]
    total = int(chunks.total_chunks[named].max(initial=0))
    _check_size(trace, total * (2 if are_places else 1), "total_chunk_cnt", total)
    uneven = chunks.total_chunks[named] != total
    violations += _out_of_range(trace, named[uneven], total)
    foreign = ~np.isin(kind, (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV))
    what = "is neither COMP, COMM_SEND nor COMM_RECV, as a collective's nodes have to be"
    violations += [at_node(trace, row, "node-kind", what) for row in np.flatnonzero(foreign)]
    if total < 1:
        violations += _out_of_range(trace, named[:1], total)
    if len(violations) > found:
        return None
    if are_places:
        adds = chunks.reduces & np.isin(np.arange(trace.num_nodes), messages)
        what = "is_rrc, although places name partial sums that COMP nodes add up"
        violations += [at_node(trace, row, "told-twice", what) for row in np.flatnonzero(adds)]
        contents = _of_places(trace, chunks.place_lists, named, total, violations)
    else:
        contents = _of_chunks(trace, chunks, named, total, violations)
    short = np.flatnonzero(contents.adds & (kind == NodeType.COMP) & (contents.count < 2))
    violations += [at_node(trace, row, "place-list", "names no parts of its sum") for row in short]
    return contents if len(violations) == found else None


def _check_size(trace: Trace, locations: int, what: str, number: int) -> None:
    if locations * trace.num_ranks > MAX_LOCATIONS:
        raise ConfigError(f"{trace.prefix}: {what} {number} on {trace.num_ranks} ranks, expected at most {MAX_LOCATIONS}")


def _out_of_range(trace: Trace, rows: NDArray[np.int64], total: int) -> list[Violation]:
    return [at_node(trace, row, "chunk-range", f"chunks are not within the {total} of others") for row in rows]


def _of_chunks(trace: Trace, chunks: ChunkColumns, named: NDArray[np.int64], total: int, violations: list[Violation]) -> Contents:
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


def _of_places(trace: Trace, lists: NumberLists, named: NDArray[np.int64], total: int, violations: list[Violation]) -> Contents:
    lists = _lists_of(lists, np.sort(named))
    length = np.zeros(trace.num_nodes, np.int64)
    length[lists.node] = np.diff(lists.first)
    contents = Contents(total, True, np.concatenate(([0], np.cumsum(length))), lists.entry.astype(np.int64))
    most = int(contents.offset.max(initial=0))
    _check_size(trace, most + 1, "place", most)
    violations += _outside(trace, contents, lists.node, None)
    return contents


def _lists_of(lists: NumberLists, nodes: NDArray[np.int64]) -> NumberLists:
    """The lists of some nodes, which ascend and have one."""
    first, at = members_of(lists.first, np.searchsorted(lists.node, nodes))
    return NumberLists(nodes, first, lists.entry[at])


def _outside(trace: Trace, contents: Contents, nodes: NDArray[np.int64], total: int | None) -> list[Violation]:
    """Violations for nodes that name nothing, or what is not there."""
    wrong = contents.offset < 0 if total is None else (contents.offset < 0) | (contents.offset >= total)
    bad = np.zeros(trace.num_nodes, np.bool_)
    bad[np.repeat(np.arange(trace.num_nodes), contents.count)[wrong]] = True
    bad[nodes[contents.count[nodes] == 0]] = True
    if total is not None:
        return _out_of_range(trace, np.flatnonzero(bad), total)
    return [at_node(trace, row, "place-list", "names no places, or some below 0") for row in np.flatnonzero(bad)]


def uneven_sizes(
    trace: Trace, chunks: ChunkColumns, contents: Contents, messages: NDArray[np.int64], shortest_bytes: int
) -> list[Violation]:
    """Violations for messages whose size does not fit what they carry.

    The size is that of the first message of the same neighbouring chunks. Where chunks or places are listed, chunks differ by at
    most a byte in all messages that are longer than the shortest.

    Parameters
    ----------
    trace, chunks, contents
        The trace, and what its nodes name.
    messages
        Rows of sends and receives.
    shortest_bytes
        Messages of fewer bytes may be as long as this: what a link carries in less than 1 ns, ASTRA-sim's queues do not take.
    """
    size, count = trace.size_bytes[messages], contents.count[messages]
    violations = []
    if not contents.are_places:
        ranges = messages[chunks.chunk_lists.lengths(trace.num_nodes)[messages] == ABSENT]
        moved = np.stack((chunks.chunk[ranges], chunks.num_chunks[ranges]), axis=1)
        _, first, which = np.unique(moved, axis=0, return_index=True, return_inverse=True)
        expected, found = trace.size_bytes[ranges[first[which.ravel()]]], trace.size_bytes[ranges]
        violations += [
            at_node(trace, ranges[at], "size-uneven", f"has {found[at]} bytes, others for it {expected[at]}")
            for at in np.flatnonzero((found != expected) & (np.maximum(found, expected) > shortest_bytes))
        ]
    if contents.are_places or len(chunks.chunk_lists.node):
        least = int((size // count).min())
        for at in np.flatnonzero(size > np.maximum(count * (least + 1), shortest_bytes)).tolist():
            what = f"has {size[at]} bytes for {count[at]} chunks, others {least} to {least + 1} bytes for one"
            violations.append(at_node(trace, messages[at], "size-uneven", what))
    return violations
