"""Schedules as Chakra traces of an ASTRA-sim custom collective: one file per NPU.

A send is a COMM_SEND node at its source and a COMM_RECV node at its destination, under a tag of its own; a reduction is a COMP
node after the receive. ASTRA-sim issues whatever is ready, so the order of sends on a link has to be written down too.
`serial` lets each send wait for the arrival of the one before it, which is the blocking model. `tokens` chains one COMP node
of no duration (1 ns) per send, so that sends queue up on the link in order, which is the pipelined model: a token becomes ready
with its send and lets go of the next one 1 ns later, so that only sends ready at the same instant pay for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.csr import group_by
from astra_tacos.errors import ConfigError
from astra_tacos.files import replaced_file
from astra_tacos.schedule.dependencies import data_dependencies, previous_on_link
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.writer import ATTRIBUTE_KEYS, NodeTable, write_trace

LinkOrder = Literal["serial", "tokens"]
LINK_ORDERS: tuple[LinkOrder, ...] = ("serial", "tokens")
MAX_TAGS = 500_000_000
"""ASTRA-sim takes tags modulo this."""

_TOKEN, _SEND, _RECV, _REDUCE = range(4)
_NAMES = ("token_", "send_", "recv_", "reduce_")
_NODE_TYPES = np.array((NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP), np.uint8)
_CHUNK_ATTRIBUTES = ("msg_chunk_cnt", "msg_chunk_idx", "total_chunk_cnt")
_MESSAGE_ATTRIBUTES = ("is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag", *_CHUNK_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the nodes of each send are: row of the node table by kind and send, -1 for none; rows are sorted by NPU."""

    npu_first: NDArray[np.int64]
    send: NDArray[np.int64]
    kind: NDArray[np.int64]
    row_of: NDArray[np.int64]

    @property
    def node_id(self) -> NDArray[np.int64]:
        """Id of each node in its file: its place there."""
        return np.arange(len(self.send)) - np.repeat(self.npu_first[:-1], np.diff(self.npu_first))


def export_chakra(schedule: Schedule, prefix: str | Path, link_order: LinkOrder | None = None, first_tag: int = 0) -> list[Path]:
    """Write `PREFIX.<npu>.et` for every NPU.

    Parameters
    ----------
    link_order
        How the order of sends on a link is kept; the default fits the schedule's timing model.
    first_tag
        Tag of the first send; the others follow.

    Raises
    ------
    ConfigError
        If the tags go past what ASTRA-sim tells apart.
    """
    if link_order is not None and link_order not in LINK_ORDERS:
        raise ConfigError(f"link order: found {link_order!r}, expected {' or '.join(LINK_ORDERS)}")
    if first_tag < 0 or first_tag + schedule.num_sends > MAX_TAGS:
        raise ConfigError(f"{first_tag + schedule.num_sends:,} tags, expected at most {MAX_TAGS:,}")
    table, npu_first = _node_table(schedule, link_order or default_link_order(schedule), first_tag)
    paths = []
    for npu in range(schedule.topology.num_npus):
        path = Path(f"{prefix}.{npu}.et")
        with replaced_file(path) as temporary:
            write_trace(temporary, table, int(npu_first[npu]), int(npu_first[npu + 1]))
        paths.append(path)
    return paths


def default_link_order(schedule: Schedule) -> LinkOrder:
    """`serial` for the blocking model, `tokens` for the pipelined one."""
    return "serial" if schedule.timing.is_blocking else "tokens"


def _node_table(schedule: Schedule, link_order: LinkOrder, first_tag: int) -> tuple[NodeTable, NDArray[np.int64]]:
    previous = previous_on_link(schedule)
    has_next = np.zeros(schedule.num_sends, bool)
    has_next[previous[previous >= 0]] = True
    layout = _layout(schedule, np.flatnonzero(has_next) if link_order == "tokens" else np.empty(0, np.int64))
    send, kind = layout.send, layout.kind
    data_first, data = _data(schedule, layout)
    ctrl_first, ctrl = _order(previous, layout, link_order)
    attr_first, attr_key, attr_value = _attributes(schedule, layout, first_tag)
    node_id = layout.node_id
    size_class = schedule.collective.chunk_class[schedule.chunk[send]]
    table = NodeTable(
        node_id=node_id,
        kind=_NODE_TYPES[kind],
        duration_us=np.where(kind == _REDUCE, schedule.timing.reduction_us[size_class], 0),
        names=_NAMES,
        name=kind.astype(np.uint16),
        name_number=send + first_tag,
        ctrl_first=ctrl_first,
        ctrl=node_id[ctrl],
        data_first=data_first,
        data=node_id[data],
        attr_first=attr_first,
        attr_key=attr_key,
        attr_value=attr_value,
    )
    return table, layout.npu_first


def _layout(schedule: Schedule, with_token: NDArray[np.int64]) -> _Layout:
    sends = np.arange(schedule.num_sends)
    reducing = np.flatnonzero(schedule.reduces)
    parts = [
        (_TOKEN, with_token, schedule.src[with_token]),
        (_SEND, sends, schedule.src),
        (_RECV, sends, schedule.dst),
        (_REDUCE, reducing, schedule.dst[reducing]),
    ]
    kind = np.concatenate([np.full(len(rows), which) for which, rows, _ in parts])
    send = np.concatenate([rows for _, rows, _ in parts])
    npu = np.concatenate([at for _, _, at in parts])
    order = np.lexsort((kind, send, npu))
    kind, send, npu = kind[order], send[order], npu[order]
    row_of = np.full((4, schedule.num_sends), -1, np.int64)
    row_of[kind, send] = np.arange(len(order))
    return _Layout(np.searchsorted(npu, np.arange(schedule.topology.num_npus + 1)), send, kind, row_of)


def _data(schedule: Schedule, layout: _Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that each node's data come from: a send's chunk, its token's likewise, a reduction's receive."""
    first, delivering = data_dependencies(schedule)
    usable = np.where(schedule.reduces, layout.row_of[_REDUCE], layout.row_of[_RECV])[delivering]
    sends = np.repeat(np.arange(schedule.num_sends), np.diff(first))
    reducing = np.flatnonzero(schedule.reduces)
    edges = [(layout.row_of[kind, sends], usable) for kind in (_SEND, _TOKEN)]
    edges.append((layout.row_of[_REDUCE, reducing], layout.row_of[_RECV, reducing]))
    return _grouped(edges, len(layout.send))


def _order(previous: NDArray[np.int64], layout: _Layout, link_order: LinkOrder) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that each node follows on its link: the send before it, or the token of that send."""
    later = np.flatnonzero(previous >= 0)
    awaited = layout.row_of[_TOKEN if link_order == "tokens" else _SEND, previous[later]]
    return _grouped([(layout.row_of[kind, later], awaited) for kind in (_SEND, _TOKEN)], len(layout.send))


def _grouped(
    edges: list[tuple[NDArray[np.int64], NDArray[np.int64]]], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    node = np.concatenate([waiting for waiting, _ in edges])
    needed = np.concatenate([awaited for _, awaited in edges])
    exists = node >= 0
    return group_by(node[exists], needed[exists], num_nodes)


def _attributes(
    schedule: Schedule, layout: _Layout, first_tag: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    send, kind = layout.send, layout.kind
    values: dict[str, NDArray[np.integer]] = {
        "is_cpu_op": np.zeros(len(send), np.int64),
        "comm_size": schedule.size_bytes[send],
        "comm_src": schedule.src[send],
        "comm_dst": schedule.dst[send],
        "comm_tag": send + first_tag,
        "msg_chunk_cnt": np.ones(len(send), np.int64),
        "msg_chunk_idx": schedule.chunk[send],
        "total_chunk_cnt": np.full(len(send), schedule.collective.num_chunks),
        "is_rrc": np.ones(len(send), np.int64),
    }
    is_message = (kind == _SEND) | (kind == _RECV)
    has = dict.fromkeys(_MESSAGE_ATTRIBUTES, is_message)
    has["is_cpu_op"] = np.ones(len(send), bool)
    has |= dict.fromkeys(_CHUNK_ATTRIBUTES, is_message | (kind == _REDUCE))
    has["is_rrc"] = (kind == _RECV) & schedule.reduces[send]
    mask = np.stack([has[name] for name in values], axis=1)
    keys = np.array([ATTRIBUTE_KEYS[name] for name in values], np.uint8)
    table = np.stack([column.astype(np.int64) for column in values.values()], axis=1)
    first = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
    return first, np.broadcast_to(keys, mask.shape)[mask], table[mask]
