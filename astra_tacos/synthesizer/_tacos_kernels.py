"""Kernel: link-chunk matching over the time-expanded network.

Per NPU there are two bit sets of chunks, `held` (arrived) and `taken` (arrived or on its way). A free link s -> d may take any
chunk in `held[s] & ~taken[d]`, so no chunk is ever sent twice to one NPU. Events that lie the same delay ahead come due in
the order in which they were made, so each distinct delay has a first-in-first-out queue, and a small heap of queue heads finds
the next instant.

Which link, which chunk: the links into an NPU choose fastest first, and among equals the one with the fewest useful chunks; a
link takes a rare chunk, at random, and leaves alone what faster links into the same NPU will have brought by the time its own
send would arrive. A switch's free up-links and down-links are paired by maximum matching.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

COMPLETE = 0
UNREACHABLE = 1

_LANDS = 1
_FREES_UP = 2
_FREES_DOWN = 4
_READY = 8
_BUSY = 16

_COUNTED_WORDS = 16
_MATCHED_PORTS = 128

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U1 = np.uint64(1)
_U27 = np.uint64(27)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)
_U63 = np.uint64(63)
_U64 = np.uint64(64)
_ZERO = np.uint64(0)


@intrinsic
def _trailing_zeros(typing_context, word):
    """Index of the lowest set bit of a non-zero uint64."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def _population(typing_context, word):
    """How many bits of a uint64 are set."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def _random(state):
    """Next 64 random bits (splitmix64)."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@njit(cache=True, nogil=True)
def _random_below(state, bound):
    return np.int64(((_random(state) >> _U32) * np.uint64(bound)) >> _U32)


@njit(cache=True, nogil=True)
def _is_useful(held, src, taken, dst, faster_row, strict):
    """Whether the source holds a chunk that the destination lacks (and, if `strict`, that is not in `faster_row`)."""
    for word in range(held.shape[1]):
        useful = held[src, word] & ~taken[dst, word]
        if strict:
            useful &= ~faster_row[word]
        if useful != _ZERO:
            return True
    return False


@njit(cache=True, nogil=True)
def _gather_faster(
    npu, limit_ns, source_first, source_kind, source_id, source_ns, source_busy_ns, taken, group_taken, faster_row
):
    """Put into `faster_row` what the sources of an NPU that are faster than `limit_ns` hold or await; return whether to leave
    all that to them, because they will have delivered it in that time."""
    rate = 0.0
    words = taken.shape[1]
    faster_row[:] = _ZERO
    for entry in range(source_first[npu], source_first[npu + 1]):
        if source_ns[entry] >= limit_ns:
            break
        rate += 1.0 / source_busy_ns[entry]
        if source_kind[entry] == 0:
            for word in range(words):
                faster_row[word] |= taken[source_id[entry], word]
        else:
            for word in range(words):
                faster_row[word] |= group_taken[source_id[entry], word]
    backlog = _ZERO
    for word in range(words):
        backlog += _population(faster_row[word] & ~taken[npu, word])
    return np.float64(backlog) <= rate * limit_ns


@njit(cache=True, nogil=True)
def _augment(start, num_downs, edge, up_match, down_match, down_parent, queue):
    """Match one more up-link by an augmenting path from `start`, if there is one (breadth first)."""
    down_parent[:num_downs] = -1
    head = 0
    tail = 1
    queue[0] = start
    while head < tail:
        up = queue[head]
        head += 1
        for down in range(num_downs):
            if down_parent[down] >= 0 or not edge[up, down]:
                continue
            down_parent[down] = up
            if down_match[down] < 0:
                while True:
                    up = down_parent[down]
                    previous = up_match[up]
                    up_match[up] = down
                    down_match[down] = up
                    if up == start:
                        return
                    down = previous
            queue[tail] = down_match[down]
            tail += 1


@njit(cache=True, nogil=True)
def _heap_push(heap_time, heap_queue, size, time, queue):
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap_time[parent] <= time:
            break
        heap_time[child] = heap_time[parent]
        heap_queue[child] = heap_queue[parent]
        child = parent
    heap_time[child] = time
    heap_queue[child] = queue


@njit(cache=True, nogil=True)
def _heap_sink_top(heap_time, heap_queue, size, time, queue):
    """Replace the top by (time, queue) and restore the order."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and heap_time[child + 1] < heap_time[child]:
            child += 1
        if time <= heap_time[child]:
            break
        heap_time[parent] = heap_time[child]
        heap_queue[parent] = heap_queue[child]
        parent = child
    heap_time[parent] = time
    heap_queue[parent] = queue


@njit(cache=True, nogil=True)
def match(
    seed,
    num_npus,
    owner,
    chunk_class,
    chunk_ready_ns,
    channel_src,
    channel_dst,
    channel_link,
    channel_down_link,
    out_first,
    out_channel,
    up_first,
    up_link,
    in_first,
    in_channel,
    source_first,
    source_kind,
    source_id,
    source_ns,
    source_busy_ns,
    link_place,
    switch_up_first,
    switch_up,
    switch_down_first,
    switch_down,
    switch_table_first,
    switch_table,
    switch_ns,
    up_busy_ns,
    down_busy_ns,
    land_ns,
    forward_ns,
    up_queue,
    down_queue,
    land_queue,
    num_delays,
    capacity,
    link_free_ns,
    out_chunk,
    out_channel_used,
    out_start_ns,
    out_end_ns,
):
    """All-Gather of every chunk from its owner to every NPU; rows come out by ascending start.

    Times are those at which a send starts: a send on `channel` at `now` keeps others off its up-link (or direct link) until
    `now + up_busy_ns`, off its down-link until `now + down_busy_ns`, and is of use at its destination at `now + land_ns`,
    `forward_ns` after its arrival. `out_*` and `in_*` list the direct channels of each NPU, `up_*` its up-links, `link_place` what to look at
    when a link becomes free: the NPU that a direct link leads to, or `num_npus` + the switch. `source_*` tell whence an NPU
    can be reached, fastest first (kind 0: an NPU, 1: a switch). `switch_table` holds the channel of each pair of
    up-link and down-link. `*_queue` number the delays.
    """
    num_chunks = len(owner)
    num_links = len(link_free_ns)
    num_switches = len(switch_up_first) - 1
    words = (num_chunks + 63) >> 6
    held = np.zeros((num_npus, words), np.uint64)
    taken = np.zeros((num_npus, words), np.uint64)
    group_taken = np.zeros((num_switches, words), np.uint64)
    lacking = np.full(num_npus, num_chunks, np.int64)
    copies = np.ones(num_chunks, np.int64)
    rare = np.full(words, ~_ZERO, np.uint64)
    rare_limit = 1
    faster_row = np.zeros(words, np.uint64)
    link_free = link_free_ns.copy()
    state = np.empty(1, np.uint64)
    state[0] = np.uint64(seed)

    num_queues = num_delays + 2
    ready_queue = num_queues - 2
    busy_queue = num_queues - 1
    queue_head = np.full(num_queues, -1, np.int64)
    queue_tail = np.full(num_queues, -1, np.int64)
    heap_time = np.empty(num_queues, np.int64)
    heap_queue = np.empty(num_queues, np.int64)
    heap_size = 0
    event_time = np.empty(capacity, np.int64)
    event_place = np.empty(capacity, np.int32)
    event_chunk = np.empty(capacity, np.int32)
    event_kind = np.empty(capacity, np.uint8)
    event_next = np.arange(1, capacity + 1)
    event_next[capacity - 1] = -1
    unused = 0

    # What to look at in the next instant: NPUs by their direct links, switches after them.
    num_places = num_npus + num_switches
    todo = np.empty(num_places, np.int64)
    listed = np.zeros(num_places, np.bool_)
    num_todo = 0

    most_in = 1
    for npu in range(num_npus):
        most_in = max(most_in, in_first[npu + 1] - in_first[npu])
    most_ports = 1
    for switch in range(num_switches):
        most_ports = max(most_ports, switch_up_first[switch + 1] - switch_up_first[switch])
        most_ports = max(most_ports, switch_down_first[switch + 1] - switch_down_first[switch])
    free_up = np.empty(most_ports, np.int64)
    free_down = np.empty(most_ports, np.int64)
    up_match = np.empty(most_ports, np.int64)
    down_match = np.empty(most_ports, np.int64)
    down_parent = np.empty(most_ports, np.int64)
    bfs_queue = np.empty(most_ports + 1, np.int64)
    edge_size = min(most_ports, _MATCHED_PORTS)
    edge = np.zeros((edge_size, edge_size), np.bool_)
    picks = np.empty(max(most_in, most_ports), np.int64)
    pick_key = np.empty(most_in, np.uint64)

    for c in range(num_chunks):
        npu = owner[c]
        taken[npu, c >> 6] |= _U1 << np.uint64(c & 63)
        lacking[npu] -= 1
        for slot in range(up_first[npu], up_first[npu + 1]):
            group_taken[link_place[up_link[slot]] - num_npus, c >> 6] |= _U1 << np.uint64(c & 63)
    for initial in range(2):  # late chunks, then busy links, each in order of time
        times = chunk_ready_ns if initial == 0 else link_free
        queue = ready_queue if initial == 0 else busy_queue
        order = np.argsort(times, kind="mergesort")
        for index in order:
            if times[index] <= 0:
                if initial == 0:
                    held[owner[index], index >> 6] |= _U1 << np.uint64(index & 63)
                continue
            event = unused
            unused = event_next[event]
            event_time[event] = times[index]
            event_place[event] = index
            event_chunk[event] = index
            event_kind[event] = _READY if initial == 0 else _BUSY
            event_next[event] = -1
            if queue_tail[queue] < 0:
                queue_head[queue] = event
                _heap_push(heap_time, heap_queue, heap_size, times[index], queue)
                heap_size += 1
            else:
                event_next[queue_tail[queue]] = event
            queue_tail[queue] = event
    for place in range(num_places):
        listed[place] = True
        todo[place] = place
    num_todo = num_places

    now = 0
    rows = 0
    while True:
        turn_todo = _random_below(state, num_todo) if num_todo > 1 else 0
        for i in range(num_todo):
            place = todo[(i + turn_todo) % num_todo]
            listed[place] = False
            num_picks = 0
            if place < num_npus:
                # The free direct links into this NPU: fastest first, then fewest useful chunks, then at random.
                npu = place
                if lacking[npu] == 0:
                    continue
                for slot in range(in_first[npu], in_first[npu + 1]):
                    channel = in_channel[slot]
                    if link_free[channel_link[channel]] > now:
                        continue
                    src = channel_src[channel]
                    useful = _ZERO
                    for word in range(min(words, _COUNTED_WORDS)):
                        useful += _population(held[src, word] & ~taken[npu, word])
                    if useful == _ZERO and words <= _COUNTED_WORDS:
                        continue
                    key = (useful << _U32) | (_random(state) >> _U32)
                    at = num_picks
                    while at > 0 and (
                        land_ns[picks[at - 1], 0] > land_ns[channel, 0]
                        or (land_ns[picks[at - 1], 0] == land_ns[channel, 0] and pick_key[at - 1] > key)
                    ):
                        picks[at] = picks[at - 1]
                        pick_key[at] = pick_key[at - 1]
                        at -= 1
                    picks[at] = channel
                    pick_key[at] = key
                    num_picks += 1
            else:
                # A switch: pair its free up-links with its free down-links.
                switch = place - num_npus
                ups_from = switch_up_first[switch]
                downs_from = switch_down_first[switch]
                width = switch_down_first[switch + 1] - downs_from
                num_ups = 0
                for slot in range(ups_from, switch_up_first[switch + 1]):
                    if link_free[switch_up[slot]] <= now:
                        free_up[num_ups] = slot - ups_from
                        num_ups += 1
                num_downs = 0
                for slot in range(downs_from, switch_down_first[switch + 1]):
                    if link_free[switch_down[slot]] <= now:
                        free_down[num_downs] = slot - downs_from
                        num_downs += 1
                if num_ups == 0 or num_downs == 0:
                    continue
                for k in range(num_ups - 1, 0, -1):
                    j = _random_below(state, k + 1)
                    free_up[k], free_up[j] = free_up[j], free_up[k]
                for k in range(num_downs - 1, 0, -1):
                    j = _random_below(state, k + 1)
                    free_down[k], free_down[j] = free_down[j], free_down[k]
                table = switch_table_first[switch]
                up_match[:num_ups] = -1
                down_match[:num_downs] = -1
                exact = num_ups <= _MATCHED_PORTS and num_downs <= _MATCHED_PORTS
                for b in range(num_downs):
                    prepared = False
                    strict = False
                    for a in range(num_ups):
                        if exact:
                            edge[a, b] = False
                        elif up_match[a] >= 0:
                            continue
                        channel = switch_table[table + free_up[a] * width + free_down[b]]
                        if channel < 0 or lacking[channel_dst[channel]] == 0:
                            continue
                        npu = channel_dst[channel]
                        if not prepared:
                            prepared = True
                            if source_ns[source_first[npu]] < switch_ns[switch]:
                                strict = _gather_faster(
                                    npu,
                                    switch_ns[switch],
                                    source_first,
                                    source_kind,
                                    source_id,
                                    source_ns,
                                    source_busy_ns,
                                    taken,
                                    group_taken,
                                    faster_row,
                                )
                        if not _is_useful(held, channel_src[channel], taken, npu, faster_row, strict):
                            continue
                        if up_match[a] < 0 and down_match[b] < 0:
                            up_match[a] = b
                            down_match[b] = a
                        if exact:
                            edge[a, b] = True
                        else:
                            break
                if exact:
                    for a in range(num_ups):
                        if up_match[a] < 0:
                            _augment(a, num_downs, edge, up_match, down_match, down_parent, bfs_queue)
                for b in range(num_downs):
                    if down_match[b] >= 0:
                        picks[num_picks] = switch_table[table + free_up[down_match[b]] * width + free_down[b]]
                        num_picks += 1

            prepared_npu = np.int64(-1)
            prepared_ns = np.int64(-1)
            avoid = False
            strict = False
            for k in range(num_picks):
                channel = picks[k]
                npu = np.int64(channel_dst[channel])
                limit = land_ns[channel, 0] if place < num_npus else switch_ns[place - num_npus]
                if npu != prepared_npu or limit != prepared_ns:
                    prepared_npu = npu
                    prepared_ns = limit
                    avoid = source_ns[source_first[npu]] < limit
                    if avoid:
                        strict = _gather_faster(
                            npu,
                            limit,
                            source_first,
                            source_kind,
                            source_id,
                            source_ns,
                            source_busy_ns,
                            taken,
                            group_taken,
                            faster_row,
                        )

                # A useful chunk, from a random word on: those that faster links cannot bring first, and rare ones first.
                src = channel_src[channel]
                bits = _random(state)
                turn = bits & _U63
                word = np.int64(((bits >> _U32) * np.uint64(words)) >> _U32)
                best_word = np.int64(-1)
                best_bits = _ZERO
                best_level = 4
                for _ in range(words):
                    useful = held[src, word] & ~taken[npu, word]
                    if useful != _ZERO:
                        level = 0
                        if avoid:
                            own = useful & ~faster_row[word]
                            if own != _ZERO:
                                useful = own
                            else:
                                level = 4 if strict else 2
                        seldom = useful & rare[word]
                        if seldom != _ZERO:
                            useful = seldom
                        else:
                            level += 1
                        if level < best_level:
                            best_level = level
                            best_word = word
                            best_bits = useful
                            if level == 0:
                                break
                    word += 1
                    if word == words:
                        word = 0
                if best_word < 0:
                    continue
                turned = (best_bits >> turn) | (best_bits << ((_U64 - turn) & _U63))
                chunk = best_word * 64 + np.int64((_trailing_zeros(turned) + turn) & _U63)
                bit = _U1 << np.uint64(chunk & 63)
                size = chunk_class[chunk]
                taken[npu, chunk >> 6] |= bit
                lacking[npu] -= 1
                copies[chunk] += 1
                if copies[chunk] > rare_limit:
                    rare[chunk >> 6] &= ~bit
                for slot in range(up_first[npu], up_first[npu + 1]):
                    group_taken[link_place[up_link[slot]] - num_npus, chunk >> 6] |= bit
                up_time = now + up_busy_ns[channel, size]
                land_time = now + land_ns[channel, size]
                link_free[channel_link[channel]] = up_time
                down = channel_down_link[channel]
                out_chunk[rows] = chunk
                out_channel_used[rows] = channel
                out_start_ns[rows] = now
                out_end_ns[rows] = land_time - forward_ns[size]
                rows += 1
                if rows == rare_limit * num_chunks:  # the mean number of copies has grown by one
                    rare_limit += 1
                    for word in range(words):
                        bits = _ZERO
                        for b in range(min(64, num_chunks - word * 64)):
                            if copies[word * 64 + b] <= rare_limit:
                                bits |= _U1 << np.uint64(b)
                        rare[word] = bits
                kind_up = _FREES_UP
                kind_land = _LANDS
                parts = 2
                if up_time == land_time:
                    kind_up = _FREES_UP | _LANDS
                    parts = 1
                down_time = np.int64(0)
                if down >= 0:
                    down_time = now + down_busy_ns[channel, size]
                    link_free[down] = down_time
                    if down_time == up_time:
                        kind_up |= _FREES_DOWN
                    elif down_time == land_time:
                        kind_land |= _FREES_DOWN
                    else:
                        parts = 3
                for part in range(3):
                    if part == 0:
                        kind = kind_up
                        time = up_time
                        queue = up_queue[channel, size]
                    elif part == 1:
                        if kind_up & _LANDS:
                            continue
                        kind = kind_land
                        time = land_time
                        queue = land_queue[channel, size]
                    else:
                        if parts < 3:
                            continue
                        kind = _FREES_DOWN
                        time = down_time
                        queue = down_queue[channel, size]
                    event = unused
                    unused = event_next[event]
                    event_time[event] = time
                    event_place[event] = channel
                    event_chunk[event] = chunk
                    event_kind[event] = kind
                    event_next[event] = -1
                    if queue_tail[queue] < 0:
                        queue_head[queue] = event
                        _heap_push(heap_time, heap_queue, heap_size, time, queue)
                        heap_size += 1
                    else:
                        event_next[queue_tail[queue]] = event
                    queue_tail[queue] = event
        num_todo = 0
        if rows == len(out_chunk):
            return COMPLETE
        if heap_size == 0:
            return UNREACHABLE

        # Next instant: let everything that comes due land or become free, and list the places that this concerns.
        now = heap_time[0]
        while heap_size > 0 and heap_time[0] == now:
            queue = heap_queue[0]
            event = queue_head[queue]
            while event >= 0 and event_time[event] == now:
                kind = event_kind[event]
                place = event_place[event]
                up = np.int64(-1)
                down = np.int64(-1)
                if kind & (_LANDS | _READY):
                    chunk = event_chunk[event]
                    npu = owner[place] if kind & _READY else channel_dst[place]
                    held[npu, chunk >> 6] |= _U1 << np.uint64(chunk & 63)
                    for slot in range(out_first[npu], out_first[npu + 1]):
                        channel = out_channel[slot]
                        concerned = channel_dst[channel]
                        if not listed[concerned] and link_free[channel_link[channel]] <= now:
                            listed[concerned] = True
                            todo[num_todo] = concerned
                            num_todo += 1
                    for slot in range(up_first[npu], up_first[npu + 1]):
                        concerned = link_place[up_link[slot]]
                        if not listed[concerned] and link_free[up_link[slot]] <= now:
                            listed[concerned] = True
                            todo[num_todo] = concerned
                            num_todo += 1
                if kind & _FREES_UP:
                    up = np.int64(channel_link[place])
                if kind & _FREES_DOWN:
                    down = np.int64(channel_down_link[place])
                if kind & _BUSY:
                    up = np.int64(place)
                for link in (up, down):
                    if link >= 0 and not listed[link_place[link]]:
                        listed[link_place[link]] = True
                        todo[num_todo] = link_place[link]
                        num_todo += 1
                following = event_next[event]
                event_next[event] = unused
                unused = event
                event = following
            queue_head[queue] = event
            if event >= 0:
                _heap_sink_top(heap_time, heap_queue, heap_size, event_time[event], queue)
            else:
                queue_tail[queue] = -1
                heap_size -= 1
                if heap_size > 0:
                    _heap_sink_top(heap_time, heap_queue, heap_size, heap_time[heap_size], heap_queue[heap_size])
