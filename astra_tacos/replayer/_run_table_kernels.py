# mypy: ignore-errors
"""What the kernels of run replays share: kinds of nodes, records, the tables of a run, and the order of Chakra's hash sets."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.kernels.compiled import (
    BOOL,
    BOOL_OUT,
    F64,
    I32,
    I32_OUT,
    I64,
    I64_2D_OUT,
    I64_OUT,
    U8,
    U64,
    Layout,
    helper,
)

DONE = 0
PAUSED = 1
FULL = 2
ENDS_AT_ZERO = 3
OUT_OF_TIME = 4
MISNUMBERED = 5
# Where another kernel carries the messages: the next event comes after the time asked for; messages wait to be carried.
AHEAD = 6
HANDED_OVER = 7
# Where one rank stands for many: things at one instant whose order may differ between them.
UNORDERED = 8

# What a node does when it is issued.
STALL = 0
SEND = 1
RECEIVE = 2
COMPUTE = 3
WAIT = 4
COLLECTIVE = 5
SKIP = 6
MEMORY = 7
# In native programs: a message that nobody waits for, and tokens that keep order at one position.
POST = 8
TAKE = 9
PUT = 10
PULSE = 11

# Of what a rank has one: nodes of its workload wait for their slot. Receives need none.
CPU = 0
GPU = 1
NETWORK = 2
NO_SLOT = 3
SLOTS = 4

UNTOUCHED = 0
ISSUED = 1
FINISHED = 2

NONE = -1
NATIVE = -2
LATEST_NS = 1 << 61
_EXACT_IN_DOUBLE = np.uint64(1 << 52)

# Entries of `Progress.scalar`.
NOW = 0
FIRED = 1
FREE_EVENT = 2
USED_EVENTS = 3
FREE_BATCH = 4
USED_BATCHES = 5
FREE_WAIT = 6
USED_WAITS = 7
FREE_MESSAGE = 8
USED_MESSAGES = 9
IN_FLIGHT = 10
RANKS_DONE = 11
NUM_RECORDS = 12
CULPRIT = 13
NEXT = 14
OUT_HEAD = 15
OUT_TAIL = 16
# What tells whether the order of things at one instant is the same for all that a rank stands for, see `Progress.touches`.
STAMP = 17
LATEST_STAMP = 18
ATOM = 19
LATEST_ADDER = 20
CLASH = 21
OF_KEYS = 22
OF_SLOTS = 23
OF_POOLS = 24
OF_SETS = 25
OF_PICKS = 26
OF_ROWS = 27
OF_BATCHES = 28
NUM_SCALARS = 29

# fmt: off
_BUCKETS = (
    0, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679,
    5967347, 12117689, 24607243, 49969847, 101473717, 206062531, 418451333, 849749479, 1725587117, 3504151727,
)
# fmt: on


NODE = np.dtype([("amount", np.int64), ("child_first", np.int32), ("action", np.uint8)], align=True)
"""A row: bytes of a message, ns of COMPUTE, WAIT and MEMORY or pool of tokens; first entry in `Code.child`; what it does."""
ADDRESS = np.dtype([("key", np.int32), ("pair", np.int32)])
"""Of a message: number of its (tag, source, destination, size), and of its (source, destination)."""
LIVE = np.dtype(
    [("rank", np.int32), ("waits", np.int32), ("then", np.int32), ("origin", np.int32), ("state", np.uint8)], align=True
)
"""A live node: its rank, rows that it waits for, the next of the receives that wait for a key, of the TAKEs that wait for a
pool, or of the accesses that wait for a memory, and the origin of its issue (`Progress.entered`)."""
_NUMBERS = ("hop", "live", "place", "mate", "then", "key_then", "origin")
MESSAGE = np.dtype([("size", np.int64)] + [(name, np.int32) for name in _NUMBERS], align=True)
"""A message in flight: bytes, entry of `hop_link`, the live node that ends with it (or -1), entry of `address`, the receive that
ends with it (or -1), the next in a link's queue, the next of its key that no receive has asked for, and the origin of its latest
start on a link."""
EVENT = np.dtype([("ns", np.int64), ("code", np.int64), ("then", np.int32), ("stamp", np.int32)], align=True)
"""`stamp` is that of the event that made it."""
TOUCH = np.dtype([("stamp", np.int32), ("atom", np.int32), ("what", np.int32)])
"""Of a thing that several events may touch: the latest stamp and atom (-1: several of them) that did, and in which ways."""
KEY = np.dtype([("head", np.int32), ("tail", np.int32), ("arrived", np.int32)])
"""First receive that waits (or -2 - first message on its way, or -1), the last, and messages that no receive has asked for."""
BATCH = np.dtype([("ns", np.int64), ("rank", np.int32), ("head", np.int32), ("tail", np.int32), ("stamp", np.int32)], align=True)
"""What one rank waits for until one instant; `head` and `tail` are entries of `wait_live`."""
MEETING = np.dtype([("size", np.int64), ("tag", np.int32), ("pair", np.int32), ("space", np.int32)], align=True)
"""What is equal of messages that meet."""

NODES = Annotated[NDArray[np.void], Layout(record=NODE)]
ADDRESSES = Annotated[NDArray[np.void], Layout(record=ADDRESS)]
ADDRESSES_OUT = Annotated[NDArray[np.void], Layout(1, True, ADDRESS)]
LIVES = Annotated[NDArray[np.void], Layout(1, True, LIVE)]
MESSAGES = Annotated[NDArray[np.void], Layout(1, True, MESSAGE)]
KEYS = Annotated[NDArray[np.void], Layout(1, True, KEY)]
EVENTS = Annotated[NDArray[np.void], Layout(1, True, EVENT)]
BATCHES = Annotated[NDArray[np.void], Layout(1, True, BATCH)]
TOUCHES = Annotated[NDArray[np.void], Layout(1, True, TOUCH)]
MEETINGS = Annotated[NDArray[np.void], Layout(1, True, MEETING)]


class Code(NamedTuple):
    """What ranks and collectives do; not changed by a replay. A row is a node of a rank's workload or of a program's position.

    Rows of the workload come first. A template is a rank's workload (template r), or what one position does in one program.
    """

    node_id: U64  # [rows]
    nodes: NODES  # [rows + 1]
    num_waits: I32  # [rows]: rows it depends on
    child: I32  # [...]: rows that depend on a row
    template_first: I64  # [templates + 1]: first row
    root_first: I64  # [templates + 1]
    root: I32  # [...]: rows that depend on none, in order of issue
    set_level: I64  # [templates]: of the set of ready nodes, see `hash_order`
    hashed: BOOL  # [templates]: issue in the order of a hash set, else in order of rows
    address: ADDRESSES  # [...], entry row + shift of a cast, shift 0 for the workload
    pair_hop: I64  # [pairs]: first entry in `hop_link`
    hop_link: I32  # [...]: links crossed, each pair's ended by -1; empty: no links, a delay per pair
    pair_latency_ns: F64  # [pairs], where there are no links
    pair_bytes_per_ns: F64  # [pairs]
    link_latency_ns: F64  # [links]
    link_bytes_per_ns: F64  # [links]
    hands_over: bool  # another kernel carries the messages, from the list of `OUT_HEAD` on
    # Workload.
    slot: U8  # [workload rows]
    order: I32  # [workload rows]: how many ids of the rank are lower
    by_order: I32  # [workload rows]: row of each
    counts: BOOL  # [workload rows]: its time is GPU time
    heap_first: I64  # [ranks * SLOTS]
    custom: I32  # [workload rows]: cast of a collective, -1 if its implementation is native
    native: I32  # [workload rows]: cast of its native implementation, -1 if none can be needed
    plan: I32  # [workload rows]: entry in `plan_choice`, -1 without a communicator group
    position: I32  # [workload rows]: of the rank in the group
    native_template: I32  # [workload rows]: template of the native implementation
    cast_template: I32  # [casts]: template of the first position
    cast_shift: I64  # [casts]
    cast_streams: I32  # [casts]: numbers that a rank's counter of streams goes up by
    block_first: I64  # [ranks + 1]: live nodes of the collective that a rank runs
    starts_at_once: bool  # a collective that follows another starts before the nodes that are issued after it
    server: I32  # [ranks]: memory that the rank shares, -1 if none
    num_pools: int  # of tokens that a position of a native program has


class Progress(NamedTuple):
    """State of a replay between two calls of `advance`.

    A live node is a row of the workload, or an entry of a rank's block, which holds the collective that the rank runs: a rank
    runs one at a time, as each occupies its network slot.
    """

    scalar: I64_OUT  # [NUM_SCALARS]
    lives: LIVES  # [live]
    messages: MESSAGES  # [...]
    issue_ns: I64_OUT  # [live or workload rows]
    finish_ns: I64_OUT  # [live or workload rows]
    cause: I32_OUT  # [workload rows]: row whose end had the row issued, -1 at the start
    entered: I32_OUT  # [workload rows]: origin of the row's end: the row with whose issue the events began that led to it
    keys: KEYS  # [keys]
    link_busy: BOOL_OUT  # [links]
    link_head: I32_OUT  # [links]
    link_tail: I32_OUT  # [links]
    link_origin: I32_OUT  # [links]: of the message that holds it, or did last
    link_bytes: I64_OUT  # [links]
    link_busy_ns: I64_OUT  # [links]
    events: EVENTS  # [...]
    due_head: I32_OUT  # [65]: by the highest bit in which their time differs from now
    due_tail: I32_OUT  # [65]
    batches: BATCHES  # [...]
    batch_table: I32_OUT  # [power of two]
    wait_live: I32_OUT  # [...]: a live node, or live + server
    wait_then: I32_OUT  # [...]
    wait_atom: I32_OUT  # [...]: atom that it was added in
    heap: I32_OUT  # [workload rows]
    heap_size: I32_OUT  # [ranks * SLOTS]
    in_flight: I32_OUT  # [ranks * SLOTS]
    ready: I32_OUT  # [ranks]: nodes of the workload that could be issued
    ongoing: I32_OUT  # [ranks]: nodes of the workload in flight
    shift: I64_OUT  # [ranks]: row of a live node of the rank's collective, minus its number
    key_shift: I64_OUT  # [ranks]
    parent: I32_OUT  # [ranks]: row of the collective that runs, -1 if none
    running: I32_OUT  # [ranks]: nodes in flight of the rank's collective
    level: I64_OUT  # [ranks]
    is_hashed: BOOL_OUT  # [ranks]
    plan_choice: I32_OUT  # [plans]: cast, NATIVE, or -1 before the first
    streams: I64_OUT  # [ranks]: begun so far
    turn: I32_OUT  # [ranks]: native collectives of all ranks without a group that were begun so far
    stream_number: I64_OUT  # [...]: of streams begun before each of those, by the first rank that came to it, or -1
    ran: I32_OUT  # [workload rows]: cast that a collective ran
    pool_tokens: I32_OUT  # [ranks * pools]
    pool_head: I32_OUT  # [ranks * pools]
    pool_tail: I32_OUT  # [ranks * pools]
    server_busy: BOOL_OUT  # [servers]
    server_head: I32_OUT  # [servers]
    server_tail: I32_OUT  # [servers]
    server_origin: I32_OUT  # [servers]: of the access that it serves, or did last
    rank_finish_ns: I64_OUT  # [ranks]
    rank_compute_ns: I64_OUT  # [ranks]
    rank_sent_bytes: I64_OUT  # [ranks]
    bucket: I64_OUT  # [...]: see `hash_order`
    scratch: I64_2D_OUT  # [4, ...]
    freed: I64_OUT  # [...]
    fresh: I64_OUT  # [...]
    touches: TOUCHES  # of links, keys, slots, pools, sets of ready nodes, picks, rows, batches; or empty
    record_link: I32_OUT  # [...]: transmissions, in order of start; empty: not recorded
    record_size: I64_OUT  # [...]
    record_pair: I32_OUT  # [...]
    record_start_ns: I64_OUT  # [...]


@helper
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
        num_buckets = np.int64(_BUCKETS[level])
        inverse = 1.0 / max(num_buckets, 1)
        for i in range(num_held):
            number = node_id[rows[i]]
            if number < _EXACT_IN_DOUBLE:
                # A division by way of doubles, off by one at most, is several times faster than one of integers.
                place = np.int64(number) - np.int64(np.float64(number) * inverse) * num_buckets
                if place < 0:
                    place += num_buckets
                elif place >= num_buckets:
                    place -= num_buckets
            else:
                place = np.int64(number % np.uint64(num_buckets))
            if bucket[place] == NONE:
                bucket[place] = num_taken
                taken[num_taken] = place
                below[i] = NONE
                num_taken += 1
            else:
                below[i] = first[bucket[place]]
            first[bucket[place]] = i
        num_ordered = 0
        for number in range(num_taken - 1, -1, -1):
            bucket[taken[number]] = NONE
            i = first[number]
            while i != NONE:
                ordered[num_ordered] = rows[i]
                num_ordered += 1
                i = below[i]
        for i in range(num_held):
            rows[i] = ordered[i]
        if num_held == len(rows):
            return level
        level += 1
