# mypy: ignore-errors
"""Kernels: discrete-event replay of whole runs, in ASTRA-sim's order of events.

Events at one instant run in the order in which they were made, as in ASTRA-sim's event queue. What makes an event, and when,
is therefore part of the result: two messages that reach a link at one instant queue in that order. Upstream files, in
`astra-network-analytical`: `EventQueue.cpp`, `congestion_aware/Link.cpp` (a transmission makes its arrival first, then the
event that frees the link) and `congestion_aware/Chunk.cpp`; in `astra-sim`: `CommonNetworkApi.cc` (an arrival finishes the
send first, then a waiting receive; a receive that comes late is an event of its own), `Sys.cc` (what one rank waits for until
one instant shares one event, made by the first of them), `CustomAlgorithm.cc` (a finished node issues the nodes it sets free at
once; a collective without nodes in flight is over) and `Workload.cc`, `HardwareResource.cc` (slots, lowest ready id first).
The nodes of a custom collective that one event sets free are issued in the order in which a hash set of their ids yields them
(`dependancy_solver.cpp` of Chakra's feeder); `hash_order` states the rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

DONE = 0
PAUSED = 1
FULL = 2
ENDS_AT_ZERO = 3
OUT_OF_TIME = 4
MISNUMBERED = 5

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

_SEND_KIND = 5
_RECEIVE_KIND = 6

_ARRIVES = 0
_FREES_LINK = 1
_RECEIVES = 2
_ELAPSES = 3

_NONE = -1
_NATIVE = -2
LATEST_NS = 1 << 61
_AT_ONCE = 64
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
NUM_SCALARS = 14

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
LIVE = np.dtype([("rank", np.int32), ("waits", np.int32), ("then", np.int32), ("state", np.uint8)], align=True)
"""A live node: its rank, rows that it waits for, and the next of the receives that wait for a key, of the TAKEs that wait for a
pool, or of the accesses that wait for a memory."""
MESSAGE = np.dtype(
    [("size", np.int64)] + [(name, np.int32) for name in ("hop", "live", "place", "mate", "then", "key_then")], align=True
)
"""A message in flight: bytes, entry of `hop_link`, the live node that ends with it (or -1), entry of `address`, the receive that
ends with it (or -1), the next in a link's queue, the next of its key that no receive has asked for."""
EVENT = np.dtype([("ns", np.int64), ("code", np.int64), ("then", np.int32)], align=True)
KEY = np.dtype([("head", np.int32), ("tail", np.int32), ("arrived", np.int32)])
"""First receive that waits (or -2 - first message on its way, or -1), the last, and messages that no receive has asked for."""
BATCH = np.dtype([("ns", np.int64), ("rank", np.int32), ("head", np.int32), ("tail", np.int32)], align=True)
"""What one rank waits for until one instant; `head` and `tail` are entries of `wait_live`."""
MEETING = np.dtype([("size", np.int64), ("tag", np.int32), ("pair", np.int32), ("space", np.int32)], align=True)
"""What is equal of messages that meet."""


class Code(NamedTuple):
    """What ranks and collectives do; not changed by a replay. A row is a node of a rank's workload or of a program's position.

    Rows of the workload come first. A template is a rank's workload (template r), or what one position does in one program.
    """

    node_id: np.ndarray  # uint64[rows]
    nodes: np.ndarray  # NODE[rows + 1]
    num_waits: np.ndarray  # int32[rows]: rows it depends on
    child: np.ndarray  # int32[...]: rows that depend on a row
    template_first: np.ndarray  # int64[templates + 1]: first row
    root_first: np.ndarray  # int64[templates + 1]
    root: np.ndarray  # int32[...]: rows that depend on none, in order of issue
    set_level: np.ndarray  # int64[templates]: of the set of ready nodes, see `hash_order`
    hashed: np.ndarray  # bool[templates]: issue in the order of a hash set, else in order of rows
    address: np.ndarray  # ADDRESS[...], entry row + shift of a cast, shift 0 for the workload
    pair_hop: np.ndarray  # int64[pairs]: first entry in `hop_link`
    hop_link: np.ndarray  # int32[...]: links crossed, each pair's ended by -1; empty: no links, a delay per pair
    pair_latency_ns: np.ndarray  # float64[pairs], where there are no links
    pair_bytes_per_ns: np.ndarray  # float64[pairs]
    link_latency_ns: np.ndarray  # float64[links]
    link_bytes_per_ns: np.ndarray  # float64[links]
    # Workload.
    slot: np.ndarray  # uint8[workload rows]
    order: np.ndarray  # int32[workload rows]: how many ids of the rank are lower
    by_order: np.ndarray  # int32[workload rows]: row of each
    counts: np.ndarray  # bool[workload rows]: its time is GPU time
    heap_first: np.ndarray  # int64[ranks * SLOTS]
    custom: np.ndarray  # int32[workload rows]: cast of a collective, -1 if its implementation is native
    native: np.ndarray  # int32[workload rows]: cast of its native implementation, -1 if none can be needed
    plan: np.ndarray  # int32[workload rows]: entry in `plan_choice`, -1 without a communicator group
    position: np.ndarray  # int32[workload rows]: of the rank in the group
    native_template: np.ndarray  # int32[workload rows]: template of the native implementation
    cast_template: np.ndarray  # int32[casts]: template of the first position
    cast_shift: np.ndarray  # int64[casts]
    cast_streams: np.ndarray  # int32[casts]: numbers that a rank's counter of streams goes up by
    block_first: np.ndarray  # int64[ranks + 1]: live nodes of the collective that a rank runs
    starts_at_once: bool  # a collective that follows another starts before the nodes that are issued after it
    server: np.ndarray  # int32[ranks]: memory that the rank shares, -1 if none
    num_pools: int  # of tokens that a position of a native program has


class Progress(NamedTuple):
    """State of a replay between two calls of `advance`.

    A live node is a row of the workload, or an entry of a rank's block, which holds the collective that the rank runs: a rank
    runs one at a time, as each occupies its network slot.
    """

    scalar: np.ndarray  # int64[NUM_SCALARS]
    lives: np.ndarray  # LIVE[live]
    messages: np.ndarray  # MESSAGE[...]
    issue_ns: np.ndarray  # int64[live or workload rows]
    finish_ns: np.ndarray  # int64[live or workload rows]
    keys: np.ndarray  # KEY[keys]
    link_busy: np.ndarray  # bool[links]
    link_head: np.ndarray  # int32[links]
    link_tail: np.ndarray  # int32[links]
    link_bytes: np.ndarray  # int64[links]
    link_busy_ns: np.ndarray  # int64[links]
    events: np.ndarray  # EVENT[...]
    due_head: np.ndarray  # int32[65]: by the highest bit in which their time differs from now
    due_tail: np.ndarray  # int32[65]
    batches: np.ndarray  # BATCH[...]
    batch_table: np.ndarray  # int32[power of two]
    wait_live: np.ndarray  # int32[...]: a live node, or live + server
    wait_then: np.ndarray  # int32[...]
    heap: np.ndarray  # int32[workload rows]
    heap_size: np.ndarray  # int32[ranks * SLOTS]
    in_flight: np.ndarray  # int32[ranks * SLOTS]
    ready: np.ndarray  # int32[ranks]: nodes of the workload that could be issued
    ongoing: np.ndarray  # int32[ranks]: nodes of the workload in flight
    shift: np.ndarray  # int64[ranks]: row of a live node of the rank's collective, minus its number
    key_shift: np.ndarray  # int64[ranks]
    parent: np.ndarray  # int32[ranks]: row of the collective that runs, -1 if none
    running: np.ndarray  # int32[ranks]: nodes in flight of the rank's collective
    level: np.ndarray  # int64[ranks]
    is_hashed: np.ndarray  # bool[ranks]
    plan_choice: np.ndarray  # int32[plans]: cast, _NATIVE, or -1 before the first
    streams: np.ndarray  # int64[ranks]: begun so far
    turn: np.ndarray  # int32[ranks]: native collectives of all ranks without a group that were begun so far
    stream_number: np.ndarray  # int64[...]: of streams begun before each of those, by the first rank that came to it, or -1
    ran: np.ndarray  # int32[workload rows]: cast that a collective ran
    pool_tokens: np.ndarray  # int32[ranks * pools]
    pool_head: np.ndarray  # int32[ranks * pools]
    pool_tail: np.ndarray  # int32[ranks * pools]
    server_busy: np.ndarray  # bool[servers]
    server_head: np.ndarray  # int32[servers]
    server_tail: np.ndarray  # int32[servers]
    rank_finish_ns: np.ndarray  # int64[ranks]
    rank_compute_ns: np.ndarray  # int64[ranks]
    rank_sent_bytes: np.ndarray  # int64[ranks]
    bucket: np.ndarray  # int64[...]: see `hash_order`
    scratch: np.ndarray  # int64[4, ...]
    freed: np.ndarray  # int64[...]
    fresh: np.ndarray  # int64[...]
    record_link: np.ndarray  # int32[...]: transmissions, in order of start; empty: not recorded
    record_size: np.ndarray  # int64[...]
    record_pair: np.ndarray  # int32[...]
    record_start_ns: np.ndarray  # int64[...]


@intrinsic
def _bit_length(typing_context, number):
    """Bits that a number of 0 or more takes."""

    def codegen(context, builder, signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)

    return types.int64(types.int64), codegen


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
def link_children(num_rows, base, dep_first, dep, num_waits, child_first, child):
    """Children of the rows of one trace, as CSR after those of the rows before it, which `child_first[base]` counts.

    Row i of the trace is row `base + i`; `num_waits` and the entries of `child_first` after `base` begin as zeros. A row that
    names another twice, as a data and a control dependency, waits for it once.
    """
    latest = np.full(num_rows, _NONE, np.int32)
    for row in range(num_rows):
        for i in range(dep_first[row], dep_first[row + 1]):
            parent = dep[i]
            if latest[parent] != row:
                latest[parent] = row
                num_waits[base + row] += 1
                child_first[base + parent + 1] += 1
    for row in range(base, base + num_rows):
        child_first[row + 1] += child_first[row]
    latest[:] = _NONE
    place = child_first[base : base + num_rows].copy()
    for row in range(num_rows):
        for i in range(dep_first[row], dep_first[row + 1]):
            parent = dep[i]
            if latest[parent] != row:
                latest[parent] = row
                child[place[parent]] = base + row
                place[parent] += 1


@njit(cache=True, nogil=True)
def order_nodes(
    node_id, template_first, base, dep_first, dep, child_first, child, num_waits, root_first, root, set_level, bucket, scratch
):
    """Put the children of every row of a program, and every position's roots, into ASTRA-sim's order.

    Each node has a set of its children, filled in order of the file. Nodes without dependencies become ready in the order of a
    map of all nodes, which a node enters when it, or the first that depends on it, is read. `template_first`, `root_first` and
    `set_level` (a result: of the position's set of ready nodes) are those of the program's positions; its rows begin at `base`,
    and `dep` are rows of the program alone. `bucket` and `scratch`: see `hash_order`, for the rows of the largest position.
    """
    empty = np.int64(0)  # a literal would compile `hash_order` twice
    num_rows = template_first[len(set_level)] - base
    most = scratch.shape[1]
    entered = np.zeros(num_rows, np.bool_)
    latest_child = np.full(num_rows, _NONE, np.int32)
    nodes = np.empty(most, np.int64)
    parents = np.empty(most, np.int64)
    for position in range(len(set_level)):
        num_nodes = 0
        for row in range(template_first[position], template_first[position + 1]):
            num_children = child_first[row + 1] - child_first[row]
            if num_children > 1:
                for i in range(num_children):
                    parents[i] = child[child_first[row] + i]
                hash_order(node_id, parents[:num_children], empty, bucket, scratch)
                for i in range(num_children):
                    child[child_first[row] + i] = parents[i]
            if not entered[row - base]:
                entered[row - base] = True
                nodes[num_nodes] = row
                num_nodes += 1
            num_parents = 0
            new_parents = False
            for i in range(dep_first[row - base], dep_first[row - base + 1]):
                parent = dep[i]
                if latest_child[parent] != row - base:
                    latest_child[parent] = row - base
                    parents[num_parents] = parent + base
                    num_parents += 1
                    new_parents |= not entered[parent]
            if new_parents:
                if num_parents > 1:
                    hash_order(node_id, parents[:num_parents], empty, bucket, scratch)
                for i in range(num_parents):
                    parent = parents[i]
                    if not entered[parent - base]:
                        entered[parent - base] = True
                        nodes[num_nodes] = parent
                        num_nodes += 1
        hash_order(node_id, nodes[:num_nodes], empty, bucket, scratch)
        num_roots = 0
        for i in range(num_nodes):
            if num_waits[nodes[i]] == 0:
                nodes[num_roots] = nodes[i]
                num_roots += 1
        set_level[position] = hash_order(node_id, nodes[:num_roots], empty, bucket, scratch)
        for i in range(num_roots):
            root[root_first[position] + i] = nodes[i]


@njit(cache=True, nogil=True)
def number_messages(
    kind,
    size_bytes,
    peer,
    tag,
    rank_first,
    players,
    members,
    space,
    num_ranks,
    tag_modulus,
    address,
    key_table,
    meetings,
    pair_table,
    pair_code,
    counts,
):
    """Number the messages of a workload or program; `address` has an entry per row.

    `players[p]` is the rank of position p, `members[p]` the rank that `peer` p means. Messages meet if tag (modulo), size, both
    ranks and `space` are equal. Tables are open-addressed, -1 where empty, of a power of two; the first two of `counts` are the
    numbers of keys and pairs so far.
    """
    key_mask = len(key_table) - 1
    pair_mask = len(pair_table) - 1
    # A few rows at a time: what they will look up is loaded first, together, as each load of a large table takes long.
    rows = np.empty(_AT_ONCE, np.int64)
    pairs = np.empty(_AT_ONCE, np.int32)
    places = np.empty(_AT_ONCE, np.int64)
    guesses = np.empty(_AT_ONCE, np.int32)
    for position in range(len(players)):
        source = np.int64(players[position])
        row = rank_first[position]
        while row < rank_first[position + 1]:
            num_rows = 0
            while row < rank_first[position + 1] and num_rows < _AT_ONCE:
                if kind[row] == _SEND_KIND or kind[row] == _RECEIVE_KIND:
                    other = np.int64(members[peer[row]])
                    code = source * num_ranks + other if kind[row] == _SEND_KIND else other * num_ranks + source
                    mixed = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)
                    place = np.int64(mixed >> np.uint64(20)) & pair_mask
                    while pair_table[place] != _NONE and pair_code[pair_table[place]] != code:
                        place = (place + 1) & pair_mask
                    number = pair_table[place]
                    if number == _NONE:
                        number = counts[1]
                        counts[1] += 1
                        pair_table[place] = number
                        pair_code[number] = code
                    mixed ^= np.uint64(tag[row] % tag_modulus) * np.uint64(0xC2B2AE3D27D4EB4F)
                    mixed ^= np.uint64(size_bytes[row]) * np.uint64(0x165667B19E3779F9) + np.uint64(space)
                    mixed ^= mixed >> np.uint64(29)
                    mixed *= np.uint64(0xBF58476D1CE4E5B9)
                    rows[num_rows] = row
                    pairs[num_rows] = number
                    places[num_rows] = np.int64(mixed >> np.uint64(24)) & key_mask
                    num_rows += 1
                row += 1
            for i in range(num_rows):
                guesses[i] = key_table[places[i]]
            loaded = 0
            for i in range(num_rows):
                if guesses[i] != _NONE:
                    loaded += meetings[guesses[i]].tag
            counts[2] = loaded  # so that the loads are not left out
            for i in range(num_rows):
                place = places[i]
                its_row = rows[i]
                its_tag = tag[its_row] % tag_modulus
                while True:
                    found = key_table[place]
                    if found == _NONE:
                        found = counts[0]
                        counts[0] += 1
                        key_table[place] = found
                        meetings[found].pair = pairs[i]
                        meetings[found].tag = its_tag
                        meetings[found].size = size_bytes[its_row]
                        meetings[found].space = space
                        break
                    if (
                        meetings[found].pair == pairs[i]
                        and meetings[found].tag == its_tag
                        and meetings[found].size == size_bytes[its_row]
                        and meetings[found].space == space
                    ):
                        break
                    place = (place + 1) & key_mask
                address[its_row].pair = pairs[i]
                address[its_row].key = found


@njit(cache=True, nogil=True)
def _place_of_batch(batch_table, batches, rank, end_ns):
    """Where the batch of a rank and an instant is in the table, or would be."""
    mask = len(batch_table) - 1
    mixed = (np.uint64(end_ns) + np.uint64(rank) * np.uint64(7046029254386353131)) * np.uint64(2685821657736338717)
    place = np.int64(mixed >> np.uint64(24)) & mask
    while True:
        batch = batch_table[place]
        if batch == _NONE or (batches[batch].ns == end_ns and batches[batch].rank == rank):
            return place
        place = (place + 1) & mask


@njit(cache=True, nogil=True)
def _forget_batch(batch_table, batches, rank, end_ns):
    """Take a batch out of the table, and move up those that it kept from their places."""
    mask = len(batch_table) - 1
    hole = _place_of_batch(batch_table, batches, rank, end_ns)
    batch_table[hole] = _NONE
    place = (hole + 1) & mask
    while batch_table[place] != _NONE:
        batch = batch_table[place]
        batch_table[place] = _NONE
        batch_table[_place_of_batch(batch_table, batches, np.int64(batches[batch].rank), batches[batch].ns)] = batch
        place = (place + 1) & mask


@njit(cache=True, nogil=True)
def advance(code, progress, max_events):
    """Replay up to `max_events` events; returns DONE (nothing is left to happen), PAUSED, FULL (call again with more room for
    messages and events), or what went wrong.

    ENDS_AT_ZERO leaves the message in `scalar[CULPRIT]`, or -1 - the rank that waits 0 ns. Nodes that stall are not FINISHED, and
    their ranks keep `rank_finish_ns` -1. MISNUMBERED leaves the collective whose messages no other rank will meet.
    """
    # Local names: an attribute of a tuple costs numba two atomic operations wherever it is used.
    node_id, nodes, num_waits, child = code.node_id, code.nodes, code.num_waits, code.child
    template_first, root_first, root, set_level = code.template_first, code.root_first, code.root, code.set_level
    hashed, address, pair_hop, hop_link = code.hashed, code.address, code.pair_hop, code.hop_link
    pair_latency_ns, pair_bytes_per_ns, link_latency_ns, link_bytes_per_ns = (
        code.pair_latency_ns,
        code.pair_bytes_per_ns,
        code.link_latency_ns,
        code.link_bytes_per_ns,
    )
    slot, order, by_order, counts = code.slot, code.order, code.by_order, code.counts
    heap_first, custom, native, plan = code.heap_first, code.custom, code.native, code.plan
    position, native_template, cast_template = code.position, code.native_template, code.cast_template
    cast_shift, cast_streams, block_first = code.cast_shift, code.cast_streams, code.block_first
    starts_at_once, server, num_pools = code.starts_at_once, code.server, code.num_pools
    scalar, lives, messages, issue_ns = progress.scalar, progress.lives, progress.messages, progress.issue_ns
    finish_ns, keys, link_busy, link_head = progress.finish_ns, progress.keys, progress.link_busy, progress.link_head
    link_tail, link_bytes, link_busy_ns, events = progress.link_tail, progress.link_bytes, progress.link_busy_ns, progress.events
    due_head, due_tail, batches, batch_table = progress.due_head, progress.due_tail, progress.batches, progress.batch_table
    wait_live, wait_then, heap, heap_size = progress.wait_live, progress.wait_then, progress.heap, progress.heap_size
    in_flight, ready, ongoing, shift = progress.in_flight, progress.ready, progress.ongoing, progress.shift
    key_shift, parent, running, level = progress.key_shift, progress.parent, progress.running, progress.level
    is_hashed, plan_choice, ran, pool_tokens = progress.is_hashed, progress.plan_choice, progress.ran, progress.pool_tokens
    pool_head, pool_tail, server_busy, server_head = (
        progress.pool_head,
        progress.pool_tail,
        progress.server_busy,
        progress.server_head,
    )
    server_tail, rank_finish_ns, rank_compute_ns, rank_sent_bytes = (
        progress.server_tail,
        progress.rank_finish_ns,
        progress.rank_compute_ns,
        progress.rank_sent_bytes,
    )
    streams, turn, stream_number = progress.streams, progress.turn, progress.stream_number
    bucket, freed, fresh, record_link = progress.bucket, progress.freed, progress.fresh, progress.record_link
    record_size, record_pair, record_start_ns = progress.record_size, progress.record_pair, progress.record_start_ns
    scratch = progress.scratch
    loose = scratch[0]

    queued = len(hop_link) > 0
    num_ranks = len(ready)
    num_rows = len(slot)  # of the workload: live nodes from here on belong to collectives
    num_timed = len(issue_ns)
    num_live = len(lives)
    recording = len(record_link) > 0
    room = len(messages) - 2 * len(freed)

    now = scalar[NOW]
    num_events = 0
    moving = _NONE
    finished = _NONE
    finished_next = _NONE
    # Live nodes to be issued.
    num_freed = 0
    next_freed = 0
    # Rank whose collective may be over once they are issued.
    closing = _NONE
    # Rank that looks for nodes of its workload to issue. Nodes set free are filed first; those set free by nodes that are
    # over at once are filed after the look, and wait for the next one.
    looking = _NONE
    filing = _NONE
    num_fresh = 0
    nested = False
    deferred = _NONE
    batch = _NONE
    waiting = _NONE  # a live node or server entry that waits `wait_ns`
    wait_ns = np.int64(0)
    wait_rank = np.int64(0)
    wait_more = _NONE

    # One step a turn, deepest work first, so that each step's code stands here once.
    while True:
        pushes = 0
        first_ns = np.int64(0)
        first_code = np.int64(0)
        second_ns = np.int64(0)
        second_code = np.int64(0)
        if moving != _NONE:
            message = np.int64(moving)
            moving = _NONE
            size = messages[message].size
            if not queued:
                number = address[messages[message].place].pair
                if not pair_latency_ns[number] + size / pair_bytes_per_ns[number] < LATEST_NS:
                    return OUT_OF_TIME
                first_ns = now + np.int64(pair_latency_ns[number] + size / pair_bytes_per_ns[number])
                first_code = 4 * message + _ARRIVES
                pushes = 1
            else:
                link = np.int64(hop_link[messages[message].hop])
                if link_busy[link]:
                    messages[message].then = _NONE
                    if link_head[link] == _NONE:
                        link_head[link] = message
                    else:
                        messages[link_tail[link]].then = message
                    link_tail[link] = message
                else:
                    link_busy[link] = True
                    serialisation = size / link_bytes_per_ns[link]
                    if not link_latency_ns[link] + serialisation < LATEST_NS:
                        return OUT_OF_TIME
                    held = np.int64(serialisation)
                    link_bytes[link] += size
                    link_busy_ns[link] += held
                    if recording:
                        record = scalar[NUM_RECORDS]
                        scalar[NUM_RECORDS] += 1
                        record_link[record] = link
                        record_size[record] = size
                        record_pair[record] = address[messages[message].place].pair
                        record_start_ns[record] = now
                    first_ns = now + np.int64(link_latency_ns[link] + serialisation)
                    first_code = 4 * message + _ARRIVES
                    second_ns = now + held
                    second_code = 4 * link + _FREES_LINK
                    pushes = 2
                    if second_ns == 0:
                        scalar[CULPRIT] = message
                        return ENDS_AT_ZERO
            if pushes > 0 and first_ns == 0:
                scalar[CULPRIT] = message
                return ENDS_AT_ZERO
        elif waiting != _NONE:
            wait = scalar[FREE_WAIT]
            if wait == _NONE:
                wait = scalar[USED_WAITS]
                scalar[USED_WAITS] += 1
            else:
                scalar[FREE_WAIT] = wait_then[wait]
            wait_live[wait] = waiting
            wait_then[wait] = _NONE
            end = now + wait_ns
            place = _place_of_batch(batch_table, batches, wait_rank, end)
            number = np.int64(batch_table[place])
            if number == _NONE:
                number = scalar[FREE_BATCH]
                if number == _NONE:
                    number = scalar[USED_BATCHES]
                    scalar[USED_BATCHES] += 1
                else:
                    scalar[FREE_BATCH] = batches[number].head
                batch_table[place] = number
                batches[number].ns = end
                batches[number].rank = wait_rank
                batches[number].head = wait
                first_ns = end
                first_code = 4 * number + _ELAPSES
                pushes = 1
            else:
                wait_then[batches[number].tail] = wait
            batches[number].tail = wait
            waiting = wait_more
            wait_more = _NONE
        elif next_freed < num_freed:
            live = freed[next_freed]
            next_freed += 1
            rank = np.int64(lives[live].rank)
            of_workload = live < num_rows
            row = live if of_workload else live + shift[rank]
            lives[live].state = ISSUED
            if live < num_timed:
                issue_ns[live] = now
            act = nodes[row].action
            if of_workload:
                ready[rank] -= 1
                ongoing[rank] += 1
                if slot[row] != NO_SLOT:
                    in_flight[rank * SLOTS + slot[row]] += 1
            else:
                running[rank] += 1
            if act == SEND or act == POST:
                place = row if of_workload else row + key_shift[rank]
                number = np.int64(address[place].key)
                rank_sent_bytes[rank] += nodes[row].amount
                message = scalar[FREE_MESSAGE]
                if message == _NONE:
                    message = scalar[USED_MESSAGES]
                    scalar[USED_MESSAGES] += 1
                else:
                    scalar[FREE_MESSAGE] = messages[message].then
                scalar[IN_FLIGHT] += 1
                messages[message].live = live
                messages[message].size = nodes[row].amount
                messages[message].place = place
                messages[message].mate = _NONE
                head = np.int64(keys[number].head)
                if head >= 0:
                    keys[number].head = lives[head].then
                    messages[message].mate = head
                else:
                    messages[message].key_then = _NONE
                    if head == _NONE:
                        keys[number].head = -2 - message
                    else:
                        messages[keys[number].tail].key_then = -2 - message
                    keys[number].tail = message
                if queued:
                    messages[message].hop = pair_hop[address[place].pair]
                moving = message
                if act == POST:
                    messages[message].live = _NONE
                    lives[live].state = FINISHED
                    running[rank] -= 1
            elif act == RECEIVE:
                number = np.int64(address[row if of_workload else row + key_shift[rank]].key)
                head = np.int64(keys[number].head)
                if keys[number].arrived > 0:
                    keys[number].arrived -= 1
                    first_ns = now
                    first_code = 4 * live + _RECEIVES
                    pushes = 1
                elif head < _NONE:
                    message = -2 - head
                    keys[number].head = messages[message].key_then
                    messages[message].mate = live
                else:
                    lives[live].then = _NONE
                    if head == _NONE:
                        keys[number].head = live
                    else:
                        lives[keys[number].tail].then = live
                    keys[number].tail = live
            elif act == COMPUTE or act == WAIT:
                if of_workload and counts[row]:
                    rank_compute_ns[rank] += nodes[row].amount
                waiting = live
                wait_ns = nodes[row].amount
                wait_rank = rank
            elif act == COLLECTIVE:
                cast = np.int64(custom[row])
                shared = plan[row]
                if shared != _NONE:
                    if plan_choice[shared] == _NONE:
                        plan_choice[shared] = cast if cast != _NONE else _NATIVE
                    cast = np.int64(plan_choice[shared])
                template = np.int64(native_template[row])
                if cast < 0:
                    cast = np.int64(native[row])
                else:
                    template = np.int64(cast_template[cast]) + position[row]
                ran[row] = cast
                if shared == _NONE and custom[row] < 0:
                    # Messages of such a collective carry a number that counts all streams of the rank, also those of groups.
                    if stream_number[turn[rank]] == _NONE:
                        stream_number[turn[rank]] = streams[rank]
                    elif stream_number[turn[rank]] != streams[rank]:
                        scalar[CULPRIT] = live
                        return MISNUMBERED
                    turn[rank] += 1
                streams[rank] += cast_streams[cast]
                parent[rank] = row
                row_first = template_first[template]
                size = template_first[template + 1] - row_first
                block = block_first[rank]
                shift[rank] = row_first - block
                key_shift[rank] = cast_shift[cast]
                level[rank] = set_level[template]
                is_hashed[rank] = hashed[template]
                for i in range(size):
                    lives[block + i].waits = num_waits[row_first + i]
                    lives[block + i].state = UNTOUCHED
                for i in range(rank * num_pools, (rank + 1) * num_pools):
                    pool_tokens[i] = 0
                    pool_head[i] = _NONE
                if nested and not starts_at_once:
                    deferred = template
                else:
                    num_freed = 0
                    next_freed = 0
                    for i in range(root_first[template], root_first[template + 1]):
                        freed[num_freed] = root[i] - shift[rank]
                        num_freed += 1
                    closing = rank
            elif act == TAKE or act == PUT or act == PULSE:
                # Tokens take no time. What they let go of is issued next, before the rest of what is to be issued.
                at = rank * num_pools + nodes[row].amount
                over = np.int64(live)
                num_loose = 0
                head = np.int64(pool_head[at])
                if act == TAKE:
                    if pool_tokens[at] > 0:
                        pool_tokens[at] -= 1
                    else:
                        over = np.int64(_NONE)
                        lives[live].then = _NONE
                        if head == _NONE:
                            pool_head[at] = live
                        else:
                            lives[pool_tail[at]].then = live
                        pool_tail[at] = live
                elif head == _NONE and act == PUT:
                    pool_tokens[at] += 1
                taker = np.int64(_NONE)
                if act != TAKE and head != _NONE:
                    pool_head[at] = lives[head].then
                    taker = head
                while over != _NONE:
                    lives[over].state = FINISHED
                    running[rank] -= 1
                    row = over + shift[rank]
                    for i in range(nodes[row].child_first, nodes[row + 1].child_first):
                        lives[child[i] - shift[rank]].waits -= 1
                        if lives[child[i] - shift[rank]].waits == 0:
                            loose[num_loose] = child[i] - shift[rank]
                            num_loose += 1
                    over = taker
                    taker = np.int64(_NONE)
                for i in range(num_freed - 1, next_freed - 1, -1):
                    freed[i + num_loose] = freed[i]
                for i in range(num_loose):
                    freed[next_freed + i] = loose[i]
                num_freed += num_loose
            elif act == SKIP:
                # Over at once; what it sets free is seen at the rank's next look.
                lives[live].state = FINISHED
                finish_ns[live] = now
                ongoing[rank] -= 1
                if slot[row] != NO_SLOT:
                    in_flight[rank * SLOTS + slot[row]] -= 1
                for i in range(nodes[row].child_first, nodes[row + 1].child_first):
                    lives[child[i]].waits -= 1
                    if lives[child[i]].waits == 0:
                        fresh[num_fresh] = child[i]
                        num_fresh += 1
                        ready[rank] += 1
            elif act == MEMORY:
                memory = np.int64(server[rank])
                if memory == _NONE:
                    waiting = live
                elif server_busy[memory]:
                    lives[live].then = _NONE
                    if server_head[memory] == _NONE:
                        server_head[memory] = live
                    else:
                        lives[server_tail[memory]].then = live
                    server_tail[memory] = live
                else:
                    server_busy[memory] = True
                    waiting = live
                    wait_more = num_live + memory
                wait_ns = nodes[row].amount
                wait_rank = rank
        elif closing != _NONE:
            rank = np.int64(closing)
            closing = _NONE
            if running[rank] == 0:
                finished_next = finished
                finished = np.int64(parent[rank])
                parent[rank] = _NONE
        elif filing != _NONE:
            rank = np.int64(filing)
            filing = _NONE
            for i in range(num_fresh):
                row = np.int64(fresh[i])
                at = rank * SLOTS + slot[row]
                base = heap_first[at]
                place = np.int64(heap_size[at])
                heap_size[at] += 1
                while place > 0 and heap[base + ((place - 1) >> 1)] > order[row]:
                    heap[base + place] = heap[base + ((place - 1) >> 1)]
                    place = (place - 1) >> 1
                heap[base + place] = order[row]
            num_fresh = 0
        elif looking != _NONE:
            rank = np.int64(looking)
            best = np.int64(_NONE)
            best_slot = 0
            for which in range(SLOTS):
                at = rank * SLOTS + which
                if heap_size[at] > 0 and (which == NO_SLOT or in_flight[at] == 0):
                    top = np.int64(heap[heap_first[at]])
                    if best == _NONE or top < best:
                        best = top
                        best_slot = which
            if best != _NONE:
                # Take it from its heap.
                at = rank * SLOTS + best_slot
                base = heap_first[at]
                heap_size[at] -= 1
                count = np.int64(heap_size[at])
                last = heap[base + count]
                place = np.int64(0)
                while True:
                    below = 2 * place + 1
                    if below >= count:
                        break
                    if below + 1 < count and heap[base + below + 1] < heap[base + below]:
                        below += 1
                    if last <= heap[base + below]:
                        break
                    heap[base + place] = heap[base + below]
                    place = below
                heap[base + place] = last
                freed[0] = by_order[template_first[rank] + best]
                next_freed = 0
                num_freed = 1
            else:
                looking = _NONE
                filing = rank
                if ready[rank] == 0 and ongoing[rank] == 0 and rank_finish_ns[rank] < 0:
                    rank_finish_ns[rank] = now
                    scalar[RANKS_DONE] += 1
                if deferred != _NONE:
                    num_freed = 0
                    next_freed = 0
                    for i in range(root_first[deferred], root_first[deferred + 1]):
                        freed[num_freed] = root[i] - shift[rank]
                        num_freed += 1
                    deferred = _NONE
                    closing = rank
        elif finished != _NONE:
            live = np.int64(finished)
            finished = finished_next
            finished_next = _NONE
            rank = np.int64(lives[live].rank)
            lives[live].state = FINISHED
            if live < num_timed:
                finish_ns[live] = now
            if live < num_rows:
                # What follows the end of a collective happens before its stream is gone.
                nested = nodes[live].action == COLLECTIVE
                ongoing[rank] -= 1
                if slot[live] != NO_SLOT:
                    in_flight[rank * SLOTS + slot[live]] -= 1
                for i in range(nodes[live].child_first, nodes[live + 1].child_first):
                    row = np.int64(child[i])
                    lives[row].waits -= 1
                    if lives[row].waits == 0:
                        ready[rank] += 1
                        fresh[num_fresh] = row
                        num_fresh += 1
                filing = rank
                looking = rank
            else:
                running[rank] -= 1
                row = live + shift[rank]
                num_freed = 0
                next_freed = 0
                for i in range(nodes[row].child_first, nodes[row + 1].child_first):
                    lives[child[i] - shift[rank]].waits -= 1
                    if lives[child[i] - shift[rank]].waits == 0:
                        freed[num_freed] = child[i]
                        num_freed += 1
                if num_freed > 1 and is_hashed[rank]:
                    level[rank] = hash_order(node_id, freed[:num_freed], level[rank], bucket, scratch)
                for i in range(num_freed):
                    freed[i] -= shift[rank]
                closing = rank
        elif batch != _NONE:
            # The next of those that waited together; the ones before may have added others.
            wait = np.int64(batches[batch].head)
            if wait == _NONE:
                _forget_batch(batch_table, batches, np.int64(batches[batch].rank), batches[batch].ns)
                batches[batch].head = scalar[FREE_BATCH]
                scalar[FREE_BATCH] = batch
                batch = _NONE
            elif wait_live[wait] >= 0:
                live = np.int64(wait_live[wait])
                wait_live[wait] = _NONE
                if live < num_live:
                    finished = live
                else:
                    memory = live - num_live
                    head = np.int64(server_head[memory])
                    if head == _NONE:
                        server_busy[memory] = False
                    else:
                        server_head[memory] = lives[head].then
                        waiting = head
                        wait_more = live
                        wait_ns = nodes[head].amount
                        wait_rank = np.int64(lives[head].rank)
            else:
                batches[batch].head = wait_then[wait]
                wait_then[wait] = scalar[FREE_WAIT]
                scalar[FREE_WAIT] = wait
        elif scalar[IN_FLIGHT] > room:
            scalar[NOW] = now
            return FULL
        elif scalar[FIRED] < num_ranks:
            # The start: every rank in turn looks for nodes that wait for none.
            rank = scalar[FIRED]
            scalar[FIRED] += 1
            nested = False
            for i in range(root_first[rank], root_first[rank + 1]):
                fresh[num_fresh] = root[i]
                num_fresh += 1
            ready[rank] += num_fresh
            filing = rank
            looking = rank
        else:
            if num_events >= max_events:
                scalar[NOW] = now
                return PAUSED
            num_events += 1
            if due_head[0] == _NONE:
                # Of the events that differ from now in the lowest bit, the earliest are next; sort those events anew.
                bit = 1
                while bit < 65 and due_head[bit] == _NONE:
                    bit += 1
                if bit == 65:
                    scalar[NOW] = now
                    return DONE
                event = np.int64(due_head[bit])
                now = events[event].ns
                while event != _NONE:
                    now = min(now, events[event].ns)
                    event = np.int64(events[event].then)
                event = np.int64(due_head[bit])
                due_head[bit] = _NONE
                while event != _NONE:
                    following = np.int64(events[event].then)
                    differs = events[event].ns ^ now
                    bit = _bit_length(differs)
                    events[event].then = _NONE
                    if due_head[bit] == _NONE:
                        due_head[bit] = event
                    else:
                        events[due_tail[bit]].then = event
                    due_tail[bit] = event
                    event = following
            event = np.int64(due_head[0])
            due_head[0] = events[event].then
            number = events[event].code
            events[event].then = scalar[FREE_EVENT]
            scalar[FREE_EVENT] = event
            what = number & 3
            number >>= 2
            if what == _FREES_LINK:
                link_busy[number] = False
                moving = np.int64(link_head[number])
                if moving != _NONE:
                    link_head[number] = messages[moving].then
            elif what == _ARRIVES:
                arrived = True
                if queued:
                    messages[number].hop += 1
                    arrived = hop_link[messages[number].hop] == _NONE
                if not arrived:
                    moving = number
                else:
                    finished = np.int64(messages[number].live)
                    if messages[number].mate != _NONE:
                        finished_next = np.int64(messages[number].mate)
                    else:
                        # Messages of one key arrive in order, so it is the first on its way.
                        place = np.int64(address[messages[number].place].key)
                        keys[place].head = messages[number].key_then
                        keys[place].arrived += 1
                    messages[number].then = scalar[FREE_MESSAGE]
                    scalar[FREE_MESSAGE] = number
                    scalar[IN_FLIGHT] -= 1
                    if finished == _NONE:
                        finished = finished_next
                        finished_next = _NONE
            elif what == _RECEIVES:
                finished = number
            else:
                batch = number
        while pushes > 0:
            if first_ns >= LATEST_NS:
                return OUT_OF_TIME
            if first_ns == 0:
                # ASTRA-sim's event queue takes no event for the time at which it stands before the first.
                scalar[CULPRIT] = -1 - lives[live].rank
                return ENDS_AT_ZERO
            event = scalar[FREE_EVENT]
            if event == _NONE:
                event = scalar[USED_EVENTS]
                scalar[USED_EVENTS] += 1
            else:
                scalar[FREE_EVENT] = events[event].then
            events[event].ns = first_ns
            events[event].code = first_code
            events[event].then = _NONE
            differs = first_ns ^ now
            bit = _bit_length(differs)
            if due_head[bit] == _NONE:
                due_head[bit] = event
            else:
                events[due_tail[bit]].then = event
            due_tail[bit] = event
            first_ns = second_ns
            first_code = second_code
            pushes -= 1
