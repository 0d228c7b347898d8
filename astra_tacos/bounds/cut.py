"""Cut bound: the data that a set of NPUs must receive (or send), over the bandwidth of the links into (or out of) the set.

Consider a set A of NPUs, not all of them. An All-Gather or a Broadcast brings every chunk into A that begins outside. A
Reduce-Scatter or a Reduce, the mirror image, takes every chunk out of A that ends outside. An All-Reduce takes every chunk both
in and out, since sums in A need something from outside and sums outside need something from A. Switches neither hold nor need
chunks; each counts as inside or outside, whichever leaves less bandwidth: a message from an NPU outside to one inside crosses the
border once either way.

Maximum flows find the set with the least bandwidth for its messages. In the fluid limit this bound is the optimum of All-Gather,
Reduce-Scatter, Broadcast and Reduce (Edmonds' theorem on arborescences). The time counts whole chunks and includes latency.

Maximum flows do not cover personalised chunks, for which the worst set is hard to find (it is a sparsest cut), nor groups of
NPUs. Every cut bounds the time, so these sets are tried for them: single NPUs, blocks along dimensions, parts that only slower
links connect, and in every dimension the first NPUs, each half, and the complements of all these. The bisection bandwidth of a
network is here, too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.amounts import Amounts, chunks_of
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.delivery import smallest_time
from astra_tacos.bounds.flow_network import lay_out, weakest_set, whole_capacities
from astra_tacos.bounds.partition import device_groups, groupings, is_symmetric, is_transitive
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Bools, Ints

_SWEEPS = 8
"""NPUs from which distances order the halves that are tried."""
_CHOSEN = 4
"""Sets that are bounded with latency: the slowest without."""
_MOST_SIDES = 4096
"""Sets that are tried, with complements."""
_MOST_ENTRIES = 1 << 24
"""Sets times NPUs: bytes in memory."""
_EXACT_UP_TO = 2048
"""NPUs up to which maximum flows find the worst cut."""
_EXACT_TRANSITIVE_UP_TO = 4096
"""As `_EXACT_UP_TO` where all NPUs are alike, so that flows to one of them suffice."""


def bisection_gibps(topology: Topology) -> float:
    """Bandwidth from one half of the NPUs to the other, GiB/s, for the least of the halvings that are tried.

    For given halves it is exact, a maximum flow. Which halves are the worst is hard to find (graph bisection is NP-hard), so it
    is at least the true bisection. Tried are halves in the order of ids, of even and odd ids, and of distance from some NPUs.
    """
    npus = np.arange(topology.num_endpoints)
    half = (len(npus) + 1) // 2
    keys: list[NDArray[np.number]] = [npus, npus % 2 * len(npus) + npus]
    near = topology.link_graph(1.0 / topology.link_bandwidth_gibps)
    for npu in np.unique(np.linspace(0, len(npus) - 1, _SWEEPS).astype(int)).tolist():
        keys.append(near.from_nearest([npu])[: len(npus)])
    halves = {np.argsort(key, kind="stable")[:half].tobytes() for key in keys}
    sides = [np.isin(npus, np.frombuffer(side, np.int64)) for side in sorted(halves)]
    return min(min(_flow(topology, side), _flow(topology, ~side)) for side in sides)


def _flow(topology: Topology, side: Bools) -> float:
    """GiB/s from the NPUs of a side to the others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    size, most = topology.num_devices + 2, float(topology.link_bandwidth_gibps.max())
    capacity = np.rint(topology.link_bandwidth_gibps / most * (1 << 16)).astype(np.int64)
    unlimited = np.full(len(side), 1 << 30)
    src = np.concatenate((topology.link_src, np.where(side, size - 2, np.arange(len(side)))))
    dst = np.concatenate((topology.link_dst, np.where(side, np.arange(len(side)), size - 1)))
    graph = coo_array((np.concatenate((capacity, unlimited)), (src, dst)), shape=(size, size)).tocsr()
    flow = maximum_flow(graph.astype(np.int32), size - 2, size - 1).flow_value
    return float(flow) / (1 << 16) * most


def worst_chosen_cut(problem: Problem) -> Bound:
    """The worst of the cuts that are tried."""
    topology, collective = problem.topology, problem.collective
    data, bounds = chunks_of(collective), [Bound("cut", 0, "nothing has to cross a cut")]
    # Links that are alike in number may differ in speed and latency: the worst few by bandwidth, exactly.
    for side, links in slowest_sides(topology, data):
        messages = int(data.entering(side[None])[0])
        if messages > 0:
            bounds.append(cut_of(topology, side, links, smallest_time(problem, links, messages)))
    return max(bounds, key=lambda bound: bound.time_ns)


def slowest_sides(topology: Topology, data: Amounts) -> list[tuple[Bools, Ints]]:
    """Of the sets that are only tried, those that take longest without latency, and the links into each."""
    sides = chosen_sides(topology)
    links = [links_into(topology, side) for side in sides]
    capacity = np.array([topology.link_bandwidth_gibps[into].sum() for into in links])
    slowness = data.entering(sides) / np.maximum(capacity, 1e-300)
    return [(sides[at], links[at]) for at in np.argsort(-slowness, kind="stable")[:_CHOSEN].tolist()]


def cut_of(topology: Topology, side: Bools, links: Ints, time_ns: int) -> Bound:
    """The bound of a set of NPUs, and of the links into it, or out of it."""
    npus = np.flatnonzero(side)
    return Bound("cut", time_ns, describe_side(topology, npus, links), tuple(npus.tolist()), tuple(links.tolist()))


def describe_side(topology: Topology, npus: Ints, links: Ints) -> str:
    """A set of NPUs and the links into it, or out of it, in words."""
    bandwidth = float(topology.link_bandwidth_gibps[links].sum())
    count = int(np.count_nonzero(npus < topology.num_endpoints))
    return f"{count} NPU{'s' * (count != 1)} behind {len(links)} link{'s' * (len(links) != 1)}, {bandwidth:.6g} GiB/s"


@lru_cache(maxsize=4)
def chosen_sides(topology: Topology) -> Bools:
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


def links_into(topology: Topology, side: Bools) -> Ints:
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


def cut(problem: Problem) -> Bound:
    """The worst of the cuts that are tried.

    These are single NPUs, blocks along dimensions, parts that only slower links connect, and the one with the least bandwidth of
    all for what must cross it. That last one is found up to 2,048 NPUs, and for regular networks without meshes up to 4,096
    (but for All-Reduce and groups); beyond, the others have to do. For personalised chunks, see `chosen_sides`, whose sets are
    tried for groups, too.
    """
    topology, collective = problem.topology, problem.collective
    bounds = []
    if collective.is_personalised or collective.members is not None:
        bounds.append(worst_chosen_cut(problem))
    if not collective.is_personalised:
        for inward, is_asked in ((True, collective.gathers), (False, collective.reduces)):
            if is_asked:
                sides = tightest_sides(topology, collective, inward=inward)
                bounds += [_bound(problem, side, outward=not inward) for side in sides]
    return max(bounds, key=lambda bound: bound.time_ns)


def crossing(topology: Topology, side: Bools) -> Ints:
    """The links into a set of devices."""
    return np.flatnonzero(side[topology.link_dst] & ~side[topology.link_src])


def tightest_sides(topology: Topology, collective: Collective, *, inward: bool) -> tuple[Bools, ...]:
    """bool[num_devices] each: the worst set of every kind of candidate, and the worst of all where flows are affordable.

    Something has to enter each (inward) or to leave it.
    """
    members = None if collective.members is None else collective.members.tobytes()
    return _tightest_sides(topology, collective.root, members, collective.num_phases == 2, inward=inward)


def _bound(problem: Problem, side: Bools, *, outward: bool) -> Bound:
    topology, collective = problem.topology, problem.collective
    links, inside = crossing(topology, ~side if outward else side), side[: topology.num_npus]
    messages = collective.num_chunks
    if collective.num_phases == 1:
        messages -= int(collective.chunks_owned[inside].sum())
    return cut_of(topology, inside, links, smallest_time(problem, links, messages))


@lru_cache(maxsize=32)
def _tightest_sides(
    topology: Topology, root: int | None, members: bytes | None, always: bool, *, inward: bool
) -> tuple[Bools, ...]:
    """See `tightest_sides`.

    Parameters
    ----------
    root
        The NPU where all chunks begin (inward) or end (outward); None if they are spread evenly.
    members
        int32[num_members], NPUs that own and need chunks; None for all.
    always
        Every chunk has to cross every cut between members; `root` is None.
    """
    num_npus = topology.num_npus
    is_member = np.ones(num_npus, np.bool_)
    if members is not None:
        is_member[:] = False
        is_member[np.frombuffer(members, np.int32)] = True
    src, dst = (topology.link_src, topology.link_dst) if inward else (topology.link_dst, topology.link_src)
    bandwidth = topology.link_bandwidth_gibps
    sides = []
    ratios = []
    for npu_group in (np.arange(num_npus), *groupings(topology)):
        group = device_groups(topology, npu_group)
        enters = (group[src] != group[dst]) & (group[dst] >= 0)
        count = int(npu_group.max()) + 1
        capacity = np.bincount(group[dst[enters]], bandwidth[enters], count)
        demand = _outside(npu_group, is_member, root, always)
        if not demand.any():  # all members are in one group
            continue
        ratio = np.divide(capacity, demand, out=np.full(count, np.inf), where=demand > 0)
        worst = int(ratio.argmin())
        sides.append(group == worst)
        ratios.append(ratio[worst])
    best = sides[int(np.argmin(ratios))]
    # Where every chunk crosses every cut, the first member is outside of the worst set or, if not, outside of its complement.
    first = int(is_member.argmax())
    exact = [_tightest(topology, best, is_member, first if always else root, inward=inward)]
    if always and not is_symmetric(topology):
        complement = _tightest(topology, ~best, is_member, first, inward=not inward)
        exact.append(None if complement is None else ~complement)
    return (*sides, *(side for side in exact if side is not None))


def _outside(npu_group: Ints, is_member: Bools, root: int | None, always: bool) -> Ints:
    """int64[groups], the amount that begins outside each group for members in it: members, or the root, or a constant."""
    inside = np.bincount(npu_group, is_member).astype(np.int64)
    total = int(is_member.sum())
    if always:
        outside = (inside < total).astype(np.int64)
    elif root is None:
        outside = total - inside
    else:
        outside = np.ones_like(inside)
        outside[npu_group[root]] = 0
    return np.where(inside > 0, outside, 0)


def _tightest(topology: Topology, start: Bools, is_member: Bools, root: int | None, *, inward: bool) -> Bools | None:
    """The set with the least bandwidth for what has to enter (leave) it; `start` if none is worse, None if that is too slow.

    Parameters
    ----------
    start
        bool[num_devices], a set of devices that something has to enter (leave).
    is_member
        bool[num_npus], NPUs of which the set has at least one.
    root
        The NPU where everything begins (ends); None if that is every member.
    """
    num_npus = topology.num_npus
    transitive = root is None and bool(is_member.all()) and is_transitive(topology)
    if num_npus > (_EXACT_TRANSITIVE_UP_TO if transitive else _EXACT_UP_TO):
        return None
    # What enters the set is drawn along arcs against the links.
    src, dst = (topology.link_src, topology.link_dst) if inward else (topology.link_dst, topology.link_src)
    capacity = whole_capacities(topology.link_bandwidth_gibps, topology.num_links * num_npus)
    network = lay_out(dst, src, capacity, np.zeros_like(capacity), topology.num_devices)
    weight = np.zeros(topology.num_devices, np.int64)
    weight[np.flatnonzero(is_member) if root is None else root] = 1
    members = np.array([0]) if transitive else np.flatnonzero(is_member)
    members = members[members != -1 if root is None else members != root]
    if not weight[~start].any() or not start[members].any():
        start = np.arange(topology.num_devices) == members[0]
    return weakest_set(network, weight, members, start)
