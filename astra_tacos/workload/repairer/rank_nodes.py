"""The nodes of one rank under repair: columns and the bytes of its file, and objects of the nodes that a mend looks at."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.node_bytes import framed, node_at
from astra_tacos.run.trace.reader import read_ranks
from astra_tacos.run.trace.scan import FileBytes
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, UNKNOWN_KIND
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import row_places
from astra_tacos.workload.repairer.node import DraftNode

_LARGEST = np.iinfo(np.int64).max
"""Stands for every larger number."""
_COMMUNICATION = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What a file says of its nodes.

    Parameters
    ----------
    dep
        Rows.
    has_doubtful
        Whether ASTRA-sim refuses a value.
    numbers
        Attributes by name. A number that is negative, or is the largest, may stand for another value, or for none.
    group
        Entry of `group_names`, or `ABSENT`.
    """

    data: bytes
    begin: Ints
    node_id: Ints
    kind: NDArray[np.uint8]
    duration_us: Ints
    dep_first: Ints
    dep: Ints
    has_doubtful: Bools
    states_operations: Bools
    is_cpu_op: Bools
    numbers: dict[str, Ints]
    group: Ints32
    group_names: tuple[str, ...]


class CollectiveKind(NamedTuple):
    """What several collectives of a rank have in common; None for what they do not state."""

    group_name: str | None
    pattern: int | None
    size: int | None


class StatedMessages(NamedTuple):
    """Columns of messages, which state all of them: a row each."""

    is_send: Bools
    own: Ints
    peer: Ints
    tag: Ints
    size: Ints


class RankNodes:
    """The nodes of a rank, in order: those of its file that are left, then new ones.

    A node of the file becomes a message once a mend looks at it, and stays one once a mend may have changed it. All others keep
    their bytes.
    """

    def __init__(self, rank: int, nodes: Iterable[DraftNode] = (), columns: _Columns | None = None) -> None:
        self.rank = rank
        self.columns = columns if columns is not None else _NO_COLUMNS
        self._is_left = np.ones(len(self.columns.node_id), np.bool_)
        self.is_changed = np.zeros(len(self.columns.node_id), np.bool_)
        self.is_plain = ~self.columns.has_doubtful
        """Whether columns say which flag and group a node states, or that it states none."""
        self._messages: dict[int, Any] = {}
        self._objects: dict[int, _FileNode] = {}
        self._last: tuple[int, Any] = (-1, None)
        self._new: list[DraftNode] = []
        for node in nodes:
            self.append(node)
        self._sorted: tuple[Ints, Ints] | None = None
        self._stated_kinds: tuple[tuple[int, int], list[tuple[int, CollectiveKind, int]]] | None = None

    @classmethod
    def of_file(cls, rank: int, file: FileBytes) -> RankNodes:
        """The nodes of a trace file.

        Raises
        ------
        ConfigError
            If it is no trace, or one whose nodes columns cannot hold: two of one id, no id, or a number beyond int64.
        """
        trace = read_ranks(str(file.path), [lambda: file], threads=1, chunks=False, workload=True)
        largest = max(int(trace.node_id.max(initial=0)), int(trace.duration_us.max(initial=0)))
        if trace.workload is None or largest >= _LARGEST:
            raise ConfigError(f"{file.path}: numbers beyond int64")
        data = file.data[: file.size].tobytes()
        begin = np.append(trace.workload.byte_offset, file.size)
        workload = trace.workload
        sends, receives = (trace.kind == kind for kind in (NodeType.COMM_SEND, NodeType.COMM_RECV))
        # Copies, as each column is a part of what holds all of them.
        columns = _Columns(
            data=data,
            begin=begin,
            node_id=trace.node_id.astype(np.int64),
            kind=trace.kind.copy(),
            duration_us=trace.duration_us.copy(),
            dep_first=trace.dep_first,
            dep=trace.dep,
            has_doubtful=(workload.wrong_type | workload.no_value) != 0,
            states_operations=(workload.num_ops > 0)
            & (workload.tensor_size > 0)
            & ~workload.is_cpu_op
            & (trace.kind == NodeType.COMP),
            is_cpu_op=workload.is_cpu_op.copy(),
            numbers={
                "comm_type": workload.comm_type.copy(),
                "comm_size": trace.size_bytes.copy(),
                "comm_tag": trace.tag.copy(),
                "comm_src": np.select((sends, receives), (workload.own, trace.peer), ABSENT),
                "comm_dst": np.select((sends, receives), (trace.peer, workload.own), ABSENT),
            },
            group=workload.group.copy(),
            group_names=workload.group_names,
        )
        return cls(rank, (), columns)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_left)) + len(self._new)

    def __iter__(self) -> Iterator[DraftNode]:
        yield from map(self._node, np.flatnonzero(self._is_left).tolist())
        yield from self._new

    def append(self, node: DraftNode) -> None:
        """Add a node."""
        node.rank = self.rank
        self._new.append(node)

    @property
    def has_unique_ids(self) -> bool:
        """Whether all nodes are those of a file that was read into columns, in which each id occurs once."""
        return not self._new

    def of_kind(self, *kinds: int) -> list[DraftNode]:
        """Nodes of some types."""
        return self._chosen(np.isin(self.columns.kind, kinds), lambda node: node.kind in kinds)

    def collective_kinds(self) -> Counter[CollectiveKind]:
        """Number of collectives of each kind, in the order of the first of each."""
        all_kinds = list(self._kinds_of_columns())
        rest = np.flatnonzero(~self._states_collective() & self._is_left & (self.is_changed | self._is_collective()))
        nodes = [*((row, self._node(row)) for row in rest.tolist()), *((len(self._is_left), node) for node in self._new)]
        all_kinds += [
            (row, CollectiveKind(node.group_name, node.pattern, node.size), 1) for row, node in nodes if node.is_collective
        ]
        kinds: Counter[CollectiveKind] = Counter()
        for _, kind, count in sorted(all_kinds, key=lambda entry: entry[0]):
            kinds[kind] += count
        return kinds

    def _kinds_of_columns(self) -> list[tuple[int, CollectiveKind, int]]:
        """The first row, kind and number of the collectives that columns describe."""
        version = int(np.count_nonzero(self._is_left)), int(np.count_nonzero(self.is_changed))  # nodes go and change once
        if self._stated_kinds is None or self._stated_kinds[0] != version:
            columns, rows = self.columns, np.flatnonzero(self._states_collective())
            group, pattern, size = columns.group[rows], columns.numbers["comm_type"][rows], columns.numbers["comm_size"][rows]
            first, which = row_places(group, pattern, size)
            names = (None if number == ABSENT else columns.group_names[number] for number in group[first].tolist())
            kinds = map(CollectiveKind, names, pattern[first].tolist(), size[first].tolist())
            counts = np.bincount(which, minlength=len(first)).tolist()
            self._stated_kinds = version, list(zip(rows[first].tolist(), kinds, counts, strict=True))
        return self._stated_kinds[1]

    def _is_collective(self) -> Bools:
        return np.equal(self.columns.kind, NodeType.COMM_COLL)

    def _states_collective(self) -> Bools:
        """Rows of collectives of which columns say group, pattern and size."""
        return self._is_collective() & self._is_left & self.is_plain & self._states("comm_type") & self._states("comm_size")

    def _states(self, name: str) -> Bools:
        """Rows of which a column says what they state."""
        values = self.columns.numbers[name]
        return (values >= 0) & (values < _LARGEST)

    def stated_messages(self) -> StatedMessages | None:
        """The messages, if columns say peers, tag and size of all; else None."""
        columns = self.columns
        rows = np.flatnonzero(np.isin(columns.kind, (NodeType.COMM_SEND, NodeType.COMM_RECV)) & self._is_left)
        names = "comm_src", "comm_dst", "comm_tag", "comm_size"
        source, destination, tag, size = (columns.numbers[name][rows] for name in names)
        stated = ~self.is_changed[rows]
        for values in (source, destination, tag, size):
            stated &= (values >= 0) & (values < _LARGEST)
        if not stated.all() or any(node.is_message for node in (*self._chosen(self.is_changed), *self._new)):
            return None
        sends = columns.kind[rows] == NodeType.COMM_SEND
        own_rank, peer = np.where(sends, source, destination), np.where(sends, destination, source)
        return StatedMessages(sends, own_rank, peer, tag, size)

    def communication_on_cpu(self) -> list[DraftNode]:
        """Collectives and messages that run on the CPU."""
        columns = self.columns
        mask = np.isin(columns.kind, _COMMUNICATION) & (columns.is_cpu_op | columns.has_doubtful)
        return [node for node in self._chosen(mask, lambda node: node.kind in _COMMUNICATION) if node.is_cpu_op]

    def not_run(self) -> list[DraftNode]:
        """Nodes of types that ASTRA-sim does not run."""
        mask = (self.columns.kind == NodeType.METADATA) | (self.columns.kind > max(NodeType))
        return [node for node in self._chosen(mask) if node.kind == NodeType.METADATA or node.kind > max(NodeType)]

    def states_operations(self) -> bool:
        """Whether a compute node of a GPU states operations and bytes, of those that `may_lack_operations` leaves out."""
        return bool((self.columns.states_operations & self._is_left & ~self.is_changed).any())

    def may_lack_operations(self) -> list[DraftNode]:
        """Compute nodes among which are all of a GPU that state no operations or no bytes."""
        mask = (self.columns.kind == NodeType.COMP) & ~self.columns.states_operations
        return self._chosen(mask, lambda node: node.kind == NodeType.COMP)

    def named(self, text: str) -> list[DraftNode]:
        """Nodes whose name contains a text."""
        places = re.finditer(re.escape(text.encode()), self.columns.data)
        mask = _rows_at(self.columns.begin, (place.start() for place in places))
        return [node for node in self._chosen(mask) if text in node.name]

    def doubtful(self) -> list[DraftNode]:
        """Nodes among which are all that have a value of a type that ASTRA-sim refuses, or none."""
        return self._chosen(self.columns.has_doubtful)

    def dangling(self) -> list[DraftNode]:
        """Nodes that depend on an id that no node has."""
        columns = self.columns
        lost = columns.dep == DANGLING
        if not self._is_left.all():
            lost |= ~self._is_left[np.where(lost, 0, columns.dep)]
        has, mask = self.finder(), _rows_at(columns.dep_first, np.flatnonzero(lost))
        return self._chosen(mask, lambda node: any(has(dep) is None for dep in node.deps))

    def depending_on(self, gone: Iterable[DraftNode]) -> list[DraftNode]:
        """Nodes that depend on any of some nodes."""
        ids = {node.id for node in gone}
        columns = self.columns
        is_gone = np.zeros(len(columns.node_id) + 1, np.bool_)  # the last one stands for what dangles
        is_gone[[row for row in map(self._row, ids) if row is not None]] = True
        mask = _rows_at(columns.dep_first, np.flatnonzero(is_gone[columns.dep]))
        return self._chosen(mask, lambda node: any(dep in ids for dep in node.deps))

    def first(self) -> list[DraftNode]:
        """Nodes that depend on none."""
        return self._chosen(np.diff(self.columns.dep_first) == 0, lambda node: not node.deps)

    def last(self) -> list[DraftNode]:
        """Nodes on which none depends."""
        columns = self.columns
        used = np.zeros(len(columns.node_id) + 1, np.bool_)
        unchanged = np.repeat(self._is_left & ~self.is_changed, np.diff(columns.dep_first))
        used[columns.dep[unchanged]] = True
        needed = {dep for node in self._chosen(self.is_changed) for dep in node.deps}
        needed |= set(columns.node_id[used[:-1]].tolist())
        return [node for node in self._chosen(~used[:-1]) if node.id not in needed]

    def backward(self) -> list[tuple[int, int]]:
        """Ids of nodes and of those that they depend on, for dependencies on nodes of an id that is not lower."""
        columns = self.columns
        owner = np.repeat(np.arange(len(columns.node_id)), np.diff(columns.dep_first))
        counts = (columns.dep != DANGLING) & (self._is_left & ~self.is_changed)[owner]
        counts &= columns.node_id[np.where(counts, columns.dep, 0)] >= columns.node_id[owner] if len(owner) else counts
        dependencies = [(int(columns.node_id[owner[at]]), int(columns.node_id[columns.dep[at]])) for at in np.flatnonzero(counts)]
        for node in self._chosen(self.is_changed):
            dependencies += ((node.id, dep) for dep in node.deps if dep >= node.id)
        find = self.finder()
        return [(node_id, dep) for node_id, dep in dependencies if find(dep) is not None]

    def issued(self) -> list[DraftNode]:
        """Collectives and messages in an order that dependencies of all nodes allow, the lowest id first of those that are ready.

        So ASTRA-sim starts them. Nodes in a cycle, and those behind one, come last, by id. Dependencies on nodes that do not
        exist count for nothing.
        """
        if not self.backward():  # then the lowest id of those that are left is always ready
            return sorted(self.of_kind(*_COMMUNICATION), key=lambda node: node.id)
        nodes = list(self)
        by_id = {node.id: node for node in nodes}
        sorter = TopologicalSorter({node.id: [dep for dep in node.deps if dep in by_id] for node in nodes})
        with suppress(CycleError):  # what is outside of cycles has its order nevertheless
            sorter.prepare()
        order: list[DraftNode] = []
        ready = sorted(sorter.get_ready())
        while ready:
            node_id = heapq.heappop(ready)
            order.append(by_id[node_id])
            sorter.done(node_id)
            for other in sorter.get_ready():
                heapq.heappush(ready, other)
        placed = {node.id for node in order}
        order += sorted((node for node in nodes if node.id not in placed), key=lambda node: node.id)
        return [node for node in order if node.kind in _COMMUNICATION]

    def between(self, spans: Iterable[tuple[int, int]]) -> list[DraftNode]:
        """Nodes whose ids are in any of some spans, ends included."""
        ids = self.columns.node_id
        mask = np.zeros(len(ids), np.bool_)
        spans = list(spans)
        for low, high in spans:
            mask |= (ids >= low) & (ids <= high)
        return self._chosen(mask, lambda node: any(low <= node.id <= high for low, high in spans))

    def finder(self) -> Callable[[int], DraftNode | None]:
        """The node of an id, as long as no node comes or goes."""
        new = {node.id: node for node in self._new}

        def find(node_id: int) -> DraftNode | None:
            row = self._row(node_id)
            return self._node(row) if row is not None and self._is_left[row] else new.get(node_id)

        return find

    def highest_id(self) -> int:
        """The highest id, -1 without nodes."""
        ids = self.columns.node_id[self._is_left]
        return max(int(ids.max(initial=-1)), max((node.id for node in self._new), default=-1))

    def remove(self, gone: Iterable[DraftNode]) -> None:
        """Take nodes out, by their ids."""
        ids = {node.id for node in gone}
        self._is_left[[row for row in map(self._row, ids) if row is not None]] = False
        self._new = [node for node in self._new if node.id not in ids]

    def compute_us(self) -> int:
        """Sum of the durations of compute nodes."""
        columns = self.columns
        mask = self._is_left & ~self.is_changed & (columns.kind == NodeType.COMP)
        rest = self._chosen(self.is_changed)
        durations: list[int] = columns.duration_us[mask].tolist()
        return sum(durations) + sum(node.duration_us for node in rest if node.kind == NodeType.COMP)

    def encoded(self) -> Iterator[bytes]:
        """The bytes of the nodes, each with its length before it."""
        columns = self.columns
        at = 0
        data = memoryview(columns.data)
        begin = columns.begin
        for row in np.flatnonzero(self.is_changed | ~self._is_left).tolist():
            if begin[at] < begin[row]:
                yield data[begin[at] : begin[row]]  # type: ignore[misc]
            if self._is_left[row]:
                yield framed(self._messages[row])
            at = row + 1
        yield data[begin[at] :]  # type: ignore[misc]
        yield from (framed(node.message) for node in self._new)

    def read(self, row: int) -> Any:
        """The message of a node of the file, to be looked at only."""
        if row in self._messages:
            return self._messages[row]
        if self._last[0] != row:
            self._last = row, node_at(self.columns.data, int(self.columns.begin[row]))
        return self._last[1]

    def change(self, row: int) -> Any:
        """The message of a node of the file, which may be changed."""
        if row not in self._messages:
            self._messages[row] = self.read(row)
            self.is_changed[row] = True
            self.is_plain[row] = False
        return self._messages[row]

    def copy(self, rank: int) -> RankNodes:
        """Nodes of another rank with the same contents."""
        other = RankNodes(rank, (node.copy() for node in self._new), self.columns)
        other._is_left[:] = self._is_left
        other.is_changed[:] = self.is_changed
        other.is_plain[:] = self.is_plain
        other._messages = {row: self._node(row).copy().message for row in self._messages}
        return other

    def _chosen(self, mask: Bools, wanted: Callable[[DraftNode], bool] | None = None) -> list[DraftNode]:
        """Nodes that columns choose and that are unchanged, and those among all others that are wanted."""
        rows = np.flatnonzero((mask | self.is_changed) & self._is_left)
        is_changed = self.is_changed[rows]
        chosen: list[DraftNode] = list(map(self._node, rows.tolist()))
        if wanted is not None and is_changed.any():
            pairs = zip(chosen, is_changed.tolist(), strict=True)
            chosen = [node for node, changed in pairs if not changed or wanted(node)]
        return chosen + [node for node in self._new if wanted is None or wanted(node)]

    def _node(self, row: int) -> DraftNode:
        node = self._objects.get(row)
        if node is None:
            node = self._objects[row] = _FileNode(self, row)
        return node

    def _row(self, node_id: int) -> int | None:
        if self._sorted is None:
            order = np.argsort(self.columns.node_id)
            self._sorted = order, self.columns.node_id[order]
        order, ids = self._sorted
        at = int(np.searchsorted(ids, node_id))
        return int(order[at]) if at < len(ids) and ids[at] == node_id else None


class _FileNode(DraftNode):
    """A node of a file, which `RankNodes` keeps."""

    __slots__ = ("_nodes", "_row")

    def __init__(self, nodes: RankNodes, row: int) -> None:
        self._nodes, self._row = nodes, row
        self.rank = nodes.rank

    @property
    def message(self) -> Any:
        """Its message, which may be changed."""
        return self._nodes.change(self._row)

    @property
    def seen(self) -> Any:
        """Its message, to be looked at only."""
        return self._nodes.read(self._row)

    @property
    def id(self) -> int:
        """Its id, which does not change."""
        return int(self._nodes.columns.node_id[self._row])

    @property
    def kind(self) -> int:
        """Its `NodeType`, or another number."""
        kind = self._nodes.columns.kind[self._row]
        return int(self.seen.type if self._nodes.is_changed[self._row] or kind == UNKNOWN_KIND else kind)

    @property
    def is_cpu_op(self) -> bool:
        """Whether it runs on the CPU."""
        nodes = self._nodes
        return bool(nodes.columns.is_cpu_op[self._row]) if nodes.is_plain[self._row] else super().is_cpu_op

    @property
    def group_name(self) -> str | None:
        """The name as the node states it, None where it states none."""
        nodes, row = self._nodes, self._row
        if not nodes.is_plain[row]:
            return super().group_name
        group = nodes.columns.group[row]
        return None if group == ABSENT else nodes.columns.group_names[group]

    def number(self, name: str) -> int | None:
        """Value of an attribute if it is a whole number, else None."""
        column = self._nodes.columns.numbers.get(name)
        if column is not None and not self._nodes.is_changed[self._row]:
            value = int(column[self._row])
            if 0 <= value < _LARGEST:
                return value
        return super().number(name)


def _rows_at(begin: Ints, offsets: Iterable[int]) -> Bools:
    """Which nodes, whose bytes or dependencies begin at `begin`, have one at any of some offsets."""
    mask = np.zeros(len(begin) - 1, np.bool_)
    rows = np.searchsorted(begin, np.fromiter(offsets, np.int64), side="right") - 1
    mask[rows[rows >= 0]] = True
    return mask


_EMPTY, _NO_FLAGS = np.empty(0, np.int64), np.empty(0, np.bool_)
_NO_COLUMNS = _Columns(
    data=b"",
    begin=np.zeros(1, np.int64),
    node_id=_EMPTY,
    kind=np.empty(0, np.uint8),
    duration_us=_EMPTY,
    dep_first=np.zeros(1, np.int64),
    dep=_EMPTY,
    has_doubtful=_NO_FLAGS,
    states_operations=_NO_FLAGS,
    is_cpu_op=_NO_FLAGS,
    numbers=dict.fromkeys(("comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst"), _EMPTY),
    group=np.empty(0, np.int32),
    group_names=(),
)
