"""A fabric as the members of a group see it: NPUs that send one another messages on the fixed routes of a run's replay.

Runs have messages from NPU to NPU only, so devices that forward are no places at which a schedule could decide anything. Routes
share links, and each device stores and forwards, so times on these networks are estimates: the replay of a run says what they
take. Each view is wrong in its own way, so candidates are made on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.device_routes import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.planner.group_routes import components, near_pairs

_ALL_PAIRS_UP_TO = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pairs of members whose route passes no third member.

    Parameters
    ----------
    num_members
        How many members there are.
    src, dst
        int64[num_pairs], positions of the ends.
    first, link
        The links of the fabric on the route of pair p are `link[first[p]:first[p + 1]]`, in order.
    """

    num_members: int
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    first: NDArray[np.int64]
    link: NDArray[np.int64]

    @property
    def hops(self) -> NDArray[np.int64]:
        """int64[num_pairs], the number of links of each route."""
        return np.diff(self.first)

    def some(self, chosen: NDArray[np.int64]) -> _Pairs:
        """These pairs alone."""
        hops = self.hops[chosen]
        first = np.concatenate(([0], np.cumsum(hops)))
        place = np.repeat(self.first[chosen] - first[:-1], hops) + np.arange(first[-1])
        return _Pairs(self.num_members, self.src[chosen], self.dst[chosen], first, self.link[place])


def fabric_views(network: Topology, members: tuple[int, ...]) -> dict[str, Topology]:
    """What a group may take a fabric for, by the name of the view; NPUs are positions in the group.

    Parameters
    ----------
    network
        The fabric.
    members
        The ranks of the group, in ascending order. The NPUs of others pass on what the routes of the fabric take over them, as
        its devices do, and do nothing else.
    """
    pairs = _pairs(network, np.array(members, np.int64))
    views = {name: view(network, pairs) for name, view in _VIEWS.items()}
    return {name: view for name, view in views.items() if view is not None}


def _pairs(network: Topology, members: NDArray[np.int64]) -> _Pairs:
    """The pairs of a group: all of them, or in large groups those at distances of powers of two, if these connect it."""
    num = len(members)
    if num > _ALL_PAIRS_UP_TO:
        near = _usable(network, members, near_pairs(num))
        if len(np.unique(components(num, near.src, near.dst))) == 1:
            return near
    grid = np.indices((num, num)).reshape(2, -1)
    return _usable(network, members, grid[:, grid[0] != grid[1]])


def _usable(network: Topology, members: NDArray[np.int64], ends: NDArray[np.int64]) -> _Pairs:
    first, link = DeviceRoutes(network).find(members[ends[0]], members[ends[1]])
    pairs = _Pairs(len(members), ends[0].astype(np.int64), ends[1].astype(np.int64), first, link)
    is_member = np.zeros(network.num_npus, np.bool_)
    is_member[members] = True
    owner = np.repeat(np.arange(len(pairs.src)), pairs.hops)
    met = np.bincount(owner, is_member[network.link_dst[link]], len(pairs.src))
    return pairs.some(np.flatnonzero(met == 1))


def _shared(network: Topology, pairs: _Pairs) -> Topology:
    """A link for each pair, with a fair share of the slowest link of its route: what it has while all pairs send."""
    users = np.bincount(pairs.link, minlength=network.num_links)
    return _of_pairs(network, pairs, network.link_bandwidth_gibps / np.maximum(users, 1))


def _apart(network: Topology, pairs: _Pairs) -> Topology | None:
    """Links for pairs that share no link of the fabric, short routes and neighbours first; None if these leave somebody out."""
    offset = (pairs.dst - pairs.src) % pairs.num_members
    taken = np.zeros(network.num_links, np.bool_)
    chosen = []
    for pair in np.lexsort((pairs.src, offset, pairs.hops)).tolist():
        links = pairs.link[pairs.first[pair] : pairs.first[pair + 1]]
        if not taken[links].any():
            taken[links] = True
            chosen.append(pair)
    own = pairs.some(np.array(sorted(chosen), np.int64))
    if len(np.unique(components(pairs.num_members, own.src, own.dst))) > 1:
        return None
    return _of_pairs(network, own, network.link_bandwidth_gibps)


def _of_pairs(network: Topology, pairs: _Pairs, bandwidth_gibps: NDArray[np.float64]) -> Topology:
    """A link for each pair; `bandwidth_gibps` is what each link of the fabric has for it."""
    begin = pairs.first[:-1]
    return Topology(
        f"{network.name}[{pairs.num_members}]",
        pairs.num_members,
        0,
        pairs.src.astype(np.int32),
        pairs.dst.astype(np.int32),
        np.minimum.reduceat(bandwidth_gibps[pairs.link], begin),
        np.add.reduceat(network.link_latency_ns[pairs.link], begin),
        np.full(len(pairs.src), NO_DIMENSION, np.int16),
    )


def _crossbars(network: Topology, pairs: _Pairs) -> Topology | None:
    """Devices between which no NPU is, as one switch without limits of its own; None if two NPUs then meet twice, or none does.

    The port of a member has the bandwidth of all links that routes of its pairs leave or enter it by.
    """
    inside = (network.link_src >= network.num_endpoints) & (network.link_dst >= network.num_endpoints)
    area = components(network.num_devices, network.link_src[inside], network.link_dst[inside]).astype(np.int64)
    last = pairs.first[1:] - 1
    up, down = pairs.link[pairs.first[:-1]], pairs.link[last]
    entered, left = network.link_dst[up], network.link_src[down]
    within = np.flatnonzero((pairs.hops > 1) & (entered >= network.num_endpoints) & (area[entered] == area[left]))
    direct = np.flatnonzero(pairs.hops == 1)
    if len(within) + len(direct) < len(pairs.src) or not len(within):
        return None  # routes over NPUs of others
    whole = np.add.reduceat(network.link_latency_ns[pairs.link], pairs.first[:-1])
    number = np.unique(area[entered[within]], return_inverse=True)[1] + pairs.num_members
    ups = _ports(network, pairs.src[within], number, up[within], network.link_latency_ns[up[within]])
    downs = _ports(network, pairs.dst[within], number, down[within], (whole - network.link_latency_ns[up])[within])
    columns = [
        np.concatenate(each)
        for each in zip(
            (ups[0], ups[1], ups[2], ups[3]),
            (downs[1], downs[0], downs[2], downs[3]),
            (pairs.src[direct], pairs.dst[direct], network.link_bandwidth_gibps[up[direct]], whole[direct]),
            strict=True,
        )
    ]
    view = Topology(
        f"{network.name}[{pairs.num_members}]",
        pairs.num_members,
        int(number.max()) + 1 - pairs.num_members,
        columns[0].astype(np.int32),
        columns[1].astype(np.int32),
        columns[2],
        columns[3],
        np.full(len(columns[0]), NO_DIMENSION, np.int16),
    )
    ends = np.stack((view.channel_src, view.channel_dst))
    return view if np.unique(ends, axis=1).shape[1] == view.num_channels else None


def _ports(
    network: Topology, npu: NDArray[np.int64], switch: NDArray[np.int64], link: NDArray[np.int64], latency_ns: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """NPU, switch, bandwidth and latency of each port, in one direction, given those of each pair and the link that it uses."""
    ports, which = np.unique(np.stack((npu, switch)), axis=1, return_inverse=True)
    of_pair = which.ravel()
    used = np.unique(np.stack((of_pair, link)), axis=1)
    bandwidth = np.bincount(used[0], network.link_bandwidth_gibps[used[1]], ports.shape[1])
    mean = np.bincount(of_pair, latency_ns, ports.shape[1]) / np.bincount(of_pair, minlength=ports.shape[1])
    return ports[0], ports[1], bandwidth.astype(np.float64), np.round(mean).astype(np.float64)


_VIEWS: Mapping[str, Callable[[Topology, _Pairs], Topology | None]] = {
    "shared": _shared,
    "apart": _apart,
    "crossbars": _crossbars,
}
