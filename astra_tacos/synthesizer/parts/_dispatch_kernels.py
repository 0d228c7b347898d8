# mypy: ignore-errors
"""Kernel: list scheduling of messages on links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I64, I64_OUT, helper, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push

# What an event does, in its lowest bits; above them is the number of the message, or of the slot where a sum is made.
_LANDS, _FREES_UP, _FREES_DOWN, _SUM_MADE = 1, 2, 4, 8
_KIND_BITS = 4
# Whose offer it is to send a message, in its lowest bits: an up-link's, a down-link's or, if neither, the channel's own.
_OF_UP, _OF_DOWN = 1, 2
_SIDE_BITS = 2
_NONE = (1 << 63) - 1


class Sends(NamedTuple):
    """Messages by channel, then by urgency, so that a channel's most urgent one is that of the smallest number.

    No two are equally urgent.

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


class Links(NamedTuple):
    """Links: from when on each is free, when a link of a switch last became free, and how many sends each has left."""

    free_ns: I64_OUT
    freed_at: I64_OUT
    sends_left: I64_OUT  # see `start_order`


@helper
def _grown(array, size):
    if size < len(array):
        return array
    grown = np.empty(2 * len(array), np.int64)
    for i in range(size):
        grown[i] = array[i]
    return grown


@helper
def _key(used, urgency, channels, sends_left):
    """How urgent the most urgent message is that a channel has ready, given how urgent it is by itself."""
    down = channels.down_link[used]
    if down >= 0 and sends_left[down] > 0:
        return urgency - (max(sends_left[channels.link[used]], sends_left[down]) << 32)
    return urgency


@helper
def _most_urgent(link, now, first_urgency, by_urgency, channels, links):
    """The key and channel of the most urgent message that a link of a switch, which has become free, could take; -1 if none.

    Those of an up-link are all whose down-link is free. Those of a down-link are the ones whose up-link has been free before:
    an up-link that has become free at the same instant looks for itself.
    """
    best_key = np.int64(_NONE)
    best = np.int64(-1)
    for at in range(channels.through_first[link], channels.through_first[link + 1]):
        used = channels.through[at]
        key = first_urgency[used]
        if key == _NONE or (by_urgency and key >= best_key):
            continue
        up = channels.link[used]
        other = channels.down_link[used] if up == link else up
        if links.free_ns[other] > now or (up != link and links.freed_at[up] == now):
            continue
        key = _key(used, key, channels, links.sends_left)
        if key < best_key:
            best_key = key
            best = used
    return best_key, best


@kernel
def start_order(sends: Sends, slots: Slots, channels: Channels, sends_left: I64_OUT, examined: I64_OUT):
    """The messages in the order in which they start; fewer than there are if some never can.

    Parameters
    ----------
    sends_left
        [num_links], how many sends links have left that are given work by how much they have left; for others negative.
    examined
        [1], set to the number of channels of switches that were looked at for a message to start.
    """
    num_sends = len(sends.channel)
    num_links = len(channels.through_first) - 1
    started = np.empty(num_sends, np.int64)
    num_started = 0
    heap = np.empty(num_sends, np.int64)
    num_ready = np.zeros(len(channels.send_first) - 1, np.int64)
    first_urgency = np.full(len(num_ready), _NONE, np.int64)  # of what channels have ready
    by_urgency = True  # `np.all` of a kernel would load scipy.linalg with it
    for link in range(num_links):
        by_urgency &= sends_left[link] <= 0
    links = Links(np.zeros(num_links, np.int64), np.full(num_links, -1, np.int64), sends_left)
    event_ns = np.empty(1024, np.int64)
    events = np.empty(1024, np.int64)
    num_events = 0
    freed = np.empty(num_links, np.int64)  # links of switches that became free at this instant
    num_freed = 0
    woken = np.empty(1024, np.int64)  # channels that have got a message ready, or whose link is direct and became free
    num_woken = 0
    keys = np.empty(1024, np.int64)
    offers = np.empty(1024, np.int64)
    full = np.empty(1024, np.int64)
    num_examined = 0

    for send in range(num_sends):
        if slots.awaited[send] == 0:
            used = sends.channel[send]
            if num_ready[used] == 0:
                woken = _grown(woken, num_woken)
                woken[num_woken] = used
                num_woken += 1
            heap_push(heap, heap, channels.send_first[used], num_ready[used], send, send)
            num_ready[used] += 1
            first_urgency[used] = min(first_urgency[used], sends.urgency[send])
    for link in range(num_links):
        if channels.through_first[link] < channels.through_first[link + 1]:
            freed[num_freed] = link
            links.freed_at[link] = 0
            num_freed += 1

    now = 0
    while True:
        # Each link that has become free offers the most urgent message that it could take, and so does each channel that has
        # got one while its links were free. The most urgent offer is taken. Who sees its other link taken makes its next offer.
        num_offers = 0
        for i in range(num_freed):
            link = freed[i]
            key, used = _most_urgent(link, now, first_urgency, by_urgency, channels, links)
            num_examined += channels.through_first[link + 1] - channels.through_first[link]
            if used >= 0:
                keys = _grown(keys, num_offers)
                offers = _grown(offers, num_offers)
                side = _OF_UP if channels.link[used] == link else _OF_DOWN
                heap_push(keys, offers, 0, num_offers, key, (used << _SIDE_BITS) | side)
                num_offers += 1
        for i in range(num_woken):
            used = woken[i]
            up = channels.link[used]
            down = channels.down_link[used]
            if num_ready[used] == 0 or links.free_ns[up] > now:
                continue
            if down >= 0 and (links.free_ns[down] > now or links.freed_at[up] == now or links.freed_at[down] == now):
                continue
            keys = _grown(keys, num_offers)
            offers = _grown(offers, num_offers)
            key = _key(used, first_urgency[used], channels, sends_left)
            heap_push(keys, offers, 0, num_offers, key, used << _SIDE_BITS)
            num_offers += 1
        while num_offers > 0:
            used = offers[0] >> _SIDE_BITS
            side = offers[0] & ((1 << _SIDE_BITS) - 1)
            num_offers -= 1
            heap_drop_first(keys, offers, 0, num_offers)
            up = channels.link[used]
            down = channels.down_link[used]
            if links.free_ns[up] > now or (down >= 0 and links.free_ns[down] > now):
                link = up if side == _OF_UP else down
                if side and links.free_ns[link] <= now:
                    key, used = _most_urgent(link, now, first_urgency, by_urgency, channels, links)
                    num_examined += channels.through_first[link + 1] - channels.through_first[link]
                    if used >= 0:
                        heap_push(keys, offers, 0, num_offers, key, (used << _SIDE_BITS) | side)
                        num_offers += 1
                continue
            send = heap[channels.send_first[used]]
            num_ready[used] -= 1
            heap_drop_first(heap, heap, channels.send_first[used], num_ready[used])
            first_urgency[used] = sends.urgency[heap[channels.send_first[used]]] if num_ready[used] > 0 else _NONE
            started[num_started] = send
            num_started += 1
            up_ns = now + sends.up_busy_ns[send]
            land_ns = now + sends.usable_ns[send]
            links.free_ns[up] = up_ns
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
                links.free_ns[down] = down_ns
                if down_ns == land_ns:
                    kind |= _FREES_DOWN
                else:
                    heap_push(event_ns, events, 0, num_events, down_ns, (send << _KIND_BITS) | _FREES_DOWN)
                    num_events += 1
            heap_push(event_ns, events, 0, num_events, land_ns, (send << _KIND_BITS) | kind)
            num_events += 1
        if num_events == 0:
            examined[0] = num_examined
            return started[:num_started]

        now = event_ns[0]
        num_freed = 0
        num_woken = 0
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
                    first_urgency[next_channel] = min(first_urgency[next_channel], sends.urgency[next_send])
                    woken = _grown(woken, num_woken)
                    woken[num_woken] = next_channel
                    num_woken += 1
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
                if channels.down_link[used] < 0:
                    woken = _grown(woken, num_woken)
                    woken[num_woken] = used
                    num_woken += 1
                    continue
                link = channels.link[used] if side == 0 else channels.down_link[used]
                freed[num_freed] = link
                links.freed_at[link] = now
                num_freed += 1
