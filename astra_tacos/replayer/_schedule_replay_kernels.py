# mypy: ignore-errors
"""Kernel: discrete-event replay of messages that every link takes in a given order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I64, I64_OUT, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push

FINISHED = 0
STUCK = 1

# Events at one instant: by kind, then by the start of the send, then by its link.
_ARRIVES = np.int64(0)
_REACHES_SWITCH = np.int64(1)
_FREES = np.int64(2)


class Messages(NamedTuple):
    """Messages: links, times in ns, and ends.

    Under the blocking model a message keeps its links for `duration`; under the pipelined one a link for `hold_*`, and what it
    sends comes to the other end after `delay_*`.
    """

    up: I64
    down: I64  # -1 if none
    hold_up: I64
    delay_up: I64
    hold_down: I64
    delay_down: I64
    duration: I64
    reduction: I64  # after its arrival; 0 if none
    src: I32
    dst: I32


class Operations(NamedTuple):
    """Messages, then additions: how many others each waits for, and which wait for it (CSR); additions: NPU, and time in ns."""

    num_awaited: I64
    child_first: I64
    child: I64
    npu: I32
    addition: I64


class LinkOrder(NamedTuple):
    """The messages of each link, in the order in which it takes them (CSR)."""

    first: I64
    row: I64


class Result(NamedTuple):
    """Of each NPU the finish, of each link for how long it is busy, of each operation start (-1 if never) and end, in ns."""

    finish_ns: I64_OUT
    link_busy_ns: I64_OUT
    start_ns: I64_OUT
    end_ns: I64_OUT


@kernel
def replay_operations(blocking: bool, sends: Messages, graph: Operations, links: LinkOrder, result: Result):
    """Start each message once what it carries is there and its links have come to it; returns FINISHED or STUCK.

    Under `blocking` a message takes up-link and down-link together and keeps them for `duration`. Otherwise it takes the
    up-link; a switch's down-link serves what reaches the switch first.
    """
    num_sends = len(sends.up)
    num_operations = len(graph.num_awaited)
    awaited = graph.num_awaited.copy()
    at = links.first[:-1].copy()
    free_at = np.zeros(len(at), np.int64)
    keys = np.empty((3 * num_operations + 1, 4), np.int64)
    rows = np.empty(3 * num_operations + 1, np.int64)
    size = np.int64(0)
    # Links whose next send may be able to start, as a stack.
    look = np.empty(len(at) + 2 * num_sends + len(graph.child) + 1, np.int64)
    num_look = 0
    for link in range(len(at)):
        if at[link] < links.first[link + 1]:
            look[num_look] = link
            num_look += 1
    started = 0
    now = np.int64(0)
    while True:
        while num_look > 0:
            num_look -= 1
            link = look[num_look]
            if at[link] == links.first[link + 1] or free_at[link] > now:
                continue
            row = links.row[at[link]]
            if awaited[row] > 0:
                continue
            if blocking and sends.down[row] >= 0:
                other = sends.down[row] if link == sends.up[row] else sends.up[row]
                if free_at[other] > now or links.row[at[other]] != row:
                    continue
                at[other] += 1
                free_at[other] = now + sends.duration[row]
                result.link_busy_ns[other] += sends.duration[row]
            at[link] += 1
            started += 1
            result.start_ns[row] = now
            if blocking:
                free_at[link] = now + sends.duration[row]
                result.link_busy_ns[link] += sends.duration[row]
                heap_push(keys, rows, 0, size, (now + sends.duration[row], _ARRIVES, now, link), row)
                heap_push(keys, rows, 0, size + 1, (now + sends.duration[row], _FREES, now, link), row)
            else:
                free_at[link] = now + sends.hold_up[row]
                result.link_busy_ns[link] += sends.hold_up[row]
                kind = _ARRIVES if sends.down[row] < 0 else _REACHES_SWITCH
                heap_push(keys, rows, 0, size, (now + sends.delay_up[row], kind, now, link), row)
                heap_push(keys, rows, 0, size + 1, (now + sends.hold_up[row], _FREES, now, link), row)
            size += 2
        if size == 0:
            break
        now = keys[0, 0]
        kind = keys[0, 1]
        row = rows[0]
        size -= 1
        heap_drop_first(keys, rows, 0, size)
        if kind == _FREES:
            look[num_look] = sends.up[row]
            num_look += 1
            if blocking and sends.down[row] >= 0:
                look[num_look] = sends.down[row]
                num_look += 1
        elif kind == _REACHES_SWITCH:
            link = sends.down[row]
            through = max(now, free_at[link])
            free_at[link] = through + sends.hold_down[row]
            result.link_busy_ns[link] += sends.hold_down[row]
            heap_push(keys, rows, 0, size, (through + sends.delay_down[row], _ARRIVES, result.start_ns[row], sends.up[row]), row)
            size += 1
        else:
            if row >= num_sends:
                result.end_ns[row] = now
                destination = graph.npu[row - num_sends]
            else:
                if result.end_ns[row] < 0:
                    result.end_ns[row] = now
                    source = sends.src[row]
                    result.finish_ns[source] = max(result.finish_ns[source], now)
                    if sends.reduction[row] > 0:
                        key = (now + sends.reduction[row], _ARRIVES, result.start_ns[row], sends.up[row])
                        heap_push(keys, rows, 0, size, key, row)
                        size += 1
                        continue
                destination = sends.dst[row]
            result.finish_ns[destination] = max(result.finish_ns[destination], now)
            for slot in range(graph.child_first[row], graph.child_first[row + 1]):
                waiting = graph.child[slot]
                awaited[waiting] -= 1
                if awaited[waiting] > 0:
                    continue
                if waiting < num_sends:
                    look[num_look] = sends.up[waiting]
                    num_look += 1
                else:
                    result.start_ns[waiting] = now
                    key = (now + graph.addition[waiting - num_sends], _ARRIVES, now, np.int64(-1))
                    heap_push(keys, rows, 0, size, key, waiting)
                    size += 1
    return FINISHED if started == num_sends else STUCK
