"""A flow network: finds the sets of devices, and the partitions, with the least capacity for what has to cross their borders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.arrays import Bools, Floats, Ints
from astra_tacos.support.grouping import group_by

_UNLIMITED = 1 << 61
"""Capacity: more than all demands together, and sums of two fit int64."""


@dataclass(frozen=True, slots=True, eq=False)
class FlowNetwork:
    """Arcs by tail, two for every pair of devices, one each way; all arrays int64.

    Parameters
    ----------
    first
        [num_devices + 1], where each device's arcs begin.
    tail, head, mate
        [num_arcs], the ends of each arc and the arc of the other direction.
    capacity
        [num_arcs].
    """

    first: Ints
    tail: Ints
    head: Ints
    mate: Ints
    capacity: Ints

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self.first) - 1

    def out_of(self, side: Bools) -> int:
        """Capacity of the arcs out of a set of devices."""
        return int(self.capacity[side[self.tail] & ~side[self.head]].sum())

    def smallest_cut(self, factor: int, supply: Ints, room: Ints) -> tuple[int, Bools]:
        """The maximum flow from supplies to demands, with `factor` times the capacities, and the minimum cut's supply side."""
        from astra_tacos.bounds._bound_kernels import Flow, max_flow

        level = np.empty(self.num_devices, np.int64)
        flow = Flow(self.first, self.head, self.mate, self.capacity * factor, supply.copy(), room.copy())
        return int(max_flow(flow, level)), level >= 0


def lay_out(src: NDArray[np.integer], dst: NDArray[np.integer], ahead: Ints, back: Ints, num_devices: int) -> FlowNetwork:
    """Arcs from `src[i]` to `dst[i]` of capacity `ahead[i]`, and from there of capacity `back[i]`.

    Parameters
    ----------
    ahead
        int64, capacity from `src` to `dst`.
    back
        int64, capacity from `dst` to `src`.
    """
    count = len(src)
    tail, head = np.concatenate((src, dst)).astype(np.int64), np.concatenate((dst, src)).astype(np.int64)
    first, arcs = group_by(tail, np.arange(2 * count), num_devices)
    mate = np.argsort(arcs)[(arcs + count) % (2 * count)]
    return FlowNetwork(first, tail[arcs], head[arcs], mate, np.concatenate((ahead, back))[arcs])


def whole_capacities(bandwidth: Floats, factor: int) -> Ints:
    """Bandwidths as proportional integers, as precise as sums of `factor` of them allow in 60 bits."""
    bits = max(1, min(40, 59 - factor.bit_length()))
    return np.maximum(np.rint(bandwidth * (float(1 << bits) / float(bandwidth.max()))).astype(np.int64), 1)


def weakest_set(network: FlowNetwork, weight: Ints, members: Ints, start: Bools) -> Bools:
    """The set of devices with the least ratio of capacity out of it to weight outside it; `start` if none is weaker.

    Newton's method on the ratio (Dinkelbach): if some member cannot send all weight to its places at the best ratio so far, the
    minimum cut that prevents this has a smaller ratio. If a member can, no set with this member is weaker, and the member counts
    as outside from then on, which keeps most flows short.

    Parameters
    ----------
    weight
        int64[num_devices].
    members
        Devices of which the set has at least one.
    start
        bool[num_devices], a set with some weight outside.
    """
    total = int(weight.sum())
    side = start
    capacity, outside = network.out_of(side), int(weight[~side].sum())
    is_outside = np.zeros(network.num_devices, np.bool_)
    for member in members.tolist():
        while True:
            supply = np.zeros(network.num_devices, np.int64)
            supply[member] = need = capacity * total
            room = np.where(is_outside, need, weight * capacity)
            sent, behind = network.smallest_cut(outside, supply, room)
            if sent == need:
                is_outside[member] = True
                break
            side, capacity, outside = behind, network.out_of(behind), int(weight[~behind].sum())
    return side


def weakest_partition(network: FlowNetwork, start: Ints) -> Ints:
    """The partition with the least ratio of capacity between parts to their number less one; `start` if none is weaker.

    Newton's method on the ratio: the partition with the least (capacity - ratio x parts) comes from the Dilworth truncation of
    the cut function (Cunningham, "Optimal attack and reinforcement of a network", 1985; Barahona, "Separating from the dominant
    of the spanning tree polytope", 1992).

    Parameters
    ----------
    network
        With the same capacity both ways.
    start
        int64[num_devices], the part of each device, in at least two parts.
    """
    group = start
    while True:
        capacity, parts = _between(network, group), int(group.max()) + 1
        partition = _least_partition(network, capacity, parts - 1)
        others = int(partition.max())
        if others < 1 or _between(network, partition) * (parts - 1) >= capacity * others:
            return group
        group = partition


def _between(network: FlowNetwork, group: Ints) -> int:
    return int(network.capacity[group[network.tail] != group[network.head]].sum()) // 2


def _least_partition(network: FlowNetwork, numerator: int, denominator: int) -> Ints:
    """The partition with the least capacity less numerator / denominator for each part.

    Greedily, every device gets the most that leaves every set S of the devices so far with no more than half of
    (denominator x capacity out of S - 2 x numerator), in twice these units. Sets that have that much and meet are one.
    """
    num_devices = network.num_devices
    share = np.zeros(num_devices, np.int64)
    part = np.arange(num_devices)
    for last in range(num_devices):
        supply, room = np.maximum(share, 0), np.maximum(-share, 0)
        supply[last], room[last], room[last + 1 :] = _UNLIMITED, 0, _UNLIMITED
        _, side = network.smallest_cut(denominator, supply, room)
        share[last] = network.out_of(side) * denominator - 2 * numerator - share[side].sum()
        part[np.isin(part, np.unique(part[side]))] = part[last]
    return np.unique(part, return_inverse=True)[1].ravel()
