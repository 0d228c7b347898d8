"""Random link failures that leave the network connected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError


def draw_failures(topology: Topology, fraction: float, seed: int) -> tuple[tuple[int, int], ...]:
    """Draw pairs of opposite links that fail: a fraction of all pairs, rounded to the nearest number.

    All devices can still reach one another, switches too. A smaller fraction of the same seed fails a part of the same links.
    Links without one in the opposite direction never fail.

    The pairs are put in random order and fail one after the other, except those without which the network would be disconnected.
    These do not depend on the number of failures: they are the spanning tree that prefers the last pairs (Kruskal 1956; his
    reverse-delete algorithm finds the same tree as his other one).

    Parameters
    ----------
    topology
        The network.
    fraction
        0 to 1.
    seed
        0 or more; the same seed, the same links, whatever their bandwidths.

    Returns
    -------
    failed
        (src, dst) of each link, in ascending order.

    Raises
    ------
    ConfigError
        If the fraction is out of range, or so many cannot fail.
    """
    if not 0 <= fraction <= 1:
        raise ConfigError(f"failed links: found the fraction {fraction:g}, expected 0 to 1")
    if seed < 0:
        raise ConfigError(f"failed links: found the seed {seed}, expected 0 or more")
    low, high, both_ways = _pairs(topology)
    wanted = int(fraction * len(low) + 0.5)
    if not wanted:
        return ()
    order = np.argsort(np.random.PCG64(seed).random_raw(len(low)), kind="stable")
    may_fail = order[~_is_needed(topology, low, high, both_ways, order)[order]]
    if wanted > len(may_fail):
        raise ConfigError(
            f"failed links: found the fraction {fraction:g}, {wanted:,} of {len(low):,} pairs of links, expected at most "
            f"{len(may_fail):,}: with more the network falls apart"
        )
    failed = may_fail[:wanted]
    pairs = zip(low[failed].tolist(), high[failed].tolist(), strict=True)
    return tuple(sorted(ends for src, dst in pairs for ends in ((src, dst), (dst, src))))


def _pairs(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Ends of the pairs of opposite links, in ascending order; and bool[num_links], which links are in one."""
    src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    forward, backward = src * topology.num_devices + dst, dst * topology.num_devices + src
    both_ways = np.isin(forward, backward)
    pairs = np.sort(forward[both_ways & (src < dst)])
    return pairs // topology.num_devices, pairs % topology.num_devices, both_ways


def _is_needed(
    topology: Topology,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    both_ways: NDArray[np.bool_],
    order: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """bool[num_pairs], the spanning forest that prefers pairs late in `order`.

    Devices that links of one direction connect, there and back, count as one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    size = topology.num_devices
    one_way = ~both_ways
    ends = (topology.link_src[one_way], topology.link_dst[one_way])
    graph = coo_array((np.ones(int(one_way.sum()), np.int8), ends), shape=(size, size)).tocsr()
    group = connected_components(graph, connection="strong")[1].astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order), 0, -1)  # the last pair has rank 1, and is kept first
    first, second = np.minimum(group[low], group[high]), np.maximum(group[low], group[high])
    # Of pairs between the same groups one suffices, the one that would fail last; SciPy would add their ranks.
    by_rank = np.argsort(rank, kind="stable")
    _, kept = np.unique((first * size + second)[by_rank], return_index=True)
    kept = by_rank[kept]
    kept = kept[first[kept] != second[kept]]
    weights = coo_array((rank[kept].astype(np.float64), (first[kept], second[kept])), shape=(size, size))
    tree = minimum_spanning_tree(weights.tocsr())
    needed = np.zeros(len(low), np.bool_)
    pair_of_rank = np.empty(len(order) + 1, np.int64)
    pair_of_rank[rank] = np.arange(len(order))
    needed[pair_of_rank[tree.data.astype(np.int64)]] = True
    return needed
