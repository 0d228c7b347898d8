# mypy: ignore-errors
"""Kernel: which of a switch's free up-links sends to which of its free down-links, by maximum matching."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import helper
from astra_tacos.support.kernels.shared import GOLDEN, below, mix
from astra_tacos.synthesizer.matching._table_kernels import (
    DST,
    SOURCE,
    SOURCE_NS,
    SRC,
    SWITCH_DOWN,
    SWITCH_LEVEL,
    SWITCH_NS,
    SWITCH_TABLE,
    SWITCH_UP,
    ZERO,
    leave_to_faster,
)

# Ports beyond which a switch's links are paired greedily.
MATCHED_PORTS = 128


@helper
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
def pair_ports(switch, random, now, far, network, state, space):
    """Pair a switch's free up-links with its free down-links; put the channels into `picks` and return how many."""
    ports, edge, up_match, down_match = space.ports, space.edge, space.ports[2], space.ports[3]
    free_up, free_down, down_parent, queue = ports[0], ports[1], ports[4], ports[5]
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
                        strict = leave_to_faster(npu, level, limit_ns, far, network, state, space)
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
                    _augment(a, num_downs, edge, up_match, down_match, down_parent, queue)
        if not some_prepared:
            break
    num_picks = 0
    for b in range(num_downs):
        if down_match[b] >= 0:
            space.picks[num_picks] = network.switch_table[table + free_up[down_match[b]] * width + free_down[b]]
            num_picks += 1
    return num_picks
