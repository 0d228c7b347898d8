"""Conversion of columns to write (`NodeTable`) into columns as read (`Trace`), without encoding to bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, ChunkColumns, NumberLists, Trace
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable
from astra_tacos.support.grouping import members_of


def trace_of_table(table: NodeTable, rank_first: NDArray[np.int64], name: str) -> Trace:
    """The trace that `read_trace` would read from the files written from a table, without the workload's columns.

    Parameters
    ----------
    table
        Nodes of all ranks, sorted by rank, of ids that are unique within a rank, with at least one node per rank.
    rank_first
        int64[num_ranks + 1], first row of each rank.
    name
        Prefix of the trace, for messages.
    """
    num_nodes = len(table.node_id)
    attributes = np.repeat(np.arange(num_nodes), np.diff(table.attr_first))

    def values(attribute: str) -> NDArray[np.int64]:
        column = np.full(num_nodes, ABSENT, np.int64)
        found = np.flatnonzero(table.attr_key == ATTRIBUTE_KEYS[attribute])[::-1]  # the first of several is assigned last
        column[attributes[found]] = table.attr_value[found]
        return column

    def lists(attribute: str) -> NumberLists:
        number = values(attribute)
        node = np.flatnonzero(number >= 0)
        first, at = members_of(table.list_first, number[node])
        return NumberLists(node, first, table.list_entry[at])

    sends, receives = table.kind == NodeType.COMM_SEND, table.kind == NodeType.COMM_RECV
    dep_first, dep = _dependencies(table, rank_first)
    return Trace(
        prefix=name,
        rank_first=rank_first,
        node_id=table.node_id.astype(np.int64, copy=False).view(np.uint64),
        kind=table.kind,
        duration_us=table.duration_us.astype(np.int64, copy=False),
        size_bytes=values("comm_size"),
        peer=np.where(sends, values("comm_dst"), np.where(receives, values("comm_src"), ABSENT)),
        tag=values("comm_tag"),
        dep_first=dep_first,
        dep=dep,
        chunks=ChunkColumns(
            chunk=values("msg_chunk_idx"),
            num_chunks=values("msg_chunk_cnt"),
            total_chunks=values("total_chunk_cnt"),
            reduces=values("is_rrc") > 0,
            chunk_lists=lists("msg_chunk_list"),
            place_lists=lists("place_list"),
        ),
    )


def _dependencies(table: NodeTable, rank_first: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that each node depends on, data before control, where their lists begin."""
    data_first, ctrl_first = table.data_first, table.ctrl_first
    first = data_first + ctrl_first
    needed = np.empty(first[-1], np.int64)
    data_node = np.repeat(np.arange(len(first) - 1), np.diff(data_first))
    ctrl_node = np.repeat(np.arange(len(first) - 1), np.diff(ctrl_first))
    needed[np.arange(len(data_node)) + ctrl_first[data_node]] = table.data
    needed[np.arange(len(ctrl_node)) + data_first[ctrl_node + 1]] = table.ctrl
    dep = np.full(len(needed), DANGLING, np.int64)
    for begin, end in zip(rank_first[:-1].tolist(), rank_first[1:].tolist(), strict=True):
        ids, wanted = table.node_id[begin:end], needed[first[begin] : first[end]]
        order = np.argsort(ids, kind="stable")
        place = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
        dep[first[begin] : first[end]] = np.where(ids[place] == wanted, begin + place, DANGLING)
    return first, dep
