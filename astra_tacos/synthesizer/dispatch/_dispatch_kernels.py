# mypy: ignore-errors
"""Kernel: list scheduling of sends on links."""

from __future__ import annotations

import numpy as np
from numba import njit

# What an event does, in its lowest bits; above them is the number of the send.
_LANDS, _FREES_UP, _FREES_DOWN = 1, 2, 4
_KIND_BITS = 3


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _push_send(heap, at, size, send):
    """Add a send to a channel's ready ones, a binary heap in `heap[at : at + size]`."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[at + parent] <= send:
            break
        heap[at + child] = heap[at + parent]
        child = parent
    heap[at + child] = send


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _drop_first_send(heap, at, size):
    """Take the smallest out of a heap that has `size` sends left after that."""
    last = heap[at + size]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and heap[at + child + 1] < heap[at + child]:
            child += 1
        if last <= heap[at + child]:
            break
        heap[at + parent] = heap[at + child]
        parent = child
    heap[at + parent] = last


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _push_event(events, size, time, what):
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if events[parent, 0] <= time:
            break
        events[child, 0] = events[parent, 0]
        events[child, 1] = events[parent, 1]
        child = parent
    events[child, 0] = time
    events[child, 1] = what


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _drop_first_event(events, size):
    time = events[size, 0]
    what = events[size, 1]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and events[child + 1, 0] < events[child, 0]:
            child += 1
        if time <= events[child, 0]:
            break
        events[parent, 0] = events[child, 0]
        events[parent, 1] = events[child, 1]
        parent = child
    events[parent, 0] = time
    events[parent, 1] = what


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _grown(array, size):
    if size < len(array):
        return array
    grown = np.empty((2 * len(array), 2), np.int64)
    for i in range(size):
        grown[i, 0] = array[i, 0]
        grown[i, 1] = array[i, 1]
    return grown


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _sort(keys, size):
    """Sort rows by (key, channel): Shell sort, which for a few rows is an insertion sort."""
    gap = 1
    while gap * 4 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key = keys[i, 0]
            channel = keys[i, 1]
            at = i
            while at >= gap and (keys[at - gap, 0] > key or (keys[at - gap, 0] == key and keys[at - gap, 1] > channel)):
                keys[at, 0] = keys[at - gap, 0]
                keys[at, 1] = keys[at - gap, 1]
                at -= gap
            keys[at, 0] = key
            keys[at, 1] = channel
        gap //= 3


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def start_order(
    channel,
    urgency,
    up_busy_ns,
    down_busy_ns,
    usable_ns,
    feeds,
    awaits,
    slot_left,
    waiting_first,
    waiting,
    ready_first,
    channel_link,
    channel_down_link,
    through_first,
    through,
    sends_left,
):
    """The sends in the order in which they start; fewer than there are if some never can.

    Sends are numbered by channel, then by urgency. `up_busy_ns`, `down_busy_ns` and `usable_ns` are counted from a send's
    start. `slot_left` is how many sends each slot still lacks, `sends_left` how many links do that are given work by how much
    they have left (else it is negative); `waiting` lists the sends that wait for it; `through` lists the
    channels through each link of a switch.
    """
    num_sends = len(channel)
    num_links = len(through_first) - 1
    started = np.empty(num_sends, np.int64)
    num_started = 0
    heap = np.empty(num_sends, np.int64)
    num_ready = np.zeros(len(ready_first) - 1, np.int64)
    link_free_ns = np.zeros(num_links, np.int64)
    events = np.empty((1024, 2), np.int64)
    num_events = 0
    candidates = np.empty((1024, 2), np.int64)
    num_candidates = 0

    for send in range(num_sends):
        if awaits[send] < 0:
            used = channel[send]
            if num_ready[used] == 0:
                candidates = _grown(candidates, num_candidates)
                candidates[num_candidates, 1] = used
                num_candidates += 1
            _push_send(heap, ready_first[used], num_ready[used], send)
            num_ready[used] += 1

    now = 0
    while True:
        # Every channel that something has changed for is a candidate: keep those that could start a send, most urgent first.
        kept = 0
        for i in range(num_candidates):
            used = candidates[i, 1]
            down = channel_down_link[used]
            if num_ready[used] == 0 or link_free_ns[channel_link[used]] > now or (down >= 0 and link_free_ns[down] > now):
                continue
            key = urgency[heap[ready_first[used]]]
            if down >= 0 and sends_left[down] > 0:
                key -= max(sends_left[channel_link[used]], sends_left[down]) << 32
            candidates[kept, 0] = key
            candidates[kept, 1] = used
            kept += 1
        if kept > 1:
            _sort(candidates, kept)
        for i in range(kept):
            used = candidates[i, 1]
            up = channel_link[used]
            down = channel_down_link[used]
            if link_free_ns[up] > now or (down >= 0 and link_free_ns[down] > now):
                continue
            send = heap[ready_first[used]]
            num_ready[used] -= 1
            _drop_first_send(heap, ready_first[used], num_ready[used])
            started[num_started] = send
            num_started += 1
            up_ns = now + up_busy_ns[send]
            land_ns = now + usable_ns[send]
            link_free_ns[up] = up_ns
            sends_left[up] -= 1
            if down >= 0:
                sends_left[down] -= 1
            events = _grown(events, num_events + 2)
            kind = _LANDS
            if up_ns == land_ns:
                kind |= _FREES_UP
            else:
                _push_event(events, num_events, up_ns, (send << _KIND_BITS) | _FREES_UP)
                num_events += 1
            if down >= 0:
                down_ns = now + down_busy_ns[send]
                link_free_ns[down] = down_ns
                if down_ns == land_ns:
                    kind |= _FREES_DOWN
                else:
                    _push_event(events, num_events, down_ns, (send << _KIND_BITS) | _FREES_DOWN)
                    num_events += 1
            _push_event(events, num_events, land_ns, (send << _KIND_BITS) | kind)
            num_events += 1
        if num_events == 0:
            return started[:num_started]

        now = events[0, 0]
        num_candidates = 0
        while num_events > 0 and events[0, 0] == now:
            what = events[0, 1]
            num_events -= 1
            _drop_first_event(events, num_events)
            send = what >> _KIND_BITS
            used = channel[send]
            if what & _LANDS:
                slot = feeds[send]
                slot_left[slot] -= 1
                if slot_left[slot] == 0:
                    for at in range(waiting_first[slot], waiting_first[slot + 1]):
                        next_send = waiting[at]
                        next_channel = channel[next_send]
                        _push_send(heap, ready_first[next_channel], num_ready[next_channel], next_send)
                        num_ready[next_channel] += 1
                        candidates = _grown(candidates, num_candidates)
                        candidates[num_candidates, 1] = next_channel
                        num_candidates += 1
            for side in range(2):
                if not what & (_FREES_UP if side == 0 else _FREES_DOWN):
                    continue
                link = channel_link[used] if side == 0 else channel_down_link[used]
                if channel_down_link[used] < 0:
                    candidates = _grown(candidates, num_candidates)
                    candidates[num_candidates, 1] = used
                    num_candidates += 1
                    continue
                for at in range(through_first[link], through_first[link + 1]):
                    if num_ready[through[at]] > 0:
                        candidates = _grown(candidates, num_candidates)
                        candidates[num_candidates, 1] = through[at]
                        num_candidates += 1
