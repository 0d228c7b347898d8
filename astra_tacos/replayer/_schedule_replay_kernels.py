# mypy: ignore-errors
"""Kernel: discrete-event replay of messages that every link takes in a given order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I64, I64_OUT, inlined, kernel
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


@inlined
def _occupy(link, begin, held, free_at, busy_ns):
    """Keep a link for a message."""
    free_at[link] = begin + held
    busy_ns[link] += held


@inlined
def _look_at_links(row, blocking, sends, look, num_look):
    """Put the links that a message has kept on the stack of those to look at; returns how many are there."""
    look[num_look] = sends.up[row]
    if blocking and sends.down[row] >= 0:
        look[num_look + 1] = sends.down[row]
        return num_look + 2
    return num_look + 1


@kernel
def replay_operations(blocking: bool, sends: Messages, graph: Operations, links: LinkOrder, result: Result):
    """Start each message once what it carries is there and its links have come to it; returns FINISHED or STUCK.

    Under `blocking` a message takes up-link and down-link together and keeps them for `duration`. Otherwise it takes the
    up-link; a switch's down-link serves what reaches the switch first.
    """
    num_sends = len(sends.up)
    num_events = 3 * len(graph.num_awaited) + 1
    awaited = graph.num_awaited.copy()
    at = links.first[:-1].copy()
    free_at = np.zeros(len(at), np.int64)
    keys = np.empty((num_events, 4), np.int64)
    rows = np.empty(num_events, np.int64)
    size = now = np.int64(0)
    # Links whose next send may be able to start, as a stack.
    look = np.empty(len(at) + 2 * num_sends + len(graph.child) + 1, np.int64)
    num_look = len(at)
    for link in range(num_look):
        look[link] = link
    started = 0
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
                _occupy(other, now, sends.duration[row], free_at, result.link_busy_ns)
            at[link] += 1
            started += 1
            result.start_ns[row] = now
            held = sends.duration[row] if blocking else sends.hold_up[row]
            delay = sends.duration[row] if blocking else sends.delay_up[row]
            kind = _ARRIVES if blocking or sends.down[row] < 0 else _REACHES_SWITCH
            _occupy(link, now, held, free_at, result.link_busy_ns)
            heap_push(keys, rows, 0, size, (now + delay, kind, now, link), row)
            heap_push(keys, rows, 0, size + 1, (now + held, _FREES, now, link), row)
            size += 2
        if size == 0:
            break
        now = keys[0, 0]
        kind = keys[0, 1]
        row = rows[0]
        size -= 1
        heap_drop_first(keys, rows, 0, size)
        if kind == _FREES:
            num_look = _look_at_links(row, blocking, sends, look, num_look)
        elif kind == _REACHES_SWITCH:
            link = sends.down[row]
            through = max(now, free_at[link])
            _occupy(link, through, sends.hold_down[row], free_at, result.link_busy_ns)
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
