"""Tables that the matching kernels share: what they know of a network, and what changes.

Per NPU there are two bit sets of chunks, `held` (arrived) and `taken` (arrived or on its way). A free link s -> d may take any
chunk in `held[s] & ~taken[d]`, so no chunk is ever sent twice to one NPU.

Kernel: which of a switch's free up-links sends to which of its free down-links, by maximum matching.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import (
    BOOL_2D_OUT,
    BOOL_OUT,
    I32,
    I32_2D,
    I32_OUT,
    I64,
    I64_2D,
    I64_2D_OUT,
    I64_OUT,
    U8,
    U64_2D_OUT,
    U64_OUT,
    helper,
    inlined,
)
from astra_tacos.support.kernels.shared import GOLDEN, augment, below, mix, population

# mypy: ignore-errors


# Columns of `queues`: the delay, the ends of the queue's ring buffer, the queue's ends in it.
DELAY, FROM, TO, HEAD, TAIL = 0, 1, 2, 3, 4

# Columns of the tables, in the order of `Network`'s fields.
SRC, DST, LINK, DOWN, PARTS = 0, 1, 2, 3, 4
OUT, UP, IN, SOURCE = 0, 1, 2, 3
OUT_LINK, OUT_DST = 0, 1
UP_LINK, UP_SWITCH = 0, 1
IN_LINK, IN_SRC, IN_CHANNEL, IN_RANK, IN_NS, IN_LEVEL = 0, 1, 2, 3, 4, 5
SOURCE_NS, SOURCE_BUSY_NS = 0, 1
SWITCH_UP, SWITCH_DOWN, SWITCH_TABLE, SWITCH_NS, SWITCH_LEVEL = 0, 1, 2, 3, 4

ZERO = np.uint64(0)


class Network(NamedTuple):
    """A network's tables, see the names of their columns. `npus` and `switches` say where in the tables after them rows begin.

    `channels` has for each channel its ends and links and, for each size of chunk, up to three parts (0: no more): the number of
    a delay, and what happens then: the up-link (or direct link) is free, the down-link is free, the chunk is of use at its
    destination, which is `forward_ns` after its arrival. `outs` and `ins` are the direct channels of each NPU, those into it by
    descending speed, `ups` its up-links; `sources` are the links and switches by which it can be reached, fastest first; a
    channel's rank is how many delays are shorter among these. `groups`, `near_first`, `near` say who is near to whom at each
    level of slowness (see `Neighbourhood`). `link_place` is what to look at when a link becomes free: the NPU that a direct
    link leads to, or the number of NPUs + the switch. `switch_table` holds the channel of each pair of up-link and down-link.
    """

    channels: I32_2D
    npus: I64_2D
    outs: I32_2D
    ups: I64_2D
    ins: I64_2D
    sources: I64_2D
    groups: I32_2D
    near_first: I32
    near: I32
    link_place: I32
    switches: I64_2D
    switch_up: I32
    switch_down: I32
    switch_table: I32
    forward_ns: I64  # by class of chunk


class Chunks(NamedTuple):
    """Chunks: where each one is at first, its class, and what is not ready or free from the start.

    `late_*` lists that by time in ns: a chunk that becomes ready (twice its number) or a link that becomes free (twice its
    number, plus 1).
    """

    owner: I32
    chunk_class: U8
    late_ns: I64
    late_what: I64


class State(NamedTuple):
    """What changes: events in queues by delay, with a heap of the queues' heads; and who holds and awaits what.

    `group_taken` is what the NPUs of each group hold or await together; `copies` counts how often each chunk has been taken;
    `rare` are the chunks with the fewest copies.
    """

    link_free: I64_OUT  # ns
    queues: I64_2D_OUT  # columns: DELAY to TAIL; the last one's ends are in the chunks' `late_ns`
    ring: I64_OUT
    heap_ns: I64_OUT
    heap_queue: I64_OUT
    held: U64_2D_OUT  # [num_npus, words]
    taken: U64_2D_OUT
    group_taken: U64_2D_OUT
    lacking: I64_OUT  # [num_npus]
    copies: I64_OUT
    rare: U64_OUT


class Space(NamedTuple):
    """Space to work in. `allowed` is the bit set of chunks that a link may bring, `todo` the places to look at."""

    allowed: U64_OUT
    todo: I64_OUT
    listed: BOOL_OUT  # False
    picks: I64_OUT
    ports: I64_2D_OUT  # [6, most ports of a switch + 1]
    edge: BOOL_2D_OUT


class Sends(NamedTuple):
    """Results, by ascending start in ns."""

    chunk: I32_OUT
    channel: I32_OUT
    start_ns: I64_OUT
    end_ns: I64_OUT


@inlined
def allow_all(space):
    """Let a link bring any chunk."""
    for word in range(len(space.allowed)):
        space.allowed[word] = ~ZERO


@inlined
def leave_to_faster(npu, level, limit_ns, network, state, space):
    """Put into `allowed` what no NPU near by holds or awaits; return whether to leave all the rest to faster sources.

    To the NPU's sources that are faster than `limit_ns`, because they will have delivered it in that time.
    """
    words = np.uint64(state.taken.shape[1])
    group = network.groups[npu, level]
    if group >= 0:
        for word in range(words):
            space.allowed[word] = ~state.group_taken[group, word]
    else:
        allow_all(space)
        list_ = npu * network.groups.shape[1] + level
        for entry in range(network.near_first[list_], network.near_first[list_ + 1]):
            other = np.uint64(network.near[entry])
            for word in range(words):
                space.allowed[word] &= ~state.taken[other, word]
    rate = 0.0
    for entry in range(network.npus[npu, SOURCE], network.npus[npu + 1, SOURCE]):
        if network.sources[entry, SOURCE_NS] >= limit_ns:
            break
        rate += 1.0 / network.sources[entry, SOURCE_BUSY_NS]
    backlog = ZERO
    for word in range(words):
        backlog += population(~(space.allowed[word] | state.taken[npu, word]))
    return np.float64(backlog) <= rate * limit_ns


# mypy: ignore-errors


# Ports beyond which a switch's links are paired greedily.
MATCHED_PORTS = 128


@helper
def _free_ports(ports, first, last, link_free, now, random, free):
    """Put the positions of the free ones of `ports[first:last]` into `free`, shuffled; return how many."""
    size = 0
    for slot in range(first, last):
        if link_free[ports[slot]] <= now:
            random += GOLDEN
            at = below(mix(random), size + 1)
            free[size] = free[at]
            free[at] = slot - first
            size += 1
    return size


@helper
def pair_ports(switch, random, now, network, state, space):
    """Pair a switch's free up-links with its free down-links; put the channels into `picks` and return how many."""
    ports, edge, up_match, down_match = space.ports, space.edge, space.ports[2], space.ports[3]
    free_up, free_down = ports[0], ports[1]
    width = network.switches[switch + 1, SWITCH_DOWN] - network.switches[switch, SWITCH_DOWN]
    num_ups = _free_ports(
        network.switch_up,
        network.switches[switch, SWITCH_UP],
        network.switches[switch + 1, SWITCH_UP],
        state.link_free,
        now,
        random,
        free_up,
    )
    num_downs = _free_ports(
        network.switch_down,
        network.switches[switch, SWITCH_DOWN],
        network.switches[switch + 1, SWITCH_DOWN],
        state.link_free,
        now,
        ~random,
        free_down,
    )
    if num_ups == 0 or num_downs == 0:
        return 0
    words = state.held.shape[1]
    limit_ns = network.switches[switch, SWITCH_NS]
    table = network.switches[switch, SWITCH_TABLE]
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
                channel = network.switch_table[table + free_up[a] * width + free_down[b]]
                if channel < 0:
                    continue
                npu = np.int64(network.channels[channel, DST])
                if state.lacking[npu] == 0:
                    continue
                if not prepared:
                    prepared = True
                    if network.sources[network.npus[npu, SOURCE], SOURCE_NS] < limit_ns:
                        some_prepared = True
                        level = network.switches[switch, SWITCH_LEVEL]
                        strict = leave_to_faster(npu, level, limit_ns, network, state, space)
                        strict |= not fallback
                src = network.channels[channel, SRC]
                useful = ZERO
                for word in range(words):
                    useful = state.held[src, word] & ~state.taken[npu, word]
                    if strict:
                        useful &= space.allowed[word]
                    if useful != ZERO:
                        break
                if useful == ZERO:
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
                    augment(a, num_downs, edge, 1, (up_match, down_match), (ports[4], ports[5]))
        if not some_prepared:
            break
    num_picks = 0
    for b in range(num_downs):
        if down_match[b] >= 0:
            space.picks[num_picks] = network.switch_table[table + free_up[down_match[b]] * width + free_down[b]]
            num_picks += 1
    return num_picks
