"""Traces of symmetric schedules: what one NPU does, from which the trace of any other follows.

NPU p sends the chunk of NPU n from u + n to v + n where a row of the schedule leads from u to v: row by row all NPUs send and
receive once, to and from NPUs at the same distances. The traces are those of `export.chakra`, but nodes have the order of rows
on every NPU, tags are numbers of rows, and all chunks count as the largest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_tacos.export.chakra import RECV, REDUCE, SEND, TOKEN, Contents, Layout, TraceNodes, waiting_for_token
from astra_tacos.network.rotations import star
from astra_tacos.run.collective_files import CollectiveFiles
from astra_tacos.run.lattice import CompactTrace, Lattice
from astra_tacos.run.trace.trace import Trace
from astra_tacos.run.trace.writer import Values, encode_trace
from astra_tacos.schedule.dependencies import Operations, arrived_of, brought, previous_of
from astra_tacos.schedule.partial_sums import NO_ADDITIONS
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.schedule.timing import wire_bytes
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import in_ranges

_NONE = np.empty(0, np.int64)
_CONTENTS = Contents(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(1, np.int64), np.empty(0, np.int32), False)
"""Attributes say all: no node lists what it moves."""


class SymmetricTraces:
    """The traces of the NPUs of a schedule.

    Sends keep their order on a link as the link model asks for: `blocking` ones wait for the arrival of the one before, others
    for the token of the one before, and for the arrival of the last that has arrived by then (`window`).
    """

    def __init__(self, schedule: SymmetricSchedule, first_tag: int = 0) -> None:
        self.schedule, self.first_tag = schedule, first_tag
        task, link = schedule.task, schedule.link_class
        before = previous_of(link)
        arrived = before if task.timing.is_blocking else arrived_of(link, schedule.start_ns, schedule.end_ns)
        exists = np.ones((schedule.num_rows, 4), np.bool_)
        exists[:, TOKEN] = False
        exists[before[waiting_for_token(before, arrived)], TOKEN] = True
        exists[:, REDUCE] = schedule.reduces
        number, kind = np.nonzero(exists)
        self._layout = Layout.of(np.array([0, len(kind)]), number, kind)
        self._ctrl = self._layout.order(before, arrived)
        self._data = self._layout.data(schedule.reduces, Operations(schedule.num_rows, NO_ADDITIONS, *_data(schedule, before)))
        src, dst = schedule.src.astype(np.int64), schedule.dst.astype(np.int64)
        self._end, self._far = np.where(kind == SEND, src[number], dst[number]), task.group.offset(src, dst)[number]
        chunk_bytes = np.full(schedule.num_rows, task.chunk_bytes)
        self._bytes = wire_bytes(star(task.name, task.dimensions), chunk_bytes, link, task.link_model)[number]

    @property
    def positions(self) -> Lattice:
        """The translations of the NPUs, each of which stands for all."""
        size = tuple(dimension.size for dimension in self.schedule.task.dimensions)
        return Lattice(size, (1,) * len(size))

    def trace(self, prefix: str) -> CompactTrace:
        """The nodes, as they are read of the files (`run.collective_files.CollectiveFiles`)."""
        return CompactTrace(self.of_npu(0).trace(prefix), self.positions)

    def of_npu(self, npu: int) -> TraceNodes:
        """The nodes of one NPU."""
        schedule, number, kind, here = self.schedule, self._layout.number, self._layout.kind, np.array(npu)
        task, group = schedule.task, schedule.task.group
        is_send, is_message, names_chunk = kind == SEND, (kind == SEND) | (kind == RECV), kind != TOKEN
        peer = np.where(is_send, group.move(self._far, here), group.offset(self._far, here))
        owner, never = group.offset(self._end, here), np.zeros(len(kind), np.bool_)
        chunk = task.moved_chunk(schedule.chunk[number].astype(np.int64), owner)
        values: dict[str, tuple[Bools, Values]] = {
            "is_cpu_op": (~never, 0),
            "comm_size": (is_message, self._bytes),
            "comm_src": (is_message, np.where(is_send, npu, peer)),
            "comm_dst": (is_message, np.where(is_send, peer, npu)),
            "comm_tag": (is_message, self.first_tag + number),
            "msg_chunk_cnt": (names_chunk, 1),
            "msg_chunk_idx": (names_chunk, chunk),
            "msg_chunk_list": (never, chunk),
            "place_list": (never, chunk),
            "total_chunk_cnt": (names_chunk, task.num_npus * task.num_chunks),
            "is_rrc": ((kind == RECV) & schedule.reduces[number], 1),
        }
        duration = np.where(kind == REDUCE, int(task.timing.reduction_us[-1]), 0)
        first = self._layout.npu_first
        return TraceNodes(first, kind, number, duration, self._ctrl, self._data, values, _CONTENTS, self.first_tag)

    def write(self, prefix: Path, npus: Iterable[int] = (0,)) -> None:
        """Write `PREFIX.<npu>.et` of some NPUs, or of the one that stands for all."""
        for npu in npus:
            table = self.of_npu(npu).table()
            Path(f"{prefix}.{npu}.et").write_bytes(encode_trace(table, 0, len(table.node_id)))

    def of_all(self) -> CollectiveFiles:
        """The files of all NPUs."""
        return _OfAll(self)


@dataclass(frozen=True, slots=True, eq=False)
class _OfAll:
    """The files of all NPUs of a schedule."""

    traces: SymmetricTraces

    def trace(self, prefix: str) -> Trace:
        """The nodes of all NPUs."""
        return self.traces.trace(prefix).expand()

    def write(self, prefix: Path) -> None:
        """Write the files."""
        self.traces.write(prefix, range(self.traces.positions.num_ranks))


def _data(schedule: SymmetricSchedule, before: Ints) -> tuple[Ints, Ints]:
    """The rows that bring what each row carries (CSR): the last copy, otherwise all that is added up.

    A row that follows one with the same data on its link waits for that one alone.
    """
    task = schedule.task
    at_dst, at_src = (npu * np.int64(task.num_chunks) + schedule.chunk for npu in (schedule.dst, schedule.src))
    done_ns = schedule.end_ns + np.where(schedule.reduces, task.reduction_ns, 0)
    deliveries, first, end = brought(at_dst, at_src, done_ns, schedule.start_ns, schedule.reduces)
    repeats = (before >= 0) & (first == first[before]) & (end == end[before])
    begin, at = in_ranges(first, np.where(repeats, first, end))
    return begin, deliveries[at]
