# mypy: ignore-errors
"""Kernel: discrete-event replay of a custom collective's nodes, in ASTRA-sim's order of events.

Events at one instant run in the order in which they were made, as in ASTRA-sim's event queue. What makes an event, and when,
is therefore part of the result: two messages that reach a link at one instant queue in that order. Upstream files, in
`astra-network-analytical`: `EventQueue.cpp`, `congestion_aware/Link.cpp` (a transmission makes its arrival first, then the
event that frees the link) and `congestion_aware/Chunk.cpp`; in `astra-sim`: `CommonNetworkApi.cc` (an arrival finishes the
send first, then a waiting receive; a receive that comes late is an event of its own), `Sys.cc` (the compute nodes of one rank
that end together share one event, made by the first of them) and `CustomAlgorithm.cc` (a finished node issues the nodes it
sets free at once). The nodes that one event sets free are issued in the order in which a hash set of their ids yields them
(`dependancy_solver.cpp` of Chakra's feeder); `hash_order` states the rule.
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

# fmt: off
_BUCKETS = (
    0, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679,
    5967347, 12117689, 24607243, 49969847, 101473717, 206062531, 418451333, 849749479, 1725587117, 3504151727,
)
# fmt: on


@njit(cache=True, nogil=True)
def hash_order(node_id, rows, level, bucket, scratch):
    """Put `rows` into the order in which a hash set of their ids yields them; returns the set's new level.

    The rule is that of `std::unordered_set<uint64_t>` in GCC's libstdc++ (`bits/hashtable.h`, `_M_insert_bucket_begin` and
    `_M_rehash`; `hashtable_c++0x.cc`, `_Prime_rehash_policy`). All elements stand in one list, those of a bucket (id modulo
    the number of buckets) side by side. A new one goes to the front of its bucket, or to the front of the list if the bucket
    is empty. A set that has as many elements as buckets grows before the next: to the next of `_BUCKETS`, and all elements are
    inserted anew in the order of the list. Removals change no order and no number of buckets.

    The set is empty and has `_BUCKETS[level]` buckets; `rows` are inserted one by one. `bucket` is -1 everywhere, before and
    after; it has three entries a row and 13 more, which is room enough for all buckets. `scratch` is int64[4, len(rows) or more].
    """
    first, below, ordered, taken = scratch[0], scratch[1], scratch[2], scratch[3]
    while True:
        # As many as fit; after growing, the elements of before are the first of `rows`, in the order of the list.
        num_held = min(len(rows), _BUCKETS[level])
        num_taken = 0
        for i in range(num_held):
            place = np.int64(node_id[rows[i]] % np.uint64(_BUCKETS[level]))
            if bucket[place] == _NONE:
                bucket[place] = num_taken
                taken[num_taken] = place
                below[i] = _NONE
                num_taken += 1
            else:
                below[i] = first[bucket[place]]
            first[bucket[place]] = i
        num_ordered = 0
        for number in range(num_taken - 1, -1, -1):
            bucket[taken[number]] = _NONE
            i = first[number]
            while i != _NONE:
                ordered[num_ordered] = rows[i]
                num_ordered += 1
                i = below[i]
        for i in range(num_held):
            rows[i] = ordered[i]
        if num_held == len(rows):
            return level
        level += 1


@njit(cache=True, nogil=True)
def order_children(node_id, rank_first, dep_first, dep, child_first, child, set_level, bucket, scratch):
    """Put the children of every row, and of the start, into ASTRA-sim's order; expects them in order of rows.

    Each node has a set of its children, filled in order of the file. Nodes without dependencies become ready in the order of a
    map of all nodes, which a node enters when it, or the first that depends on it, is read. `set_level`, of each rank's set of
    ready nodes, is a result, for `replay_nodes`. `bucket` and `scratch`: see `hash_order`, for the rows of the largest rank.
    """
    start = len(node_id)
    empty = np.int64(0)  # a literal would compile `hash_order` twice
    for node in range(start):
        if child_first[node + 1] - child_first[node] > 1:
            hash_order(node_id, child[child_first[node] : child_first[node + 1]], empty, bucket, scratch)

    entered = np.zeros(start, np.bool_)
    latest_child = np.full(start, _NONE, np.int64)
    nodes = np.empty(scratch.shape[1], np.int64)
    parents = np.empty(scratch.shape[1], np.int64)
    root = child_first[start]
    for owner in range(len(set_level)):
        num_nodes = 0
        for node in range(rank_first[owner], rank_first[owner + 1]):
            if not entered[node]:
                entered[node] = True
                nodes[num_nodes] = node
                num_nodes += 1
            num_parents = 0
            new_parents = False
            for i in range(dep_first[node], dep_first[node + 1]):
                if latest_child[dep[i]] != node:
                    latest_child[dep[i]] = node
                    parents[num_parents] = dep[i]
                    num_parents += 1
                    new_parents |= not entered[dep[i]]
            if new_parents:
                hash_order(node_id, parents[:num_parents], empty, bucket, scratch)
                for i in range(num_parents):
                    parent = parents[i]
                    if not entered[parent]:
                        entered[parent] = True
                        nodes[num_nodes] = parent
                        num_nodes += 1
        hash_order(node_id, nodes[:num_nodes], empty, bucket, scratch)
        first_root = root
        for i in range(num_nodes):
            node = nodes[i]
            if dep_first[node] == dep_first[node + 1]:
                child[root] = node
                root += 1
        set_level[owner] = hash_order(node_id, child[first_root:root], empty, bucket, scratch)


@njit(cache=True, nogil=True)
def replay_nodes(
    rank,
    node_id,
    kind,
    size_bytes,
    compute_ns,
    message_key,
    slot_first,
    child_first,
    child,
    waits,
    set_level,
    bucket,
    scratch,
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
    used up. The row after the last node is the start, whose children are the nodes without dependencies. Children are as
    `order_children` leaves them; `set_level`, from there too, is used up; `bucket` and `scratch` are as there. `issue_ns`,
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
    # The nodes that the last event set free, in order of issue.
    ready = np.empty(start, np.int64)
    num_ready = 0
    next_ready = 0
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
        elif next_ready < num_ready:
            node = ready[next_ready]
            next_ready += 1
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
            num_ready = 0
            next_ready = 0
            for i in range(child_first[finished], child_first[finished + 1]):
                waits[child[i]] -= 1
                if waits[child[i]] == 0:
                    ready[num_ready] = child[i]
                    num_ready += 1
            if num_ready > 1 and finished != start:
                owner = rank[finished]
                set_level[owner] = hash_order(node_id, ready[:num_ready], set_level[owner], bucket, scratch)
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
