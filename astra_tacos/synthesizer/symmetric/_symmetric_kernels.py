# mypy: ignore-errors
"""Kernels: trees of NPU 0's chunks, and the order of its sends along given paths, with a class of links as the only resource.

As all NPUs send alike, a class of links takes one send of NPU 0's chunks at a time, and no single link has to be looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, I32, I32_2D, I32_OUT, I64, I64_OUT, helper, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push

NOTHING = -1
NEVER = np.int64(1) << 62


class Classes(NamedTuple):
    """Classes of links, fastest first.

    `after[after_first[i] + m]` is the member that a send of member m over class i reaches, of a group of `size[i]` members with
    NPU numbers `stride[i]` apart; `after_first[i]` is `NOTHING` for a switch, which reaches all of them. `level[i]` says which
    cosets it enters first, and `fallback[i]`, not less than that, which ones if there is none of those.
    """

    stride: I64
    size: I64
    after_first: I64
    after: I32
    level: I64
    fallback: I64
    delay_ns: I64
    hold_ns: I64


class Rows(NamedTuple):
    """Sends, in the order of their starts."""

    chunk: I32_OUT
    src: I32_OUT
    dst: I32_OUT
    way: I32_OUT
    start_ns: I64_OUT


@helper
def _find(look, classes, coset, begun, arrived, num_chunks, state):
    """The next (item, destination) of a class: the first item, in the order of arrival, that leads to a new coset of a level.

    `look` is the class, the level, and where it remembers how far it looked.
    """
    way, level, slot = look
    at, tried, room = state
    stride, size, first = classes.stride[way], classes.size[way], classes.after_first[way]
    place = at[slot]
    while place < len(arrived):
        item = arrived[place]
        here, chunk = item // num_chunks, item % num_chunks
        member = here // stride % size
        base = here - member * stride
        dst = np.int64(NOTHING)
        if first >= 0:
            reached = base + stride * classes.after[first + member]
            if begun[level, coset[level, reached] * num_chunks + chunk] == 0:
                dst = reached
        else:
            group = (room[slot] * np.int64(coset.shape[1]) + base) * num_chunks + chunk
            other = tried[group]
            while other < size:
                reached = base + stride * other
                if begun[level, coset[level, reached] * num_chunks + chunk] == 0:
                    dst = reached
                    break
                other += 1
            tried[group] = other
        if dst >= 0:
            return item, dst
        if place == at[slot]:
            at[slot] += 1
        place += 1
    return np.int64(NOTHING), np.int64(NOTHING)


@kernel
def grow_trees(num_chunks: int, classes: Classes, coset: I32_2D, deadline_ns: int, gap_ns: int, rows: Rows):
    """Spanning trees of NPU 0's chunks, greedily: whenever a class is free, it takes the first NPU that it may bring a chunk to.

    `coset[level, npu]` numbers the cosets of each level by one of their NPUs. A class may bring a chunk to an NPU only if no NPU
    of its coset has or awaits the chunk, a coset of the class's level or, if there is none, of its fallback. Nothing that arrives
    after `deadline_ns` is sent unless nothing else is left to do. What arrives is sent on `gap_ns` later.

    Returns the number of rows, fewer than there should be if some NPU is never reached.
    """
    num_levels, num_npus = coset.shape
    num_classes = len(classes.stride)
    room = np.zeros(2 * num_classes, np.int64)
    switches = np.int64(0)
    for slot in range(2 * num_classes):
        way = slot % num_classes
        room[slot] = switches
        if classes.after_first[way] < 0 and (slot < num_classes or classes.fallback[way] > classes.level[way]):
            switches += 1
    total = (num_npus - 1) * num_chunks
    begun = np.zeros((num_levels, num_npus * num_chunks), np.uint8)
    items = np.empty(num_npus * num_chunks, np.int64)
    at = np.zeros(2 * num_classes, np.int64)
    tried = np.zeros(switches * num_npus * num_chunks, np.int32)
    state = at, tried, room
    free = np.zeros(num_classes, np.int64)
    idle_since = np.full(num_classes, np.int64(NOTHING), np.int64)  # number of items among which a class found nothing to do
    keys = np.empty(2 * total + num_chunks + 1, np.int64)
    values = np.empty(len(keys), np.int64)
    pending = 0
    for chunk in range(num_chunks):
        for level in range(num_levels):
            begun[level, np.int64(coset[level, 0]) * num_chunks + chunk] = 1
        heap_push(keys, values, 0, pending, np.int64(0), np.int64(chunk))
        pending += 1
    deadline = np.int64(deadline_ns)
    num_items = done = 0
    now = np.int64(0)
    while done < total:
        if pending == 0:
            if deadline == NEVER:
                break
            deadline = NEVER
        else:
            now = keys[0]
        while pending > 0 and keys[0] == now:
            if values[0] >= 0:
                items[num_items] = values[0]
                num_items += 1
            pending -= 1
            heap_drop_first(keys, values, 0, pending)
        arrived = items[:num_items]
        for way in range(num_classes):
            if free[way] > now or now + classes.delay_ns[way] > deadline:
                continue
            if idle_since[way] == num_items:
                continue
            level, fallback = classes.level[way], classes.fallback[way]
            item, dst = _find((way, level, way), classes, coset, begun, arrived, num_chunks, state)
            if item < 0 and fallback > level:
                item, dst = _find((way, fallback, way + num_classes), classes, coset, begun, arrived, num_chunks, state)
            if item < 0:
                idle_since[way] = num_items
                continue
            chunk = item % num_chunks
            for level in range(num_levels):
                begun[level, np.int64(coset[level, dst]) * num_chunks + chunk] = 1
            rows.chunk[done], rows.src[done], rows.dst[done] = chunk, item // num_chunks, dst
            rows.way[done], rows.start_ns[done] = way, now
            done += 1
            free[way] = now + classes.hold_ns[way]
            usable = now + classes.delay_ns[way] + gap_ns
            heap_push(keys, values, 0, pending, usable, dst * num_chunks + chunk)
            pending += 1
            if free[way] != usable:
                heap_push(keys, values, 0, pending, free[way], np.int64(NOTHING))
                pending += 1
    return done


@kernel
def order_hops(first: I64, way_of: I32, rank_of: I32, delay_ns: I64, hold_ns: I64, start_ns: I64_OUT):
    """Starts of all hops by list scheduling: whenever a class is free, it takes the most urgent message that waits for it.

    Hops of message i are `first[i] .. first[i + 1]`, each over a class. A larger rank is more urgent: what a message has before
    it, in small whole numbers from 0 on.
    """
    num_classes, num_messages = len(delay_ns), len(first) - 1
    num_ranks = np.int64(0)
    for rank in rank_of:
        num_ranks = max(num_ranks, np.int64(rank) + 1)
    head = np.full((num_classes, num_ranks), np.int64(NOTHING), np.int64)
    following = np.empty(num_messages, np.int64)
    top = np.full(num_classes, np.int64(NOTHING), np.int64)
    at = first[:-1].copy()
    for message in range(num_messages - 1, -1, -1):
        hop = at[message]
        way, rank = np.int64(way_of[hop]), np.int64(rank_of[hop])
        following[message] = head[way, rank]
        head[way, rank] = message
        top[way] = max(top[way], rank)
    free = np.zeros(num_classes, np.int64)
    keys = np.empty(2 * len(way_of) + 2, np.int64)
    values = np.empty(len(keys), np.int64)
    heap_push(keys, values, 0, 0, np.int64(0), np.int64(NOTHING))
    pending = 1
    while pending > 0:
        now = keys[0]
        while pending > 0 and keys[0] == now:
            message = values[0]
            pending -= 1
            heap_drop_first(keys, values, 0, pending)
            if message >= 0:
                at[message] += 1
                hop = at[message]
                if hop < first[message + 1]:
                    way, rank = np.int64(way_of[hop]), np.int64(rank_of[hop])
                    following[message] = head[way, rank]
                    head[way, rank] = message
                    top[way] = max(top[way], rank)
        for way in range(num_classes):
            if free[way] > now:
                continue
            while top[way] >= 0 and head[way, top[way]] < 0:
                top[way] -= 1
            if top[way] < 0:
                continue
            message = head[way, top[way]]
            head[way, top[way]] = following[message]
            start_ns[at[message]] = now
            free[way] = now + hold_ns[way]
            arrival = now + delay_ns[way]
            heap_push(keys, values, 0, pending, arrival, message)
            pending += 1
            if free[way] != arrival:
                heap_push(keys, values, 0, pending, free[way], np.int64(NOTHING))
                pending += 1


class Sends(NamedTuple):
    """Sends of NPU 0's chunks, in an order that every class keeps and in which a chunk reaches an NPU before it leaves it."""

    chunk: I32
    src: I32
    dst: I32
    way: I32
    reduces: BOOL


@kernel
def earliest_starts(
    sends: Sends, num_places: int, num_chunks: int, delay_ns: I64, hold_ns: I64, reduction_ns: int, start_ns: I64_OUT
):
    """The earliest start of each send; `num_places` is the number of NPUs, or 1 if a chunk is at one NPU at a time."""
    usable = np.zeros(np.int64(num_places) * num_chunks, np.int64)
    free = np.zeros(len(delay_ns), np.int64)
    for row in range(len(sends.chunk)):
        base, way = np.int64(sends.chunk[row]) * num_places, sends.way[row]
        here, there = (base, base) if num_places == 1 else (base + sends.src[row], base + sends.dst[row])
        start = max(free[way], usable[here])
        start_ns[row] = start
        free[way] = start + hold_ns[way]
        done = start + delay_ns[way] + (reduction_ns if sends.reduces[row] else 0)
        usable[there] = max(usable[there], done)


class Places(NamedTuple):
    """Chunks at NPUs, first those to be summed up, then those to be spread: what arrives there, and what leaves from there.

    The number of sends after whose arrival all that leaves place i may leave; sends that leave it are `leaves[first[i] ..
    first[i + 1]]`. `to[row]` is the place to which a send leads.
    """

    awaits: I32
    first: I64
    leaves: I32
    to: I32


@kernel
def dispatch(places: Places, way: I32, delay_ns: I64, hold_ns: I64, reduction_ns: int, num_reducing: int, start_ns: I64_OUT):
    """Starts of sends by list scheduling: whenever a class is free, it takes the first send, by number, that may leave.

    The first `num_reducing` sends are reductions.
    """
    num_classes, num_rows = len(delay_ns), len(way)
    base = np.zeros(num_classes + 1, np.int64)
    for row in range(num_rows):
        base[way[row] + 1] += 1
    for at in range(num_classes):
        base[at + 1] += base[at]
    ready, unused = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
    size = np.zeros(num_classes, np.int64)
    free = np.zeros(num_classes, np.int64)
    missing = places.awaits.copy()
    keys = np.empty(2 * num_rows + len(missing), np.int64)
    values = np.empty(len(keys), np.int64)
    pending = 0
    for place in range(len(missing)):
        if missing[place] == 0:  # what leaves from there need not wait for anything: as if it arrived at once
            missing[place] = 1
            heap_push(keys, values, 0, pending, np.int64(0), np.int64(place))
            pending += 1
    while pending > 0:
        now = keys[0]
        while pending > 0 and keys[0] == now:
            place = values[0]
            pending -= 1
            heap_drop_first(keys, values, 0, pending)
            if place < 0:
                continue
            missing[place] -= 1
            if missing[place] == 0:
                for at in range(places.first[place], places.first[place + 1]):
                    row = np.int64(places.leaves[at])
                    over = way[row]
                    heap_push(ready, unused, base[over], size[over], row, np.int64(0))
                    size[over] += 1
        for over in range(num_classes):
            if free[over] > now or size[over] == 0:
                continue
            row = ready[base[over]]
            size[over] -= 1
            heap_drop_first(ready, unused, base[over], size[over])
            start_ns[row] = now
            free[over] = now + hold_ns[over]
            usable = now + delay_ns[over] + (reduction_ns if row < num_reducing else 0)
            heap_push(keys, values, 0, pending, usable, np.int64(places.to[row]))
            pending += 1
            if free[over] != usable:
                heap_push(keys, values, 0, pending, free[over], np.int64(NOTHING))
                pending += 1
