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

A rank may stand for all ranks that translations of the network move it to (`replayer.by_class`). Then the order of two things at
one instant has to be the same for all of them. Events get stamps: two events of one instant have the same stamp if, and only if,
the events that made them happened at one instant with one stamp. Ranks begin with one stamp. Events of different stamps come in
the order of stamps, wherever they happen. Those of one stamp come in an order that depends on the numbers of ranks, unless they
are one *atom*: what one event makes happen on one rank. So atoms of one stamp must not touch a thing (a link, a key, a slot, a
pool, a set of ready nodes) in ways whose order counts. `touches` notes who touched what. Where the order of atoms does not count
for what a rank has done after all of them, it does not count later either, as what they make has one stamp.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.replayer._run_table_kernels import (
    AHEAD,
    ATOM,
    CLASH,
    COLLECTIVE,
    COMPUTE,
    CULPRIT,
    DONE,
    ENDS_AT_ZERO,
    FINISHED,
    FIRED,
    FREE_BATCH,
    FREE_EVENT,
    FREE_MESSAGE,
    FREE_WAIT,
    FULL,
    HANDED_OVER,
    IN_FLIGHT,
    ISSUED,
    LATEST_ADDER,
    LATEST_NS,
    LATEST_STAMP,
    MEMORY,
    MISNUMBERED,
    NATIVE,
    NEXT,
    NO_SLOT,
    NONE,
    NOW,
    NUM_RECORDS,
    OF_BATCHES,
    OF_KEYS,
    OF_PICKS,
    OF_POOLS,
    OF_ROWS,
    OF_SETS,
    OF_SLOTS,
    OUT_HEAD,
    OUT_OF_TIME,
    OUT_TAIL,
    PAUSED,
    POST,
    PULSE,
    PUT,
    RANKS_DONE,
    RECEIVE,
    SEND,
    SKIP,
    SLOTS,
    STAMP,
    TAKE,
    UNORDERED,
    UNTOUCHED,
    USED_BATCHES,
    USED_EVENTS,
    USED_MESSAGES,
    USED_WAITS,
    WAIT,
    hash_order,
)
from astra_tacos.support.kernels.compiled import helper, inlined
from astra_tacos.support.kernels.shared import bit_length, heap_drop_first, heap_push

# What an event does, in its lowest bits; above them is a message, link, live node or batch.
ARRIVES = 0
_FREES_LINK = 1
_RECEIVES = 2
_ELAPSES = 3

_NOTHING = np.int64(NONE)
_LATER = np.int64(-2)


_SHARED = -1
_MANY = -3
_FIRST_TO_COME = -4
_LOOKS = -5
# Ways to touch a key: a send, a receive, an arrival; a pool: TAKE, PUT, PULSE; a set of ready nodes: it is used, it grows.
_SENDS, _TAKES, _ORDERS = 1, 1, 1
_ASKS, _PUTS, _GROWS = 2, 2, 2
_COMES, _PULSES = 4, 4


@inlined
def _touch(at, way, against, state):
    """Touch a thing in a way whose order counts against these ways of other atoms of this stamp."""
    if state.touches[at].stamp != state.scalar[STAMP]:
        state.touches[at].stamp = state.scalar[STAMP]
        state.touches[at].atom = state.scalar[ATOM]
        state.touches[at].what = way
        return
    if state.touches[at].atom != state.scalar[ATOM]:
        if state.touches[at].what & against:
            state.scalar[CLASH] = at
        state.touches[at].atom = _SHARED
    state.touches[at].what |= way


@inlined
def _touch_link(message, code, state):
    """A message comes to a link, where the order counts."""
    _touch(np.int64(code.hop_link[state.messages[message].hop]), 1, 1, state)


@inlined
def _claim(at, subject, state):
    """Touch a thing on behalf of a subject: other atoms of this stamp may do so on behalf of the same one only."""
    if state.touches[at].stamp != state.scalar[STAMP]:
        state.touches[at].stamp = state.scalar[STAMP]
        state.touches[at].atom = state.scalar[ATOM]
        state.touches[at].what = subject
    elif state.touches[at].what != subject:
        if state.touches[at].atom != state.scalar[ATOM]:
            state.scalar[CLASH] = at
        state.touches[at].what = _MANY
    elif state.touches[at].atom != state.scalar[ATOM]:
        state.touches[at].atom = _SHARED


@inlined
def _place_of_batch(batch_table, batches, rank, end_ns):
    """Where the batch of a rank and an instant is in the table, or would be."""
    mask = len(batch_table) - 1
    mixed = (np.uint64(end_ns) + np.uint64(rank) * np.uint64(7046029254386353131)) * np.uint64(2685821657736338717)
    place = np.int64(mixed >> np.uint64(24)) & mask
    while True:
        batch = batch_table[place]
        if batch == NONE or (batches[batch].ns == end_ns and batches[batch].rank == rank):
            return place
        place = (place + 1) & mask


@helper
def _forget_batch(batch_table, batches, rank, end_ns):
    """Take a batch out of the table, and move up those that it kept from their places."""
    mask = len(batch_table) - 1
    hole = _place_of_batch(batch_table, batches, rank, end_ns)
    batch_table[hole] = NONE
    place = (hole + 1) & mask
    while batch_table[place] != NONE:
        batch = batch_table[place]
        batch_table[place] = NONE
        batch_table[_place_of_batch(batch_table, batches, np.int64(batches[batch].rank), batches[batch].ns)] = batch
        place = (place + 1) & mask


@inlined
def push_event(ns, what, now, state):
    """Put an event into its queue, by the highest bit in which its time differs from now."""
    event = state.scalar[FREE_EVENT]
    if event == NONE:
        event = state.scalar[USED_EVENTS]
        state.scalar[USED_EVENTS] += 1
    else:
        state.scalar[FREE_EVENT] = state.events[event].then
    state.events[event].ns = ns
    state.events[event].code = what
    state.events[event].stamp = state.scalar[STAMP]
    _append_due(event, ns ^ now, state)


@inlined
def _append_due(event, differs, state):
    bit = bit_length(differs)
    state.events[event].then = NONE
    if state.due_head[bit] == NONE:
        state.due_head[bit] = event
    else:
        state.events[state.due_tail[bit]].then = event
    state.due_tail[bit] = event


@inlined
def _next_event(now, until_ns, state):
    """What the next event does, and when; -1 if there is none. The event is free again.

    Returns -2 if the event comes after `until_ns`; it stays, and `scalar[NEXT]` says when it comes.
    """
    before = now
    if state.due_head[0] == NONE:
        # Of the events that differ from now in the lowest bit, the earliest are next; sort those events anew.
        bit = np.int64(1)
        while bit < 65 and state.due_head[bit] == NONE:
            bit += 1
        if bit == 65:
            return _NOTHING, now
        event = np.int64(state.due_head[bit])
        earliest = state.events[event].ns
        while event != NONE:
            earliest = min(earliest, state.events[event].ns)
            event = np.int64(state.events[event].then)
        if earliest > until_ns:
            state.scalar[NEXT] = earliest
            return _LATER, now
        now = earliest
        event = np.int64(state.due_head[bit])
        state.due_head[bit] = NONE
        while event != NONE:
            following = np.int64(state.events[event].then)
            _append_due(event, state.events[event].ns ^ now, state)
            event = following
    event = np.int64(state.due_head[0])
    state.due_head[0] = state.events[event].then
    state.events[event].then = state.scalar[FREE_EVENT]
    state.scalar[FREE_EVENT] = event
    if state.events[event].stamp != state.scalar[LATEST_STAMP] or now != before:
        state.scalar[LATEST_STAMP] = state.events[event].stamp
        state.scalar[STAMP] += 1
    state.scalar[ATOM] += 2
    state.scalar[LATEST_ADDER] = -2
    return state.events[event].code, now


@inlined
def _transmit(message, now, code, state):
    """Have a message cross its next link, or queue there; returns DONE, OUT_OF_TIME or ENDS_AT_ZERO.

    Without links it crosses the network at once, in its pair's time. Where another kernel carries it, it joins the list for that.
    """
    if code.hands_over:
        state.messages[message].then = NONE
        if state.scalar[OUT_HEAD] == NONE:
            state.scalar[OUT_HEAD] = message
        else:
            state.messages[state.scalar[OUT_TAIL]].then = message
        state.scalar[OUT_TAIL] = message
        return DONE
    size = state.messages[message].size
    pair = code.address[state.messages[message].place].pair
    if len(code.hop_link) == 0:
        takes = code.pair_latency_ns[pair] + size / code.pair_bytes_per_ns[pair]
        if not takes < LATEST_NS:
            return OUT_OF_TIME
        end = now + np.int64(takes)
        if end == 0:
            state.scalar[CULPRIT] = message
            return ENDS_AT_ZERO
        if end >= LATEST_NS:
            return OUT_OF_TIME
        push_event(end, 4 * message + ARRIVES, now, state)
        return DONE
    link = np.int64(code.hop_link[state.messages[message].hop])
    if state.link_busy[link]:
        state.messages[message].then = NONE
        if state.link_head[link] == NONE:
            state.link_head[link] = message
        else:
            state.messages[state.link_tail[link]].then = message
        state.link_tail[link] = message
        return DONE
    state.link_busy[link] = True
    state.link_origin[link] = state.messages[message].origin
    serialisation = size / code.link_bytes_per_ns[link]
    if not code.link_latency_ns[link] + serialisation < LATEST_NS:
        return OUT_OF_TIME
    held = np.int64(serialisation)
    state.link_bytes[link] += size
    state.link_busy_ns[link] += held
    if len(state.record_link) > 0:
        record = state.scalar[NUM_RECORDS]
        state.scalar[NUM_RECORDS] += 1
        state.record_link[record] = link
        state.record_size[record] = size
        state.record_pair[record] = pair
        state.record_start_ns[record] = now
    end = now + np.int64(code.link_latency_ns[link] + serialisation)
    if now + held == 0 or end == 0:
        state.scalar[CULPRIT] = message
        return ENDS_AT_ZERO
    if end >= LATEST_NS or now + held >= LATEST_NS:
        return OUT_OF_TIME
    push_event(end, 4 * message + ARRIVES, now, state)
    push_event(now + held, 4 * link + _FREES_LINK, now, state)
    return DONE


@inlined
def _arrive(message, code, state):
    """A message is at the end of a link: returns it if it moves on, and what finishes with it, in this order."""
    if len(code.hop_link) > 0:
        state.messages[message].hop += 1
        if code.hop_link[state.messages[message].hop] != NONE:
            if len(state.touches) > 0:
                _touch_link(message, code, state)
            return message, _NOTHING, _NOTHING
    if len(state.touches) > 0:
        _touch(state.scalar[OF_KEYS] + code.address[state.messages[message].place].key, _COMES, _ASKS, state)
    finished = np.int64(state.messages[message].live)
    finished_next = np.int64(state.messages[message].mate)
    if finished_next == NONE:
        # Messages of one key arrive in order, so it is the first on its way.
        place = np.int64(code.address[state.messages[message].place].key)
        state.keys[place].head = state.messages[message].key_then
        state.keys[place].arrived += 1
    state.messages[message].then = state.scalar[FREE_MESSAGE]
    state.scalar[FREE_MESSAGE] = message
    state.scalar[IN_FLIGHT] -= 1
    if finished == NONE:
        return _NOTHING, finished_next, _NOTHING
    state.scalar[ATOM] += 1  # on the rank that sent it, which need not be that of the representative that receives one
    return _NOTHING, finished, finished_next


@inlined
def _wait_until(live, end, rank, now, code, state):
    """Have a live node or server wait, together with all else that the rank waits for until that instant.

    Returns DONE, OUT_OF_TIME or ENDS_AT_ZERO.
    """
    wait = state.scalar[FREE_WAIT]
    if wait == NONE:
        wait = state.scalar[USED_WAITS]
        state.scalar[USED_WAITS] += 1
    else:
        state.scalar[FREE_WAIT] = state.wait_then[wait]
    state.wait_live[wait] = live
    state.wait_then[wait] = NONE
    state.wait_atom[wait] = state.scalar[ATOM]
    place = _place_of_batch(state.batch_table, state.batches, rank, end)
    batch = np.int64(state.batch_table[place])
    if end == now and len(state.touches) > 0 and state.scalar[LATEST_ADDER] == -2:
        # A batch of this instant and stamp comes before this or after, and takes it along or does not.
        waits = batch != NONE and state.batches[batch].stamp == state.scalar[LATEST_STAMP]
        if waits or state.touches[state.scalar[OF_BATCHES] + rank].stamp == state.scalar[STAMP]:
            state.scalar[CLASH] = state.scalar[OF_SLOTS] + rank * SLOTS
    if batch != NONE:
        state.wait_then[state.batches[batch].tail] = wait
        state.batches[batch].tail = wait
        return DONE
    batch = state.scalar[FREE_BATCH]
    if batch == NONE:
        batch = state.scalar[USED_BATCHES]
        state.scalar[USED_BATCHES] += 1
    else:
        state.scalar[FREE_BATCH] = state.batches[batch].head
    state.batch_table[place] = batch
    state.batches[batch].ns = end
    state.batches[batch].rank = rank
    state.batches[batch].head = wait
    state.batches[batch].tail = wait
    state.batches[batch].stamp = state.scalar[STAMP]
    if end >= LATEST_NS:
        return OUT_OF_TIME
    if end == 0 and not code.hands_over:
        # The event queue of ASTRA-sim's analytical backends takes no event at time 0. That of ns-3 does.
        state.scalar[CULPRIT] = -1 - rank
        return ENDS_AT_ZERO
    push_event(end, 4 * batch + _ELAPSES, now, state)
    return DONE


@inlined
def _next_of_batch(batch, num_live, state):
    """The next of those that waited together (-1: the one before has just been freed), and the batch, -1 once it is over.

    The ones before may have added others.
    """
    wait = np.int64(state.batches[batch].head)
    if wait == NONE:
        _forget_batch(state.batch_table, state.batches, np.int64(state.batches[batch].rank), state.batches[batch].ns)
        state.batches[batch].head = state.scalar[FREE_BATCH]
        state.scalar[FREE_BATCH] = batch
        return _NOTHING, _NOTHING
    live = np.int64(state.wait_live[wait])
    if live >= 0:
        if state.wait_atom[wait] != state.scalar[LATEST_ADDER]:
            state.scalar[LATEST_ADDER] = state.wait_atom[wait]
            state.scalar[ATOM] += 2
        state.wait_live[wait] = NONE
    else:
        state.batches[batch].head = state.wait_then[wait]
        state.wait_then[wait] = state.scalar[FREE_WAIT]
        state.scalar[FREE_WAIT] = wait
    return live, batch


@inlined
def _access_memory(live, rank, code, state):
    """Have a live node use the rank's memory: returns whether it may begin, and the server that it occupies, -1 if none."""
    memory = np.int64(code.server[rank])
    if memory == NONE:
        return True, memory
    if not state.server_busy[memory]:
        state.server_busy[memory] = True
        state.server_origin[memory] = state.lives[live].origin
        return True, memory
    state.lives[live].then = NONE
    if state.server_head[memory] == NONE:
        state.server_head[memory] = live
    else:
        state.lives[state.server_tail[memory]].then = live
    state.server_tail[memory] = live
    return False, memory


@inlined
def _release_memory(memory, state):
    """The live node that a memory serves next, -1 if none waits."""
    head = np.int64(state.server_head[memory])
    if head == NONE:
        state.server_busy[memory] = False
    else:
        state.server_head[memory] = state.lives[head].then
        state.lives[head].origin = state.server_origin[memory]
    return head


@inlined
def _send(live, row, place, rank, code, state):
    """The message that a node sends, joined to the receive that waits for it."""
    number = np.int64(code.address[place].key)
    state.rank_sent_bytes[rank] += code.nodes[row].amount
    message = state.scalar[FREE_MESSAGE]
    if message == NONE:
        message = state.scalar[USED_MESSAGES]
        state.scalar[USED_MESSAGES] += 1
    else:
        state.scalar[FREE_MESSAGE] = state.messages[message].then
    state.scalar[IN_FLIGHT] += 1
    state.messages[message].live = live
    state.messages[message].size = code.nodes[row].amount
    state.messages[message].place = place
    state.messages[message].origin = state.lives[live].origin
    state.messages[message].mate = NONE
    head = np.int64(state.keys[number].head)
    if head >= 0:
        state.keys[number].head = state.lives[head].then
        state.messages[message].mate = head
    else:
        state.messages[message].key_then = NONE
        if head == NONE:
            state.keys[number].head = -2 - message
        else:
            state.messages[state.keys[number].tail].key_then = -2 - message
        state.keys[number].tail = message
    if len(code.hop_link) > 0:
        state.messages[message].hop = code.pair_hop[code.address[place].pair]
    if len(state.touches) > 0:
        _touch(state.scalar[OF_KEYS] + number, _SENDS, _SENDS, state)
        if len(code.hop_link) > 0:
            _touch_link(message, code, state)
    if code.nodes[row].action == POST:
        state.messages[message].live = NONE
        state.lives[live].state = FINISHED
        state.running[rank] -= 1
    return message


@inlined
def _receive(live, place, code, state):
    """Have a node wait for its message; returns whether it has arrived already."""
    number = np.int64(code.address[place].key)
    head = np.int64(state.keys[number].head)
    if len(state.touches) > 0:
        _touch(state.scalar[OF_KEYS] + number, _ASKS, _ASKS | _COMES, state)
    if state.keys[number].arrived > 0:
        state.keys[number].arrived -= 1
        return True
    if head < NONE:
        message = -2 - head
        state.keys[number].head = state.messages[message].key_then
        state.messages[message].mate = live
        return False
    state.lives[live].then = NONE
    if head == NONE:
        state.keys[number].head = live
    else:
        state.lives[state.keys[number].tail].then = live
    state.keys[number].tail = live
    return False


@inlined
def _begin_collective(row, rank, code, state):
    """Lay out a rank's part of a collective; returns its template, or -1 if its messages would be MISNUMBERED."""
    cast = np.int64(code.custom[row])
    shared = code.plan[row]
    if shared != NONE:
        if state.plan_choice[shared] == NONE:
            state.plan_choice[shared] = cast if cast != NONE else NATIVE
        cast = np.int64(state.plan_choice[shared])
    template = np.int64(code.native_template[row])
    if cast < 0:
        cast = np.int64(code.native[row])
    else:
        template = np.int64(code.cast_template[cast]) + code.position[row]
    state.ran[row] = cast
    if shared == NONE and code.custom[row] < 0:
        # Messages of such a collective carry a number that counts all streams of the rank, also those of groups.
        if state.stream_number[state.turn[rank]] == NONE:
            state.stream_number[state.turn[rank]] = state.streams[rank]
        elif state.stream_number[state.turn[rank]] != state.streams[rank]:
            state.scalar[CULPRIT] = row
            return _NOTHING
        state.turn[rank] += 1
    state.streams[rank] += code.cast_streams[cast]
    state.parent[rank] = row
    row_first = code.template_first[template]
    block = code.block_first[rank]
    state.shift[rank] = row_first - block
    state.key_shift[rank] = code.cast_shift[cast]
    state.level[rank] = code.set_level[template]
    state.is_hashed[rank] = code.hashed[template]
    for i in range(code.template_first[template + 1] - row_first):
        state.lives[block + i].waits = code.num_waits[row_first + i]
        state.lives[block + i].state = UNTOUCHED
    for i in range(rank * code.num_pools, (rank + 1) * code.num_pools):
        state.pool_tokens[i] = 0
        state.pool_head[i] = NONE
    return template


@inlined
def _free_roots(template, rank, code, state):
    """Put the nodes of a collective that wait for none into `freed`; returns how many."""
    first = code.root_first[template]
    num_freed = code.root_first[template + 1] - first
    for i in range(num_freed):
        state.freed[i] = code.root[first + i] - state.shift[rank]
    return num_freed


@inlined
def _use_token(live, row, rank, next_freed, num_freed, code, state):
    """Take, put or pulse a token, which takes no time.

    What that lets go of is issued next, before the rest of what is to be issued: returns where that begins and ends in `freed`.
    """
    at = rank * code.num_pools + code.nodes[row].amount
    act = code.nodes[row].action
    over = np.int64(live)
    head = np.int64(state.pool_head[at])
    if len(state.touches) > 0:
        way = _TAKES if act == TAKE else _PUTS if act == PUT else _PULSES
        _touch(state.scalar[OF_POOLS] + at, way, 7 if act == TAKE else 7 - way, state)
    if act == TAKE:
        if state.pool_tokens[at] > 0:
            state.pool_tokens[at] -= 1
        else:
            over = _NOTHING
            state.lives[live].then = NONE
            if head == NONE:
                state.pool_head[at] = live
            else:
                state.lives[state.pool_tail[at]].then = live
            state.pool_tail[at] = live
    elif head == NONE and act == PUT:
        state.pool_tokens[at] += 1
    taker = _NOTHING
    if act != TAKE and head != NONE:
        state.pool_head[at] = state.lives[head].then
        taker = head
    loose = state.scratch[0]
    num_loose = 0
    while over != NONE:
        state.lives[over].state = FINISHED
        state.running[rank] -= 1
        row = over + state.shift[rank]
        for i in range(code.nodes[row].child_first, code.nodes[row + 1].child_first):
            child = code.child[i] - state.shift[rank]
            state.lives[child].waits -= 1
            if state.lives[child].waits == 0:
                loose[num_loose] = child
                num_loose += 1
        over = taker
        taker = _NOTHING
    if num_loose <= next_freed:  # there is room where those stood that were issued
        next_freed -= num_loose
    else:
        for i in range(num_freed - 1, next_freed - 1, -1):
            state.freed[i + num_loose] = state.freed[i]
        num_freed += num_loose
    for i in range(num_loose):
        state.freed[next_freed + i] = loose[i]
    return next_freed, num_freed


@inlined
def _end_of_workload_node(live, rank, num_fresh, code, state):
    """A node of the workload is over: put those that it sets free into `fresh`; returns how many are there."""
    state.ongoing[rank] -= 1
    if code.slot[live] != NO_SLOT:
        state.in_flight[rank * SLOTS + code.slot[live]] -= 1
    if len(state.touches) > 0:
        at = state.scalar[OF_SLOTS] + rank * SLOTS
        _claim(at + NO_SLOT, live if code.nodes[live].action == SKIP else _LOOKS, state)
        if code.slot[live] != NO_SLOT:
            state.touches[at + code.slot[live]].stamp = state.scalar[STAMP]
            state.touches[at + code.slot[live]].atom = state.scalar[ATOM]
        for i in range(code.nodes[live].child_first, code.nodes[live + 1].child_first):
            _touch(state.scalar[OF_ROWS] + code.child[i], 0, 0, state)
    for i in range(code.nodes[live].child_first, code.nodes[live + 1].child_first):
        child = np.int64(code.child[i])
        state.lives[child].waits -= 1
        if state.lives[child].waits == 0:
            state.ready[rank] += 1
            state.fresh[num_fresh] = child
            num_fresh += 1
    return num_fresh


@inlined
def _end_of_collective_node(live, rank, code, state):
    """A node of a collective is over: put those that it sets free into `freed`, in the order of issue; returns how many."""
    state.running[rank] -= 1
    row = live + state.shift[rank]
    num_freed = np.int64(0)
    for i in range(code.nodes[row].child_first, code.nodes[row + 1].child_first):
        child = code.child[i] - state.shift[rank]
        state.lives[child].waits -= 1
        if state.lives[child].waits == 0:
            state.freed[num_freed] = code.child[i]
            num_freed += 1
    if num_freed > 1 and state.is_hashed[rank]:
        before = state.level[rank]
        state.level[rank] = hash_order(code.node_id, state.freed[:num_freed], state.level[rank], state.bucket, state.scratch)
        if len(state.touches) > 0:
            grows = state.level[rank] != before
            _touch(state.scalar[OF_SETS] + rank, _GROWS if grows else _ORDERS, _ORDERS | _GROWS if grows else _GROWS, state)
    for i in range(num_freed):
        state.freed[i] -= state.shift[rank]
    return num_freed


@inlined
def _file(rank, num_fresh, code, state):
    """Put the nodes in `fresh` into the heaps of their slots."""
    for i in range(num_fresh):
        row = np.int64(state.fresh[i])
        at = rank * SLOTS + code.slot[row]
        order = code.order[row]
        if len(state.touches) > 0 and code.slot[row] != NO_SLOT:
            pick = state.scalar[OF_PICKS] + at
            made = state.scalar[OF_ROWS] + row
            if state.touches[pick].stamp == state.scalar[STAMP] and state.touches[pick].atom != state.touches[made].atom:
                if order < state.touches[pick].what or state.touches[pick].what == _FIRST_TO_COME:
                    state.scalar[CLASH] = pick
        heap_push(state.heap, state.heap, code.heap_first[at], np.int64(state.heap_size[at]), order, order)
        state.heap_size[at] += 1


@inlined
def _note_pick(row, order, rank, at, code, state):
    """Note why a slot gets a node, which must not depend on the order of the atoms of this stamp.

    Nodes that were ready before, or are made so by the atom that frees the slot, are there whatever the order is. The lowest id
    of these is picked unless another atom makes a lower one ready. Without any, the first to come is picked, so only one atom
    may make nodes ready.
    """
    slot, pick, made = state.scalar[OF_SLOTS] + at, state.scalar[OF_PICKS] + at, state.scalar[OF_ROWS] + row
    atom = state.scalar[ATOM]
    frees = state.touches[slot].stamp == state.scalar[STAMP] and state.touches[slot].atom == atom
    is_old = state.touches[made].stamp != state.scalar[STAMP]
    state.touches[pick].stamp = state.scalar[STAMP]
    state.touches[pick].what = _FIRST_TO_COME
    state.touches[pick].atom = atom if is_old else state.touches[made].atom
    if frees and (is_old or state.touches[made].atom == atom):
        state.touches[pick].what = order
        state.touches[pick].atom = atom
    else:
        for i in range(state.heap_size[at]):
            other = state.scalar[OF_ROWS] + code.by_order[code.template_first[rank] + state.heap[code.heap_first[at] + i]]
            is_new = state.touches[other].stamp == state.scalar[STAMP]
            differs = state.touches[other].atom != state.touches[made].atom or state.touches[made].atom == _SHARED
            if is_new == is_old or (is_new and differs):
                state.scalar[CLASH] = pick


@inlined
def _next_of_workload(rank, code, state):
    """Take the ready node of a rank of the lowest id whose slot is free out of its heap; -1 if there is none."""
    best = _NOTHING
    best_slot = 0
    for which in range(SLOTS):
        at = rank * SLOTS + which
        if state.heap_size[at] > 0 and (which == NO_SLOT or state.in_flight[at] == 0):
            top = np.int64(state.heap[code.heap_first[at]])
            if best == NONE or top < best:
                best = top
                best_slot = which
    if best == NONE:
        return best
    at = rank * SLOTS + best_slot
    state.heap_size[at] -= 1
    heap_drop_first(state.heap, state.heap, code.heap_first[at], np.int64(state.heap_size[at]))
    row = np.int64(code.by_order[code.template_first[rank] + best])
    if len(state.touches) > 0 and best_slot != NO_SLOT:
        _note_pick(row, best, rank, at, code, state)
    return row


@inlined
def _issue(live, origin, now, code, state):
    """Count a live node as issued; returns its row, the place of its message's address, and its rank."""
    rank = np.int64(state.lives[live].rank)
    of_workload = live < len(code.slot)
    row = live if of_workload else live + state.shift[rank]
    place = row if of_workload else row + state.key_shift[rank]
    state.lives[live].state = ISSUED
    state.lives[live].origin = origin
    if live < len(state.issue_ns):
        state.issue_ns[live] = now
    if of_workload:
        state.ready[rank] -= 1
        state.ongoing[rank] += 1
        if code.slot[row] != NO_SLOT:
            state.in_flight[rank * SLOTS + code.slot[row]] += 1
    else:
        state.running[rank] += 1
    return row, place, rank


@inlined
def _begin_rank(rank, code, state):
    """Put the nodes of a rank that wait for none into `fresh`; returns how many."""
    state.scalar[FIRED] += 1
    state.scalar[ATOM] += 2
    first = code.root_first[rank]
    num_fresh = np.int64(code.root_first[rank + 1] - first)
    for i in range(num_fresh):
        state.fresh[i] = code.root[first + i]
    state.ready[rank] += num_fresh
    return num_fresh


@inlined
def _happen(what, code, state):
    """What follows an event: a message that comes to a link, what finishes (in this order), a batch whose time has come, each -1
    if none; and why the first of these happens.
    """
    number = what >> 2
    kind = what & 3
    moving = _NOTHING
    finished = _NOTHING
    finished_next = _NOTHING
    batch = _NOTHING
    origin = _NOTHING
    if kind == ARRIVES:
        origin = np.int64(state.messages[number].origin)
        moving, finished, finished_next = _arrive(number, code, state)
    elif kind == _FREES_LINK:
        state.link_busy[number] = False
        moving = np.int64(state.link_head[number])
        if moving != NONE:
            state.link_head[number] = state.messages[moving].then
            state.messages[moving].origin = state.link_origin[number]
    elif kind == _RECEIVES:
        finished = number
        origin = np.int64(state.lives[number].origin)
    else:
        batch = number
        if len(state.touches) > 0:
            state.touches[state.scalar[OF_BATCHES] + state.batches[number].rank].stamp = state.scalar[STAMP]
    return moving, finished, finished_next, batch, origin


@helper
def advance_until(until_ns, code, state, max_events):
    """Replay up to `max_events` events, and to those at `until_ns`; returns how that ended (`_packet_kernels.advance`).

    It may also return AHEAD, or HANDED_OVER after an instant that sent messages.
    """
    num_ranks = len(state.ready)
    num_rows = len(code.slot)  # of the workload: live nodes from here on belong to collectives
    num_live = len(state.lives)
    room = len(state.messages) - 2 * len(state.freed)

    now = state.scalar[NOW]
    num_events = 0
    status = DONE
    moving = _NOTHING  # a message that comes to a link
    finished = _NOTHING  # live nodes that are over
    finished_next = _NOTHING
    # Live nodes to be issued.
    num_freed = np.int64(0)
    next_freed = np.int64(0)
    # Rank whose collective may be over once they are issued.
    closing = _NOTHING
    # Rank that looks for nodes of its workload to issue. Nodes set free are filed first; those set free by nodes that are
    # over at once are filed after the look, and wait for the next one.
    looking = _NOTHING
    filing = _NOTHING
    num_fresh = np.int64(0)
    nested = False
    deferred = _NOTHING
    batch = _NOTHING
    waiting = _NOTHING  # a live node or server entry that waits `wait_ns`
    wait_ns = np.int64(0)
    wait_rank = _NOTHING
    wait_more = _NOTHING
    # Why things happen: the row of the workload with whose issue the events began that led to what happens now, the same of
    # `finished` and `finished_next`, and the row whose end has a rank look for nodes.
    origin = _NOTHING
    finished_origin = _NOTHING
    next_origin = _NOTHING
    ended = _NOTHING
    receiving = _NOTHING  # what finishes on the rank that a message came to

    # One step a turn, deepest work first, so that each step's code stands here once.
    while status == DONE:
        if moving != NONE:
            message = moving
            moving = _NOTHING
            status = _transmit(message, now, code, state)
        elif waiting != NONE:
            status = _wait_until(waiting, now + wait_ns, wait_rank, now, code, state)
            waiting = wait_more
            wait_more = _NOTHING
        elif next_freed < num_freed:
            live = state.freed[next_freed]
            next_freed += 1
            of_workload = live < num_rows
            if of_workload:
                origin = live
                state.cause[live] = ended
            row, place, rank = _issue(live, origin, now, code, state)
            act = code.nodes[row].action
            if act == SEND or act == POST:
                moving = _send(live, row, place, rank, code, state)
            elif act == RECEIVE:
                if _receive(live, place, code, state):
                    if now == 0 and not code.hands_over:
                        state.scalar[CULPRIT] = -1 - rank
                        status = ENDS_AT_ZERO
                    else:
                        push_event(now, 4 * live + _RECEIVES, now, state)
            elif act == COMPUTE or act == WAIT:
                if of_workload and code.counts[row]:
                    state.rank_compute_ns[rank] += code.nodes[row].amount
                waiting = live
                wait_ns = code.nodes[row].amount
                wait_rank = rank
            elif act == COLLECTIVE:
                template = _begin_collective(row, rank, code, state)
                if template == NONE:
                    status = MISNUMBERED
                elif nested and not code.starts_at_once:
                    deferred = template
                else:
                    num_freed = _free_roots(template, rank, code, state)
                    next_freed = np.int64(0)
                    closing = rank
            elif act == TAKE or act == PUT or act == PULSE:
                next_freed, num_freed = _use_token(live, row, rank, next_freed, num_freed, code, state)
            elif act == SKIP:
                # Over at once; what it sets free is seen at the rank's next look.
                state.lives[live].state = FINISHED
                state.finish_ns[live] = now
                state.entered[live] = live
                num_fresh = _end_of_workload_node(live, rank, num_fresh, code, state)
            elif act == MEMORY:
                begins, memory = _access_memory(live, rank, code, state)
                if begins:
                    waiting = live
                    wait_ns = code.nodes[row].amount
                    wait_rank = rank
                    if memory != NONE:
                        wait_more = num_live + memory
        elif closing != NONE:
            rank = closing
            closing = _NOTHING
            if state.running[rank] == 0:
                finished_next = finished
                next_origin = finished_origin
                finished = np.int64(state.parent[rank])
                finished_origin = origin
                state.parent[rank] = NONE
        elif filing != NONE:
            _file(filing, num_fresh, code, state)
            filing = _NOTHING
            num_fresh = np.int64(0)
        elif looking != NONE:
            rank = looking
            row = _next_of_workload(rank, code, state)
            next_freed = np.int64(0)
            if row != NONE:
                state.freed[0] = row
                num_freed = np.int64(1)
            else:
                num_freed = np.int64(0)
                looking = _NOTHING
                filing = rank
                if state.ready[rank] == 0 and state.ongoing[rank] == 0 and state.rank_finish_ns[rank] < 0:
                    state.rank_finish_ns[rank] = now
                    state.scalar[RANKS_DONE] += 1
                if deferred != NONE:
                    origin = np.int64(state.parent[rank])
                    num_freed = _free_roots(deferred, rank, code, state)
                    deferred = _NOTHING
                    closing = rank
        elif finished != NONE:
            live = finished
            origin = finished_origin
            finished = finished_next
            finished_origin = next_origin
            finished_next = _NOTHING
            rank = np.int64(state.lives[live].rank)
            if live == receiving:
                state.scalar[ATOM] -= 1
            state.lives[live].state = FINISHED
            if live < len(state.finish_ns):
                state.finish_ns[live] = now
            if live < num_rows:
                state.entered[live] = origin
                ended = live
                # What follows the end of a collective happens before its stream is gone.
                nested = code.nodes[live].action == COLLECTIVE
                num_fresh = _end_of_workload_node(live, rank, num_fresh, code, state)
                filing = rank
                looking = rank
            else:
                num_freed = _end_of_collective_node(live, rank, code, state)
                next_freed = np.int64(0)
                closing = rank
        elif batch != NONE:
            entry, batch = _next_of_batch(batch, num_live, state)
            if entry >= num_live:
                waiting = _release_memory(entry - num_live, state)
                if waiting != NONE:
                    wait_more = entry
                    wait_ns = code.nodes[waiting].amount
                    wait_rank = np.int64(state.lives[waiting].rank)
            elif entry != NONE:
                finished = entry
                finished_origin = np.int64(state.lives[entry].origin)
        elif state.scalar[CLASH] != NONE:
            status = UNORDERED
        elif state.scalar[IN_FLIGHT] > room:
            status = FULL
        elif state.scalar[FIRED] < num_ranks:
            # The start: every rank in turn looks for nodes that wait for none.
            rank = state.scalar[FIRED]
            num_fresh = _begin_rank(rank, code, state)
            nested = False
            ended = _NOTHING
            filing = rank
            looking = rank
        elif num_events >= max_events:
            status = PAUSED
        elif state.scalar[OUT_HEAD] != NONE and state.due_head[0] == NONE:
            status = HANDED_OVER
        else:
            num_events += 1
            what, now = _next_event(now, until_ns, state)
            if what == NONE:
                break
            if what == _LATER:
                status = AHEAD
                break
            moving, finished, finished_next, batch, finished_origin = _happen(what, code, state)
            next_origin = finished_origin
            receiving = finished_next
    state.scalar[NOW] = now
    return status
