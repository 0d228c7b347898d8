"""Cut bound: the data that a set of NPUs must receive (or send), over the bandwidth of the links into (or out of) the set.

Consider a set A of NPUs, not all of them. An All-Gather or a Broadcast brings every chunk into A that begins outside. A
Reduce-Scatter or a Reduce, the mirror image, takes every chunk out of A that ends outside. An All-Reduce takes every chunk both
in and out, since sums in A need something from outside and sums outside need something from A. Switches neither hold nor need
chunks; each counts as inside or outside, whichever leaves less bandwidth: a message from an NPU outside to one inside crosses the
border once either way.

Maximum flows find the set with the least bandwidth for its messages. In the fluid limit this bound is the optimum of All-Gather,
Reduce-Scatter, Broadcast and Reduce (Edmonds' theorem on arborescences). The time counts whole chunks and includes latency.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.chosen_cuts import describe_side, worst_chosen_cut
from astra_tacos.bounds.delivery import smallest_time
from astra_tacos.bounds.flow_network import lay_out, weakest_set, whole_capacities
from astra_tacos.bounds.grouping import device_groups, groupings, is_symmetric, is_transitive
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

_EXACT_UP_TO = 2048
_EXACT_TRANSITIVE_UP_TO = 4096


def cut(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The worst of the cuts that are tried.

    These are single NPUs, blocks along dimensions, parts that only slower links connect, and the one with the least bandwidth of
    all for what must cross it. That last one is found up to 2,048 NPUs, and for regular networks without meshes up to 4,096
    (but for All-Reduce and groups); beyond, the others have to do. For personalised chunks, see `chosen_cuts`, whose sets are
    tried for groups, too.
    """
    bounds = []
    if collective.is_personalised or collective.members is not None:
        bounds.append(worst_chosen_cut(topology, collective, timing))
    if not collective.is_personalised:
        for inward, is_asked in ((True, collective.gathers), (False, collective.reduces)):
            if is_asked:
                sides = tightest_sides(topology, collective, inward=inward)
                bounds += [_bound(topology, collective, timing, side, outward=not inward) for side in sides]
    return max(bounds, key=lambda bound: bound.time_ns)


def crossing(topology: Topology, side: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The links into a set of devices."""
    return np.flatnonzero(side[topology.link_dst] & ~side[topology.link_src])


def tightest_sides(topology: Topology, collective: Collective, *, inward: bool) -> tuple[NDArray[np.bool_], ...]:
    """bool[num_devices] each: the worst set of every kind of candidate, and the worst of all where flows are affordable.

    Something has to enter each (inward) or to leave it.
    """
    members = None if collective.members is None else collective.members.tobytes()
    return _tightest_sides(topology, collective.root, members, collective.num_phases == 2, inward=inward)


def _bound(topology: Topology, collective: Collective, timing: Timing, side: NDArray[np.bool_], *, outward: bool) -> Bound:
    links = crossing(topology, ~side if outward else side)
    npus = np.flatnonzero(side[: topology.num_npus])
    messages = collective.num_chunks
    if collective.num_phases == 1:
        messages -= int(collective.chunks_owned[npus].sum())
    time = smallest_time(topology, collective, timing, links, messages)
    return Bound("cut", time, describe_side(topology, npus, links), tuple(npus.tolist()), tuple(links.tolist()))


@lru_cache(maxsize=32)
def _tightest_sides(
    topology: Topology, root: int | None, members: bytes | None, always: bool, *, inward: bool
) -> tuple[NDArray[np.bool_], ...]:
    """See `tightest_sides`.

    Parameters
    ----------
    topology
        The network.
    root
        The NPU where all chunks begin (inward) or end (outward); None if they are spread evenly.
    members
        int32[num_members], NPUs that own and need chunks; None for all.
    always
        Every chunk has to cross every cut between members; `root` is None.
    inward
        Whether messages enter the set.
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


def _outside(npu_group: NDArray[np.int64], is_member: NDArray[np.bool_], root: int | None, always: bool) -> NDArray[np.int64]:
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


def _tightest(
    topology: Topology, start: NDArray[np.bool_], is_member: NDArray[np.bool_], root: int | None, *, inward: bool
) -> NDArray[np.bool_] | None:
    """The set with the least bandwidth for what has to enter (leave) it; `start` if none is worse, None if that is too slow.

    Parameters
    ----------
    topology
        The network.
    start
        bool[num_devices], a set of devices that something has to enter (leave).
    is_member
        bool[num_npus], NPUs of which the set has at least one.
    root
        The NPU where everything begins (ends); None if that is every member.
    inward
        Whether messages enter the set.
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
