"""Schedules as Chakra traces of an ASTRA-sim custom collective: one file per NPU.

A send becomes a COMM_SEND node at its source and a COMM_RECV node at its destination, with a tag of its own; a reduction becomes
a COMP node after the receive. ASTRA-sim issues every node that is ready, so the traces also have to fix the order of sends on a
link: `serial` makes each send depend on the arrival of the one before it, which is the blocking model. `tokens` adds a chain of
COMP nodes without work (1 ns each), one per send, so that sends queue up on the link in order, which is the pipelined model. A
token becomes ready together with its send and releases the next token 1 ns later, so only sends that are ready at the same
instant are delayed by it.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import Collective
from astra_tacos.csr import group_by
from astra_tacos.errors import ConfigError
from astra_tacos.export.exporter import Exported, Exporter, one_of, whole_number
from astra_tacos.files import replaced_file
from astra_tacos.run.tags import TAGS
from astra_tacos.schedule.dependencies import data_dependencies, previous_on_link
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.table_trace import trace_of_table
from astra_tacos.trace.trace import Trace
from astra_tacos.trace.writer import ATTRIBUTE_KEYS, NodeTable, write_trace

LinkOrder = Literal["serial", "tokens"]
LINK_ORDERS: tuple[LinkOrder, ...] = ("serial", "tokens")
"""ASTRA-sim takes tags modulo this."""

_TOKEN, _SEND, _RECV, _REDUCE, _REDUCING_RECV = range(5)
_NAMES = ("token_", "send_", "recv_", "reduce_")
_NODE_TYPES = np.array((NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP), np.uint8)
_CHUNK_ATTRIBUTES = ("msg_chunk_cnt", "msg_chunk_idx", "total_chunk_cnt")
_MESSAGE_ATTRIBUTES = ("is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag", *_CHUNK_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Positions of the nodes of each send: the row of the node table by kind and send, -1 for none; rows are sorted by NPU."""

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
    schedule
        The schedule to write.
    prefix
        Files are called `PREFIX.<rank>.et`.
    link_order
        How the order of sends on a link is kept; the default fits the schedule's timing model.
    first_tag
        Tag of the first send; the others follow.

    Raises
    ------
    ConfigError
        If the tags go past what ASTRA-sim tells apart.
    """
    table, npu_first = node_table(schedule, link_order, first_tag)
    paths = [Path(f"{prefix}.{npu}.et") for npu in range(schedule.topology.num_npus)]

    def write(npu: int) -> None:
        with replaced_file(paths[npu]) as temporary:
            write_trace(temporary, table, int(npu_first[npu]), int(npu_first[npu + 1]))

    # The encoder and the file system work without the interpreter lock.
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(write, range(len(paths))))
    return paths


def schedule_trace(schedule: Schedule, name: str, link_order: LinkOrder | None = None, first_tag: int = 0) -> Trace:
    """The trace of a schedule in memory, as `read_trace` reads the files of `export_chakra`, without the workload's columns.

    Parameters
    ----------
    schedule
        The schedule.
    name
        What the trace is to be called in messages.
    link_order, first_tag
        As for `export_chakra`, which says what is raised, too.
    """
    return trace_of_table(*node_table(schedule, link_order, first_tag), name)


def default_link_order(schedule: Schedule) -> LinkOrder:
    """`serial` for the blocking model, `tokens` for the pipelined one."""
    return "serial" if schedule.timing.is_blocking else "tokens"


def node_table(schedule: Schedule, link_order: LinkOrder | None, first_tag: int) -> tuple[NodeTable, NDArray[np.int64]]:
    """All nodes of the traces, sorted by NPU, and where those of each NPU begin.

    Raises
    ------
    ConfigError
        If there is no such link order, or the tags go past what ASTRA-sim tells apart.
    """
    if link_order is not None and link_order not in LINK_ORDERS:
        raise ConfigError(f"link order: found {link_order!r}, expected {' or '.join(LINK_ORDERS)}")
    if first_tag < 0:
        raise ConfigError(f"first tag: found {first_tag}, expected 0 or more")
    if first_tag + schedule.num_sends > TAGS:
        raise ConfigError(f"{first_tag + schedule.num_sends:,} tags, expected at most {TAGS:,}")
    link_order = link_order or default_link_order(schedule)
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
    num_npus, num_sends = schedule.topology.num_npus, schedule.num_sends
    exists = np.ones((num_sends, 4), bool)
    exists[:, _TOKEN] = False
    exists[with_token, _TOKEN] = True
    exists[:, _REDUCE] = schedule.reduces
    npu = np.empty((num_sends, 4), np.int32)
    npu[:, _TOKEN] = npu[:, _SEND] = schedule.src
    npu[:, _RECV] = npu[:, _REDUCE] = schedule.dst
    place = np.flatnonzero(exists)
    npu_first, place = group_by(npu.ravel()[place], place, num_npus)
    row_of = np.full((4, num_sends), -1, np.int64)
    send, kind = place >> 2, place & 3
    row_of[kind, send] = np.arange(len(place))
    return _Layout(npu_first, send, kind, row_of)


def _data(schedule: Schedule, layout: _Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of each node's data dependencies: the deliveries of a send's chunk, the same for its token, a reduction's receive."""
    first, delivering = data_dependencies(schedule)
    usable = np.where(schedule.reduces, layout.row_of[_REDUCE], layout.row_of[_RECV])[delivering]
    sends = np.repeat(np.arange(schedule.num_sends), np.diff(first))
    reducing = np.flatnonzero(schedule.reduces)
    edges = [(layout.row_of[kind, sends], usable) for kind in (_SEND, _TOKEN)]
    edges.append((layout.row_of[_REDUCE, reducing], layout.row_of[_RECV, reducing]))
    return _grouped(edges, len(layout.send))


def _order(previous: NDArray[np.int64], layout: _Layout, link_order: LinkOrder) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that each node follows on its link: the previous send, or the token of that send."""
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
    send = layout.send
    # A variant is a kind of node, or a receive that reduces; each has its attributes, in this order.
    has = np.zeros((len(ATTRIBUTE_KEYS), 5), bool)
    has[ATTRIBUTE_KEYS["is_cpu_op"]] = True
    for name in _MESSAGE_ATTRIBUTES:
        has[ATTRIBUTE_KEYS[name], [_SEND, _RECV, _REDUCING_RECV]] = True
    for name in _CHUNK_ATTRIBUTES:
        has[ATTRIBUTE_KEYS[name], _REDUCE] = True
    has[ATTRIBUTE_KEYS["is_rrc"], _REDUCING_RECV] = True
    variant = np.where((layout.kind == _RECV) & schedule.reduces[send], _REDUCING_RECV, layout.kind).astype(np.uint8)
    first = np.zeros(len(send) + 1, np.int64)
    np.cumsum(has.sum(axis=0)[variant], out=first[1:])
    keys, values = np.empty(first[-1], np.uint8), np.empty(first[-1], np.int64)
    columns: dict[str, NDArray[np.integer] | int] = {
        "is_cpu_op": 0,
        "comm_size": schedule.size_bytes,
        "comm_src": schedule.src,
        "comm_dst": schedule.dst,
        "comm_tag": np.arange(first_tag, first_tag + schedule.num_sends),
        "msg_chunk_cnt": 1,
        "msg_chunk_idx": schedule.chunk,
        "total_chunk_cnt": schedule.collective.num_chunks,
        "is_rrc": 1,
    }
    offset = np.cumsum(has, axis=0) - has
    for name, column in columns.items():
        key = ATTRIBUTE_KEYS[name]
        rows = np.flatnonzero(has[key][variant])
        slots = first[rows] + offset[key][variant[rows]]
        keys[slots] = key
        values[slots] = column if isinstance(column, int) else column[send[rows]]
    return first, keys, values


def why_no_custom_collective(collective: Collective) -> str | None:
    """The reason why ASTRA-sim cannot run a collective by traces of every NPU; None if it can."""
    if collective.members is None:
        return None
    return (
        f"it is of {collective.num_members} of {collective.num_npus} NPUs, and ASTRA-sim's custom collectives run on their "
        "members only: expected one of all NPUs"
    )


def _why_not(schedule: Schedule) -> str | None:
    reason = why_no_custom_collective(schedule.collective)
    if reason is None and schedule.num_sends > TAGS:
        reason = f"it has {schedule.num_sends:,} sends, and ASTRA-sim distinguishes at most {TAGS:,} tags"
    return reason


def _write(schedule: Schedule, path: Path, link_order: LinkOrder | None = None, first_tag: int = 0) -> Exported:
    export_chakra(schedule, path / schedule.collective.name.replace("-", "_"), link_order, first_tag)
    if link_order in (None, default_link_order(schedule)):
        return Exported(path)
    return Exported(path, (note_on_link_order(link_order),))


def note_on_link_order(link_order: LinkOrder) -> str:
    """A note about traces whose link order differs from that of their timing model."""
    return f"link order {link_order!r} is not that of the timing model: ASTRA-sim's cycles will differ"


_OWN_FILE = re.compile(rf"({'|'.join(name.replace('-', '_') for name in COLLECTIVES)})\.[0-9]+\.et")

EXPORTER = Exporter(
    name="chakra",
    summary="Chakra traces of the collective, one per NPU, for use as a custom collective of ASTRA-sim",
    writes="directory",
    suffix="_chakra",
    write=_write,
    why_not=_why_not,
    options={
        "link-order": one_of(LINK_ORDERS, "how traces keep the order of sends on a link; by default the one for the link model"),
        "first-tag": whole_number("tag of the first send, by default 0; the others follow"),
    },
    is_own=lambda names: all(_OWN_FILE.fullmatch(name) for name in names),
)
