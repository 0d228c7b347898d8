# mypy: ignore-errors
"""Kernels: whether a root can send so many units to every NPU; arborescences that share links.

Devices are NPUs and switches; two more nodes stand for the tree that grows (see `pack`). Arcs come in pairs: arc 2 i is link i,
or joins these nodes to devices, and arc 2 i + 1 runs against it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I32_2D_OUT, I64, I64_OUT, helper, kernel

NOTHING = -1


class Arcs(NamedTuple):
    """Arcs by tail (CSR), and what each may carry."""

    first: I64  # [num_devices + 3]
    arc: I64
    head: I64  # [2 * (num_links + num_npus + 1)]
    cap: I64_OUT


class Channels(NamedTuple):
    """Channels: ends, the link (or up-link) and the down-link (-1 if none), and how long each takes for a chunk."""

    src: I32
    dst: I32
    up: I32
    down: I32
    ns: I64


@helper
def _flow_is(need, is_source, is_sink, arcs, space):
    """Whether `need` units can go from the sources to the sinks: augmenting paths, shortest first."""
    left, by, queue = space
    for arc in range(len(left)):  # `left[:] = ` takes 3 s more to compile, for its errors' texts
        left[arc] = arcs.cap[arc]
    num_nodes = len(arcs.first) - 1
    sent = np.int64(0)
    while sent < need:
        tail = 0
        for node in range(num_nodes):
            by[node] = NOTHING
            if is_source[node]:
                by[node] = -2
                queue[tail] = node
                tail += 1
        at = 0
        end = NOTHING
        while at < tail and end == NOTHING:
            node = queue[at]
            at += 1
            for place in range(arcs.first[node], arcs.first[node + 1]):
                arc = arcs.arc[place]
                other = arcs.head[arc]
                if left[arc] > 0 and by[other] == NOTHING:
                    by[other] = arc
                    if is_sink[other]:
                        end = other
                        break
                    queue[tail] = other
                    tail += 1
        if end == NOTHING:
            return False
        amount = need - sent
        node = end
        while by[node] >= 0:
            amount = min(amount, left[by[node]])
            node = arcs.head[by[node] ^ 1]
        node = end
        while by[node] >= 0:
            left[by[node]] -= amount
            left[by[node] ^ 1] += amount
            node = arcs.head[by[node] ^ 1]
        sent += amount
    return True


@helper
def _work_space(arcs):
    num_nodes = len(arcs.first) - 1
    return np.empty(len(arcs.cap), np.int64), np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)


@kernel
def reaches_all(root: int, need: int, num_npus: int, arcs: Arcs):
    """Whether the root can send `need` units to every other NPU, to one at a time."""
    space = _work_space(arcs)
    num_nodes = len(arcs.first) - 1
    is_source, is_sink = np.zeros(num_nodes, np.bool_), np.zeros(num_nodes, np.bool_)
    is_source[root] = True
    for npu in range(num_npus):
        if npu != root:
            is_sink[npu] = True
            if not _flow_is(need, is_source, is_sink, arcs, space):
                return False
            is_sink[npu] = False
    return True


@helper
def _passes(channel, root, count, arcs, channels, marks, space):
    """Whether the other trees remain possible if the tree takes a channel: 1 if so, 0 if not, -1 if not yet.

    `count` trees are to be packed with this one, so every set of NPUs without the root has to keep count - 1 units that enter it,
    and one more if the tree has not entered it. The sets that lose a unit are those that hold the channel's end but not its
    beginning; through a switch, also those that hold both NPUs but not the switch, and those that hold the switch only.
    """
    is_source, is_sink = marks
    src, dst, up, down = channels.src[channel], channels.dst[channel], channels.up[channel], channels.down[channel]
    is_source[root] = True
    is_source[src] = True
    is_sink[dst] = True
    result = 1 if _flow_is(count, is_source, is_sink, arcs, space) else 0
    if down >= 0 and result == 1:
        switch = arcs.head[2 * up]
        if src != root:
            is_source[src] = False
            is_source[switch] = True
            is_sink[src] = True
            if not _flow_is(count, is_source, is_sink, arcs, space):
                result = 0
            is_source[switch] = False
            is_sink[src] = False
            is_source[src] = True
        is_sink[dst] = False
        is_source[dst] = True
        is_sink[switch] = True
        token = len(arcs.first) - 2
        is_source[token] = True
        for place in range(arcs.first[switch], arcs.first[switch + 1]):
            if result != 1:
                break
            # As much enters a switch as leaves it, so a set without any of its NPUs has enough without it.
            arc = arcs.arc[place]
            npu = arcs.head[arc]
            if is_source[npu] or (arcs.cap[arc] == 0 and arcs.cap[arc ^ 1] == 0):
                continue
            is_sink[npu] = True
            if not _flow_is(count + 1, is_source, is_sink, arcs, space):
                result = -1
            is_sink[npu] = False
        is_source[token] = False
        is_sink[switch] = False
        is_source[dst] = False
    is_source[root] = False
    is_source[src] = False
    is_sink[dst] = False
    return result


@helper
def _spare(npu, arcs):
    """What may still leave an NPU."""
    spare = np.int64(0)
    for place in range(arcs.first[npu], arcs.first[npu + 1]):
        spare += arcs.cap[arcs.arc[place]]
    return spare


@kernel
def pack(root: int, num_npus: int, arcs: Arcs, channels: Channels, tree: I32_2D_OUT):
    """Pack arborescences out of a root; every link carries as many as it has capacity for, which is used up.

    Each grows by the channel that ends soonest, among those that leave the others possible (Lovász's proof of Edmonds' theorem).
    Of equals, the one to the NPU goes first that has most to spare for others.

    Parameters
    ----------
    arcs
        With a node for the tree, which arcs of capacity 0 lead from to every NPU, and one with an arc of capacity 1 to it.
    tree
        [num_trees, num_npus], filled with the channel into each NPU, -1 for the root.

    Returns
    -------
    packed
        How many trees; fewer than asked for if capacities do not suffice.
    """
    num_trees = len(tree)
    num_channels = len(channels.src)
    num_links = len(arcs.cap) // 2 - num_npus - 1
    num_nodes = len(arcs.first) - 1
    space = _work_space(arcs)
    marks = np.zeros(num_nodes, np.bool_), np.zeros(num_nodes, np.bool_)
    away = np.empty(num_npus, np.float64)
    inside = np.empty(num_npus, np.bool_)
    state = np.empty(num_channels, np.int8)
    for t in range(num_trees):
        for npu in range(num_npus):
            tree[t, npu] = NOTHING
            inside[npu] = False
            arcs.cap[2 * (num_links + npu)] = 0
        inside[root] = True
        away[root] = 0.0
        arcs.cap[2 * (num_links + root)] = 1
        state[:] = 1
        left = num_npus - 1
        while left > 0:
            best = NOTHING
            soonest = 0.0
            most = np.int64(0)
            for channel in range(num_channels):
                src, dst = channels.src[channel], channels.dst[channel]
                if state[channel] != 1 or not inside[src] or inside[dst] or arcs.cap[2 * channels.up[channel]] == 0:
                    continue
                if channels.down[channel] >= 0 and arcs.cap[2 * channels.down[channel]] == 0:
                    continue
                there = away[src] + channels.ns[channel]
                if best != NOTHING and there > soonest:
                    continue
                spare = _spare(dst, arcs)
                if best == NOTHING or there < soonest or spare > most:
                    best, soonest, most = channel, there, spare
            if best == NOTHING:
                return t
            verdict = _passes(best, root, num_trees - t, arcs, channels, marks, space)
            state[best] = verdict
            if verdict != 1:
                continue
            dst = channels.dst[best]
            tree[t, dst] = best
            inside[dst] = True
            away[dst] = soonest
            arcs.cap[2 * channels.up[best]] -= 1
            if channels.down[best] >= 0:
                arcs.cap[2 * channels.down[best]] -= 1
            arcs.cap[2 * (num_links + dst)] = 1
            left -= 1
            # The larger tree enters sets that it did not enter before.
            for channel in range(num_channels):
                if state[channel] == -1:
                    state[channel] = 1
    return num_trees
