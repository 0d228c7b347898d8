# mypy: ignore-errors
"""Kernel: discrete-event replay of sends that every link takes in a given order."""

from __future__ import annotations

import numpy as np
from numba import njit

FINISHED = 0
STUCK = 1

_ARRIVES = np.int64(0)
_REACHES_SWITCH = np.int64(1)
_FREES = np.int64(2)


@njit(cache=True, nogil=True)
def _before(heap, a, b):
    """Order of events: time, then kind, then the start of the send, then its link."""
    for column in range(4):
        if heap[a, column] != heap[b, column]:
            return heap[a, column] < heap[b, column]
    return False


@njit(cache=True, nogil=True)
def _push(heap, size, time, kind, start, link, row):
    heap[size, 0] = time
    heap[size, 1] = kind
    heap[size, 2] = start
    heap[size, 3] = link
    heap[size, 4] = row
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if not _before(heap, child, parent):
            break
        for column in range(5):
            heap[child, column], heap[parent, column] = heap[parent, column], heap[child, column]
        child = parent


@njit(cache=True, nogil=True)
def _pop(heap, size):
    """Move the first event to row `size - 1`, beyond the heap that is left."""
    last = size - 1
    for column in range(5):
        heap[0, column], heap[last, column] = heap[last, column], heap[0, column]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and _before(heap, child + 1, child):
            child += 1
        if not _before(heap, child, parent):
            break
        for column in range(5):
            heap[child, column], heap[parent, column] = heap[parent, column], heap[child, column]
        parent = child


@njit(cache=True, nogil=True)
def replay_sends(
    blocking,
    up,
    down,
    hold_up,
    delay_up,
    hold_down,
    delay_down,
    duration,
    reduction,
    num_awaited,
    child_first,
    child,
    link_first,
    link_row,
    npu_of_source,
    npu_of_destination,
    finish_ns,
    link_busy_ns,
    start_ns,
    end_ns,
):
    """Start each send once its chunk is there and its links have come to it; `link_row` lists each link's sends in order.

    Under `blocking` a send takes up-link and down-link together and keeps them for `duration`. Otherwise it takes the
    up-link; a switch's down-link serves what reaches the switch first.
    """
    num_sends = len(up)
    awaited = num_awaited.copy()
    at = link_first[:-1].copy()
    free_at = np.zeros(len(at), np.int64)
    heap = np.empty((3 * num_sends + 1, 5), np.int64)
    size = np.int64(0)
    # Links whose next send may be able to start, as a stack.
    look = np.empty(len(at) + 2 * num_sends + len(child) + 1, np.int64)
    num_look = 0
    for link in range(len(at)):
        if at[link] < link_first[link + 1]:
            look[num_look] = link
            num_look += 1
    started = 0
    now = np.int64(0)
    while True:
        while num_look > 0:
            num_look -= 1
            link = look[num_look]
            if at[link] == link_first[link + 1] or free_at[link] > now:
                continue
            row = link_row[at[link]]
            if awaited[row] > 0:
                continue
            if blocking and down[row] >= 0:
                other = down[row] if link == up[row] else up[row]
                if free_at[other] > now or link_row[at[other]] != row:
                    continue
                at[other] += 1
                free_at[other] = now + duration[row]
                link_busy_ns[other] += duration[row]
            at[link] += 1
            started += 1
            start_ns[row] = now
            if blocking:
                free_at[link] = now + duration[row]
                link_busy_ns[link] += duration[row]
                _push(heap, size, now + duration[row], _ARRIVES, now, link, row)
                _push(heap, size + 1, now + duration[row], _FREES, now, link, row)
            else:
                free_at[link] = now + hold_up[row]
                link_busy_ns[link] += hold_up[row]
                kind = _ARRIVES if down[row] < 0 else _REACHES_SWITCH
                _push(heap, size, now + delay_up[row], kind, now, link, row)
                _push(heap, size + 1, now + hold_up[row], _FREES, now, link, row)
            size += 2
        if size == 0:
            break
        _pop(heap, size)
        size -= 1
        now = heap[size, 0]
        kind = heap[size, 1]
        row = heap[size, 4]
        if kind == _FREES:
            look[num_look] = up[row]
            num_look += 1
            if blocking and down[row] >= 0:
                look[num_look] = down[row]
                num_look += 1
        elif kind == _REACHES_SWITCH:
            link = down[row]
            through = max(now, free_at[link])
            free_at[link] = through + hold_down[row]
            link_busy_ns[link] += hold_down[row]
            _push(heap, size, through + delay_down[row], _ARRIVES, start_ns[row], up[row], row)
            size += 1
        else:
            if end_ns[row] < 0:
                end_ns[row] = now
                source = npu_of_source[row]
                finish_ns[source] = max(finish_ns[source], now)
                if reduction[row] > 0:
                    _push(heap, size, now + reduction[row], _ARRIVES, start_ns[row], up[row], row)
                    size += 1
                    continue
            destination = npu_of_destination[row]
            finish_ns[destination] = max(finish_ns[destination], now)
            for slot in range(child_first[row], child_first[row + 1]):
                waiting = child[slot]
                awaited[waiting] -= 1
                if awaited[waiting] == 0:
                    look[num_look] = up[waiting]
                    num_look += 1
    return FINISHED if started == num_sends else STUCK
