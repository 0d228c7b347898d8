"""How fast trees can be packed, by brute force and linear programs: slow twins for networks without switches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_array

from astra_tacos.network.topology import Topology
from astra_tacos.support.units import bytes_per_ns


def cut_bound_ns(network: Topology, gathered_bytes: int) -> float:
    """All-Gather: the most that any set of NPUs lacks, over what can enter it."""
    rate, worst = bytes_per_ns(network.link_bandwidth_gibps), 0.0
    for members in range(1, (1 << network.num_npus) - 1):
        inside = (members >> np.arange(network.num_npus)) & 1 > 0
        enters = ~inside[network.link_src] & inside[network.link_dst]
        worst = max(worst, (1 - inside.mean()) * gathered_bytes / rate[enters].sum())
    return worst


def partition_bound_ns(network: Topology, size_bytes: int) -> float:
    """All-Reduce on links in pairs: Nash-Williams' and Tutte's bound over all partitions of the NPUs."""
    rate, worst = bytes_per_ns(network.link_bandwidth_gibps), 0.0
    for part in partitions(network.num_npus):
        crossing = rate[part[network.link_src] != part[network.link_dst]].sum() / 2
        if part.max():
            worst = max(worst, size_bytes * float(part.max()) / float(crossing))
    return worst


def partitions(count: int) -> Iterator[np.ndarray]:
    """Every partition of `count` things, as the part that each is in."""

    def extend(head: list[int]) -> Iterator[np.ndarray]:
        if len(head) == count:
            yield np.array(head)
            return
        for part in range(max(head, default=-1) + 2):
            yield from extend([*head, part])

    yield from extend([])


def reduce_broadcast_bound_ns(network: Topology, size_bytes: int) -> float:
    """All-Reduce by in-trees and out-trees of any roots: a linear program over the flows that Edmonds' theorem asks for."""
    npus, links = network.num_npus, network.num_links
    rate = bytes_per_ns(network.link_bandwidth_gibps)
    pairs = [(root, npu) for root in range(npus) for npu in range(npus) if root != npu]
    shares = npus  # first the roots' rates, then their shares of each link (twice), then a flow for each pair (twice)
    flows = shares + 2 * npus * links
    columns = flows + 2 * len(pairs) * links
    within, limit = lil_array((links + 2 * len(pairs) * links, columns)), np.zeros(links + 2 * len(pairs) * links)
    limit[:links] = rate
    balance = lil_array((2 * len(pairs) * (npus - 1), columns))
    row, node = links, 0
    for phase in range(2):
        for root in range(npus):
            at = shares + (phase * npus + root) * links
            within[range(links), range(at, at + links)] = 1
        for index, (root, npu) in enumerate(pairs):
            at = flows + (phase * len(pairs) + index) * links
            share = shares + (phase * npus + root) * links
            for link in range(links):
                within[row, at + link], within[row, share + link] = 1, -1
                row += 1
            src, dst = (root, npu) if phase == 0 else (npu, root)
            for here in range(npus):
                if here == dst:
                    continue
                for link in range(links):
                    sign = int(network.link_src[link] == here) - int(network.link_dst[link] == here)
                    if sign:
                        balance[node, at + link] = sign
                if here == src:
                    balance[node, root] = -1
                node += 1
    gain = np.zeros(columns)
    gain[:npus] = -1
    found = linprog(gain, within.tocsr(), limit, balance.tocsr(), np.zeros(balance.shape[0]), method="highs")
    return size_bytes / -found.fun
