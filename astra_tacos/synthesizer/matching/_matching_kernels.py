# mypy: ignore-errors
"""Kernel: link-chunk matching over the time-expanded network.

Per NPU there are two bit sets of chunks, `held` (arrived) and `taken` (arrived or on its way). A free link s -> d may take any
chunk in `held[s] & ~taken[d]`, so no chunk is ever sent twice to one NPU. Events that lie the same delay ahead come due in
the order in which they were made, so each distinct delay has a first-in-first-out queue, and a small heap of queue heads finds
the next instant.

Which link, which chunk: the links into an NPU choose fastest first, and among equals the one with the fewest useful chunks; a
link takes a rare chunk, at random. A slow link prefers what no NPU has or awaits from which faster links would bring it sooner
than the slow link itself, and brings nothing else if faster links will have brought all of that by the time its own send would
arrive. A switch's free up-links and down-links are paired by maximum matching.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

COMPLETE = 0
UNREACHABLE = 1

# What an event does, in its lowest bits.
LANDS = 1
FREES_UP = 2
FREES_DOWN = 4
KIND_BITS = 3

# Columns of `queues`: the delay, the ends of the queue's ring buffer, the queue's ends in it.
DELAY, FROM, TO, HEAD, TAIL = 0, 1, 2, 3, 4

# Columns of the tables, in the order of `match`'s docstring.
_SRC, _DST, _LINK, _DOWN, _PARTS = 0, 1, 2, 3, 4
_OUT, _UP, _IN, _SOURCE = 0, 1, 2, 3
_OUT_LINK, _OUT_DST = 0, 1
_UP_LINK, _UP_SWITCH = 0, 1
_IN_LINK, _IN_SRC, _IN_CHANNEL, _IN_RANK, _IN_NS, _IN_LEVEL = 0, 1, 2, 3, 4, 5
_SOURCE_NS, _SOURCE_BUSY_NS = 0, 1
_SWITCH_UP, _SWITCH_DOWN, _SWITCH_TABLE, _SWITCH_NS, _SWITCH_LEVEL = 0, 1, 2, 3, 4

# Words are looked through in blocks, without a branch per word. The bit sets' rows are whole blocks.
_BLOCK_SHIFT = 2
BLOCK = 1 << _BLOCK_SHIFT
_BLOCK_MASK = np.uint64(BLOCK - 1)
# In how many words, from a random place on, useful chunks are counted, and from how many lacking chunks on that is worth it.
_COUNTED_SHIFT = 2
_COUNTED = 1 << _COUNTED_SHIFT
_FEW = 64
# Ports beyond which a switch's links are paired greedily.
MATCHED_PORTS = 128

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U27 = np.uint64(27)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)
_U63 = np.uint64(63)
_U64 = np.uint64(64)
_ZERO = np.uint64(0)

# A link's sort key among those into an NPU: speed rank, useful chunks, random bits, position.
_POSITION_BITS = 20
_POSITION = np.int64((1 << _POSITION_BITS) - 1)
_RANDOM_BITS = np.int64(((1 << 14) - 1) << _POSITION_BITS)
_COUNT_SHIFT = 34
_RANK_SHIFT = 43


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


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _mix(z):
    """64 random bits from a counter that goes up by `_GOLDEN` (splitmix64)."""
    z = (z ^ (z >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _below(bits, bound):
    """From 64 random bits, an integer from 0 to `bound` - 1."""
    return np.int64(((bits >> _U32) * np.uint64(bound)) >> _U32)


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _sort(keys, size):
    """Shell sort; up to 12 keys it is an insertion sort."""
    gap = 1
    while gap * 4 < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            key = keys[i]
            at = i
            while at >= gap and keys[at - gap] > key:
                keys[at] = keys[at - gap]
                at -= gap
            keys[at] = key
        gap //= 3


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _leave_to_faster(npu, level, limit_ns, slow_ns, far, groups, near_first, near, npus, sources, taken, group_taken, allowed):
    """Put into `allowed` what no NPU near by holds or awaits; return whether to leave all the rest to the NPU's sources that are
    faster than `limit_ns`, because they will have delivered it in that time."""
    words = np.uint64(taken.shape[1])
    if limit_ns >= slow_ns:
        for word in range(words):
            allowed[word] = far[npu, word]
        return True
    group = groups[npu, level]
    if group >= 0:
        for word in range(words):
            allowed[word] = ~group_taken[group, word]
    else:
        for word in range(words):
            allowed[word] = ~_ZERO
        list_ = npu * groups.shape[1] + level
        for entry in range(near_first[list_], near_first[list_ + 1]):
            other = np.uint64(near[entry])
            for word in range(words):
                allowed[word] &= ~taken[other, word]
    rate = 0.0
    for entry in range(npus[npu, _SOURCE], npus[npu + 1, _SOURCE]):
        if sources[entry, _SOURCE_NS] >= limit_ns:
            break
        rate += 1.0 / sources[entry, _SOURCE_BUSY_NS]
    backlog = _ZERO
    for word in range(words):
        backlog += _population(~(allowed[word] | taken[npu, word]))
    return np.float64(backlog) <= rate * limit_ns


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _augment(start, num_downs, edge, up_match, down_match, down_parent, queue):
    """Match one more up-link by an augmenting path from `start`, if there is one (breadth first)."""
    for down in range(num_downs):
        down_parent[down] = -1
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


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _free_ports(ports, first, last, link_free, now, random, free):
    """Put the positions of the free ones of `ports[first:last]` into `free`, shuffled; return how many."""
    size = 0
    for slot in range(first, last):
        if link_free[ports[slot]] <= now:
            random += _GOLDEN
            at = _below(_mix(random), size + 1)
            free[size] = free[at]
            free[at] = slot - first
            size += 1
    return size


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _pair_ports(
    random,
    now,
    slow_ns,
    far,
    switch,
    channels,
    npus,
    sources,
    groups,
    near_first,
    near,
    switches,
    switch_up,
    switch_down,
    switch_table,
    link_free,
    held,
    taken,
    group_taken,
    lacking,
    allowed,
    ports,
    edge,
    picks,
):
    """Pair a switch's free up-links with its free down-links; put the channels into `picks` and return how many."""
    free_up, free_down, up_match, down_match, down_parent, queue = ports[0], ports[1], ports[2], ports[3], ports[4], ports[5]
    width = switches[switch + 1, _SWITCH_DOWN] - switches[switch, _SWITCH_DOWN]
    num_ups = _free_ports(
        switch_up, switches[switch, _SWITCH_UP], switches[switch + 1, _SWITCH_UP], link_free, now, random, free_up
    )
    num_downs = _free_ports(
        switch_down, switches[switch, _SWITCH_DOWN], switches[switch + 1, _SWITCH_DOWN], link_free, now, ~random, free_down
    )
    if num_ups == 0 or num_downs == 0:
        return 0
    words = held.shape[1]
    limit_ns = switches[switch, _SWITCH_NS]
    table = switches[switch, _SWITCH_TABLE]
    for a in range(num_ups):
        up_match[a] = -1
    exact = num_ups <= MATCHED_PORTS and num_downs <= MATCHED_PORTS
    for b in range(num_downs):
        down_match[b] = -1
    # First with what no NPU near by has, then, for ports that are left over, with anything useful.
    for fallback in (False, True):
        some_prepared = False
        for b in range(num_downs):
            prepared = False
            strict = False
            for a in range(num_ups):
                if exact:
                    edge[a, b] = False
                elif up_match[a] >= 0:
                    continue
                if not exact and down_match[b] >= 0:
                    break
                channel = switch_table[table + free_up[a] * width + free_down[b]]
                if channel < 0:
                    continue
                npu = np.int64(channels[channel, _DST])
                if lacking[npu] == 0:
                    continue
                if not prepared:
                    prepared = True
                    if sources[npus[npu, _SOURCE], _SOURCE_NS] < limit_ns:
                        some_prepared = True
                        level = switches[switch, _SWITCH_LEVEL]
                        strict = _leave_to_faster(
                            npu,
                            level,
                            limit_ns,
                            slow_ns,
                            far,
                            groups,
                            near_first,
                            near,
                            npus,
                            sources,
                            taken,
                            group_taken,
                            allowed,
                        )
                        strict |= not fallback
                src = channels[channel, _SRC]
                useful = _ZERO
                for word in range(words):
                    useful = held[src, word] & ~taken[npu, word]
                    if strict:
                        useful &= allowed[word]
                    if useful != _ZERO:
                        break
                if useful == _ZERO:
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
                    _augment(a, num_downs, edge, up_match, down_match, down_parent, queue)
        if not some_prepared:
            break
    num_picks = 0
    for b in range(num_downs):
        if down_match[b] >= 0:
            picks[num_picks] = switch_table[table + free_up[down_match[b]] * width + free_down[b]]
            num_picks += 1
    return num_picks


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _heap_push(heap, size, time, queue):
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent, 0] <= time:
            break
        heap[child, 0] = heap[parent, 0]
        heap[child, 1] = heap[parent, 1]
        child = parent
    heap[child, 0] = time
    heap[child, 1] = queue


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _heap_sink_top(heap, size, time, queue):
    """Replace the top by (time, queue) and restore the order."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if time <= heap[child, 0]:
            break
        heap[parent, 0] = heap[child, 0]
        heap[parent, 1] = heap[child, 1]
        parent = child
    heap[parent, 0] = time
    heap[parent, 1] = queue


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def match(
    seed,
    chunk_owner,
    chunk_class,
    late_ns,
    late_what,
    slow_ns,
    far,
    channels,
    npus,
    outs,
    ups,
    ins,
    sources,
    groups,
    near_first,
    near,
    link_place,
    switches,
    switch_up,
    switch_down,
    switch_table,
    forward_ns,
    link_free,
    queues,
    ring,
    heap,
    held,
    taken,
    group_taken,
    lacking,
    copies,
    rare,
    allowed,
    todo,
    listed,
    picks,
    ports,
    edge,
    out_chunk,
    out_channel,
    out_start_ns,
    out_end_ns,
):
    """All-Gather of every chunk from its owner to every NPU; rows come out by ascending start.

    Times are those at which a send starts, and all that a send entails lies one of the delays in `queues` after. `channels` has
    for each channel its ends and links and, for each size of chunk, up to three parts (0: no more): the number of a delay, and
    what happens then: the up-link (or direct link) is free, the down-link is free, the chunk is of use at its destination,
    which is `forward_ns` after its arrival. `late_*` lists what is not so from the start, by time: a chunk that becomes ready
    (twice its number) or a link that becomes free (twice its number, plus 1).

    `npus` and `switches` say where in the tables that follow their rows begin. `outs` and `ins` are the direct channels of
    each NPU, those into it by descending speed, `ups` its up-links; `sources` tell whence it can be reached, fastest first;
    a channel's rank is how many delays are shorter among these. `groups`, `near_first`, `near` say who is near to whom at each
    level of slowness (see `Neighbourhood`), and `group_taken` what the NPUs of each group hold or await together. Links of
    `slow_ns` and more bring an NPU only chunks from its row of `far`. `link_place` is what to look at when a link becomes free:
    the NPU that a direct link leads to, or the number of NPUs + the switch. `switch_table` holds the channel of each pair of
    up-link and down-link. `queues`, `ring`, `heap` are the queues of events, `held` to `rare` the state at the start;
    `allowed` and `todo` to `edge` are space to work in.
    """
    num_chunks = len(chunk_owner)
    num_npus = len(lacking)
    num_places = len(listed)
    num_delays = len(queues)
    words = held.shape[1]
    levels = groups.shape[1]
    random = np.uint64(seed)
    rare_limit = np.int64(1)
    heap_size = np.int64(len(late_ns) > 0)
    late = np.int64(0)
    num_todo = num_places
    everywhere = True
    # Events of one delay due at once from which on every place is looked at instead of a list. Not where there are switches:
    # these pair better when they are looked at only after a change.
    many = num_places if num_places == num_npus else len(out_chunk)
    blocks = words >> _BLOCK_SHIFT
    used_words = (num_chunks + 63) >> 6
    samples = ((num_chunks - 1) >> (6 + _COUNTED_SHIFT)) + 1
    strict = False
    restricted = True
    unequal = False
    for slot in range(len(ins)):
        unequal = unequal or ins[slot, _IN_RANK] > 0

    now = np.int64(0)
    rows = np.int64(0)
    while True:
        random += _GOLDEN
        position = _below(_mix(random), num_todo)
        for _ in range(num_todo):
            place = position if everywhere else todo[position]
            position += 1
            if position == num_todo:
                position = 0
            listed[place] = False
            num_picks = np.int64(0)
            in_from = np.int64(0)
            if place < num_npus:
                # The free direct links into this NPU: fastest first, then fewest useful chunks, then at random. While the NPU
                # lacks many chunks no link runs out of them, and counting is saved.
                dst = np.uint64(place)
                if lacking[dst] == 0:
                    continue
                few = lacking[dst] <= _FEW
                random += _GOLDEN
                bits = _mix(random)
                word_from = np.uint64(_below(bits, samples) << _COUNTED_SHIFT)
                in_from = npus[dst, _IN]
                for slot in range(in_from, npus[dst + _U1, _IN]):
                    if link_free[np.uint64(ins[np.uint64(slot), _IN_LINK])] > now:
                        continue
                    src = np.uint64(ins[np.uint64(slot), _IN_SRC])
                    useful = _ZERO
                    if few:
                        for w in range(_COUNTED):
                            word = word_from + np.uint64(w)
                            useful += _population(held[src, word] & ~taken[dst, word])
                        if useful == _ZERO and samples == 1:
                            continue
                    bits *= _MIX_1
                    picks[np.uint64(num_picks)] = (
                        (ins[np.uint64(slot), _IN_RANK] << _RANK_SHIFT)
                        | (np.int64(useful) << _COUNT_SHIFT)
                        | (np.int64(bits >> _U30) & _RANDOM_BITS)
                        | (slot - in_from)
                    )
                    num_picks += 1
                if num_picks > 1 and (few or unequal):
                    _sort(picks, num_picks)
            else:
                random += _GOLDEN
                num_picks = _pair_ports(
                    _mix(random),
                    now,
                    slow_ns,
                    far,
                    place - num_npus,
                    channels,
                    npus,
                    sources,
                    groups,
                    near_first,
                    near,
                    switches,
                    switch_up,
                    switch_down,
                    switch_table,
                    link_free,
                    held,
                    taken,
                    group_taken,
                    lacking,
                    allowed,
                    ports,
                    edge,
                    picks,
                )
                restricted = True

            npu = place
            rank = np.int64(0)
            for k in range(num_picks):
                channel = picks[np.uint64(k)]
                if place >= num_npus:
                    npu = np.int64(channels[channel, _DST])
                    src = np.uint64(channels[channel, _SRC])
                    limit_ns = switches[place - num_npus, _SWITCH_NS]
                    level = switches[place - num_npus, _SWITCH_LEVEL]
                    avoid = sources[npus[npu, _SOURCE], _SOURCE_NS] < limit_ns
                    prepare = avoid
                else:
                    slot = np.uint64(in_from + (channel & _POSITION))
                    prepare = channel >> _RANK_SHIFT != rank
                    rank = channel >> _RANK_SHIFT
                    channel = ins[slot, _IN_CHANNEL]
                    src = np.uint64(ins[slot, _IN_SRC])
                    limit_ns = ins[slot, _IN_NS]
                    level = ins[slot, _IN_LEVEL]
                    avoid = rank > 0
                if prepare:
                    strict = _leave_to_faster(
                        npu, level, limit_ns, slow_ns, far, groups, near_first, near, npus, sources, taken, group_taken, allowed
                    )
                    restricted = True
                elif restricted and not avoid:
                    restricted = False
                    for w in range(words):
                        allowed[w] = ~_ZERO

                # A useful chunk from a random block of words on: those that faster links cannot bring first, rare ones first.
                dst = np.uint64(npu)
                random += _GOLDEN
                bits = _mix(random)
                first = _below(bits, used_words)
                block = first >> _BLOCK_SHIFT
                found = _ZERO
                found_from = _ZERO
                left = blocks
                while left > 0:
                    left -= 1
                    word_from = np.uint64(block << _BLOCK_SHIFT)
                    some = _ZERO
                    seldom = _ZERO
                    for w in range(BLOCK):
                        word = word_from + np.uint64(w)
                        useful = held[src, word] & ~taken[dst, word] & allowed[word]
                        some |= np.uint64(useful != _ZERO) << np.uint64(w)
                        seldom |= np.uint64(useful & rare[word] != _ZERO) << np.uint64(w)
                    if seldom != _ZERO:
                        found = seldom
                        found_from = word_from
                        break
                    if some != _ZERO and found == _ZERO:
                        found = some
                        found_from = word_from
                    block += 1
                    if block == blocks:
                        block = 0
                    if left == 0 and found == _ZERO and avoid and not strict:
                        # Nothing but what faster links could bring too, though not in time.
                        avoid = False
                        restricted = False
                        rank = -1
                        left = blocks
                        for w in range(words):
                            allowed[w] = ~_ZERO
                if found == _ZERO:
                    continue
                turn = np.uint64(first) & _BLOCK_MASK
                found |= found << np.uint64(BLOCK)
                word = found_from + ((_trailing_zeros(found >> turn) + turn) & _BLOCK_MASK)
                useful = held[src, word] & ~taken[dst, word] & allowed[word]
                if useful & rare[word] != _ZERO:
                    useful &= rare[word]
                turn = bits & _U63
                turned = (useful >> turn) | (useful << ((_U64 - turn) & _U63))
                position_in_word = (_trailing_zeros(turned) + turn) & _U63
                bit = _U1 << position_in_word
                chunk = (word << _U6) | position_in_word
                size = np.int64(chunk_class[chunk])
                taken[dst, word] |= bit
                lacking[dst] -= 1
                copies[chunk] += 1
                rare[word] &= ~(np.uint64(copies[chunk] > rare_limit) << position_in_word)
                for slot in range(levels):
                    if groups[npu, slot] >= 0:
                        group_taken[groups[npu, slot], word] |= bit
                row = np.uint64(rows)
                out_chunk[row] = chunk
                out_channel[row] = channel
                out_start_ns[row] = now
                used = np.uint64(channel)
                for part in range(_PARTS + 3 * size, _PARTS + 3 * size + 3):
                    code = np.int64(channels[used, np.uint64(part)])
                    if code == 0:
                        break
                    queue = np.uint64(code >> KIND_BITS)
                    time = now + queues[queue, DELAY]
                    if code & LANDS:
                        out_end_ns[row] = time - forward_ns[size]
                    if code & FREES_UP:
                        link_free[np.uint64(channels[used, _LINK])] = time
                    if code & FREES_DOWN:
                        link_free[np.uint64(channels[used, _DOWN])] = time
                    tail = queues[queue, TAIL]
                    if tail == queues[queue, HEAD]:
                        _heap_push(heap, heap_size, time, np.int64(queue))
                        heap_size += 1
                    ring[np.uint64(tail)] = (rows << KIND_BITS) | (code & (LANDS | FREES_UP | FREES_DOWN))
                    tail += 1
                    queues[queue, TAIL] = tail if tail < queues[queue, TO] else queues[queue, FROM]
                rows += 1
                if rows == rare_limit * num_chunks:  # the mean number of copies has grown by one
                    rare_limit += 1
                    for word in range(words):
                        bits = _ZERO
                        for c in range(word << 6, (word + 1) << 6):
                            if c < num_chunks and copies[c] <= rare_limit:
                                bits |= _U1 << np.uint64(c & 63)
                        rare[word] = bits
        num_todo = 0
        everywhere = False
        if rows == len(out_chunk):
            return COMPLETE
        if heap_size == 0:
            return UNREACHABLE

        # Next instant: let everything that comes due land or become free, and list the places that this concerns.
        now = heap[0, 0]
        while heap_size > 0 and heap[0, 0] == now:
            queue = heap[0, 1]
            is_late = queue == num_delays
            if is_late:
                at = late
                stop = len(late_ns)
                started = now
                ring_from = 0
                ring_to = 0
            else:
                at = queues[queue, HEAD]
                stop = queues[queue, TAIL]
                started = now - queues[queue, DELAY]
                ring_from = queues[queue, FROM]
                ring_to = queues[queue, TO]
                if not everywhere:
                    waiting = stop - at if at < stop else stop - at + ring_to - ring_from
                    if waiting > many:
                        ahead = at + many if at + many < ring_to else at + many - ring_to + ring_from
                        everywhere = out_start_ns[ring[ahead] >> KIND_BITS] == started
            following_ns = np.int64(-1)
            while at != stop:
                chunk = np.int64(-1)
                npu = 0
                up = np.int64(-1)
                down = np.int64(-1)
                if is_late:
                    if late_ns[at] > now:
                        following_ns = late_ns[at]
                        break
                    what = late_what[at]
                    at += 1
                    if what & 1:
                        up = what >> 1
                    else:
                        chunk = what >> 1
                        npu = np.int64(chunk_owner[chunk])
                else:
                    event = ring[np.uint64(at)]
                    row = np.uint64(event >> KIND_BITS)
                    if out_start_ns[row] != started:
                        following_ns = out_start_ns[row] + queues[queue, DELAY]
                        break
                    at += 1
                    if at == ring_to:
                        at = ring_from
                    used = np.uint64(out_channel[row])
                    if event & LANDS:
                        chunk = np.int64(out_chunk[row])
                        npu = np.int64(channels[used, _DST])
                    if everywhere:
                        event &= LANDS
                    if event & FREES_UP:
                        up = np.int64(channels[used, _LINK])
                    if event & FREES_DOWN:
                        down = np.int64(channels[used, _DOWN])
                if chunk >= 0:
                    held[np.uint64(npu), np.uint64(chunk >> 6)] |= _U1 << np.uint64(chunk & 63)
                if everywhere:
                    continue
                if chunk >= 0:
                    for slot in range(npus[npu, _OUT], npus[npu + 1, _OUT]):
                        place = np.int64(outs[slot, _OUT_DST])
                        if not listed[place] and link_free[outs[slot, _OUT_LINK]] <= now:
                            listed[place] = True
                            todo[num_todo] = place
                            num_todo += 1
                    for slot in range(npus[npu, _UP], npus[npu + 1, _UP]):
                        place = ups[slot, _UP_SWITCH] + num_npus
                        if not listed[place] and link_free[ups[slot, _UP_LINK]] <= now:
                            listed[place] = True
                            todo[num_todo] = place
                            num_todo += 1
                for link in (up, down):
                    if link >= 0:
                        place = np.int64(link_place[link])
                        if not listed[place]:
                            listed[place] = True
                            todo[num_todo] = place
                            num_todo += 1
            if is_late:
                late = at
            else:
                queues[queue, HEAD] = at
            if following_ns < 0:
                heap_size -= 1
                following_ns = heap[heap_size, 0]
                queue = heap[heap_size, 1]
            _heap_sink_top(heap, heap_size, following_ns, queue)
        if everywhere:
            num_todo = num_places
