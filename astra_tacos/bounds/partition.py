"""Partition bound: the data that must cross between the parts of a network, over the bandwidth of all links between them.

Let the NPUs be in p parts. Bringing one chunk from its origin to all parts takes at least p - 1 messages between parts, and so
does summing it up from all parts. Doing both takes at least 2 (p - 1):

Proof. A part knows what any of its NPUs knows: which parts have contributed to the chunk. Order the messages between parts by
their arrival; each carries at most what its sending part knew before. Until some part first knows the contributions of all, every
other part has sent a message: at least p - 1. At that moment (the arrival of one message) the p - 1 other parts do not know all
contributions yet, so each of them must receive a later message: p - 1 more. Messages carry one chunk each and switches do not
reduce, so the counts of chunks add up. (With one NPU in each part this is gossip by one-way calls, and the volume bound. In the
fluid limit it is the theorem of Nash-Williams and Tutte on packing spanning trees, here for any schedule, not only for trees.)

NPUs that take no part, and reducing devices, are in parts, too. Then p counts the parts with members, which have to send and to
receive, and messages between any two parts count.

A message between parts uses a link between them, or a link into a switch and one out of it. For a switch that connects several
parts, the bound counts the links into it, or the links out of it, or both without those of one part, whichever carry least.

Parts are NPUs that fast dimensions or fast links connect (`groupings`); cut bounds try these groups, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import combinations

import numpy as np

from astra_tacos.bounds.amounts import Amounts, chunks_of
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.delivery import smallest_time
from astra_tacos.bounds.flow_network import lay_out, weakest_partition, whole_capacities
from astra_tacos.collective.collective import Collective
from astra_tacos.network.rotations import is_whole_product, why_not_symmetric
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Ints
from astra_tacos.support.graph import Graph

_MOST_SPEEDS = 8
"""Bandwidths of a network from which links may connect a group."""
_MOST_DIMENSIONS = 6
"""Of more dimensions no sets are tried: of nine, they take twenty times as long as all other bounds."""
_EXACT_UP_TO = 512
"""NPUs up to which maximum flows find the weakest partition."""


@lru_cache(maxsize=4)
def groupings(topology: Topology) -> tuple[Ints, ...]:
    """int64[num_npus] each, the group of each NPU: all different, each with at least two groups, and not all NPUs apart.

    For every subset of dimensions, a group has the NPUs that differ only in these; for every speed, the NPUs that links of at
    least this speed connect.
    """
    groups = [_numbered(group) for group in (*_aligned(topology), *_connected(topology))]
    alike = {group.tobytes(): group for group in groups if 0 < group.max() < topology.num_npus - 1}
    return tuple(alike.values())


def device_groups(topology: Topology, npu_group: Ints) -> Ints:
    """int64[num_devices], with switches: the group of all its NPUs, or -1 if a switch connects several."""
    group = np.concatenate((npu_group, np.full(topology.num_switches, -1)))
    if topology.has_switches:
        least, most = np.full(topology.num_devices, topology.num_npus), np.full(topology.num_devices, -1)
        for npus, switches in ((topology.link_src, topology.link_dst), (topology.link_dst, topology.link_src)):
            port = switches >= topology.num_npus
            np.minimum.at(least, switches[port], group[npus[port]])
            np.maximum.at(most, switches[port], group[npus[port]])
        inside = (least == most) & (np.arange(topology.num_devices) >= topology.num_npus)
        group[inside] = least[inside]
    return group


def is_transitive(topology: Topology) -> bool:
    """Whether translations of the building blocks map every NPU to every other, and no link is missing."""
    return is_whole_product(topology) and why_not_symmetric(topology.dimensions) is None


def translation_classes(topology: Topology) -> Ints:
    """int64[num_links], the class of each link under the translations of a network that is transitive.

    Each class has one link out of (or into) every NPU.
    """
    class_parts: list[Ints] = []
    count = 0
    for dimension in topology.dimensions:
        classes = dimension.building_block.link_classes(dimension.size)
        assert classes is not None
        class_parts.append(np.tile(classes + count, topology.num_npus // dimension.size))
        count += int(classes.max()) + 1
    return np.concatenate(class_parts)


def is_symmetric(topology: Topology) -> bool:
    """Whether every link has a counterpart of the same bandwidth."""
    key = topology.link_src.astype(np.int64) * topology.num_devices + topology.link_dst
    back = topology.link_dst.astype(np.int64) * topology.num_devices + topology.link_src
    order, order_back = np.argsort(key), np.argsort(back)
    bandwidth = topology.link_bandwidth_gibps
    return np.array_equal(key[order], back[order_back]) and np.array_equal(bandwidth[order], bandwidth[order_back])


def _aligned(topology: Topology) -> list[Ints]:
    npus = np.arange(topology.num_npus)
    strides = np.cumprod([1, *(dimension.size for dimension in topology.dimensions)])
    count = len(topology.dimensions)
    if count > _MOST_DIMENSIONS:
        return []
    chosen = [kept for size in range(1, count) for kept in combinations(range(count), size)]
    return [
        sum((npus // strides[index] % topology.dimensions[index].size * strides[index] for index in kept), np.zeros_like(npus))
        for kept in chosen
    ]


def _connected(topology: Topology) -> list[Ints]:
    speeds = np.unique(topology.link_bandwidth_gibps)[1:]
    groups = []
    for speed in speeds[np.linspace(0, len(speeds) - 1, min(len(speeds), _MOST_SPEEDS)).astype(int)] if len(speeds) else ():
        fast = topology.link_bandwidth_gibps >= speed
        _, label = Graph.of(topology.num_devices, topology.link_src[fast], topology.link_dst[fast]).weak_groups()
        groups.append(label[: topology.num_npus])
    return groups


def _numbered(group: Ints) -> Ints:
    """Groups numbered by their first NPU."""
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.ravel()]


def partition(problem: Problem) -> Bound:
    """The worst of the partitions that are tried.

    These are single NPUs, blocks along dimensions, parts that only slower links connect, and, for an
    All-Reduce on up to 512 NPUs without switches, the one with the least bandwidth of all for its number of parts. Where not
    all NPUs take part, only parts with members count; a personalised chunk has to cross once if its target is in another part.
    """
    return worst_partition(problem.topology, chunks_of(problem.collective), partial(smallest_time, problem))


def worst_partition(topology: Topology, data: Amounts, time_ns: Callable[[Ints, int], int]) -> Bound:
    """The worst of the partitions that are tried."""
    bounds = []
    for group in weak_partitions(topology, data.collective):
        links, parts = _links_between(topology, group), len(np.unique(group[data.collective.member_npus]))
        bandwidth = float(topology.link_bandwidth_gibps[links].sum())
        where = f"{parts} parts with {len(links)} links between them, {bandwidth:.6g} GiB/s"
        binding = () if len(links) == topology.num_links else tuple(links.tolist())
        bounds.append(Bound("partition", time_ns(links, data.between(group)), where, (), binding))
    return max(bounds, key=lambda bound: bound.time_ns)


def weak_partitions(topology: Topology, collective: Collective) -> tuple[Ints, ...]:
    """The partitions that are tried: int64[num_npus] each, the part of each NPU."""
    takes_all = collective.num_phases == 2 and collective.members is None
    return _weak_partitions(topology, takes_all and not topology.has_switches and topology.num_npus <= _EXACT_UP_TO)


@lru_cache(maxsize=8)
def _weak_partitions(topology: Topology, exact: bool) -> tuple[Ints, ...]:
    partitions = [np.arange(topology.num_npus), *groupings(topology)]
    if exact:
        weakness = [topology.link_bandwidth_gibps[_links_between(topology, group)].sum() / group.max() for group in partitions]
        partitions.append(_weakest(topology, partitions[int(np.argmin(weakness))]))
    return tuple(partitions)


def _links_between(topology: Topology, npu_group: Ints) -> Ints:
    """Links such that every message between parts uses at least one of them."""
    if topology.forwarding:
        return _links_at_parts(topology, npu_group)
    group = device_groups(topology, npu_group)
    src, dst, bandwidth = topology.link_src, topology.link_dst, topology.link_bandwidth_gibps
    direct = (group[src] >= 0) & (group[dst] >= 0) & (group[src] != group[dst])
    if group.min() >= 0:
        return np.flatnonzero(direct)
    largest = _largest_part(topology, group)
    into, out_of = group[dst] < 0, group[src] < 0
    others_into, others_out = into & (group[src] != largest[dst]), out_of & (group[dst] != largest[src])
    choices = ((into, False), (False, out_of), (others_into, others_out))
    carried = [
        np.bincount(dst, bandwidth * ups, topology.num_devices) + np.bincount(src, bandwidth * downs, topology.num_devices)
        for ups, downs in choices
    ]
    choice = np.argmin(carried, axis=0)
    for number, (ups, downs) in enumerate(choices):
        direct = direct | (ups & (choice[dst] == number)) | (downs & (choice[src] == number))
    return np.flatnonzero(direct)


def _links_at_parts(topology: Topology, npu_group: Ints) -> Ints:
    """The links into parts that have NPUs, or those out of them, whichever carry less: a message crosses one of either kind.

    Reducing devices are as NPUs that are no members: parts that have them may pass on sums, so their links count, too.
    """
    has_npus = np.zeros(int(npu_group.max()) + 1, np.bool_)
    has_npus[npu_group[topology.holds]] = True
    src, dst = npu_group[topology.link_src], npu_group[topology.link_dst]
    between = src != dst
    choices = [np.flatnonzero(between & has_npus[end]) for end in (dst, src)]
    return min(choices, key=lambda links: float(topology.link_bandwidth_gibps[links].sum()))


def _largest_part(topology: Topology, group: Ints) -> Ints:
    """int64[num_devices], the part with the most bandwidth at each switch, -1 for NPUs."""
    num_parts = int(group.max()) + 1
    keys, bandwidths = [], []
    for switch, npu in ((topology.link_dst, topology.link_src), (topology.link_src, topology.link_dst)):
        port = np.flatnonzero(switch >= topology.num_npus)
        keys.append(switch[port].astype(np.int64) * num_parts + group[npu[port]])
        bandwidths.append(topology.link_bandwidth_gibps[port])
    distinct, which = np.unique(np.concatenate(keys), return_inverse=True)
    order = np.argsort(np.bincount(which.ravel(), np.concatenate(bandwidths)), kind="stable")
    largest = np.full(topology.num_devices, -1)
    for key in distinct[order].tolist():
        largest[key // num_parts] = key % num_parts
    return largest


def _weakest(topology: Topology, start: Ints) -> Ints:
    capacity = whole_capacities(topology.link_bandwidth_gibps, 4 * topology.num_links * topology.num_npus)
    network = lay_out(topology.link_src, topology.link_dst, capacity, capacity, topology.num_npus)
    return weakest_partition(network, start)
