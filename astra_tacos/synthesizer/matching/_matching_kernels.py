# mypy: ignore-errors
"""Kernel: link-chunk matching over the time-expanded network.

Times are those at which a send starts, and all that a send entails lies one of a few delays after. Events that lie the same
delay ahead come due in the order in which they were made, so each distinct delay has a first-in-first-out queue, and a small
heap of queue heads finds the next instant.

Which link, which chunk: the links into an NPU choose fastest first, and among equals the one with the fewest useful chunks; a
link takes a rare chunk, at random. A slow link prefers what no NPU has or awaits from which faster links would bring it sooner
than the slow link itself, and brings nothing else if faster links will have brought all of that by the time its own send would
arrive. A switch's free up-links and down-links are paired by maximum matching.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import helper, inlined, kernel
from astra_tacos.support.kernels.shared import (
    GOLDEN,
    MIX_1,
    below,
    heap_push,
    heap_replace_first,
    mix,
    population,
    trailing_zeros,
)
from astra_tacos.synthesizer.matching._table_kernels import (
    DELAY,
    DOWN,
    DST,
    FROM,
    HEAD,
    IN,
    IN_CHANNEL,
    IN_LEVEL,
    IN_LINK,
    IN_NS,
    IN_RANK,
    IN_SRC,
    LINK,
    OUT,
    OUT_DST,
    OUT_LINK,
    PARTS,
    SOURCE,
    SOURCE_NS,
    SRC,
    SWITCH_LEVEL,
    SWITCH_NS,
    TAIL,
    TO,
    UP,
    UP_LINK,
    UP_SWITCH,
    ZERO,
    Chunks,
    Network,
    Sends,
    Space,
    State,
    allow_all,
    leave_to_faster,
    pair_ports,
)

# What an event does, in its lowest bits.
LANDS = 1
FREES_UP = 2
FREES_DOWN = 4
KIND_BITS = 3

# Words are looked through in blocks, without a branch per word. The bit sets' rows are whole blocks.
_BLOCK_SHIFT = 2
BLOCK = 1 << _BLOCK_SHIFT
_BLOCK_MASK = np.uint64(BLOCK - 1)
# In how many words, from a random place on, useful chunks are counted, and from how many lacking chunks on that is worth it.
_COUNTED_SHIFT = 2
_COUNTED = 1 << _COUNTED_SHIFT
_FEW = 64

_U1 = np.uint64(1)
_U6 = np.uint64(6)
_U30 = np.uint64(30)
_U63 = np.uint64(63)
_U64 = np.uint64(64)

# A link's sort key among those into an NPU: speed rank, useful chunks, random bits, position.
_POSITION_BITS = 20
_POSITION = np.int64((1 << _POSITION_BITS) - 1)
_RANDOM_BITS = np.int64(((1 << 14) - 1) << _POSITION_BITS)
_COUNT_SHIFT = 34
_RANK_SHIFT = 43


@helper
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


@inlined
def _free_links_into(npu, now, random, unequal, network, state, picks):
    """Put the free direct links into an NPU into `picks`, in the order in which they choose; returns how many, and `random`.

    Fastest first, then fewest useful chunks, then at random. While the NPU lacks many chunks no link runs out of them, and
    counting is saved.
    """
    dst = np.uint64(npu)
    num_picks = np.int64(0)
    if state.lacking[dst] == 0:
        return num_picks, random
    few = state.lacking[dst] <= _FEW
    samples = ((len(state.copies) - 1) >> (6 + _COUNTED_SHIFT)) + 1
    random += GOLDEN
    bits = mix(random)
    word_from = np.uint64(below(bits, samples) << _COUNTED_SHIFT)
    in_from = network.npus[dst, IN]
    for slot in range(in_from, network.npus[dst + _U1, IN]):
        if state.link_free[np.uint64(network.ins[np.uint64(slot), IN_LINK])] > now:
            continue
        src = np.uint64(network.ins[np.uint64(slot), IN_SRC])
        useful = ZERO
        if few:
            for w in range(_COUNTED):
                word = word_from + np.uint64(w)
                useful += population(state.held[src, word] & ~state.taken[dst, word])
            if useful == ZERO and samples == 1:
                continue
        bits *= MIX_1
        picks[np.uint64(num_picks)] = (
            (network.ins[np.uint64(slot), IN_RANK] << _RANK_SHIFT)
            | (np.int64(useful) << _COUNT_SHIFT)
            | (np.int64(bits >> _U30) & _RANDOM_BITS)
            | (slot - in_from)
        )
        num_picks += 1
    if num_picks > 1 and (few or unequal):
        _sort(picks, num_picks)
    return num_picks, random


@inlined
def _find_useful(src, dst, block, blocks, state, allowed):
    """Words from a block on, as bits, that have a chunk of use, and the first of them; those with a rare chunk before others."""
    found = ZERO
    found_from = ZERO
    for _ in range(blocks):
        word_from = np.uint64(block << _BLOCK_SHIFT)
        some = ZERO
        seldom = ZERO
        for w in range(BLOCK):
            word = word_from + np.uint64(w)
            useful = state.held[src, word] & ~state.taken[dst, word] & allowed[word]
            some |= np.uint64(useful != ZERO) << np.uint64(w)
            seldom |= np.uint64(useful & state.rare[word] != ZERO) << np.uint64(w)
        if seldom != ZERO:
            return seldom, word_from
        if some != ZERO and found == ZERO:
            found = some
            found_from = word_from
        block += 1
        if block == blocks:
            block = 0
    return found, found_from


@inlined
def _choose_word(found, found_from, first):
    """One of the words that `_find_useful` found, from a random one on."""
    turn = np.uint64(first) & _BLOCK_MASK
    found |= found << np.uint64(BLOCK)
    return found_from + ((trailing_zeros(found >> turn) + turn) & _BLOCK_MASK)


@inlined
def _choose(word, bits, src, dst, state, allowed):
    """One of the useful chunks of a word, from a random bit on."""
    useful = state.held[src, word] & ~state.taken[dst, word] & allowed[word]
    if useful & state.rare[word] != ZERO:
        useful &= state.rare[word]
    turn = bits & _U63
    turned = (useful >> turn) | (useful << ((_U64 - turn) & _U63))
    return (word << _U6) | ((trailing_zeros(turned) + turn) & _U63)


@inlined
def _take(npu, chunk, rare_limit, network, state):
    """Count a chunk as taken by an NPU."""
    word = chunk >> _U6
    position = chunk & _U63
    bit = _U1 << position
    state.taken[np.uint64(npu), word] |= bit
    state.lacking[np.uint64(npu)] -= 1
    state.copies[chunk] += 1
    state.rare[word] &= ~(np.uint64(state.copies[chunk] > rare_limit) << position)
    for slot in range(network.groups.shape[1]):
        if network.groups[npu, slot] >= 0:
            state.group_taken[network.groups[npu, slot], word] |= bit


@inlined
def _queue_events(row, size, network, state, sends, heap_size):
    """Queue what the send in a row entails, and note its end; returns the size of the heap."""
    used = np.uint64(sends.channel[row])
    now = sends.start_ns[row]
    for part in range(PARTS + 3 * size, PARTS + 3 * size + 3):
        code = np.int64(network.channels[used, np.uint64(part)])
        if code == 0:
            break
        queue = np.uint64(code >> KIND_BITS)
        time = now + state.queues[queue, DELAY]
        if code & LANDS:
            sends.end_ns[row] = time - network.forward_ns[size]
        if code & FREES_UP:
            state.link_free[np.uint64(network.channels[used, LINK])] = time
        if code & FREES_DOWN:
            state.link_free[np.uint64(network.channels[used, DOWN])] = time
        tail = state.queues[queue, TAIL]
        if tail == state.queues[queue, HEAD]:
            heap_push(state.heap_ns, state.heap_queue, 0, heap_size, time, np.int64(queue))
            heap_size += 1
        state.ring[np.uint64(tail)] = (np.int64(row) << KIND_BITS) | (code & (LANDS | FREES_UP | FREES_DOWN))
        tail += 1
        state.queues[queue, TAIL] = tail if tail < state.queues[queue, TO] else state.queues[queue, FROM]
    return heap_size


@helper
def _find_rare(rare_limit, num_chunks, state):
    """Mark the chunks that have been taken `rare_limit` times or less."""
    for word in range(len(state.rare)):
        bits = ZERO
        for c in range(word << 6, (word + 1) << 6):
            if c < num_chunks and state.copies[c] <= rare_limit:
                bits |= _U1 << np.uint64(c & 63)
        state.rare[word] = bits


@inlined
def _list(place, num_todo, space):
    """Note that a place has to be looked at; returns how many have."""
    if not space.listed[place]:
        space.listed[place] = True
        space.todo[num_todo] = place
        num_todo += 1
    return num_todo


@inlined
def _list_around(npu, now, num_todo, network, state, space):
    """Note the places that the free links out of an NPU lead to."""
    for slot in range(network.npus[npu, OUT], network.npus[npu + 1, OUT]):
        if state.link_free[network.outs[slot, OUT_LINK]] <= now:
            num_todo = _list(np.int64(network.outs[slot, OUT_DST]), num_todo, space)
    for slot in range(network.npus[npu, UP], network.npus[npu + 1, UP]):
        if state.link_free[network.ups[slot, UP_LINK]] <= now:
            num_todo = _list(network.ups[slot, UP_SWITCH] + len(state.lacking), num_todo, space)
    return num_todo


@inlined
def _come_due(everywhere, num_todo, chunks, network, state, space, sends):
    """Let what comes due in the first queue of the heap land or become free, and note where to look.

    From many such events on, look everywhere instead. Returns when the queue's next event comes due (-1: it has none).
    """
    now, queue = state.heap_ns[0], state.heap_queue[0]
    is_late = queue == len(state.queues) - 1
    following_ns = np.int64(-1)
    at = state.queues[queue, HEAD]
    stop = state.queues[queue, TAIL]
    started = now - state.queues[queue, DELAY]
    ring_from = state.queues[queue, FROM]
    ring_to = state.queues[queue, TO]
    if not (is_late or everywhere):
        # Not where there are switches: they pair better when they are looked at only after a change.
        many = len(space.listed) if len(space.listed) == len(state.lacking) else len(sends.chunk)
        waiting = stop - at if at < stop else stop - at + ring_to - ring_from
        if waiting > many:
            ahead = at + many if at + many < ring_to else at + many - ring_to + ring_from
            everywhere = sends.start_ns[state.ring[ahead] >> KIND_BITS] == started
    while at != stop:
        chunk = up = down = np.int64(-1)
        npu = np.int64(0)
        if is_late:
            if chunks.late_ns[at] > now:
                following_ns = chunks.late_ns[at]
                break
            what = chunks.late_what[at]
            at += 1
            if what & 1:
                up = what >> 1
            else:
                chunk = what >> 1
                npu = np.int64(chunks.owner[chunk])
        else:
            event = state.ring[np.uint64(at)]
            row = np.uint64(event >> KIND_BITS)
            if sends.start_ns[row] != started:
                following_ns = sends.start_ns[row] + state.queues[queue, DELAY]
                break
            at += 1
            if at == ring_to:
                at = ring_from
            used = np.uint64(sends.channel[row])
            if event & LANDS:
                chunk = np.int64(sends.chunk[row])
                npu = np.int64(network.channels[used, DST])
            if event & FREES_UP:
                up = np.int64(network.channels[used, LINK])
            if event & FREES_DOWN:
                down = np.int64(network.channels[used, DOWN])
        if chunk >= 0:
            state.held[np.uint64(npu), np.uint64(chunk >> 6)] |= _U1 << np.uint64(chunk & 63)
        if everywhere:
            continue
        if chunk >= 0:
            num_todo = _list_around(npu, now, num_todo, network, state, space)
        if up >= 0:
            num_todo = _list(np.int64(network.link_place[up]), num_todo, space)
        if down >= 0:
            num_todo = _list(np.int64(network.link_place[down]), num_todo, space)
    state.queues[queue, HEAD] = at
    return following_ns, everywhere, num_todo


@kernel
def match(seed: int, chunks: Chunks, network: Network, state: State, space: Space, sends: Sends):
    """All-Gather of every chunk from its owner to every NPU; rows come out by ascending start. Whether all were reached."""
    num_chunks = len(chunks.owner)
    num_npus = len(state.lacking)
    num_places = len(space.listed)
    random = np.uint64(seed)
    rare_limit = np.int64(1)
    heap_size = np.int64(len(chunks.late_ns) > 0)
    num_todo = np.int64(num_places)
    everywhere = True
    blocks = state.held.shape[1] >> _BLOCK_SHIFT
    used_words = (num_chunks + 63) >> 6
    strict = False
    restricted = True
    unequal = False
    for slot in range(len(network.ins)):
        unequal = unequal or network.ins[slot, IN_RANK] > 0

    now = np.int64(0)
    rows = np.int64(0)
    while True:
        random += GOLDEN
        position = below(mix(random), num_todo)
        for _ in range(num_todo):
            place = position if everywhere else space.todo[position]
            position += 1
            if position == num_todo:
                position = 0
            space.listed[place] = False
            if place < num_npus:
                num_picks, random = _free_links_into(place, now, random, unequal, network, state, space.picks)
            else:
                random += GOLDEN
                num_picks = pair_ports(place - num_npus, mix(random), now, network, state, space)
                restricted = True

            npu = place
            rank = np.int64(0)
            for k in range(num_picks):
                channel = space.picks[np.uint64(k)]
                if place >= num_npus:
                    npu = np.int64(network.channels[channel, DST])
                    src = np.uint64(network.channels[channel, SRC])
                    limit_ns = network.switches[place - num_npus, SWITCH_NS]
                    level = network.switches[place - num_npus, SWITCH_LEVEL]
                    avoid = network.sources[network.npus[npu, SOURCE], SOURCE_NS] < limit_ns
                    prepare = avoid
                else:
                    slot = np.uint64(network.npus[npu, IN] + (channel & _POSITION))
                    prepare = channel >> _RANK_SHIFT != rank
                    rank = channel >> _RANK_SHIFT
                    channel = network.ins[slot, IN_CHANNEL]
                    src = np.uint64(network.ins[slot, IN_SRC])
                    limit_ns = network.ins[slot, IN_NS]
                    level = network.ins[slot, IN_LEVEL]
                    avoid = rank > 0
                if prepare:
                    strict = leave_to_faster(npu, level, limit_ns, network, state, space)
                    restricted = True
                elif restricted and not avoid:
                    restricted = False
                    allow_all(space)

                # A useful chunk from a random block of words on: those that faster links cannot bring first, rare ones first.
                dst = np.uint64(npu)
                random += GOLDEN
                bits = mix(random)
                first = below(bits, used_words)
                while True:
                    found, found_from = _find_useful(src, dst, first >> _BLOCK_SHIFT, blocks, state, space.allowed)
                    if found != ZERO or not avoid or strict:
                        break
                    # Nothing but what faster links could bring too, though not in time.
                    avoid = False
                    restricted = False
                    rank = np.int64(-1)
                    allow_all(space)
                if found == ZERO:
                    continue
                chunk = _choose(_choose_word(found, found_from, first), bits, src, dst, state, space.allowed)
                _take(npu, chunk, rare_limit, network, state)
                row = np.uint64(rows)
                sends.chunk[row] = chunk
                sends.channel[row] = channel
                sends.start_ns[row] = now
                heap_size = _queue_events(row, np.int64(chunks.chunk_class[chunk]), network, state, sends, heap_size)
                rows += 1
                if rows == rare_limit * num_chunks:  # the mean number of copies has grown by one
                    rare_limit += 1
                    _find_rare(rare_limit, num_chunks, state)
        num_todo = np.int64(0)
        everywhere = False
        if rows == len(sends.chunk):
            return True
        if heap_size == 0:
            return False

        # Next instant: everything that comes due.
        now = state.heap_ns[0]
        while heap_size > 0 and state.heap_ns[0] == now:
            queue = state.heap_queue[0]
            following_ns, everywhere, num_todo = _come_due(everywhere, num_todo, chunks, network, state, space, sends)
            if following_ns < 0:
                heap_size -= 1
                following_ns = state.heap_ns[heap_size]
                queue = state.heap_queue[heap_size]
            heap_replace_first(state.heap_ns, state.heap_queue, 0, heap_size, following_ns, queue)
        if everywhere:
            num_todo = np.int64(num_places)
