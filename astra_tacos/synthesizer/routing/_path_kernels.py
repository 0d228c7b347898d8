# mypy: ignore-errors
"""Kernels: paths of bundles of chunks over links with prices.

A bundle is some chunks of one NPU, whose paths form a tree: `last[bundle, device]` is the link into each device on the way.
Devices are NPUs and switches. A link's load is for how long its chunks hold it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_NEVER = 1e300


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _push(cost, device, size, new_cost, new_device):
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if cost[parent] <= new_cost:
            break
        cost[child] = cost[parent]
        device[child] = device[parent]
        child = parent
    cost[child] = new_cost
    device[child] = new_device


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _drop_first(cost, device, size):
    """Take the cheapest out of a heap that has `size` entries left after that."""
    last_cost = cost[size]
    last_device = device[size]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and cost[child + 1] < cost[child]:
            child += 1
        if last_cost <= cost[child]:
            break
        cost[parent] = cost[child]
        device[parent] = device[child]
        parent = child
    cost[parent] = last_cost
    device[parent] = last_device


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _price(load, hold, norm, doublings, base):
    """What one more chunk costs: 2**doublings is the power that loads over `norm` are raised to."""
    share = (load + hold) / norm
    for _ in range(doublings):
        share *= share
    return hold * share + base


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _cheapest_paths(source, wanted, num_wanted, out_first, out_link, link_dst, price, last, cost, heap_cost, heap_device):
    """Dijkstra, until all wanted devices are reached; returns how many were not. `wanted` is as it was afterwards."""
    for device in range(len(cost)):
        cost[device] = _NEVER
        last[device] = -1
    cost[source] = 0.0
    _push(heap_cost, heap_device, 0, 0.0, source)
    size = 1
    left = num_wanted
    while size > 0 and left > 0:
        here = heap_cost[0]
        device = heap_device[0]
        size -= 1
        _drop_first(heap_cost, heap_device, size)
        if here > cost[device]:
            continue
        if wanted[device]:
            left -= 1
        for at in range(out_first[device], out_first[device + 1]):
            link = out_link[at]
            there = here + price[link]
            other = link_dst[link]
            if there < cost[other]:
                cost[other] = there
                last[other] = link
                _push(heap_cost, heap_device, size, there, other)
                size += 1
    return left


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _carry(sign, source, targets, first, end, link_src, last, hold, base, norm, doublings, load, price):
    """Add (or take off) one bundle's chunks to the loads of the links on their paths."""
    for at in range(first, end):
        device = targets[at]
        while device != source:
            link = last[device]
            load[link] += sign * hold[link]
            price[link] = _price(load[link], hold[link], norm, doublings, base[link])
            device = link_src[link]


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def route(
    order, source, first, targets, out_first, out_link, link_src, link_dst, hold, base, norm, doublings, is_new, last, load
):
    """Give the bundles in `order` the cheapest paths, one after another, as prices are when each one's turn comes.

    Parameters
    ----------
    source, first, targets
        int64: bundle b has chunks from `source[b]` to `targets[first[b]:first[b + 1]]`.
    hold, base
        float64[num_links], how long a chunk holds a link, and the part of the price that does not depend on the load.
    norm, doublings
        Loads over `norm`, to the power 2**doublings, are the other part, times `hold`.
    is_new
        Whether bundles have no paths yet.
    last, load
        int32[num_bundles, num_devices], float64[num_links], brought up to date.

    Returns
    -------
    unreached
        A bundle with a target that cannot be reached, -1 if there is none.
    """
    num_devices = len(out_first) - 1
    num_links = len(hold)
    price = np.empty(num_links, np.float64)
    for link in range(num_links):
        price[link] = _price(load[link], hold[link], norm, doublings, base[link])
    cost = np.empty(num_devices, np.float64)
    heap_cost = np.empty(num_links + 2, np.float64)
    heap_device = np.empty(num_links + 2, np.int64)
    wanted = np.zeros(num_devices, np.bool_)
    for turn in range(len(order)):
        bundle = order[turn]
        begin, end, start = first[bundle], first[bundle + 1], source[bundle]
        if not is_new:
            _carry(-1.0, start, targets, begin, end, link_src, last[bundle], hold, base, norm, doublings, load, price)
        num_wanted = 0
        for at in range(begin, end):
            if not wanted[targets[at]]:
                wanted[targets[at]] = True
                num_wanted += 1
        left = _cheapest_paths(
            start, wanted, num_wanted, out_first, out_link, link_dst, price, last[bundle], cost, heap_cost, heap_device
        )
        if left > 0:
            return bundle
        for at in range(begin, end):
            wanted[targets[at]] = False
        _carry(1.0, start, targets, begin, end, link_src, last[bundle], hold, base, norm, doublings, load, price)
    return -1


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _channel_of(src, dst, channel_first, channel_dst):
    low = channel_first[src]
    high = channel_first[src + 1]
    while low < high:
        middle = (low + high) >> 1
        if channel_dst[middle] < dst:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def sends_of_paths(
    chunk_bundle,
    owner,
    target,
    num_npus,
    link_src,
    last,
    channel_first,
    channel_dst,
    channel_ns,
    chunk,
    channel,
    ahead_ns,
    ready_ns,
):
    """The sends along all paths, each chunk's from its target back to its owner; returns how many there are.

    Written to the last four as far as they have room: `ahead_ns` is how long the way takes from the start of a send to the
    chunk's target, `ready_ns` how long it takes to the start of the send, if nothing is in the way.
    """
    room = len(chunk)
    made = 0
    for c in range(len(owner)):
        bundle = chunk_bundle[c]
        npu = np.int64(target[c])
        left = np.int64(0)
        begin = made
        while npu != owner[c]:
            before = np.int64(link_src[last[bundle, npu]])
            if before >= num_npus:
                before = np.int64(link_src[last[bundle, before]])
            if made < room:
                used = _channel_of(before, npu, channel_first, channel_dst)
                left += channel_ns[used]
                chunk[made] = c
                channel[made] = used
                ahead_ns[made] = left
            made += 1
            npu = before
        if made <= room:
            for send in range(begin, made):
                ready_ns[send] = left - ahead_ns[send]
    return made
