# mypy: ignore-errors
"""Kernel: discrete-event replay of a custom collective's nodes, in ASTRA-sim's order of events.

Events at one instant run in the order in which they were made, as in ASTRA-sim's event queue. What makes an event, and when,
is therefore part of the result: two messages that reach a link at one instant queue in that order. Upstream files, in
`astra-network-analytical`: `EventQueue.cpp`, `congestion_aware/Link.cpp` (a transmission makes its arrival first, then the
event that frees the link) and `congestion_aware/Chunk.cpp`; in `astra-sim`: `CommonNetworkApi.cc` (an arrival finishes the
send first, then a waiting receive; a receive that comes late is an event of its own), `Sys.cc` (the compute nodes of one rank
that end together share one event, made by the first of them) and `CustomAlgorithm.cc` (a finished node issues the nodes it
sets free at once).
"""

from __future__ import annotations

import numpy as np
from numba import njit

DONE = 0
ENDS_AT_ZERO = 1

SEND = 5
RECEIVE = 6

_ARRIVES = 0
_FREES_LINK = 1
_RECEIVES = 2
_COMPUTES = 3

_NONE = -1
_ARRIVED = -2


@njit(cache=True, nogil=True)
def replay_nodes(
    rank,
    kind,
    size_bytes,
    compute_ns,
    message_key,
    slot_first,
    child_first,
    child,
    waits,
    direct_ns,
    hop,
    hop_end,
    hop_link,
    link_latency_ns,
    link_bytes_per_ns,
    issue_ns,
    finish_ns,
    link_bytes,
    link_busy_ns,
):
    """Replay all nodes; nodes that stall keep `finish_ns` -1.

    Per node: `message_key` numbers the distinct (tag, source, destination, size); the messages of key k have the slots
    `slot_first[k] ..` in order of issue, in which sends and receives meet. `hop .. hop_end` are the entries of `hop_link` that
    a send crosses (`hop` moves on); with no links at all, it takes `direct_ns`. `waits` counts the dependencies left and is
    used up. The row after the last node is the start, whose children are the nodes without dependencies. `issue_ns`,
    `finish_ns`, `link_bytes` and `link_busy_ns` are results.

    Returns DONE, or ENDS_AT_ZERO with the send that ends or frees its link at time 0, and otherwise -1.
    """
    start = len(kind)
    queued = len(link_latency_ns) > 0
    num_computes = 0
    for node in range(start):
        if kind[node] != SEND and kind[node] != RECEIVE:
            num_computes += 1
    mask = 1
    while mask < 2 * num_computes:
        mask *= 2
    mask -= 1
    batch = np.full(mask + 1, _NONE, np.int64)
    batch_last = np.empty(start + 1, np.int64)

    slot = np.empty(start + 1, np.int64)
    at_slot = np.full(slot_first[-1], _NONE, np.int64)
    sends_issued = slot_first.copy()
    receives_issued = slot_first.copy()

    # What follows a node: the next to finish in the same event, or the next message in a link's queue.
    then = np.full(start + 1, _NONE, np.int64)
    link_busy = np.zeros(len(link_latency_ns), np.bool_)
    queue_head = np.full(len(link_latency_ns), _NONE, np.int64)
    queue_tail = np.full(len(link_latency_ns), _NONE, np.int64)

    # A binary heap by (time, number); a code is 4 * (node or link) + what happens.
    capacity = start + len(link_latency_ns) + 1
    heap_ns = np.empty(capacity, np.int64)
    heap_number = np.empty(capacity, np.int64)
    heap_code = np.empty(capacity, np.int64)
    heap_size = 0
    next_number = 0

    now = 0
    moving = _NONE
    finished = start
    cursor = 0
    cursor_end = 0
    # One step a turn, deepest work first, so that each step's code (and the heap's) stands here once.
    while True:
        pushes = 0
        first_ns = 0
        first_code = 0
        second_ns = 0
        second_code = 0
        if moving != _NONE:
            node = moving
            moving = _NONE
            if not queued:
                first_ns = now + direct_ns[node]
                first_code = 4 * node + _ARRIVES
                pushes = 1
            else:
                link = hop_link[hop[node]]
                if link_busy[link]:
                    then[node] = _NONE
                    if queue_head[link] == _NONE:
                        queue_head[link] = node
                    else:
                        then[queue_tail[link]] = node
                    queue_tail[link] = node
                else:
                    link_busy[link] = True
                    serialisation = size_bytes[node] / link_bytes_per_ns[link]
                    held = np.int64(serialisation)
                    link_bytes[link] += size_bytes[node]
                    link_busy_ns[link] += held
                    first_ns = now + np.int64(link_latency_ns[link] + serialisation)
                    first_code = 4 * node + _ARRIVES
                    second_ns = now + held
                    second_code = 4 * link + _FREES_LINK
                    pushes = 2
                    if second_ns == 0:
                        return ENDS_AT_ZERO, node
            if pushes > 0 and first_ns == 0:
                return ENDS_AT_ZERO, node
        elif cursor < cursor_end:
            node = child[cursor]
            cursor += 1
            waits[node] -= 1
            if waits[node] == 0:
                issue_ns[node] = now
                if kind[node] == SEND:
                    slot[node] = sends_issued[message_key[node]]
                    sends_issued[message_key[node]] += 1
                    moving = node
                elif kind[node] == RECEIVE:
                    place = receives_issued[message_key[node]]
                    receives_issued[message_key[node]] += 1
                    if at_slot[place] == _ARRIVED:
                        first_ns = now
                        first_code = 4 * node + _RECEIVES
                        pushes = 1
                    else:
                        at_slot[place] = node
                else:
                    end = now + compute_ns[node]
                    finish_ns[node] = end
                    place = (((end + rank[node] * 7046029254386353131) * 2685821657736338717) >> 24) & mask
                    while batch[place] != _NONE and (finish_ns[batch[place]] != end or rank[batch[place]] != rank[node]):
                        place = (place + 1) & mask
                    if batch[place] == _NONE:
                        batch[place] = node
                        first_ns = end
                        first_code = 4 * node + _COMPUTES
                        pushes = 1
                    else:
                        then[batch_last[batch[place]]] = node
                    batch_last[batch[place]] = node
        elif finished != _NONE:
            finish_ns[finished] = now
            cursor = child_first[finished]
            cursor_end = child_first[finished + 1]
            finished = then[finished]
        elif heap_size == 0:
            return DONE, _NONE
        else:
            now = heap_ns[0]
            code = heap_code[0]
            heap_size -= 1
            # Sink the last entry from the top.
            last_ns = heap_ns[heap_size]
            last_number = heap_number[heap_size]
            at = 0
            while True:
                below = 2 * at + 1
                if below >= heap_size:
                    break
                other = below + 1
                if other < heap_size and (
                    heap_ns[other] < heap_ns[below]
                    or (heap_ns[other] == heap_ns[below] and heap_number[other] < heap_number[below])
                ):
                    below = other
                if last_ns < heap_ns[below] or (last_ns == heap_ns[below] and last_number < heap_number[below]):
                    break
                heap_ns[at] = heap_ns[below]
                heap_number[at] = heap_number[below]
                heap_code[at] = heap_code[below]
                at = below
            heap_ns[at] = last_ns
            heap_number[at] = last_number
            heap_code[at] = heap_code[heap_size]

            what = code & 3
            node = code >> 2
            if what == _FREES_LINK:
                link = node
                link_busy[link] = False
                moving = queue_head[link]
                if moving != _NONE:
                    queue_head[link] = then[moving]
            elif what == _ARRIVES:
                hop[node] += 1
                if hop[node] < hop_end[node]:
                    moving = node
                else:
                    finished = node
                    then[node] = at_slot[slot[node]]
                    if then[node] == _NONE:
                        at_slot[slot[node]] = _ARRIVED
            else:
                finished = node

        while pushes > 0:
            # Raise a new entry from the bottom.
            at = heap_size
            heap_size += 1
            while at > 0 and first_ns < heap_ns[(at - 1) >> 1]:
                above = (at - 1) >> 1
                heap_ns[at] = heap_ns[above]
                heap_number[at] = heap_number[above]
                heap_code[at] = heap_code[above]
                at = above
            heap_ns[at] = first_ns
            heap_number[at] = next_number
            heap_code[at] = first_code
            next_number += 1
            first_ns = second_ns
            first_code = second_code
            pushes -= 1
