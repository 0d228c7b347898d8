"""Columns of each rank of a stage: the nodes are encoded once, then groups, peers and tags are filled in per rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable
from astra_tacos.workload.generator.cost import Cost
from astra_tacos.workload.generator.device import Device
from astra_tacos.workload.generator.parallelism import GroupKind, Groups
from astra_tacos.workload.generator.program import Node

_ATTRIBUTES = {
    NodeType.COMP: ("is_cpu_op", "num_ops", "tensor_size"),
    NodeType.COMM_COLL: ("is_cpu_op", "comm_type", "comm_size", "pg_name"),
    NodeType.COMM_SEND: ("is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag"),
    NodeType.COMM_RECV: ("is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag"),
}


@dataclass(frozen=True, slots=True, eq=False)
class StageColumns:
    """The traces of a stage's ranks.

    Parameters
    ----------
    table
        The nodes that all ranks have in common.
    group_at, group_kind
        Entries of `table.attr_value` for a group's id, and the kind of group.
    own_at, peer_at, peer_hop
        Entries for the rank itself, and for the rank at the other end of a message, with its distance in stages.
    tag_at, message
        Entries for a tag, and the message's number in its lane.
    """

    table: NodeTable
    group_at: NDArray[np.int64]
    group_kind: NDArray[np.int64]
    own_at: NDArray[np.int64]
    peer_at: NDArray[np.int64]
    peer_hop: NDArray[np.int64]
    tag_at: NDArray[np.int64]
    message: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        """Number of nodes of a rank."""
        return len(self.table.node_id)

    def of_rank(
        self, rank: int, npu: NDArray[np.int64], groups: Groups, stage_stride: int, lane: int, num_lanes: int
    ) -> NodeTable:
        """The nodes of one rank.

        Parameters
        ----------
        rank
            The rank, numbered by the order of axes.
        npu
            int64[num_ranks], where each rank is: its number in the files.
        groups
            Communicator groups of the run.
        stage_stride
            Difference between the numbers of the rank and of its counterpart in the previous stage.
        lane
            Number of the rank in its stage.
        num_lanes
            Number of ranks of a stage.
        """
        value = self.table.attr_value.copy()
        value[self.group_at] = groups.of_rank[self.group_kind, rank]
        value[self.own_at] = npu[rank]
        value[self.peer_at] = npu[rank + self.peer_hop * stage_stride]
        value[self.tag_at] = self.message * num_lanes + lane
        return replace(self.table, attr_value=value)


def stage_columns(nodes: Sequence[Node], device: Device) -> StageColumns:
    """Columns of a stage's nodes.

    Parameters
    ----------
    nodes
        Nodes of the stage, in program order.
    device
        The device. If it writes durations, compute nodes have a duration, else operations and bytes.
    """
    texts = {text: place for place, text in enumerate(dict.fromkeys(node.label.text for node in nodes))}
    keys: list[int] = []
    values: list[int] = []
    group_at: list[tuple[int, int]] = []
    own_at: list[tuple[int, int]] = []
    peer_at: list[tuple[int, int]] = []
    tag_at: list[tuple[int, int]] = []
    attr_first = [0]
    for number, node in enumerate(nodes):
        names = _ATTRIBUTES[node.kind]
        if node.cost is not None and device.writes_durations:
            names = names[:1]
        for name in names:
            place = len(values)
            keys.append(ATTRIBUTE_KEYS[name])
            values.append(_value(name, node))
            if name == "pg_name":
                group_at.append((place, number))
            elif name == "comm_tag":
                tag_at.append((place, number))
            elif name in ("comm_src", "comm_dst"):
                is_own = (name == "comm_src") == (node.kind == NodeType.COMM_SEND)
                (own_at if is_own else peer_at).append((place, number))
        attr_first.append(len(values))
    table = NodeTable(
        node_id=np.arange(len(nodes)),
        kind=np.array([node.kind for node in nodes], np.uint8),
        duration_us=np.array([_duration(node.cost, device) for node in nodes], np.int64),
        names=tuple(texts),
        name=np.array([texts[node.label.text] for node in nodes], np.uint16),
        name_number=np.array([node.label.number for node in nodes], np.int64),
        ctrl_first=_first(node.ctrl for node in nodes),
        ctrl=_flat(node.ctrl for node in nodes),
        data_first=_first(node.data for node in nodes),
        data=_flat(node.data for node in nodes),
        attr_first=np.array(attr_first, np.int64),
        attr_key=np.array(keys, np.uint8),
        attr_value=np.array(values, np.int64),
    )
    kinds = [node.group if node.group is not None else GroupKind.TENSOR for node in nodes]
    return StageColumns(
        table=table,
        group_at=_places(group_at),
        group_kind=np.array([kinds[number] for _, number in group_at], np.int64),
        own_at=_places(own_at),
        peer_at=_places(peer_at),
        peer_hop=np.array([nodes[number].hop for _, number in peer_at], np.int64),
        tag_at=_places(tag_at),
        message=np.array([nodes[number].message for _, number in tag_at], np.int64),
    )


def _value(name: str, node: Node) -> int:
    """Value of an attribute, 0 if it differs between ranks."""
    if node.cost is not None and name in ("num_ops", "tensor_size"):
        return node.cost.num_ops if name == "num_ops" else node.cost.num_bytes
    if name == "comm_type" and node.comm_type is not None:
        return int(node.comm_type)
    return node.size_bytes if name == "comm_size" else 0


def _duration(cost: Cost | None, device: Device) -> int:
    return device.duration_us(cost) if cost is not None and device.writes_durations else 0


def _places(entries: list[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array([place for place, _ in entries], np.int64)


def _first(lists: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    return np.cumsum([0, *(len(entries) for entries in lists)])


def _flat(lists: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    return np.array([entry for entries in lists for entry in entries], np.int64)
