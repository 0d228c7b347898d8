# mypy: ignore-errors
"""Kernel: list scheduling of messages on links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.kernels.arrays import I32, I64, I64_OUT
from astra_tacos.kernels.compiled import borrowed, helper, kernel
from astra_tacos.kernels.heap import heap_drop_first, heap_push

# What an event does, in its lowest bits; above them is the number of the message, or of the slot where a sum is made.
_LANDS, _FREES_UP, _FREES_DOWN, _SUM_MADE = 1, 2, 4, 8
_KIND_BITS = 4


class Sends(NamedTuple):
    """Messages by channel, then by urgency, so that a channel's most urgent one is that of the smallest number.

    Times in ns count from a message's start: how long it keeps its link (or up-link) and down-link, and when it is of use.
    """

    channel: I32
    urgency: I64
    up_busy_ns: I64
    down_busy_ns: I64
    usable_ns: I64
    feeds_first: I64  # the slots that it fills (CSR)
    feeds: I64


class Slots(NamedTuple):
    """What messages wait for.

    How many slots each message still awaits; how many sends or parts each slot lacks, the messages that wait for it, the sums
    that it is a part of (CSR), and how long a sum takes to make.
    """

    awaited: I64_OUT
    left: I64_OUT
    waiting_first: I64
    waiting: I64
    wholes_first: I64
    wholes: I64
    duration_ns: I64


class Channels(NamedTuple):
    """Channels: the first of each one's sends, its link and down-link (-1 if none), and those through each link of a switch."""

    send_first: I64  # [num_channels + 1]
    link: I32
    down_link: I32
    through_first: I64  # [num_links + 1]
    through: I64


@helper
def _grown(array, size):
    if size < len(array):
        return array
    grown = np.empty(2 * len(array), np.int64)
    for i in range(size):
        grown[i] = array[i]
    return grown


@helper
def _sort(keys, channels, size):
    """Sort by (key, channel): Shell sort, which for a few is an insertion sort."""
    gap = 1
    while gap * 4 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key = keys[i]
            channel = channels[i]
            at = i
            while at >= gap and (keys[at - gap] > key or (keys[at - gap] == key and channels[at - gap] > channel)):
                keys[at] = keys[at - gap]
                channels[at] = channels[at - gap]
                at -= gap
            keys[at] = key
            channels[at] = channel
        gap //= 3


@kernel
def start_order(sends: Sends, slots: Slots, channels: Channels, sends_left: I64_OUT):
    """The messages in the order in which they start; fewer than there are if some never can.

    Parameters
    ----------
    sends_left
        [num_links], how many sends links have left that are given work by how much they have left; for others negative.
    """
    sends, slots, channels, sends_left = borrowed(sends), borrowed(slots), borrowed(channels), borrowed(sends_left)
    num_sends = len(sends.channel)
    num_links = len(channels.through_first) - 1
    started = np.empty(num_sends, np.int64)
    num_started = 0
    heap = np.empty(num_sends, np.int64)
    num_ready = np.zeros(len(channels.send_first) - 1, np.int64)
    link_free_ns = np.zeros(num_links, np.int64)
    event_ns = np.empty(1024, np.int64)
    events = np.empty(1024, np.int64)
    num_events = 0
    candidates = np.empty(1024, np.int64)
    num_candidates = 0
    keys = np.empty(1024, np.int64)
    full = np.empty(1024, np.int64)

    for send in range(num_sends):
        if slots.awaited[send] == 0:
            used = sends.channel[send]
            if num_ready[used] == 0:
                candidates = _grown(candidates, num_candidates)
                candidates[num_candidates] = used
                num_candidates += 1
            heap_push(heap, heap, channels.send_first[used], num_ready[used], send, send)
            num_ready[used] += 1

    now = 0
    while True:
        # Every channel that something has changed for is a candidate: keep those that could start a send, most urgent first.
        if len(keys) < num_candidates:
            keys = np.empty(len(candidates), np.int64)
        kept = 0
        for i in range(num_candidates):
            used = candidates[i]
            down = channels.down_link[used]
            if num_ready[used] == 0 or link_free_ns[channels.link[used]] > now or (down >= 0 and link_free_ns[down] > now):
                continue
            key = sends.urgency[heap[channels.send_first[used]]]
            if down >= 0 and sends_left[down] > 0:
                key -= max(sends_left[channels.link[used]], sends_left[down]) << 32
            keys[kept] = key
            candidates[kept] = used
            kept += 1
        if kept > 1:
            _sort(keys, candidates, kept)
        for i in range(kept):
            used = candidates[i]
            up = channels.link[used]
            down = channels.down_link[used]
            if link_free_ns[up] > now or (down >= 0 and link_free_ns[down] > now):
                continue
            send = heap[channels.send_first[used]]
            num_ready[used] -= 1
            heap_drop_first(heap, heap, channels.send_first[used], num_ready[used])
            started[num_started] = send
            num_started += 1
            up_ns = now + sends.up_busy_ns[send]
            land_ns = now + sends.usable_ns[send]
            link_free_ns[up] = up_ns
            sends_left[up] -= 1
            if down >= 0:
                sends_left[down] -= 1
            event_ns = _grown(event_ns, num_events + 2)
            events = _grown(events, num_events + 2)
            kind = _LANDS
            if up_ns == land_ns:
                kind |= _FREES_UP
            else:
                heap_push(event_ns, events, 0, num_events, up_ns, (send << _KIND_BITS) | _FREES_UP)
                num_events += 1
            if down >= 0:
                down_ns = now + sends.down_busy_ns[send]
                link_free_ns[down] = down_ns
                if down_ns == land_ns:
                    kind |= _FREES_DOWN
                else:
                    heap_push(event_ns, events, 0, num_events, down_ns, (send << _KIND_BITS) | _FREES_DOWN)
                    num_events += 1
            heap_push(event_ns, events, 0, num_events, land_ns, (send << _KIND_BITS) | kind)
            num_events += 1
        if num_events == 0:
            return started[:num_started]

        now = event_ns[0]
        num_candidates = 0
        while num_events > 0 and event_ns[0] == now:
            what = events[0]
            num_events -= 1
            heap_drop_first(event_ns, events, 0, num_events)
            send = np.int64(0) if what & _SUM_MADE else what >> _KIND_BITS
            used = sends.channel[send]
            num_full = 0
            if what & _SUM_MADE:
                full[0] = what >> _KIND_BITS
                num_full = 1
            elif what & _LANDS:
                for at in range(sends.feeds_first[send], sends.feeds_first[send + 1]):
                    slot = sends.feeds[at]
                    slots.left[slot] -= 1
                    if slots.left[slot] == 0:
                        full = _grown(full, num_full)
                        full[num_full] = slot
                        num_full += 1
            while num_full > 0:
                num_full -= 1
                slot = full[num_full]
                for at in range(slots.waiting_first[slot], slots.waiting_first[slot + 1]):
                    next_send = slots.waiting[at]
                    slots.awaited[next_send] -= 1
                    if slots.awaited[next_send] > 0:
                        continue
                    next_channel = sends.channel[next_send]
                    heap_push(heap, heap, channels.send_first[next_channel], num_ready[next_channel], next_send, next_send)
                    num_ready[next_channel] += 1
                    candidates = _grown(candidates, num_candidates)
                    candidates[num_candidates] = next_channel
                    num_candidates += 1
                for at in range(slots.wholes_first[slot], slots.wholes_first[slot + 1]):
                    whole = slots.wholes[at]
                    slots.left[whole] -= 1
                    if slots.left[whole] > 0:
                        continue
                    event_ns = _grown(event_ns, num_events)
                    events = _grown(events, num_events)
                    heap_push(event_ns, events, 0, num_events, now + slots.duration_ns[whole], (whole << _KIND_BITS) | _SUM_MADE)
                    num_events += 1
            if what & _SUM_MADE:
                continue
            for side in range(2):
                if not what & (_FREES_UP if side == 0 else _FREES_DOWN):
                    continue
                link = channels.link[used] if side == 0 else channels.down_link[used]
                if channels.down_link[used] < 0:
                    candidates = _grown(candidates, num_candidates)
                    candidates[num_candidates] = used
                    num_candidates += 1
                    continue
                for at in range(channels.through_first[link], channels.through_first[link + 1]):
                    if num_ready[channels.through[at]] > 0:
                        candidates = _grown(candidates, num_candidates)
                        candidates[num_candidates] = channels.through[at]
                        num_candidates += 1
