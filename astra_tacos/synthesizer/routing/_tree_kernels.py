# mypy: ignore-errors
"""Kernel: trees from roots to members, over links with prices.

A tree is a channel for each NPU that it has, the one that joins the NPU to the tree from its root's side. It may pass through
NPUs that are no members. Links are looked at one by one, so a channel through a switch costs what its two links cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.kernels.arrays import BOOL, F64, F64_OUT, I32, I32_2D_OUT, I64
from astra_tacos.kernels.compiled import borrowed, helper, kernel
from astra_tacos.kernels.heap import heap_drop_first, heap_push
from astra_tacos.synthesizer.routing._path_kernels import NEVER, Channels, Links, channel_between, load_link, price_links


class Trees(NamedTuple):
    """Trees: their roots, how many chunks go along each, and who is to be reached."""

    root: I64  # [num_trees]
    weight: F64  # [num_trees]
    is_member: BOOL  # [num_npus]


class ChannelLinks(NamedTuple):
    """The link (or up-link) and the down-link (-1 if none) of each channel."""

    up: I32
    down: I32


@helper
def _carry(amount, channel, channel_links, links, load, price):
    """Add what so many chunks hold the links of a channel to their loads."""
    load_link(links, channel_links.up[channel], amount, load, price)
    if channel_links.down[channel] >= 0:
        load_link(links, channel_links.down[channel], amount, load, price)


@kernel
def grow(
    order: I64,
    trees: Trees,
    inward: bool,
    links: Links,
    channels: Channels,
    channel_links: ChannelLinks,
    tree: I32_2D_OUT,
    load: F64_OUT,
):
    """Give the trees in `order` up and let them grow anew, one after another, as prices are when each one's turn comes.

    The member that is cheapest to reach is joined next, from wherever in the tree (Takahashi and Matsuyama 1980).

    Parameters
    ----------
    inward
        Whether trees lead into their roots; then they grow against the links.
    links
        With the end of each link that is nearer to the root as its `src`.
    tree, load
        [num_trees, num_npus], -1 where there is nothing; [num_links], brought up to date.

    Returns
    -------
    unreached
        A tree that a member cannot be joined to, -1 if there is none.
    """
    order, trees, links, channels = borrowed(order), borrowed(trees), borrowed(links), borrowed(channels)
    channel_links, tree, load = borrowed(channel_links), borrowed(tree), borrowed(load)
    num_npus = tree.shape[1]
    num_devices = len(links.out_first) - 1
    num_links = len(links.hold)
    has_switches = num_devices > num_npus
    price = np.empty(num_links, np.float64)
    price_links(links, load, price)
    cost = np.empty(num_devices, np.float64)
    away = np.zeros(num_npus, np.float64)
    by = np.empty(num_devices, np.int64)
    way = np.empty(num_npus, np.int64)
    inside = np.empty(num_npus, np.bool_)
    heap_cost = np.empty(num_links + num_npus + 2, np.float64)
    heap_device = np.empty(num_links + num_npus + 2, np.int64)
    num_members = 0
    for npu in range(num_npus):
        num_members += trees.is_member[npu]
    for turn in range(len(order)):
        t = order[turn]
        for npu in range(num_npus):
            if tree[t, npu] >= 0:
                _carry(-trees.weight[t], tree[t, npu], channel_links, links, load, price)
            tree[t, npu] = -1
            inside[npu] = False
        for device in range(num_devices):
            cost[device] = NEVER
        start = trees.root[t]
        inside[start] = True
        away[start] = 0.0
        cost[start] = 0.0
        heap_push(heap_cost, heap_device, 0, 0, 0.0, start)
        size = 1
        left = num_members - trees.is_member[start]
        while left > 0:
            if size == 0:
                return t
            here = heap_cost[0]
            device = heap_device[0]
            size -= 1
            heap_drop_first(heap_cost, heap_device, 0, size)
            if here > cost[device]:
                continue
            if device < num_npus and trees.is_member[device] and not inside[device]:
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
                    tree[t, npu] = used
                    _carry(trees.weight[t], used, channel_links, links, load, price)
                    inside[npu] = True
                    away[npu] = away[before] + delay
                    left -= trees.is_member[npu]
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
    return -1
