"""The chunks that slow links are reserved for, where faster links alone already connect all NPUs.

By a deadline for the whole collective the fast links into an NPU can bring a certain number of chunks, and the slow links must
bring the rest. The rest should be the chunks from farthest away: chunks from nearby arrive in time over fast links, and a slow
link that takes one of those is busy when a chunk from far away comes along.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

NEVER_NS = int(np.iinfo(np.int64).max)
_MOST_NPUS = 256
# Typical excess of the real time over the bound, because of latencies.
_LENIENCE = 1 / 16


def far_chunks(
    topology: Topology, timing: Timing, owner: NDArray[np.int32], deadline_ns: int, *, reverse: bool
) -> tuple[int, NDArray[np.bool_]]:
    """The delay from which a link counts as slow, and the chunks that slow links into each NPU may bring.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    owner
        int32[num_chunks], where each chunk comes from.
    deadline_ns
        When all chunks should be everywhere.
    reverse
        Whether on the transposed network.

    Returns
    -------
    slow_ns, is_far
        int and bool[num_npus, num_chunks]; `NEVER_NS` and an empty array where waiting does not pay: if links are alike, if
        there are switches, if only all links together connect all NPUs, or past 256 NPUs.
    """
    slow_ns, distance = _over_fast_links(topology, timing, reverse)
    if slow_ns == NEVER_NS:
        return slow_ns, np.empty((0, 0), np.bool_)
    num_npus = topology.num_npus
    into = topology.channel_src if reverse else topology.channel_dst
    first_ns = _hop_ns(timing, reverse)
    period_ns = timing.channel_delay_ns[:, 0] if timing.is_blocking else timing.link_hold_ns[topology.channel_link, 0]
    in_time = (first_ns < slow_ns) & (first_ns <= deadline_ns)
    brought = np.zeros(num_npus, np.int64)
    np.add.at(brought, into[in_time], 1 + (deadline_ns - first_ns[in_time]) // period_ns[in_time])
    missing = len(owner) - np.bincount(owner, minlength=num_npus)
    left = np.maximum(missing - brought, 0)

    away_ns = distance[:, owner]
    descending = -np.sort(-away_ns, axis=1)
    nearest_ns = descending[np.arange(num_npus), np.maximum(left - 1, 0)]
    too_late_ns = deadline_ns * (1 + _LENIENCE)
    return slow_ns, (away_ns > too_late_ns) | ((away_ns >= nearest_ns[:, None]) & (left > 0)[:, None])


@lru_cache(maxsize=4)
def _over_fast_links(topology: Topology, timing: Timing, reverse: bool) -> tuple[int, NDArray[np.float64]]:
    """The least delay of slow links, and float64[num_npus, num_npus], the delay over fast links from the second NPU."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    num_npus = topology.num_npus
    ns = _hop_ns(timing, reverse)
    if not topology.has_switches and num_npus <= _MOST_NPUS:
        ends = topology.channel_dst, topology.channel_src
        for slow_ns in np.unique(ns)[1:].tolist():
            fast = ns < slow_ns
            pairs = tuple(end[fast] for end in (ends[::-1] if reverse else ends))
            graph = coo_array((ns[fast].astype(np.float64), pairs), shape=(num_npus, num_npus)).tocsr()
            if connected_components(graph, directed=True, connection="strong", return_labels=False) == 1:
                return slow_ns, dijkstra(graph)
    return NEVER_NS, np.empty((0, 0))


def _hop_ns(timing: Timing, reverse: bool) -> NDArray[np.int64]:
    """int64[num_channels], when the smallest chunk can go on: on the transposed network, once it would have been reduced."""
    return timing.channel_delay_ns[:, 0] + (timing.reduction_ns[0] if reverse else 0)
