"""Cut bound for collectives that maximum flows do not cover: those with personalised chunks, and groups of NPUs.

Every cut bounds the time: the chunks that have to enter a set of NPUs must pass over the links into it. The worst set is hard to
find for personalised chunks (it is a sparsest cut), so only these sets are tried: single NPUs, blocks along dimensions, parts
that only slower links connect, and in every dimension the first NPUs, each half, and the complements of all these.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.delivery import smallest_time
from astra_tacos.bounds.grouping import groupings
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

_MOST_SIDES = 4096
_MOST_ENTRIES = 1 << 24


def worst_chosen_cut(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The worst of the cuts that are tried."""
    sides = chosen_sides(topology)
    demand = _demand(collective, sides)
    capacity = np.array([topology.link_bandwidth_gibps[links_into(topology, side)].sum() for side in sides])
    wanted = np.flatnonzero(demand > 0)
    if not len(wanted):
        return Bound("cut", 0, "nothing has to cross a cut")
    # Links that are alike in number may differ in speed and latency: the worst few by bandwidth, exactly.
    order = wanted[np.argsort(-demand[wanted] / np.maximum(capacity[wanted], 1e-300), kind="stable")][:4]
    bounds = []
    for at in order.tolist():
        links, npus = links_into(topology, sides[at]), np.flatnonzero(sides[at])
        time = smallest_time(topology, collective, timing, links, int(demand[at]))
        bounds.append(Bound("cut", time, describe_side(topology, npus, links), tuple(npus.tolist()), tuple(links.tolist())))
    return max(bounds, key=lambda bound: bound.time_ns)


def describe_side(topology: Topology, npus: NDArray[np.int64], links: NDArray[np.int64]) -> str:
    """A set of NPUs and the links into it, or out of it, in words."""
    bandwidth = float(topology.link_bandwidth_gibps[links].sum())
    count = int(np.count_nonzero(npus < topology.num_endpoints))
    return f"{count} NPU{'s' * (count != 1)} behind {len(links)} link{'s' * (len(links) != 1)}, {bandwidth:.6g} GiB/s"


@lru_cache(maxsize=4)
def chosen_sides(topology: Topology) -> NDArray[np.bool_]:
    """bool[num_sides, num_npus], sets of NPUs, each with its complement."""
    npus = np.arange(topology.num_npus)
    sides = [npus == npu for npu in npus[: _MOST_SIDES // 4]]
    stride = 1
    for dimension in topology.dimensions:
        place, size = npus // stride % dimension.size, dimension.size
        sides += [place < count for count in range(1, size)]
        sides += [(place - start) % size < size // 2 for start in range(1, size)]
        stride *= size
    for group in groupings(topology):
        sides += [group == number for number in range(int(group.max()) + 1)]
    most = min(_MOST_SIDES, _MOST_ENTRIES // topology.num_npus) // 2
    half = np.array(sides[:most])
    return np.concatenate((half, ~half))


def _demand(collective: Collective, sides: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[num_sides], chunks that have to enter each set."""
    if collective.chunk_target is not None:
        pair = collective.chunk_owner.astype(np.int64) * collective.num_npus + collective.chunk_target
        ends, count = np.unique(pair, return_counts=True)
        chunks = np.zeros((collective.num_npus, collective.num_npus))
        chunks[ends // collective.num_npus, ends % collective.num_npus] = count
        inside = sides.astype(np.float64)
        entering: NDArray[np.int64] = np.einsum("sn,sn->s", (1.0 - inside) @ chunks, inside).astype(np.int64)
        return entering
    members = sides[:, collective.member_npus]
    whole, owned = collective.num_chunks, (sides @ collective.chunks_owned).astype(np.int64)
    crosses = members.any(axis=1) & ~members.all(axis=1)
    if collective.reduces and collective.gathers:
        return np.where(crosses, whole, 0)
    if collective.gathers:
        return np.where(members.any(axis=1), whole - owned, 0)
    return np.where(members.all(axis=1), 0, owned)


def links_into(topology: Topology, side: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The links into a set of NPUs: a switch counts as inside or outside, whichever gives less bandwidth."""
    inside = np.concatenate((side, np.zeros(topology.num_switches, np.bool_)))
    src, dst = topology.link_src, topology.link_dst
    if topology.has_switches:
        bandwidth, num = topology.link_bandwidth_gibps, topology.num_devices
        is_npu_src, is_npu_dst = src < topology.num_npus, dst < topology.num_npus
        ups = np.bincount(dst, bandwidth * (is_npu_src & ~inside[src]), num)
        downs = np.bincount(src, bandwidth * (is_npu_dst & inside[dst]), num)
        inside[topology.num_npus :] = (ups < downs)[topology.num_npus :]
    return np.flatnonzero(inside[dst] & ~inside[src])
