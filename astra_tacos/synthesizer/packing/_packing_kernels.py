# mypy: ignore-errors
"""Kernels: the cheapest arborescence of a root, and the packing of many by best responses.

`cheapest_tree` is Edmonds' algorithm (Chu and Liu 1965, Edmonds 1967) in Tarjan's form with mergeable heaps (1977): a path is
grown backwards along cheapest in-channels; where it closes a circle, the circle becomes one node, whose in-channels are those of
its members, less what the members have paid. Circles are opened again from the last one made.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _settle_debt(heaps, keys, top):
    owed = keys[_OWED, top]
    if owed != 0.0:
        for side in range(2):
            child = heaps[side, top]
            if child >= 0:
                keys[_KEY, child] += owed
                keys[_OWED, child] += owed
        keys[_OWED, top] = 0.0


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
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


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _find(nodes, node):
    """The circle that an NPU or circle is part of by now."""
    while nodes[_SET, node] != node:
        nodes[_SET, node] = nodes[_SET, nodes[_SET, node]]
        node = nodes[_SET, node]
    return node


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _cheapest(npu, into_first, into, cost):
    """The cheapest channel into an NPU, the first of those; -1 if there is none."""
    best = -1
    for at in range(into_first[npu], into_first[npu + 1]):
        if best < 0 or cost[into[at]] < cost[best]:
            best = into[at]
    return best


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _others(npu, entry, into_first, into, cost, heaps, keys):
    """The heap of the channels into an NPU but for the one that it has paid."""
    heap = -1
    for at in range(into_first[npu], into_first[npu + 1]):
        channel = into[at]
        if channel != entry:
            heaps[_LEFT, channel] = -1
            heaps[_RIGHT, channel] = -1
            keys[_KEY, channel] = cost[channel] - cost[entry]
            keys[_OWED, channel] = 0.0
            heap = _merged(heaps, keys, heap, channel)
    return heap


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _cheapest_tree(root, tail, head, into_first, into, cost, nodes, heaps, keys, tree):
    """Put the channel into each NPU, -1 for the root, into `tree`; return the total cost, -1 if some NPU is out of reach."""
    num_npus = len(into_first) - 1
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
                channel = _cheapest(node, into_first, into, cost)
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
                    if _find(nodes, tail[channel]) != node:
                        break
                    channel = rest
                paid = keys[_KEY, channel]
                total += paid
                if rest >= 0:
                    keys[_KEY, rest] -= paid
                    keys[_OWED, rest] -= paid
                nodes[_HEAP, node] = rest
            nodes[_ENTRY, node] = channel
            other = _find(nodes, tail[channel])
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
                        nodes[_HEAP, member] = _others(member, nodes[_ENTRY, member], into_first, into, cost, heaps, keys)
                    heap = _merged(heaps, keys, heap, nodes[_HEAP, member])
                    if member == other:
                        break
                nodes[_HEAP, circle] = heap
                node = circle
            else:
                node = other
    for circle in range(num_nodes - 1, num_npus - 1, -1):
        channel = nodes[_ENTRY, circle]
        member = head[channel]
        while nodes[_OUTER, member] != circle:
            member = nodes[_OUTER, member]
        nodes[_ENTRY, member] = channel
    for npu in range(num_npus):
        tree[npu] = nodes[_ENTRY, npu]
    tree[root] = -1
    return total


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _hops(root, out_first, out, head, queue, hops):
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
        for entry in range(out_first[npu], out_first[npu + 1]):
            other = head[out[entry]]
            if hops[other] < 0:
                hops[other] = hops[npu] + 1
                queue[size] = other
                size += 1


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _load(tree, copies, up, down, up_ns, down_ns, steepness, most_ns, link_ns, weight):
    """Add `copies` of a tree to the links' loads; `weight` is exp(steepness * (load - `most_ns`))."""
    for npu in range(len(tree)):
        channel = tree[npu]
        if channel >= 0:
            link = up[channel]
            link_ns[link] += copies * up_ns[channel]
            weight[link] = _weight(steepness, most_ns, link_ns[link])
            link = down[channel]
            if link >= 0:
                link_ns[link] += copies * down_ns[channel]
                weight[link] = _weight(steepness, most_ns, link_ns[link])


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _weight(steepness, most_ns, ns):
    return np.exp(min(steepness * (ns - most_ns), _MOST_EXPONENT)) + _LEAST_WEIGHT


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _price(tail, up, down, up_growth, down_growth, closeness, weight, hops, cost):
    """What each channel costs one more tree: how much the sum over links of exp(steepness * load) would grow with it.

    Times 1 + `closeness` * hops from the root: of trees that load the links alike, one that is shallow and that crosses busy
    links early.
    """
    for channel in range(len(tail)):
        price = weight[up[channel]] * up_growth[channel]
        if down[channel] >= 0:
            price += weight[down[channel]] * down_growth[channel]
        cost[channel] = price * (1.0 + closeness * hops[tail[channel]])


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def respond(
    order,
    batch,
    root,
    proposal,
    copies,
    inward,
    steepness,
    most_ns,
    closeness,
    taste,
    src,
    dst,
    out_first,
    out,
    in_first,
    into,
    up,
    down,
    up_ns,
    down_ns,
    link_ns,
    trees,
    nodes,
    heaps,
    keys,
    prices,
    hops,
    queue,
    weight,
    tried,
):
    """Replace each tree, in the given order, by the cheapest beside all others; return how many of them reach all NPUs.

    `trees` has a tree of every number for each entry of `inward`, with one root in common; where `proposal` is an NPU, trees
    from there are tried too. `batch` numbers at a time are taken out together before the first of them is put back. `taste` are
    factors of the channels' costs.
    """
    cost, up_growth, down_growth = prices[0], prices[1], prices[2]
    num_npus = trees.shape[2]
    for link in range(len(link_ns)):
        weight[link] = _weight(steepness, most_ns, link_ns[link])
    grown_copies = 0.0
    for at in range(len(order)):
        if at % batch == 0:
            for other in range(at, min(at + batch, len(order))):
                t = order[other]
                for phase in range(len(inward)):
                    _load(trees[phase, t], -copies[t], up, down, up_ns, down_ns, steepness, most_ns, link_ns, weight)
        t = order[at]
        if copies[t] != grown_copies:
            grown_copies = copies[t]
            for channel in range(len(src)):
                up_growth[channel] = taste[channel] * np.expm1(min(steepness * grown_copies * up_ns[channel], _MOST_GROWTH))
                down_growth[channel] = taste[channel] * np.expm1(min(steepness * grown_copies * down_ns[channel], _MOST_GROWTH))
        best = np.inf
        for attempt in range(2):
            here = root[t] if attempt == 0 else proposal[t]
            if here < 0 or (attempt == 1 and here == root[t]):
                continue
            total = 0.0
            for phase in range(len(inward)):
                tree = tried[phase]
                if inward[phase]:
                    _hops(here, in_first, into, src, queue, hops)
                    _price(dst, up, down, up_growth, down_growth, closeness, weight, hops, cost)
                    paid = _cheapest_tree(here, dst, src, out_first, out, cost, nodes, heaps, keys, tree)
                else:
                    _hops(here, out_first, out, dst, queue, hops)
                    _price(src, up, down, up_growth, down_growth, closeness, weight, hops, cost)
                    paid = _cheapest_tree(here, src, dst, in_first, into, cost, nodes, heaps, keys, tree)
                if paid < 0.0:
                    return at
                total += paid
                _load(tree, copies[t], up, down, up_ns, down_ns, steepness, most_ns, link_ns, weight)
            for phase in range(len(inward)):
                _load(tried[phase], -copies[t], up, down, up_ns, down_ns, steepness, most_ns, link_ns, weight)
            if total < best:
                best = total
                root[t] = here
                for phase in range(len(inward)):
                    for npu in range(num_npus):
                        trees[phase, t, npu] = tried[phase, npu]
        for phase in range(len(inward)):
            _load(trees[phase, t], copies[t], up, down, up_ns, down_ns, steepness, most_ns, link_ns, weight)
    return len(order)


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def walk(trees, inward, src, dst, channel_ns, queue, children, away_ns, ahead_ns):
    """How long a chunk takes, with nothing in its way, from the root to an NPU (`away_ns`) and on from there to the last NPU that
    it goes to by way of it (`ahead_ns`); against the arrows for a tree that leads into its root."""
    end = dst if inward else src
    num_npus = trees.shape[1]
    for t in range(len(trees)):
        for npu in range(num_npus):
            children[npu] = 0
            ahead_ns[t, npu] = 0
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
                ahead_ns[t, parent] = max(ahead_ns[t, parent], ahead_ns[t, npu] + channel_ns[channel])
                children[parent] -= 1
                if children[parent] == 0:
                    queue[size] = parent
                    size += 1
        for at in range(num_npus - 1, -1, -1):
            npu = queue[at]
            channel = trees[t, npu]
            away_ns[t, npu] = 0 if channel < 0 else away_ns[t, end[channel]] + channel_ns[channel]
