"""Bytes that must cross between the parts of a network, over the bandwidth of all links between them.

The proof is that of `astra_tacos.bounds.partition`, byte by byte: it asks for no chunks and no algorithm. It lets every byte that
crosses carry all that its sending part knows of that place in the buffer, which a sum does, and what is sent apart does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.any_algorithm.amounts import all_bytes, pair_bytes
from astra_tacos.bounds.any_algorithm.carrying import first_arrival_ns, rate_bytes_per_ns, smallest_time_ns, whole_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.partition import links_between, weak_partitions
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing


def partition(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The worst of the partitions that are tried, which are those of the bound for whole chunks."""
    bounds = []
    for group in weak_partitions(topology, collective):
        links, parts = links_between(topology, group), len(np.unique(group[collective.member_npus]))
        time = _time_ns(topology, links, _bytes_between(collective, group))
        bandwidth = float(topology.link_bandwidth_gibps[links].sum())
        where = f"{parts} parts with {len(links)} links between them, {bandwidth:.6g} GiB/s"
        bounds.append(Bound("partition", time, where, (), tuple(links.tolist())))
    return max(bounds, key=lambda bound: bound.time_ns)


def volume(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that the links out of (into) all NPUs need together for all bytes, each counted once for every NPU that sends it.

    Reducing devices count as NPUs that are no members.
    """
    amount = _bytes_between(collective, np.arange(topology.num_npus))
    has_others = topology.has_switches or topology.forwarding
    ends = (topology.link_src, topology.link_dst) if has_others else (topology.link_src,)
    holds = np.append(topology.holds, np.zeros(topology.num_switches, np.bool_))
    time = max(_time_ns(topology, np.flatnonzero(holds[device]), amount) for device in ends)
    return Bound("volume", time, "all links together")


def _time_ns(topology: Topology, links: NDArray[np.int64], amount: float) -> int:
    return whole_ns(smallest_time_ns(rate_bytes_per_ns(topology, links), first_arrival_ns(topology)[links], amount))


def _bytes_between(collective: Collective, group: NDArray[np.int64]) -> float:
    """The least number of bytes that cross between parts."""
    if collective.is_personalised:
        return float((pair_bytes(collective) * (group[:, None] != group)).sum())
    parts = len(np.unique(group[collective.member_npus]))
    return collective.num_phases * (parts - 1) * all_bytes(collective)
