# mypy: ignore-errors
"""Kernels: the cheapest arborescence of a root, and the packing of many by best responses.

`cheapest_tree` is Edmonds' algorithm (Chu and Liu 1965, Edmonds 1967) in Tarjan's form with mergeable heaps (1977): a path is
grown backwards along cheapest in-channels; where it closes a circle, the circle becomes one node, whose in-channels are those of
its members, less what the members have paid. Circles are opened again from the last one made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import helper, kernel
from astra_tacos.support.kernels.tables import (
    BOOL,
    F64,
    F64_2D_OUT,
    F64_OUT,
    I32,
    I32_2D,
    I32_2D_OUT,
    I32_3D_OUT,
    I64,
    I64_2D_OUT,
    I64_OUT,
)

# Rows of `nodes`, one column per NPU or circle of NPUs.
_SET, _OUTER, _ENTRY, _HEAP, _STATE = 0, 1, 2, 3, 4
NODE_ROWS = 6
_PATH = 5
# Rows of `heaps`, one column per channel.
_LEFT, _RIGHT = 0, 1
HEAP_ROWS = 2
# Rows of `prices`, one column per channel.
PRICE_ROWS = 3
# Rows of `keys`: the cost of a channel as it stands in its heap, and what its children there have yet to be given.
_KEY, _OWED = 0, 1
KEY_ROWS = 2

_DONE = 1
_ON_PATH = 2

# What a link costs at least, as a share of what one of the largest load costs: among idle links the fewest are taken.
_LEAST_WEIGHT = 1e-7
_MOST_EXPONENT = 300.0
_MOST_GROWTH = 20.0


class Channels(NamedTuple):
    """Channels: ends, those out of and into each NPU (CSR), links, and how long the largest chunk keeps these busy, in ns."""

    src: I32
    dst: I32
    out_first: I64
    out: I64
    in_first: I64
    into: I64
    up: I32
    down: I32  # -1 if none
    up_ns: F64
    down_ns: F64


class Side(NamedTuple):
    """Channels as a tree sees them that grows from its root: `tail` is nearer to the root. Those out of and into each NPU."""

    tail: I32
    head: I32
    out_first: I64
    out: I64
    into_first: I64
    into: I64


class Pricing(NamedTuple):
    """What a channel costs one more tree, see `respond`."""

    steepness: float
    most_ns: float
    closeness: float
    taste: F64  # [num_channels], factors of the costs


class Trees(NamedTuple):
    """Trees of each number: root, another NPU to try as the root (or -1), how many chunks go along it.

    `channel` has a tree for each entry of `inward`, all of one root: the channel into each NPU, -1 for the root.
    """

    root: I64_OUT
    proposal: I64
    copies: F64
    inward: BOOL
    channel: I32_3D_OUT  # [len(inward), num_trees, num_npus]


class Space(NamedTuple):
    """Loads of links in ns, a result, and space to work in."""

    link_ns: F64_OUT
    nodes: I64_2D_OUT  # [NODE_ROWS, 2 * num_npus]
    heaps: I64_2D_OUT  # [HEAP_ROWS, num_channels]
    keys: F64_2D_OUT  # [KEY_ROWS, num_channels]
    prices: F64_2D_OUT  # [PRICE_ROWS, num_channels]
    hops: I64_OUT  # [num_npus]
    queue: I64_OUT  # [num_npus]
    weight: F64_OUT  # [num_links]
    tried: I32_2D_OUT  # [len(inward), num_npus]


class Branches(NamedTuple):
    """Results: how long a chunk takes, with nothing in its way, from a tree's root to an NPU and on from there to the last one.

    That one is the last NPU that it goes to by way of the NPU. Against the arrows for a tree that leads into its root.
    """

    away_ns: I64_2D_OUT  # [num_trees, num_npus]
    ahead_ns: I64_2D_OUT


@helper
def _settle_debt(heaps, keys, top):
    owed = keys[_OWED, top]
    if owed != 0.0:
        for side in range(2):
            child = heaps[side, top]
            if child >= 0:
                keys[_KEY, child] += owed
                keys[_OWED, child] += owed
        keys[_OWED, top] = 0.0


@helper
def _merged(heaps, keys, one, other):
    """Merge two skew heaps, given by their tops (-1 if empty)."""
    if one < 0:
        return other
    if other < 0:
        return one
    if keys[_KEY, other] < keys[_KEY, one]:
        one, other = other, one
    top = one
    while True:
        _settle_debt(heaps, keys, one)
        rest = heaps[_RIGHT, one]
        heaps[_RIGHT, one] = heaps[_LEFT, one]
        if rest < 0:
            heaps[_LEFT, one] = other
            return top
        if keys[_KEY, other] < keys[_KEY, rest]:
            rest, other = other, rest
        heaps[_LEFT, one] = rest
        one = rest


@helper
def _find(nodes, node):
    """The circle that an NPU or circle is part of by now."""
    while nodes[_SET, node] != node:
        nodes[_SET, node] = nodes[_SET, nodes[_SET, node]]
        node = nodes[_SET, node]
    return node


@helper
def _cheapest(npu, side, cost):
    """The cheapest channel into an NPU, the first of those; -1 if there is none."""
    best = -1
    for at in range(side.into_first[npu], side.into_first[npu + 1]):
        if best < 0 or cost[side.into[at]] < cost[best]:
            best = side.into[at]
    return best


@helper
def _others(npu, entry, side, cost, space):
    """The heap of the channels into an NPU but for the one that it has paid."""
    heaps, keys = space.heaps, space.keys
    heap = -1
    for at in range(side.into_first[npu], side.into_first[npu + 1]):
        channel = side.into[at]
        if channel != entry:
            heaps[_LEFT, channel] = -1
            heaps[_RIGHT, channel] = -1
            keys[_KEY, channel] = cost[channel] - cost[entry]
            keys[_OWED, channel] = 0.0
            heap = _merged(heaps, keys, heap, channel)
    return heap


@helper
def _cheapest_tree(root, side, cost, space, tree):
    """Put the channel into each NPU, -1 for the root, into `tree`; return the total cost, -1 if some NPU is out of reach."""
    nodes, heaps, keys = space.nodes, space.heaps, space.keys
    num_npus = len(side.into_first) - 1
    for npu in range(num_npus):
        nodes[_SET, npu] = npu
        nodes[_OUTER, npu] = -1
        nodes[_STATE, npu] = 0
    nodes[_STATE, root] = _DONE
    num_nodes = num_npus
    total = 0.0
    for start in range(num_npus):
        node = _find(nodes, start)
        if nodes[_STATE, node] == _DONE:
            continue
        length = 0
        while True:
            nodes[_STATE, node] = _ON_PATH
            nodes[_PATH, length] = node
            length += 1
            if node < num_npus:
                channel = _cheapest(node, side, cost)
                if channel < 0:
                    return -1.0
                total += cost[channel]
            else:
                channel = nodes[_HEAP, node]
                while True:
                    if channel < 0:
                        return -1.0
                    _settle_debt(heaps, keys, channel)
                    rest = _merged(heaps, keys, heaps[_LEFT, channel], heaps[_RIGHT, channel])
                    if _find(nodes, side.tail[channel]) != node:
                        break
                    channel = rest
                paid = keys[_KEY, channel]
                total += paid
                if rest >= 0:
                    keys[_KEY, rest] -= paid
                    keys[_OWED, rest] -= paid
                nodes[_HEAP, node] = rest
            nodes[_ENTRY, node] = channel
            other = _find(nodes, side.tail[channel])
            if nodes[_STATE, other] == _DONE:
                for at in range(length):
                    nodes[_STATE, nodes[_PATH, at]] = _DONE
                break
            if nodes[_STATE, other] == _ON_PATH:
                circle = num_nodes
                num_nodes += 1
                nodes[_SET, circle] = circle
                nodes[_OUTER, circle] = -1
                heap = -1
                while True:
                    length -= 1
                    member = nodes[_PATH, length]
                    nodes[_SET, member] = circle
                    nodes[_OUTER, member] = circle
                    if member < num_npus:
                        nodes[_HEAP, member] = _others(member, nodes[_ENTRY, member], side, cost, space)
                    heap = _merged(heaps, keys, heap, nodes[_HEAP, member])
                    if member == other:
                        break
                nodes[_HEAP, circle] = heap
                node = circle
            else:
                node = other
    for circle in range(num_nodes - 1, num_npus - 1, -1):
        channel = nodes[_ENTRY, circle]
        member = side.head[channel]
        while nodes[_OUTER, member] != circle:
            member = nodes[_OUTER, member]
        nodes[_ENTRY, member] = channel
    for npu in range(num_npus):
        tree[npu] = nodes[_ENTRY, npu]
    tree[root] = -1
    return total


@helper
def _hops(root, side, queue, hops):
    """Fewest channels from the root to each NPU (breadth first)."""
    for npu in range(len(hops)):
        hops[npu] = -1
    hops[root] = 0
    queue[0] = root
    size = 1
    at = 0
    while at < size:
        npu = queue[at]
        at += 1
        for entry in range(side.out_first[npu], side.out_first[npu + 1]):
            other = side.head[side.out[entry]]
            if hops[other] < 0:
                hops[other] = hops[npu] + 1
                queue[size] = other
                size += 1


@helper
def _load(tree, copies, channels, pricing, space):
    """Add `copies` of a tree to the links' loads; `weight` is exp(steepness * (load - `most_ns`))."""
    link_ns, weight = space.link_ns, space.weight
    for npu in range(len(tree)):
        channel = tree[npu]
        if channel >= 0:
            link = channels.up[channel]
            link_ns[link] += copies * channels.up_ns[channel]
            weight[link] = _weight(pricing, link_ns[link])
            link = channels.down[channel]
            if link >= 0:
                link_ns[link] += copies * channels.down_ns[channel]
                weight[link] = _weight(pricing, link_ns[link])


@helper
def _weight(pricing, ns):
    return np.exp(min(pricing.steepness * (ns - pricing.most_ns), _MOST_EXPONENT)) + _LEAST_WEIGHT


@helper
def _price(side, channels, closeness, space):
    """What each channel costs one more tree: how much the sum over links of exp(steepness * load) would grow with it.

    Times 1 + `closeness` * hops from the root: of trees that load the links alike, one that is shallow and that crosses busy
    links early.
    """
    cost, up_growth, down_growth = space.prices[0], space.prices[1], space.prices[2]
    weight, hops = space.weight, space.hops
    for channel in range(len(side.tail)):
        price = weight[channels.up[channel]] * up_growth[channel]
        if channels.down[channel] >= 0:
            price += weight[channels.down[channel]] * down_growth[channel]
        cost[channel] = price * (1.0 + closeness * hops[side.tail[channel]])


@kernel
def respond(order: I64, batch: int, trees: Trees, pricing: Pricing, channels: Channels, space: Space):
    """Replace each tree, in the given order, by the cheapest beside all others; return how many of them reach all NPUs.

    Parameters
    ----------
    order, batch
        Trees' numbers; so many at a time are taken out together before the first of them is put back.
    trees, space
        Brought up to date: roots, channels, and the links' loads.
    """
    cost, up_growth, down_growth = space.prices[0], space.prices[1], space.prices[2]
    num_npus = trees.channel.shape[2]
    from_root = Side(channels.src, channels.dst, channels.out_first, channels.out, channels.in_first, channels.into)
    into_root = Side(channels.dst, channels.src, channels.in_first, channels.into, channels.out_first, channels.out)
    for link in range(len(space.link_ns)):
        space.weight[link] = _weight(pricing, space.link_ns[link])
    grown_copies = 0.0
    for at in range(len(order)):
        if at % batch == 0:
            for other in range(at, min(at + batch, len(order))):
                t = order[other]
                for phase in range(len(trees.inward)):
                    _load(trees.channel[phase, t], -trees.copies[t], channels, pricing, space)
        t = order[at]
        if trees.copies[t] != grown_copies:
            grown_copies = trees.copies[t]
            for channel in range(len(channels.src)):
                up_growth[channel] = pricing.taste[channel] * np.expm1(
                    min(pricing.steepness * grown_copies * channels.up_ns[channel], _MOST_GROWTH)
                )
                down_growth[channel] = pricing.taste[channel] * np.expm1(
                    min(pricing.steepness * grown_copies * channels.down_ns[channel], _MOST_GROWTH)
                )
        best = np.inf
        for attempt in range(2):
            here = trees.root[t] if attempt == 0 else trees.proposal[t]
            if here < 0 or (attempt == 1 and here == trees.root[t]):
                continue
            total = 0.0
            for phase in range(len(trees.inward)):
                tree = space.tried[phase]
                side = into_root if trees.inward[phase] else from_root
                _hops(here, side, space.queue, space.hops)
                _price(side, channels, pricing.closeness, space)
                paid = _cheapest_tree(here, side, cost, space, tree)
                if paid < 0.0:
                    return at
                total += paid
                _load(tree, trees.copies[t], channels, pricing, space)
            for phase in range(len(trees.inward)):
                _load(space.tried[phase], -trees.copies[t], channels, pricing, space)
            if total < best:
                best = total
                trees.root[t] = here
                for phase in range(len(trees.inward)):
                    for npu in range(num_npus):
                        trees.channel[phase, t, npu] = space.tried[phase, npu]
        for phase in range(len(trees.inward)):
            _load(trees.channel[phase, t], trees.copies[t], channels, pricing, space)
    return len(order)


@kernel
def walk(trees: I32_2D, inward: bool, src: I32, dst: I32, channel_ns: I64, branches: Branches):
    """Measure trees' branches.

    Parameters
    ----------
    trees
        [num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    src, dst, channel_ns
        Of channels: ends, and how long a chunk takes.
    """
    end = dst if inward else src
    num_npus = trees.shape[1]
    queue = np.empty(num_npus, np.int64)
    children = np.empty(num_npus, np.int64)
    for t in range(len(trees)):
        for npu in range(num_npus):
            children[npu] = 0
            branches.ahead_ns[t, npu] = 0
        for npu in range(num_npus):
            if trees[t, npu] >= 0:
                children[end[trees[t, npu]]] += 1
        size = 0
        for npu in range(num_npus):
            if children[npu] == 0:
                queue[size] = npu
                size += 1
        for at in range(num_npus):
            npu = queue[at]
            channel = trees[t, npu]
            if channel >= 0:
                parent = end[channel]
                branches.ahead_ns[t, parent] = max(branches.ahead_ns[t, parent], branches.ahead_ns[t, npu] + channel_ns[channel])
                children[parent] -= 1
                if children[parent] == 0:
                    queue[size] = parent
                    size += 1
        for at in range(num_npus - 1, -1, -1):
            npu = queue[at]
            channel = trees[t, npu]
            branches.away_ns[t, npu] = 0 if channel < 0 else branches.away_ns[t, end[channel]] + channel_ns[channel]
