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
)
from astra_tacos.support.kernels.shared import GOLDEN, augment, below, mix

# mypy: ignore-errors


# Columns of `queues`: the delay, the ends of the queue's ring buffer, the queue's ends in it.
DELAY, FROM, TO, HEAD, TAIL = 0, 1, 2, 3, 4

# Columns of the tables, in the order of `Network`'s fields.
SRC, DST, LINK, DOWN, PARTS = 0, 1, 2, 3, 4
OUT, UP, IN = 0, 1, 2
OUT_LINK, OUT_DST = 0, 1
UP_LINK, UP_SWITCH = 0, 1
IN_LINK, IN_SRC, IN_CHANNEL, IN_RANK = 0, 1, 2, 3
SWITCH_UP, SWITCH_DOWN, SWITCH_TABLE = 0, 1, 2

ZERO = np.uint64(0)


class Network(NamedTuple):
    """A network's tables, see the names of their columns. `npus` and `switches` say where in the tables after them rows begin.

    `channels` has for each channel its ends and links and, for each size of chunk, up to three parts (0: no more): the number of
    a delay, and what happens then: the up-link (or direct link) is free, the down-link is free, the chunk is of use at its
    destination, which is `forward_ns` after its arrival. `outs` and `ins` are the direct channels of each NPU, those into it by
    descending speed, `ups` its up-links; the rank of a channel is how many shorter delays there are into its NPU. `link_place` is
    what to look at when a link becomes free: the NPU that a direct link leads to, or the number of NPUs + the switch.
    `switch_table` holds the channel of each pair of up-link and down-link.
    """

    channels: I32_2D
    npus: I64_2D
    outs: I32_2D
    ups: I64_2D
    ins: I64_2D
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

    `copies` counts how often each chunk has been taken; `rare` are the chunks with the fewest copies.
    """

    link_free: I64_OUT  # ns
    queues: I64_2D_OUT  # columns: DELAY to TAIL; the last one's ends are in the chunks' `late_ns`
    ring: I64_OUT
    heap_ns: I64_OUT
    heap_queue: I64_OUT
    held: U64_2D_OUT  # [num_npus, words]
    taken: U64_2D_OUT
    lacking: I64_OUT  # [num_npus]
    copies: I64_OUT
    rare: U64_OUT


class Space(NamedTuple):
    """Space to work in; `todo` are the places to look at."""

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
    table = network.switches[switch, SWITCH_TABLE]
    for a in range(num_ups):
        up_match[a] = -1
    exact = num_ups <= MATCHED_PORTS and num_downs <= MATCHED_PORTS
    for b in range(num_downs):
        down_match[b] = -1
    for b in range(num_downs):
        for a in range(num_ups):
            if exact:
                edge[a, b] = False
            elif up_match[a] >= 0:
                continue
            channel = network.switch_table[table + free_up[a] * width + free_down[b]]
            if channel < 0:
                continue
            npu = np.int64(network.channels[channel, DST])
            if state.lacking[npu] == 0:
                continue
            src = network.channels[channel, SRC]
            useful = ZERO
            for word in range(words):
                useful = state.held[src, word] & ~state.taken[npu, word]
                if useful != ZERO:
                    break
            if useful == ZERO:
                continue
            if up_match[a] < 0 and down_match[b] < 0:
                up_match[a] = b
                down_match[b] = a
            if not exact:
                break
            edge[a, b] = True
    if exact:
        for a in range(num_ups):
            if up_match[a] < 0:
                augment(a, num_downs, edge, 1, (up_match, down_match), (ports[4], ports[5]))
    num_picks = 0
    for b in range(num_downs):
        if down_match[b] >= 0:
            space.picks[num_picks] = network.switch_table[table + free_up[down_match[b]] * width + free_down[b]]
            num_picks += 1
    return num_picks
