"""A trace as the checks use it: its rows, their topological order, and the names of nodes in findings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from astra_tacos.rules.inputs import TraceFiles
from astra_tacos.rules.rule import Found, FoundRows
from astra_tacos.run.graph.issue_order import IssueOrder, keep_dependencies
from astra_tacos.run.groups import group_ids
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace, WorkloadColumns, precede
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import group_by
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import format_size


class TraceView:
    """The readable nodes of a workload or of a custom collective.

    Parameters
    ----------
    files
        The files of the trace; its `trace` is not None, and has columns of chunks if it is one of a custom collective.
    """

    def __init__(self, files: TraceFiles, *, is_workload: bool) -> None:
        if files.trace is None or (is_workload and files.trace.workload is None):
            raise ValueError("the trace has to be read with all its columns")
        self.files = files
        self.is_workload = is_workload
        self.trace: Trace = files.trace

    @cached_property
    def rank(self) -> Ints:
        """int64[num_nodes], rank or position in whose file each node is."""
        return self.trace.rank

    @property
    def columns(self) -> WorkloadColumns:
        """The columns of a workload, which traces of custom collectives may lack."""
        if self.trace.workload is None:
            raise ValueError("the trace has to be read with all its columns")
        return self.trace.workload

    @property
    def owner(self) -> Ints:
        """int64[num_nodes], rank or position whose node each is."""
        return self.rank if self.trace.owners is None else self.trace.owner

    @property
    def wrong_type(self) -> NDArray[np.uint32] | None:
        """uint32[num_nodes], a bit for each attribute of `WORKLOAD_ATTRIBUTES` with a value of a wrong type; None if not read."""
        return None if self.trace.workload is None else self.trace.workload.wrong_type

    @property
    def no_value(self) -> NDArray[np.uint32] | None:
        """uint32[num_nodes], the same without a value."""
        return None if self.trace.workload is None else self.trace.workload.no_value

    @property
    def num_ranks(self) -> int:
        """Number of ranks that have a file, readable or not."""
        return self.files.ranks[-1] + 1

    def rows(self, *kinds: NodeType) -> Bools:
        """bool[num_nodes], whether a node is of one of these kinds."""
        wanted = np.zeros(256, np.bool_)
        wanted[list(kinds)] = True
        return wanted[self.trace.kind]

    @property
    def sends_or_receives(self) -> Bools:
        """bool[num_nodes], whether a node is a message."""
        return self.rows(NodeType.COMM_SEND, NodeType.COMM_RECV)

    @property
    def computes_on_gpu(self) -> Bools:
        """bool[num_nodes], whether a node is computation that is not on the CPU."""
        return self.rows(NodeType.COMP) & ~self.columns.is_cpu_op

    @cached_property
    def group(self) -> Ints:
        """int64[num_nodes], id of each node's group, see `group_ids`."""
        return group_ids(self.columns)

    def node(self, row: int) -> int:
        """Id of a node."""
        return int(self.trace.node_id[row])

    def at(self, row: int, message: str, remedy: str = "", severity: Severity | None = None, *, waits: bool = False) -> Found:
        """A finding at a node.

        Parameters
        ----------
        severity
            The severity, if not that of the rule.
        waits
            Whether the node waits for ever.
        """
        return Found(message, remedy, self.files.file(self.rank[row]), int(self.rank[row]), self.node(row), severity, waits)

    def each(
        self, where: Bools | Ints, describe: str | Callable[[int], str], remedy: str = "", *, waits: bool = False
    ) -> FoundRows:
        """A finding at each of these nodes, given as a mask or as rows.

        `describe` is a function from a row to its message, or a format such as `{kind} of {size}`, see `text`.
        """
        rows = np.flatnonzero(where) if where.dtype == np.bool_ else where.astype(np.int64, copy=False)
        if isinstance(describe, str):
            return FoundRows(rows, lambda row: self.at(row, self.text(describe, row), remedy, waits=waits))
        return FoundRows(rows, lambda row: self.at(row, describe(row), remedy, waits=waits))

    def text(self, pattern: str, row: int) -> str:
        """A format such as `{kind} of {size}` with the values of a row."""
        trace, sends = self.trace, self.trace.kind[row] == NodeType.COMM_SEND
        peer = f"{'rank' if self.is_workload else 'position'} {trace.peer[row]}"
        return pattern.format(
            kind=self.kind_name(row),
            rank=self.owner[row],
            size=format_size(max(trace.size_bytes[row], 0)),
            bytes=f"{trace.size_bytes[row]:,}",
            us=f"{trace.duration_us[row]:,}",
            tag=trace.tag[row],
            peer=peer,
            towards=f"{'sends to' if sends else 'receives from'} {peer}",
            own=f"{'comm_src' if sends else 'comm_dst'} is {self.columns.own[row] if self.trace.workload else 'unknown'}",
        )

    def kind_name(self, row: int) -> str:
        """Name of a node's kind, like COMP; for a collective its pattern, like ALL_REDUCE."""
        kind = self.trace.kind[row]
        if kind != NodeType.COMM_COLL:
            return NodeType(kind).name if kind <= max(NodeType) else f"a node of type {kind}"
        pattern = ABSENT if self.trace.workload is None else self.columns.comm_type[row]
        return NodeType.COMM_COLL.name if pattern == ABSENT else pattern_name(pattern)

    @cached_property
    def children(self) -> tuple[Ints, Ints]:
        """The rows that depend on each row (CSR): first entry of each row, and rows."""
        rows = np.repeat(np.arange(self.trace.num_nodes), np.diff(self.trace.dep_first))
        there = self.trace.dep >= 0
        return group_by(self.trace.dep[there], rows[there], self.trace.num_nodes)

    @cached_property
    def issue(self) -> IssueOrder:
        """An order in which ranks may issue the nodes: findings do not depend on ids."""
        return keep_dependencies(self.rank, *self.children)

    @property
    def runs(self) -> Bools:
        """bool[num_nodes], whether a row is not in a cycle and does not depend on one."""
        return self.issue.runs

    @cached_property
    def ordered(self) -> Ints:
        """int64[num_ranks], number of rows of each rank that are not in a cycle and do not depend on one."""
        return np.bincount(self.rank[self.runs], minlength=self.trace.num_ranks)

    @cached_property
    def waits(self) -> Bools:
        """bool[num_nodes], whether a row depends on a node that exists."""
        waiting = np.zeros(self.trace.num_nodes, np.bool_)
        waiting[np.repeat(np.arange(self.trace.num_nodes), np.diff(self.trace.dep_first))[self.trace.dep >= 0]] = True
        return waiting

    @cached_property
    def depends(self) -> Bools:
        """bool[num_nodes], whether a row depends on anything."""
        return np.diff(self.trace.dep_first) > 0

    def precede(self, before: Ints, after: Ints) -> Bools:
        """bool[num_queries], whether a chain of dependencies leads from `before[i]` to `after[i]`, two rows of one rank."""
        return precede(self.trace, self.issue.place, self.issue.order, before, after)


def listed(ranks: Ints | tuple[int, ...] | list[int], most: int = 6) -> str:
    """Ranks in words: `0, 1, 5`, or the first `most` and the number of all."""
    texts = [str(rank) for rank in ranks[:most]]
    return ", ".join(texts) + (f", ... ({len(ranks):,})" if len(ranks) > most else "")
