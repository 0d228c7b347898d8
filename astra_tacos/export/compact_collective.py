"""Traces of symmetric schedules: what one NPU does, of which the trace of any other follows.

NPU p sends the chunk of NPU n from u + n to v + n where a row of the schedule leads from u to v: row by row all NPUs send and
receive once, to and from NPUs at the same distances. The traces are those of `export.chakra`, but nodes have the order of rows
on every NPU, tags are numbers of rows, and all chunks count as the largest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.chakra import RECV, REDUCE, SEND, TOKEN, Contents, TraceNodes, grouped
from astra_tacos.network.rotations import star
from astra_tacos.run.lattice import CompactTrace, Lattice
from astra_tacos.run.trace.writer import encode_trace
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.schedule.timing import wire_bytes

_Ints = NDArray[np.int64]
_NONE = np.empty(0, np.int64)
_CONTENTS = Contents(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(1, np.int64), np.empty(0, np.int32), False)
"""Attributes say all: no node lists what it moves."""


class SymmetricTraces:
    """The traces of the NPUs of a schedule.

    Sends keep their order on a link as the link model asks for: `blocking` ones wait for the arrival of the one before, others
    for the token of the one before, and for the arrival of the last that has arrived by then (`window`).

    Parameters
    ----------
    schedule
        The schedule.
    first_tag
        Tag of the first row; the others follow.
    """

    def __init__(self, schedule: SymmetricSchedule, first_tag: int = 0) -> None:
        self.schedule, self.first_tag = schedule, first_tag
        rows = np.arange(schedule.num_rows)
        before, arrived = _order(schedule)
        has_token = np.zeros(len(rows), np.bool_)
        waits_for_token = (before >= 0) & (arrived != before)
        has_token[before[waits_for_token]] = True
        always = np.ones(len(rows), np.bool_)
        self._number, self._kind = np.nonzero(np.stack((has_token, always, always, schedule.reduces), axis=1))
        node = np.full((len(rows), 4), -1, np.int64)
        node[self._number, self._kind] = np.arange(len(self._number))
        token, send, receive, reduction = node.T
        waiting, awaited = _data(schedule, before)
        provides = np.where(schedule.reduces, reduction, receive)
        # What the previous send waits for has arrived by then.
        bound = rows[(arrived >= 0) & ((arrived == before) | (arrived != arrived[before]))]
        after = rows[waits_for_token]
        order = [(each[bound], send[arrived[bound]]) for each in (send, token)]
        order += [(each[after], token[before[after]]) for each in (send, token)]
        needs = [(each[waiting], provides[awaited]) for each in (send, token)]
        needs.append((reduction[schedule.reduces], receive[schedule.reduces]))
        self._ctrl, self._data = grouped(order, len(self._number)), grouped(needs, len(self._number))

    @property
    def positions(self) -> Lattice:
        """The translations of the NPUs, each of which stands for all."""
        size = tuple(dimension.size for dimension in self.schedule.task.dimensions)
        return Lattice(size, (1,) * len(size))

    def compact(self, prefix: str) -> CompactTrace:
        """The trace in a compact run."""
        return CompactTrace(self.of_npu(0).trace(prefix), self.positions)

    def of_npu(self, npu: int) -> TraceNodes:
        """The nodes of one NPU."""
        schedule, number, kind = self.schedule, self._number, self._kind
        task, group = schedule.task, schedule.task.group
        src, dst = schedule.src.astype(np.int64), schedule.dst.astype(np.int64)
        here = np.full(schedule.num_rows, npu)
        far = group.offset(src, dst)
        to, of = group.move(far, here), group.offset(far, here)
        links = star(task.name, task.dimensions)
        size = wire_bytes(links, np.full(len(here), task.chunk_bytes), schedule.link_class, task.link_model)
        is_send, is_message, names_chunk = kind == SEND, (kind == SEND) | (kind == RECV), kind != TOKEN
        owner = group.offset(np.where(is_send, src[number], dst[number]), here[number])
        chunk, never = task.moved_chunk(schedule.chunk[number].astype(np.int64), owner), np.zeros(len(kind), np.bool_)
        values: dict[str, tuple[NDArray[np.bool_], NDArray[np.integer] | int]] = {
            "is_cpu_op": (~never, 0),
            "comm_size": (is_message, size[number]),
            "comm_src": (is_message, np.where(is_send, npu, of[number])),
            "comm_dst": (is_message, np.where(is_send, to[number], npu)),
            "comm_tag": (is_message, self.first_tag + number),
            "msg_chunk_cnt": (names_chunk, 1),
            "msg_chunk_idx": (names_chunk, chunk),
            "msg_chunk_list": (never, chunk),
            "place_list": (never, chunk),
            "total_chunk_cnt": (names_chunk, task.num_npus * task.num_chunks),
            "is_rrc": ((kind == RECV) & schedule.reduces[number], 1),
        }
        duration = np.where(kind == REDUCE, int(task.timing.reduction_us[-1]), 0)
        first = np.array([0, len(kind)])
        return TraceNodes(first, kind, number, duration, self._ctrl, self._data, values, _CONTENTS, self.first_tag)

    def write(self, prefix: Path, npus: Iterable[int]) -> None:
        """Write `PREFIX.<npu>.et` of some NPUs."""
        for npu in npus:
            table = self.of_npu(npu).table()
            Path(f"{prefix}.{npu}.et").write_bytes(encode_trace(table, 0, len(table.node_id)))


def _order(schedule: SymmetricSchedule) -> tuple[_Ints, _Ints]:
    """The row before each on its class of links, and the last one there that has arrived when the row starts; -1 for none."""
    link, rows = schedule.link_class, np.arange(schedule.num_rows)
    order = np.lexsort((rows, link))
    same = link[order][1:] == link[order][:-1]
    before = np.full(len(rows), -1, np.int64)
    before[order[1:][same]] = order[:-1][same]
    if schedule.task.timing.is_blocking:
        return before, before
    first = np.maximum.accumulate(np.where(np.concatenate(([True], ~same)), np.arange(len(rows)), 0)) if len(rows) else rows
    # Sends of a class take equally long, so that they arrive in order.
    times = int(schedule.end_ns.max(initial=0)) + 1
    key = link[order] * times
    come = np.searchsorted(key + schedule.end_ns[order], key + schedule.start_ns[order], side="right") - 1
    arrived = np.full(len(rows), -1, np.int64)
    arrived[order] = np.where(come >= first, order[come], -1)
    return before, arrived


def _data(schedule: SymmetricSchedule, before: _Ints) -> tuple[_Ints, _Ints]:
    """Pairs of rows, of which the first waits for what the second brings: the last copy, otherwise all that is added up.

    A row that follows one with the same data on its link waits for that one alone.
    """
    task, rows = schedule.task, np.arange(schedule.num_rows)
    place = np.stack((schedule.dst, schedule.src)).astype(np.int64) * task.num_chunks + schedule.chunk
    done = schedule.end_ns + np.where(schedule.reduces, task.reduction_ns, 0)
    departs = np.repeat((False, True), len(rows))
    # What arrives at an instant can leave at it.
    order = np.lexsort((departs, np.concatenate((done, schedule.start_ns))))
    there: dict[int, list[int]] = {}
    sent: dict[int, tuple[int, int, int]] = {}
    waiting: list[int] = []
    awaited: list[int] = []
    reduces, follows = schedule.reduces.tolist(), before.tolist()
    for at, leaves, row in zip(place.ravel()[order].tolist(), departs[order].tolist(), (order % len(rows)).tolist(), strict=True):
        if leaves:
            brought = there.get(at, [])
            sent[row] = at, len(brought), brought[-1] if brought else -1
            if follows[row] < 0 or sent[follows[row]] != sent[row]:
                waiting += [row] * len(brought)
                awaited += brought
        elif reduces[row]:
            there.setdefault(at, []).append(row)
        else:
            there[at] = [row]
    return np.array(waiting, np.int64), np.array(awaited, np.int64)
