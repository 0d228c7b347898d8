# mypy: ignore-errors
"""Kernel: trees from roots to members, over links with prices.

A tree is a channel for each NPU that it has, the one that joins the NPU to the tree from its root's side. It may pass through
NPUs that are no members. Links are looked at one by one, so a channel through a switch costs what its two links cost.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from astra_tacos.synthesizer.routing._path_kernels import _NEVER, _channel_of, _drop_first, _price, _push


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _carry(amount, channel, link, down_link, hold, base, norm, doublings, load, price):
    """Add what so many chunks hold the links of a channel to their loads."""
    for side in range(2):
        used = link[channel] if side == 0 else down_link[channel]
        if used >= 0:
            load[used] += amount * hold[used]
            price[used] = _price(load[used], hold[used], norm, doublings, base[used])


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def grow(
    order,
    root,
    weight,
    is_member,
    inward,
    near,
    far,
    first,
    links,
    channel_first,
    channel_dst,
    channel_link,
    channel_down_link,
    hold,
    base,
    norm,
    doublings,
    tree,
    load,
):
    """Give the trees in `order` up and let them grow anew, one after another, as prices are when each one's turn comes.

    The member that is cheapest to reach is joined next, from wherever in the tree (Takahashi and Matsuyama 1980).

    Parameters
    ----------
    root, weight
        int64, float64: of each tree, and how many chunks go along it.
    is_member
        bool[num_npus].
    inward
        Whether trees lead into their roots; then they grow against the links.
    near, far, first, links
        int32[num_links] twice, the end of each link that is nearer to the root, and the other one; the links by their near
        end (CSR).
    hold, base, norm, doublings
        See `_path_kernels.route`.
    tree, load
        int32[num_trees, num_npus], -1 where there is nothing; float64[num_links], brought up to date.

    Returns
    -------
    unreached
        A tree that a member cannot be joined to, -1 if there is none.
    """
    num_npus = tree.shape[1]
    num_devices = len(first) - 1
    num_links = len(hold)
    has_switches = num_devices > num_npus
    price = np.empty(num_links, np.float64)
    for link in range(num_links):
        price[link] = _price(load[link], hold[link], norm, doublings, base[link])
    cost = np.empty(num_devices, np.float64)
    away = np.zeros(num_npus, np.float64)
    by = np.empty(num_devices, np.int64)
    way = np.empty(num_npus, np.int64)
    inside = np.empty(num_npus, np.bool_)
    heap_cost = np.empty(num_links + num_npus + 2, np.float64)
    heap_device = np.empty(num_links + num_npus + 2, np.int64)
    num_members = 0
    for npu in range(num_npus):
        num_members += is_member[npu]
    for turn in range(len(order)):
        t = order[turn]
        for npu in range(num_npus):
            if tree[t, npu] >= 0:
                _carry(-weight[t], tree[t, npu], channel_link, channel_down_link, hold, base, norm, doublings, load, price)
            tree[t, npu] = -1
            inside[npu] = False
        for device in range(num_devices):
            cost[device] = _NEVER
        start = root[t]
        inside[start] = True
        away[start] = 0.0
        cost[start] = 0.0
        _push(heap_cost, heap_device, 0, 0.0, start)
        size = 1
        left = num_members - is_member[start]
        while left > 0:
            if size == 0:
                return t
            here = heap_cost[0]
            device = heap_device[0]
            size -= 1
            _drop_first(heap_cost, heap_device, size)
            if here > cost[device]:
                continue
            if device < num_npus and is_member[device] and not inside[device]:
                length = 0
                while not inside[device]:
                    way[length] = device
                    length += 1
                    device = near[by[device]]
                    if device >= num_npus:
                        device = near[by[device]]
                for at in range(length - 1, -1, -1):
                    npu = way[at]
                    link = by[npu]
                    before = np.int64(near[link])
                    delay = base[link]
                    if before >= num_npus:
                        delay += base[by[before]]
                        before = np.int64(near[by[before]])
                    used = (
                        _channel_of(npu, before, channel_first, channel_dst)
                        if inward
                        else _channel_of(before, npu, channel_first, channel_dst)
                    )
                    tree[t, npu] = used
                    _carry(weight[t], used, channel_link, channel_down_link, hold, base, norm, doublings, load, price)
                    inside[npu] = True
                    away[npu] = away[before] + delay
                    left -= is_member[npu]
                if has_switches:
                    # The links to and from switches have become dearer.
                    size = 0
                    for other in range(num_devices):
                        cost[other] = _NEVER
                    for npu in range(num_npus):
                        if inside[npu]:
                            cost[npu] = away[npu]
                            _push(heap_cost, heap_device, size, away[npu], npu)
                            size += 1
                else:
                    for at in range(length):
                        cost[way[at]] = away[way[at]]
                        _push(heap_cost, heap_device, size, away[way[at]], way[at])
                        size += 1
                continue
            for at in range(first[device], first[device + 1]):
                link = links[at]
                there = here + price[link]
                other = far[link]
                if there < cost[other]:
                    cost[other] = there
                    by[other] = link
                    _push(heap_cost, heap_device, size, there, other)
                    size += 1
    return -1
