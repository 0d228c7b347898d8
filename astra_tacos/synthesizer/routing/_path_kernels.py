# mypy: ignore-errors
"""Kernels: paths of bundles of chunks over links with prices.

A bundle is some chunks of one NPU, whose paths form a tree: `last[bundle, device]` is the link into each device on the way.
Devices are NPUs and switches. A link's load is for how long its chunks hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import (
    F64,
    F64_OUT,
    I32,
    I32_2D,
    I32_2D_OUT,
    I32_OUT,
    I64,
    I64_OUT,
    helper,
    inlined,
    kernel,
)
from astra_tacos.support.kernels.shared import nearest_first

NEVER = 1e300


class Links(NamedTuple):
    """Links between devices and what they cost.

    A link's price for one more chunk is `hold` * ((load + `hold`) / `norm`)**(2**`doublings`) + `base`.
    """

    out_first: I64  # [num_devices + 1], links by the end that paths begin at (CSR)
    out_link: I64
    src: I32
    dst: I32
    hold: F64  # ns that a chunk holds a link
    base: F64  # the part of the price that does not depend on the load
    norm: float
    doublings: int


class Bundles(NamedTuple):
    """Bundles of chunks: bundle b has chunks from `source[b]` to `targets[first[b] : first[b + 1]]`."""

    source: I64
    first: I64
    targets: I64
    weight: F64  # each chunk's share of the time that the largest one holds a link


class Channels(NamedTuple):
    """Channels by source: the first of each NPU, sorted by destination; their links, and how long each takes for a chunk."""

    first: I64
    src: I32
    dst: I32
    up: I32
    down: I32  # -1 if none
    ns: I64


class Hops(NamedTuple):
    """Results, a row for each send of a chunk over a channel."""

    chunk: I32_OUT
    channel: I32_OUT
    ahead_ns: I64_OUT  # from the start of the send to the chunk's target


@inlined
def price_of(load, hold, norm, doublings, base):
    """What one more chunk costs: 2**doublings is the power that loads over `norm` are raised to."""
    share = (load + hold) / norm
    for _ in range(doublings):
        share *= share
    return hold * share + base


@helper
def price_links(links, load, price):
    """Prices of all links at their loads."""
    for link in range(len(price)):
        price[link] = price_of(load[link], links.hold[link], links.norm, links.doublings, links.base[link])


@inlined
def load_link(links, link, amount, load, price):
    """Add what `amount` chunks hold a link to its load, and price it anew."""
    load[link] += amount * links.hold[link]
    price[link] = price_of(load[link], links.hold[link], links.norm, links.doublings, links.base[link])


@helper
def _carry(sign, bundle, bundles, links, last, load, price):
    """Add (or take off) one bundle's chunks to the loads of the links on their paths."""
    for at in range(bundles.first[bundle], bundles.first[bundle + 1]):
        device = bundles.targets[at]
        while device != bundles.source[bundle]:
            link = last[device]
            load_link(links, link, sign * bundles.weight[at], load, price)
            device = np.int64(links.src[link])


@kernel
def route(order: I64, bundles: Bundles, links: Links, is_new: bool, last: I32_2D_OUT, load: F64_OUT):
    """Give the bundles in `order` the cheapest paths, one after another, as prices are when each one's turn comes.

    Parameters
    ----------
    is_new
        Whether bundles have no paths yet.
    last, load
        [num_bundles, num_devices], [num_links], brought up to date.

    Returns
    -------
    unreached
        A bundle with a target that cannot be reached, -1 if there is none.
    """
    num_devices = len(links.out_first) - 1
    num_links = len(links.hold)
    price = np.empty(num_links, np.float64)
    price_links(links, load, price)
    edges = (links.out_first, links.out_link, links.dst, price)
    cost = np.empty(num_devices, np.float64)
    nearest = np.empty(num_devices, np.int64)
    heap = (np.empty(num_links + 2, np.float64), np.empty(num_links + 2, np.int64))
    wanted = np.zeros(num_devices, np.bool_)
    for turn in range(len(order)):
        bundle = order[turn]
        begin, end = bundles.first[bundle], bundles.first[bundle + 1]
        if not is_new:
            _carry(-1.0, bundle, bundles, links, last[bundle], load, price)
        num_wanted = 0
        for at in range(begin, end):
            if not wanted[bundles.targets[at]]:
                wanted[bundles.targets[at]] = True
                num_wanted += 1
        for device in range(num_devices):
            cost[device] = NEVER
            last[bundle, device] = -1
        ways = (cost, last[bundle], nearest)
        if nearest_first(bundles.source[bundle], wanted, num_wanted, edges, ways, heap) < num_wanted:
            return bundle
        for at in range(begin, end):
            wanted[bundles.targets[at]] = False
        _carry(1.0, bundle, bundles, links, last[bundle], load, price)
    return -1


@helper
def channel_between(src, dst, channels):
    """The channel from one NPU to another."""
    low = channels.first[src]
    high = channels.first[src + 1]
    while low < high:
        middle = (low + high) >> 1
        if channels.dst[middle] < dst:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sends_of_paths(bundle_of: I32, owner: I32, target: I32, last: I32_2D, link_src: I32, channels: Channels, hops: Hops):
    """The sends of all chunks, each chunk's from its target back to its owner; returns how many there are.

    They are written to `hops` as far as that has room.
    """
    num_npus = len(channels.first) - 1
    made = 0
    for c in range(len(owner)):
        bundle = bundle_of[c]
        npu = np.int64(target[c])
        left = np.int64(0)
        while npu != owner[c]:
            before = np.int64(link_src[last[bundle, npu]])
            if before >= num_npus:
                before = np.int64(link_src[last[bundle, before]])
            if made < len(hops.chunk):
                used = channel_between(before, npu, channels)
                left += channels.ns[used]
                hops.chunk[made] = c
                hops.channel[made] = used
                hops.ahead_ns[made] = left
            made += 1
            npu = before
    return made
