"""Columns of each rank of a stage: the nodes are encoded once, then groups, peers and tags are filled in per rank.

The ranks of a stage differ in nothing else. A rank runs its compute nodes one after another in program order, and likewise its
collectives and sends. Control dependencies enforce this order: without them ASTRA-sim would start any ready node, and ranks that
start collectives in different orders deadlock. Receives have no dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.writer import NodeTable, Values
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import MAX_SIZE_BYTES
from astra_tacos.workload.generator.cost import Cost, Device
from astra_tacos.workload.generator.parallelism import GroupKind, Groups, Parallelism


class Label(NamedTuple):
    """The name of a node: a text, and a number after it."""

    text: str
    number: int

    def of(self, activity: str) -> Label:
        """Name of a part: `mb0_attention_forward_layer3` of all_reduce is `mb0_attention_forward_all_reduce_layer3`."""
        text, end = self.text.rsplit("_", 1)
        return Label(f"{text}_{activity}_{end}", self.number)

    def __str__(self) -> str:
        return f"{self.text}{self.number}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node. Its id is its index in the program.

    Parameters
    ----------
    kind, label, data, ctrl
        Kind, name, and ids of the nodes it depends on, for every node.
    hop, message
        For a message: +1 for the next stage, -1 for the previous one; and its number among all messages of a lane.
    """

    kind: NodeType
    label: Label
    data: tuple[int, ...]
    ctrl: tuple[int, ...]
    cost: Cost | None = None
    size_bytes: int = 0
    comm_type: CommType | None = None
    group: GroupKind | None = None
    hop: int = 0
    message: int = 0


@dataclass(slots=True)
class Program:
    """The nodes of a stage, chained in program order as they are added.

    Parameters
    ----------
    prefix
        Begin of the names of the nodes that are added; with several training steps, `step0_` and so on.
    updated
        Adds the updates of some parameters, by the name of what they belong to, and returns the ids of the nodes after which they
        may be used; no node in the first training step.
    """

    parallelism: Parallelism
    nodes: list[Node] = field(default_factory=list)
    prefix: str = ""
    updated: Callable[[str], tuple[int, ...]] = lambda owner: ()
    _latest_compute: int | None = None
    _latest_communication: int | None = None
    _sums: dict[tuple[str, Label], int] = field(default_factory=dict)

    def compute(self, label: Label, cost: Cost, *data: int) -> int:
        """Add a compute node, and return its id.

        Raises
        ------
        ConfigError
            If the cost does not fit the numbers of a trace.
        """
        if max(cost.num_ops, cost.num_bytes) > np.iinfo(np.int64).max:
            raise ConfigError(f"{label}: {cost.num_ops:.3g} operations or {cost.num_bytes:.3g} bytes are too many")
        self._latest_compute = self._add(NodeType.COMP, label, data, self._latest_compute, cost=cost)
        return self._latest_compute

    def accumulate(self, total: Label, label: Label, cost: Cost, *data: int) -> int:
        """Add a compute node with gradients of a micro-batch, which adds them to those of the one before, and return its id.

        Parameters
        ----------
        *data
            Ids of the nodes whose results it reads, beside the sum so far.

        Raises
        ------
        ConfigError
            If the cost does not fit the numbers of a trace.
        """
        key = self.prefix, total
        so_far = (self._sums[key],) if key in self._sums else ()
        self._sums[key] = self.compute(label, cost, *data, *so_far)
        return self._sums[key]

    def collective(self, label: Label, pattern: CommType, group: GroupKind, size_bytes: int, *data: int) -> int:
        """Add a collective, and return its id; for groups of one rank add nothing, and return the last of `data`.

        A collective of fewer bytes than the run has ranks gets a byte per rank, as ASTRA-sim gives it (`Sys.cc`).

        Raises
        ------
        ConfigError
            If it has less than a byte per rank of its group, or too many.
        """
        least = self.parallelism.group_size(group)
        if least == 1:
            return data[-1]
        if not least <= size_bytes <= MAX_SIZE_BYTES:
            raise ConfigError(f"{label}: found {size_bytes:,} bytes, expected {least:,} (a byte per rank) to {MAX_SIZE_BYTES:,}")
        size_bytes = max(size_bytes, self.parallelism.num_ranks)
        before = self._latest_communication
        self._latest_communication = self._add(
            NodeType.COMM_COLL, label, data, before, size_bytes=size_bytes, comm_type=pattern, group=group
        )
        return self._latest_communication

    def message(self, kind: NodeType, label: Label, hop: int, message: int, size_bytes: int, *data: int) -> int:
        """Add a send or a receive, and return its id; a receive does not wait for what was added before it.

        Parameters
        ----------
        hop
            Number of stages forward to the other end, negative if backward.
        message
            Number of the message, which sender and receiver share.
        """
        before = self._latest_communication if kind == NodeType.COMM_SEND else None
        added = self._add(kind, label, data, before, size_bytes=size_bytes, hop=hop, message=message)
        if kind == NodeType.COMM_SEND:
            self._latest_communication = added
        return added

    def _add(self, kind: NodeType, label: Label, data: tuple[int, ...], before: int | None, **more: object) -> int:
        data = tuple(sorted(set(data)))
        label = Label(self.prefix + label.text, label.number)
        ctrl = () if before is None or before in data else (before,)
        self.nodes.append(Node(kind, label, data, ctrl, **more))  # type: ignore[arg-type]
        return len(self.nodes) - 1


@dataclass(frozen=True, slots=True, eq=False)
class StageColumns:
    """The traces of a stage's ranks.

    Parameters
    ----------
    group_kind, hop, message
        int64[num_nodes], kind of a collective's group, and of a message the distance in stages to its other end and its number.
    """

    table: NodeTable
    group_kind: Ints
    hop: Ints
    message: Ints

    @property
    def num_nodes(self) -> int:
        """Number of nodes of a rank."""
        return len(self.table.node_id)

    def of_rank(self, rank: int, npu: Ints, groups: Groups, stage_stride: int, lane: int, num_lanes: int) -> NodeTable:
        """The nodes of one rank.

        Parameters
        ----------
        npu
            int64[num_ranks], where each rank is: its number in the files.
        stage_stride
            Difference between the numbers of the rank and of its counterpart in the previous stage.
        """
        table, peer = self.table, npu[rank + self.hop * stage_stride]
        sends = table.kind == NodeType.COMM_SEND
        values_of_rank = {
            "pg_name": groups.of_rank[self.group_kind, rank],
            "comm_src": np.where(sends, npu[rank], peer),
            "comm_dst": np.where(sends, peer, npu[rank]),
            "comm_tag": self.message * num_lanes + lane,
        }
        return table.with_values(values_of_rank)


def stage_columns(nodes: Sequence[Node], device: Device) -> StageColumns:
    """Columns of a stage's nodes.

    Parameters
    ----------
    device
        The device. If it writes durations, compute nodes have a duration, else operations and bytes.
    """
    texts = {text: place for place, text in enumerate(dict.fromkeys(node.label.text for node in nodes))}
    durations = [device.duration_us(node.cost) if node.cost and device.writes_durations else 0 for node in nodes]
    kind = np.array([node.kind for node in nodes], np.uint8)
    costs = np.array([(node.cost.num_ops, node.cost.num_bytes) if node.cost else (0, 0) for node in nodes], np.int64)
    states_cost = (kind == NodeType.COMP) & (not device.writes_durations)
    is_collective, is_message = kind == NodeType.COMM_COLL, (kind == NodeType.COMM_SEND) | (kind == NodeType.COMM_RECV)
    table = NodeTable.of(
        node_id=np.arange(len(nodes)),
        kind=kind,
        duration_us=np.array(durations, np.int64),
        names=tuple(texts),
        name=np.array([texts[node.label.text] for node in nodes]),
        name_number=np.array([node.label.number for node in nodes], np.int64),
        ctrl=_lists([node.ctrl for node in nodes]),
        data=_lists([node.data for node in nodes]),
        attributes={
            "is_cpu_op": (np.ones(len(nodes), np.bool_), 0),
            "num_ops": (states_cost, costs[:, 0]),
            "tensor_size": (states_cost, costs[:, 1]),
            "comm_type": (is_collective, np.array([node.comm_type or 0 for node in nodes])),
            "comm_size": (is_collective | is_message, np.array([node.size_bytes for node in nodes])),
            **_of_ranks(is_collective, "pg_name"),
            **_of_ranks(is_message, "comm_src", "comm_dst", "comm_tag"),
        },
    )
    kinds = np.array([node.group or 0 for node in nodes])
    return StageColumns(table, kinds, np.array([node.hop for node in nodes]), np.array([node.message for node in nodes]))


def _of_ranks(has: Bools, *names: str) -> dict[str, tuple[Bools, Values]]:
    """Attributes that differ between ranks: `StageColumns.of_rank` puts their values in."""
    return dict.fromkeys(names, (has, 0))


def _lists(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists one after another (CSR)."""
    first = np.cumsum([0, *(len(entries) for entries in lists)])
    return first, np.array([entry for entries in lists for entry in entries], np.int64)
