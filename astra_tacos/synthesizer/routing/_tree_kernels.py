# mypy: ignore-errors
"""Kernel: trees from roots to members, over links with prices.

A tree is a channel for each NPU that it has, the one that joins the NPU to the tree from its root's side. It may pass through
NPUs that are no members. Links are looked at one by one, so a channel through a switch costs what its two links cost.
Chunks that are summed up and spread have a pair of trees, into and out of one root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, F64, F64_OUT, I32_3D_OUT, I64, I64_OUT, helper, inlined, kernel
from astra_tacos.support.kernels.shared import heap_drop_first, heap_push
from astra_tacos.synthesizer.routing._path_kernels import NEVER, Channels, Links, channel_between, load_link, price_links


class Trees(NamedTuple):
    """Trees of one or two kinds: their roots, how many chunks go along each, and who is to be reached."""

    inward: BOOL  # [num_kinds], whether trees lead into their roots; then they grow against the links
    root: I64_OUT  # [num_trees], of the trees of every kind
    offer: I64  # [num_trees], another root that a pair of trees may take, -1 for none
    weight: F64  # [num_trees]
    is_member: BOOL  # [num_npus]


class Ground(NamedTuple):
    """Where trees grow: who is to be reached, the channels, and their links with the loads and prices of the trees so far."""

    is_member: BOOL
    channels: Channels
    links: Links
    load: F64_OUT
    price: F64_OUT


@inlined
def _carry(amount, channel, ground):
    """Add what so many chunks hold the links of a channel to their loads; returns what the channel cost before."""
    links, load, price = ground.links, ground.load, ground.price
    up, down = ground.channels.up[channel], ground.channels.down[channel]
    cost = price[up]
    load_link(links, up, amount, load, price)
    if down >= 0:
        cost += price[down]
        load_link(links, down, amount, load, price)
    return cost


@helper
def _lay(weight, row, ground):
    """Add a tree to the loads (or take it off, if the weight is negative)."""
    for npu in range(len(row)):
        if row[npu] >= 0:
            _carry(weight, row[npu], ground)


@helper
def _grow_from(start, weight, inward, links, row, ground, space):
    """Grow one tree from its root and add it to the loads; returns what its channels cost, -1 if a member is out of reach.

    The member that is cheapest to reach is joined next, from wherever in the tree (Takahashi and Matsuyama 1980).
    """
    is_member, channels, price = ground.is_member, ground.channels, ground.price
    cost, away, by, way, inside, heap_cost, heap_device = space
    num_npus = len(row)
    num_devices = len(cost)
    has_switches = num_devices > num_npus
    left = 0
    for npu in range(num_npus):
        row[npu] = -1
        inside[npu] = False
        left += is_member[npu]
    for device in range(num_devices):
        cost[device] = NEVER
    inside[start] = True
    away[start] = 0.0
    cost[start] = 0.0
    heap_push(heap_cost, heap_device, 0, 0, 0.0, start)
    size = 1
    left -= is_member[start]
    paid = 0.0
    while left > 0:
        if size == 0:
            return -1.0
        here = heap_cost[0]
        device = heap_device[0]
        size -= 1
        heap_drop_first(heap_cost, heap_device, 0, size)
        if here > cost[device]:
            continue
        if device < num_npus and is_member[device] and not inside[device]:
            length = 0
            while not inside[device]:
                way[length] = device
                length += 1
                device = np.int64(links.src[by[device]])
                if device >= num_npus:
                    device = np.int64(links.src[by[device]])
            for at in range(length - 1, -1, -1):
                npu = way[at]
                link = by[npu]
                before = np.int64(links.src[link])
                delay = links.base[link]
                if before >= num_npus:
                    delay += links.base[by[before]]
                    before = np.int64(links.src[by[before]])
                used = channel_between(npu, before, channels) if inward else channel_between(before, npu, channels)
                row[npu] = used
                paid += _carry(weight, used, ground)
                inside[npu] = True
                away[npu] = away[before] + delay
                left -= is_member[npu]
            if has_switches:
                # The links to and from switches have become dearer.
                size = 0
                for other in range(num_devices):
                    cost[other] = NEVER
                for npu in range(num_npus):
                    if inside[npu]:
                        cost[npu] = away[npu]
                        heap_push(heap_cost, heap_device, 0, size, away[npu], npu)
                        size += 1
            else:
                for at in range(length):
                    cost[way[at]] = away[way[at]]
                    heap_push(heap_cost, heap_device, 0, size, away[way[at]], way[at])
                    size += 1
            continue
        for at in range(links.out_first[device], links.out_first[device + 1]):
            link = links.out_link[at]
            there = here + price[link]
            other = links.dst[link]
            if there < cost[other]:
                cost[other] = there
                by[other] = link
                heap_push(heap_cost, heap_device, 0, size, there, np.int64(other))
                size += 1
    return paid


@helper
def _has_channel(src, dst, channels):
    at = channel_between(src, dst, channels)
    return at < channels.first[src + 1] and channels.dst[at] == dst


@helper
def _star(root, weight, pair, ground):
    """Lay channels between a root and every member, to and fro; returns what they cost, -1 if there is none to some member."""
    is_member, channels = ground.is_member, ground.channels
    into, out = pair[0], pair[1]
    for npu in range(len(into)):
        into[npu] = -1
        out[npu] = -1
        if is_member[npu] and npu != root and not (_has_channel(npu, root, channels) and _has_channel(root, npu, channels)):
            return -1.0
    paid = 0.0
    for npu in range(len(into)):
        if is_member[npu] and npu != root:
            into[npu] = channel_between(npu, root, channels)
            out[npu] = channel_between(root, npu, channels)
            for row in (into, out):
                paid += _carry(weight, row[npu], ground)
    return paid


@helper
def _start_where_sums_end(root, weight, pair, ground):
    """Move the root of a pair of trees to where sums are complete; returns it, and what the channels that this saves cost.

    An NPU that is no member and gets sums from one NPU only adds nothing to them, so that NPU has the whole sum already: it
    passes it on instead of getting it back. Branches that no longer lead to a member are cut off.
    """
    is_member, channels = ground.is_member, ground.channels
    into, out = pair[0], pair[1]
    saved = 0.0
    start = root
    while not is_member[root]:
        children = 0
        child = -1
        for npu in range(len(into)):
            if into[npu] >= 0 and channels.dst[into[npu]] == root:
                children += 1
                child = npu
        if children != 1:
            break
        if out[child] >= 0:
            saved += _carry(-weight, out[child], ground)
            out[child] = -1
        out[root] = into[child]
        into[child] = -1
        root = child
    is_whole = root == start
    while not is_whole:
        is_whole = True
        for npu in range(len(out)):
            if out[npu] >= 0 and not is_member[npu]:
                leads_on = False
                for other in range(len(out)):
                    leads_on |= out[other] >= 0 and channels.src[out[other]] == npu
                if not leads_on:
                    saved += _carry(-weight, out[npu], ground)
                    out[npu] = -1
                    is_whole = False
    return root, saved


@kernel
def grow(
    order: I64,
    trees: Trees,
    to_root: Links,
    from_root: Links,
    channels: Channels,
    tree: I32_3D_OUT,
    load: F64_OUT,
):
    """Give the trees in `order` up and let them grow anew, one after another, as prices are when each one's turn comes.

    A pair of trees that another root is offered takes the cheapest of three: the two that grow from the root it has, the two
    that grow from the root it is offered, and the star of channels between that root and the members, if there are such
    channels. (Where one hop is as cheap as two, trees that grow member by member never pass through others, however much load
    that spares the members.)

    Parameters
    ----------
    to_root, from_root
        The links with the end that is nearer to the root as `src`, for trees into it and out of it.
    tree, load
        [num_kinds, num_trees, num_npus], -1 where there is nothing; [num_links]. Both are brought up to date, like the roots.

    Returns
    -------
    unreached
        A tree that a member cannot be joined to, -1 if there is none.
    """
    num_kinds, num_npus = tree.shape[0], tree.shape[2]
    num_devices, num_links = len(from_root.out_first) - 1, len(from_root.hold)
    price = np.empty(num_links, np.float64)
    price_links(from_root, load, price)
    ground = Ground(trees.is_member, channels, from_root, load, price)
    # What else the growth of a tree writes to: costs and delays, ways, who is inside, and a heap.
    space = (
        np.empty(num_devices, np.float64),
        np.zeros(num_npus, np.float64),
        np.empty(num_devices, np.int64),
        np.empty(num_npus, np.int64),
        np.empty(num_npus, np.bool_),
        np.empty(num_links + num_npus + 2, np.float64),
        np.empty(num_links + num_npus + 2, np.int64),
    )
    grown = np.full((3, num_kinds, num_npus), -1, np.int32)
    roots = np.empty(3, np.int64)
    for turn in range(len(order)):
        t = order[turn]
        weight = trees.weight[t]
        for kind in range(num_kinds):
            _lay(-weight, tree[kind, t], ground)
        best = -1
        least = NEVER
        for which in range(1 if trees.offer[t] < 0 else 3):
            root = trees.root[t] if which == 0 else trees.offer[t]
            paid = 0.0
            if which == 2:
                paid = _star(root, weight, grown[2], ground)
                if paid < 0:
                    continue
            else:
                for kind in range(num_kinds):
                    links = to_root if trees.inward[kind] else from_root
                    more = _grow_from(root, weight, trees.inward[kind], links, grown[which, kind], ground, space)
                    if more < 0:
                        return t
                    paid += more
            if num_kinds == 2:
                root, saved = _start_where_sums_end(root, weight, grown[which], ground)
                paid -= saved
            roots[which] = root
            for kind in range(num_kinds):
                _lay(-weight, grown[which, kind], ground)
            if paid < least:
                least = paid
                best = which
        trees.root[t] = roots[best]
        for kind in range(num_kinds):
            for npu in range(num_npus):  # the assignment of a row takes 3 s more to compile, for its errors' texts
                tree[kind, t, npu] = grown[best, kind, npu]
            _lay(weight, tree[kind, t], ground)
    return -1
