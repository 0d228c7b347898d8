"""Bytes that must cross between the parts of a network, over the bandwidth of all links between them.

The proof is that of `astra_tacos.bounds.partition`, byte by byte: it asks for no chunks and no algorithm. It lets every byte that
crosses carry all that its sending part knows of that place in the buffer, which a sum does, and what is sent apart does not.

What has to travel in a collective, in bytes, whatever the algorithm.

In a collective that gathers, every byte has to reach every member. In one that reduces, every member's contribution to every byte
has to have an influence at the byte's owner, or at all members. However contributions are summed up on the way, or sent on
apart, a byte of the result takes at least one byte across every border that lies between a contribution and its destination.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.any_algorithm.carrying import first_arrival_ns, rate_bytes_per_ns, smallest_time_ns, whole_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.partition import links_between, weak_partitions
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing


@lru_cache(maxsize=4)
def owned_bytes(collective: Collective) -> NDArray[np.float64]:
    """float64[num_npus], bytes of the chunks of each NPU."""
    owned: NDArray[np.float64] = np.bincount(collective.chunk_owner, collective.chunk_size_bytes, collective.num_npus).astype(
        float
    )
    return owned


@lru_cache(maxsize=4)
def pair_bytes(collective: Collective) -> NDArray[np.float64]:
    """float64[num_npus, num_npus], what each NPU has for each other in a personalised collective."""
    assert collective.chunk_target is not None
    pair = collective.chunk_owner.astype(np.int64) * collective.num_npus + collective.chunk_target
    amount: NDArray[np.float64] = np.bincount(pair, collective.chunk_size_bytes, collective.num_npus**2).astype(float)
    return amount.reshape(collective.num_npus, collective.num_npus)


def all_bytes(collective: Collective) -> float:
    """Bytes of all chunks."""
    return float(owned_bytes(collective).sum())


def entering_bytes(collective: Collective, sides: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float64[num_sides], bytes that have to enter each set of NPUs; `sides` is bool[num_sides, num_npus]."""
    if collective.is_personalised:
        inside = sides.astype(np.float64)
        entering: NDArray[np.float64] = np.einsum("sn,sn->s", (1.0 - inside) @ pair_bytes(collective), inside)
        return entering
    members = sides[:, collective.member_npus]
    whole, owned = all_bytes(collective), sides @ owned_bytes(collective)
    if collective.reduces and collective.gathers:
        return np.where(members.any(axis=1) & ~members.all(axis=1), whole, 0.0)
    if collective.gathers:
        return np.where(members.any(axis=1), whole - owned, 0.0)
    return np.where(members.all(axis=1), 0.0, owned)


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
