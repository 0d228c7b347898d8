"""The `Trace` class: traces of all ranks as columns, one row per node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.writer import encode_node
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.grouping import members_of

if TYPE_CHECKING:
    from astra_tacos.run.trace.scan import FileBytes

ABSENT = -1
"""Of an attribute that a node lacks."""
INVALID = -(1 << 63)
"""Of an attribute whose value means nothing."""
DANGLING = -1
"""Of a dependency on an id that no node has."""
UNKNOWN_KIND = 255
"""Kind of a node whose type is not in 0 to 254."""


def idle_trace() -> bytes:
    """A trace with a single computation that takes no time, because ASTRA-sim needs at least one node."""
    return encode_node("nothing_", NodeType.COMP, {"is_cpu_op": 0})


WORKLOAD_ATTRIBUTES = (
    "is_cpu_op",
    "comm_type",
    "comm_size",
    "num_ops",
    "tensor_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_priority",
    "pg_name",
    "involved_dim",
)
"""The attributes that ASTRA-sim reads; their places are the bits of `WorkloadColumns.wrong_type` and `no_value`."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberLists:
    """Lists of numbers that some nodes have in an attribute.

    Parameters
    ----------
    node
        int64[num_lists], rows of the nodes that have one, ascending.
    first, entry
        int64[num_lists + 1] and int32[...]: list i is `entry[first[i]:first[i + 1]]`.
    """

    node: Ints
    first: Ints
    entry: Ints32

    def of_rows(self, rows: Ints, num_nodes: int) -> NumberLists:
        """The lists of the nodes at some rows of `num_nodes`."""
        place = np.full(num_nodes, ABSENT, np.int64)
        place[self.node] = np.arange(len(self.node))
        node = np.flatnonzero(place[rows] != ABSENT)
        first, entries = members_of(self.first, place[rows[node]])
        return NumberLists(node, first, self.entry[entries])

    def lengths(self, num_nodes: int) -> Ints:
        """int64[num_nodes], the length of each node's list, `ABSENT` where it has none."""
        lengths = np.full(num_nodes, ABSENT, np.int64)
        lengths[self.node] = np.diff(self.first)
        return lengths


NO_LISTS = NumberLists(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkColumns:
    """The chunks that each node moves, in the attributes that converters write for collectives; `ABSENT` without them.

    Parameters
    ----------
    chunk, num_chunks, total_chunks
        int64[num_nodes], `msg_chunk_idx`, `msg_chunk_cnt`, `total_chunk_cnt`.
    reduces
        bool[num_nodes], `is_rrc`.
    chunk_lists
        `msg_chunk_list`, the chunks of messages that do not carry neighbouring ones.
    place_lists
        `place_list`, of collectives with partial sums: the places of a rank's memory that a message is read from or goes to, or
        where a sum goes to and where its parts are.
    """

    chunk: Ints
    num_chunks: Ints
    total_chunks: Ints
    reduces: Bools
    chunk_lists: NumberLists = NO_LISTS
    place_lists: NumberLists = NO_LISTS

    def of_rows(self, rows: Ints) -> ChunkColumns:
        """Those of the nodes at some rows."""
        num_nodes = len(self.chunk)
        return ChunkColumns(
            self.chunk[rows],
            self.num_chunks[rows],
            self.total_chunks[rows],
            self.reduces[rows],
            self.chunk_lists.of_rows(rows, num_nodes),
            self.place_lists.of_rows(rows, num_nodes),
        )

    @property
    def moved(self) -> Ints:
        """int64[num_nodes], how many chunks a node names; `ABSENT` if it does not say."""
        num_nodes = len(self.chunk)
        listed = np.maximum(self.chunk_lists.lengths(num_nodes), self.place_lists.lengths(num_nodes))
        return np.where(listed == ABSENT, self.num_chunks, listed)


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadColumns:
    """Further attributes that ASTRA-sim reads of the nodes of a training workload; `ABSENT` if a node lacks one.

    Parameters
    ----------
    comm_type, num_ops, tensor_size, comm_priority
        int64[num_nodes], the attributes of these names.
    is_cpu_op
        bool[num_nodes], False where absent.
    own
        int64[num_nodes], the own rank that the node states: `comm_src` of a send, `comm_dst` of a receive.
    group, group_names
        int32[num_nodes], entry of `group_names` with the node's `pg_name`, or `ABSENT`.
    involved_dims
        int64[num_nodes], bit d is set if `involved_dim` names dimension d, for dimensions 0 to 62.
    involved_count
        int64[num_nodes], length of `involved_dim`, 0 if absent; dimensions beyond it do not take part.
    root
        int64[num_nodes], the root's rank, of the first of `ROOT_ATTRIBUTES` that a node has; `INVALID` if it is no integer.
    carried_pattern, own_group
        int64[num_nodes], the `CommType` and the group's id that the attributes `PATTERN_ATTRIBUTE` and `GROUP_ATTRIBUTE` (of
        `run/patterns.py`) state; `INVALID` if a value is no pattern's name or no number.
    num_data
        int64[num_nodes], how many of a node's dependencies, the first in `Trace.dep`, are on data.
    wrong_type, no_value
        uint32[num_nodes], bit i is set if attribute `WORKLOAD_ATTRIBUTES[i]` has a value of a type at which ASTRA-sim's reader
        throws (`feeder_v3/et_feeder_node.h`, `flagged_implicit_converter`; `Workload.cc` for `involved_dim`), or no value.
    byte_offset
        int64[num_nodes], offset of the node's length prefix in its file (in the decompressed bytes, if it is compressed).
    """

    comm_type: Ints
    num_ops: Ints
    tensor_size: Ints
    comm_priority: Ints
    is_cpu_op: Bools
    own: Ints
    group: Ints32
    group_names: tuple[str, ...]
    involved_dims: Ints
    involved_count: Ints
    root: Ints
    carried_pattern: Ints
    own_group: Ints
    num_data: Ints
    wrong_type: NDArray[np.uint32]
    no_value: NDArray[np.uint32]
    byte_offset: Ints


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """The nodes of all ranks, sorted by rank, then in the order of the file. A node is referred to by its row.

    Attributes that a node lacks, or whose value is not an integer, are `ABSENT`. Of several attributes of one name the first
    counts, as in ASTRA-sim. Values beyond int64 become the largest int64.

    Parameters
    ----------
    prefix
        Prefix of the files; the nodes of rank r are in `prefix.r.et`.
    rank_first
        int64[num_ranks + 1], first row of each rank.
    node_id
        uint64[num_nodes], id of the node, unique within its rank.
    kind
        uint8[num_nodes], `NodeType`, or `UNKNOWN_KIND`.
    duration_us
        int64[num_nodes], `duration_micros`.
    size_bytes
        int64[num_nodes], `comm_size`.
    peer
        int64[num_nodes], `comm_dst` of a send, `comm_src` of a receive.
    tag
        int64[num_nodes], `comm_tag`.
    dep_first, dep
        int64[num_nodes + 1] and int64[...], rows that each node depends on (data, then control), `DANGLING` for ids that do not
        exist (CSR).
    chunks, workload
        Further columns, None unless they were asked for.
    owners
        int64[num_ranks], the ranks whose nodes these are, where they are some of a network's; None for all of them. Then `rank`
        is the place among these.
    files
        int64[num_ranks], the number of the file that has each rank's nodes; None if file i has those of the rank at place i.
    held
        What gives the bytes of each file by its number, of a trace that is not written; None if the files have them.

    Examples
    --------
    >>> from astra_tacos import NodeType, read_trace
    >>> trace = read_trace("configs/workload/transformer_16/workload/w", workload=True)
    >>> int((trace.kind == NodeType.COMM_COLL).sum()) > 0
    True
    """

    prefix: str
    rank_first: Ints
    node_id: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    duration_us: Ints
    size_bytes: Ints
    peer: Ints
    tag: Ints
    dep_first: Ints
    dep: Ints
    chunks: ChunkColumns | None = None
    workload: WorkloadColumns | None = None
    owners: Ints | None = None
    files: Ints | None = None
    held: Mapping[int, Callable[[], FileBytes]] | None = None

    def __repr__(self) -> str:
        return f"<Trace: {self.prefix}, {self.num_ranks:,} ranks, {self.num_nodes:,} nodes>"

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.rank_first) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all ranks."""
        return len(self.node_id)

    @property
    def rank(self) -> Ints:
        """int64[num_nodes], rank of each node."""
        return np.repeat(np.arange(self.num_ranks), np.diff(self.rank_first))

    @property
    def owner(self) -> Ints:
        """int64[num_nodes], rank of the network whose node each is."""
        return self.rank if self.owners is None else np.repeat(self.owners, np.diff(self.rank_first))

    def file(self, rank: int) -> Path:
        """The file that has the nodes of the rank at a place."""
        return Path(f"{self.prefix}.{rank if self.files is None else self.files[rank]}.et")

    def of_ranks(self, ranks: Ints) -> Trace:
        """The nodes of some ranks."""
        first, rows = members_of(self.rank_first, ranks)
        dep_first, entries = members_of(self.dep_first, rows)
        moved = np.repeat(first[:-1] - self.rank_first[:-1][ranks], np.diff(first))  # how far the rows of each rank go
        columns = {name: getattr(self, name)[rows] for name in ("node_id", "kind", "duration_us", "size_bytes", "peer", "tag")}
        workload = self.workload
        if workload is not None:
            arrays = {field.name: getattr(workload, field.name) for field in fields(workload)}
            workload = replace(workload, **{name: array[rows] for name, array in arrays.items() if name != "group_names"})
        owners, files = (ranks if known is None else known[ranks] for known in (self.owners, self.files))
        chunks = None if self.chunks is None else self.chunks.of_rows(rows)
        dep = np.where(self.dep[entries] == DANGLING, DANGLING, self.dep[entries] + np.repeat(moved, np.diff(dep_first)))
        return Trace(
            self.prefix,
            first,
            **columns,
            dep_first=dep_first,
            dep=dep,
            chunks=chunks,
            workload=workload,
            owners=owners,
            files=files,
            held=self.held,
        )

    def describe_node(self, row: int) -> str:
        """A node in words, like `rank 3, node 17`."""
        rank = int(np.searchsorted(self.rank_first, row, side="right")) - 1
        rank = rank if self.owners is None else int(self.owners[rank])
        return f"rank {rank}, node {int(self.node_id[row])}"


def precede(trace: Trace, place: Ints, order: Ints, before: Ints, after: Ints) -> Bools:
    """bool[num_queries], whether a chain of dependencies leads from `before[i]` to `after[i]`, two rows of one rank.

    Parameters
    ----------
    place, order
        int64[num_nodes] each, a topological order: the place of each row in it, and the row at each place.
    before, after
        int64[num_queries], rows.
    """
    from astra_tacos.run.trace._row_kernels import precedes

    answer = np.zeros(len(before), np.bool_)
    pairs = np.flatnonzero(place[before] < place[after])  # a row can only depend on earlier ones
    pairs = pairs[np.lexsort((place[after[pairs]], place[before[pairs]]))]
    rows = before[pairs], after[pairs]
    answer[pairs] = precedes(trace.rank, place, order, trace.dep_first, trace.dep, *rows)
    return answer
