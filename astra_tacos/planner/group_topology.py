"""The network as the members of a group see it: members are its NPUs, in ascending order of their ranks.

Links and switches between members are kept. Where those do not connect all members, a route through other NPUs becomes one link,
with the sum of its latencies and its smallest bandwidth: ASTRA-sim allows a message between any two NPUs. Times over such links
are estimates, because others may use the NPUs on the way, and each of those stores and forwards.

The time of a collective on the real network: all groups that run it at once, in the embedded replay.

Routes between members of a group through NPUs outside the group. Each chosen route becomes a link of the group's network.

A fabric as the members of a group see it: NPUs that send one another messages on the fixed routes of a run's replay.

Runs have messages from NPU to NPU only, so devices that forward are no places at which a schedule could decide anything. Routes
share links, and each device stores and forwards, so times on these networks are estimates: the replay of a run says what they
take. Each view is wrong in its own way, so candidates are made on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import NO_DIMENSION, NO_LINK, Topology
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.replayer.routes import crossed_pairs
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.patterns import carrying_type
from astra_tacos.run.system import SystemConfig
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.graph import Graph
from astra_tacos.support.grouping import members_of

_ALL_PAIRS_UP_TO = 16
"""Members of a group between all of which routes are taken, though they share links."""
_ALL_PAIRS_FIRST_UP_TO = 256
"""Members of a group of which all pairs come at once; of a larger one, those a power of two apart come first."""


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """What collectives run on: a network, a system, and the network model of replays."""

    network: NetworkConfig
    system: SystemConfig
    backend: Backend

    def replay_together(
        self,
        schedule: Schedule | None,
        pattern: int,
        size_bytes: int,
        groups: tuple[tuple[int, ...], ...],
    ) -> int:
        """Nanoseconds until the last group finishes, if all start at once.

        Parameters
        ----------
        schedule
            What they run, None for the native collective of the system.
        groups
            Ranks in ascending order; of groups that share a rank, only the first takes part.

        Raises
        ------
        ConfigError, ReplayError
            As `replay_run` does, or if the native collective moves less than its pattern needs.
        """
        trace = None if schedule is None else schedule_trace(schedule, schedule.collective.name)
        system = replace(self.system, roofline_enabled=False, preferred_dataset_splits=1)
        carried = carrying_type(pattern, size_bytes)
        run = single_collective_run(self.network, system, carried, size_bytes, trace, _disjoint(groups))
        lacks = why_incomplete(run) if schedule is None else ""
        if lacks:
            raise ReplayError(lacks)
        return replay_run(run, self.backend).end_ns


def _disjoint(groups: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Groups that can run at once: of those that share a rank, the first."""
    chosen, used = [], set[int]()
    for ranks in groups:
        if used.isdisjoint(ranks):
            chosen.append(ranks)
            used |= set(ranks)
    return chosen


Reach = Literal["needed", "disjoint", "all"]
REACHES: tuple[Reach, ...] = ("needed", "disjoint", "all")
"""Which routes become links: those needed to connect all members, those that share no links (`disjoint`), all in small groups."""
Route = tuple[int, int, float, float]
"""Source and destination as positions in a group, the lowest bandwidth of the links between in GiB/s, their latencies in ns."""


def choose_routes(
    network: Topology, config: NetworkConfig, members: Ints, kept: Ints, topology: Topology, reach: Reach
) -> list[Route]:
    """Choose the routes that become links between the members of a group.

    The choice takes short routes first, and routes that share no link with earlier ones if possible.

    Parameters
    ----------
    members
        int64[n], the ranks of the group.
    kept
        int64[...], links of the network that the group uses directly, without a route.
    topology
        The topology of the kept links alone; its NPUs are positions in `members`.
    reach
        Which routes become links, one of `REACHES`.
    """
    for pairs in _pair_sets(len(members)):
        routes = _chosen(network, config, members, kept, topology, reach, pairs)
        if not _components(topology, routes).any():
            break
    return routes


def _chosen(
    network: Topology,
    config: NetworkConfig,
    members: Ints,
    kept: Ints,
    topology: Topology,
    reach: Reach,
    pairs: Ints,
) -> list[Route]:
    """The chosen routes among those between `pairs`, int64[2, num_pairs], positions."""
    pairs = pairs[:, topology.channel_of(pairs[0], pairs[1]) < 0]
    owner, source, target = crossed_pairs(config, members[pairs[0]], members[pairs[1]])
    channel = network.channel_of(source, target)
    is_member = np.zeros(network.num_npus, np.bool_)
    is_member[members] = True
    # A route through another member is left out, as it consists of two routes.
    into_member = np.bincount(owner[is_member[target]], minlength=pairs.shape[1])
    missing = np.bincount(owner[channel < 0], minlength=pairs.shape[1])
    length = np.bincount(owner, minlength=pairs.shape[1])
    first = np.concatenate(([0], np.cumsum(length)))
    usable = np.flatnonzero((into_member == 1) & (missing == 0))
    usable = usable[np.lexsort((pairs[1, usable], pairs[0, usable], length[usable]))]
    is_taken = np.zeros(network.num_links, np.bool_)
    is_taken[kept] = True
    component = _components(topology)
    routes: list[Route] = []
    left: list[int] = []

    def links_of(pair: int) -> Ints:
        crossed = channel[first[pair] : first[pair + 1]]
        both = np.concatenate((network.channel_link[crossed], network.channel_down_link[crossed]))
        links: Ints = both[both != NO_LINK].astype(np.int64)
        return links

    def take(pair: int) -> None:
        links = links_of(pair)
        is_taken[links] = True
        bandwidth, latency = network.link_bandwidth_gibps[links].min(), network.link_latency_ns[links].sum()
        routes.append((int(pairs[0, pair]), int(pairs[1, pair]), float(bandwidth), float(latency)))

    for pair in usable.tolist():
        apart = component[pairs[0, pair]] != component[pairs[1, pair]]
        everything = reach == "all" and len(members) <= _ALL_PAIRS_UP_TO
        if everything or (not is_taken[links_of(pair)].any() and (apart or reach == "disjoint")):
            take(pair)
        else:
            left.append(pair)
    component = _components(topology, routes)
    for pair in left:
        if component[pairs[0, pair]] != component[pairs[1, pair]]:
            take(pair)
            component = _components(topology, routes)
    return routes


def _pair_sets(num: int) -> Iterator[Ints]:
    """int64[2, num_pairs], pairs of positions: all, but in large groups first those that differ by a power of two."""
    if num > _ALL_PAIRS_FIRST_UP_TO:
        steps = 1 << np.arange((num - 1).bit_length())
        src = np.repeat(np.arange(num), len(steps))
        dst = (src + np.tile(steps, num)) % num
        pairs = np.stack((np.concatenate((src, dst)), np.concatenate((dst, src))))
        yield np.unique(pairs, axis=1)
    grid = np.indices((num, num)).reshape(2, -1)
    yield grid[:, grid[0] != grid[1]]


def components(num: int, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Ints:
    """int64[num], the strongly connected component of each position in the graph of edges `src` to `dst`; that of 0 is 0."""
    return Graph.of(num, src, dst).strong_groups()[1]


def _components(topology: Topology, routes: list[Route] | None = None) -> Ints:
    """The components of the members of a group, by its own channels and some routes."""
    src, dst = np.array([route[:2] for route in routes or ()], np.int64).reshape(-1, 2).T
    return components(topology.num_npus, np.concatenate((topology.channel_src, src)), np.concatenate((topology.channel_dst, dst)))


@dataclass(frozen=True, slots=True, eq=False)
class GroupTopology:
    """A group's network."""

    topology: Topology
    num_routed: int


def group_topology(network: Topology, config: NetworkConfig, members: tuple[int, ...], reach: Reach = "needed") -> GroupTopology:
    """The network of a group, given by its members in ascending order.

    Parameters
    ----------
    members
        The ranks of the group, in ascending order.
    reach
        Which routes through other NPUs are links: those `needed` to connect all members, also those that are link-`disjoint`
        from all others, or `all` between members that have no link (of groups of up to 16 members).

    Raises
    ------
    ConfigError
        If members cannot reach one another.
    """
    if len(members) == network.num_npus:
        return GroupTopology(network, 0)
    dimensions = regular_part(config, members, reach)
    if dimensions is not None:
        return GroupTopology(build_topology(NetworkConfig(config.source, dimensions)), 0)
    chosen = np.array(members, np.int64)
    kept, device = _induced_links(network, chosen)
    topology = Topology(
        f"{network.name}[{len(members)}]",
        len(members),
        int(device.max()) + 1 - len(members),
        device[network.link_src[kept]].astype(np.int32),
        device[network.link_dst[kept]].astype(np.int32),
        network.link_bandwidth_gibps[kept],
        network.link_latency_ns[kept],
        np.full(len(kept), NO_DIMENSION, np.int16),
    )
    if reach == "needed" and not _components(topology).any():
        return GroupTopology(topology, 0)
    routes = choose_routes(network, config, chosen, kept, topology, reach)
    if _components(topology, routes).any():
        ranks = ", ".join(map(str, members[:6])) + (", ..." if len(members) > 6 else "")
        raise ConfigError(
            f"{config.source}: the ranks of the group {ranks} cannot reach one another without other ranks between them: "
            "expected groups that links connect"
        )
    src, dst, bandwidth, latency = np.array(routes).reshape(-1, 4).T
    with_routes = replace(
        topology,
        link_src=np.concatenate((topology.link_src, src)).astype(np.int32),
        link_dst=np.concatenate((topology.link_dst, dst)).astype(np.int32),
        link_bandwidth_gibps=np.concatenate((topology.link_bandwidth_gibps, bandwidth)),
        link_latency_ns=np.concatenate((topology.link_latency_ns, latency)),
        link_dimension=np.full(topology.num_links + len(src), NO_DIMENSION, np.int16),
    )
    return GroupTopology(with_routes, len(routes))


def regular_part(config: NetworkConfig, members: tuple[int, ...], reach: Reach) -> tuple[Dimension, ...] | None:
    """The dimensions of a group that is a part of every dimension of a regular network, else None.

    A part of a building block may be one, too: of a ring, neighbours are a line. Where messages hop through members, those that
    are not in the group may offer more routes than the part has.
    """
    if not config.dimensions or config.link_overrides or config.failed_links:
        return None
    left, dimensions, most = np.array(members, np.int64), [], 1
    for dimension in config.dimensions:
        present = np.unique(left % dimension.size)
        left, most = left // dimension.size, most * len(present)
        if len(present) == 1:
            continue
        block = dimension.building_block
        part: str | None = block.name
        if len(present) < dimension.size:
            part = None if block.hops_through_members and reach != "needed" else block.part(dimension.size, present)
        if part is None:
            return None
        dimensions.append(replace(dimension, block=part, size=len(present)))
    return tuple(dimensions) if most == len(members) else None


def _induced_links(network: Topology, members: Ints) -> tuple[Ints, Ints]:
    """Links among members and through switches that several of them have, and the new number of each device (-1: none)."""
    device = np.full(network.num_devices, -1, np.int64)
    device[members] = np.arange(len(members))
    inside = device >= 0
    ups = np.flatnonzero(inside[network.link_src] & (network.link_dst >= network.num_npus))
    downs = np.flatnonzero(inside[network.link_dst] & (network.link_src >= network.num_npus))
    num_ups = np.bincount(network.link_dst[ups], minlength=network.num_devices)
    num_downs = np.bincount(network.link_src[downs], minlength=network.num_devices)
    switches = np.flatnonzero((num_ups > 0) & (num_downs > 0) & (num_ups + num_downs > 2))
    device[switches] = len(members) + np.arange(len(switches))
    kept = np.flatnonzero((device[network.link_src] >= 0) & (device[network.link_dst] >= 0))
    return kept, device


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pairs of members whose route passes no third member.

    Parameters
    ----------
    src, dst
        int64[num_pairs], positions of the ends.
    first, link
        The links of the fabric on the route of pair p are `link[first[p]:first[p + 1]]`, in order.
    """

    num_members: int
    src: Ints
    dst: Ints
    first: Ints
    link: Ints

    @property
    def hops(self) -> Ints:
        """int64[num_pairs], the number of links of each route."""
        return np.diff(self.first)

    @property
    def components(self) -> Ints:
        """int64[num_members], the component of each member."""
        return components(self.num_members, self.src, self.dst)

    def some(self, chosen: Ints) -> _Pairs:
        """These pairs alone."""
        first, place = members_of(self.first, chosen)
        return _Pairs(self.num_members, self.src[chosen], self.dst[chosen], first, self.link[place])


def fabric_views(network: Topology, members: tuple[int, ...]) -> dict[str, Topology]:
    """What a group may take a fabric for, by the name of the view; NPUs are positions in the group.

    Parameters
    ----------
    members
        The ranks of the group, in ascending order. The NPUs of others pass on what the routes of the fabric take over them, as
        its devices do, and do nothing else.
    """
    pairs = _pairs(network, np.array(members, np.int64))
    views = {name: view(network, pairs) for name, view in _VIEWS.items()}
    return {name: view for name, view in views.items() if view is not None}


def _pairs(network: Topology, members: Ints) -> _Pairs:
    """The pairs of a group: all of them, or in large groups those at distances of powers of two, if these connect it."""
    for ends in _pair_sets(len(members)):
        pairs = _usable(network, members, ends)
        if not pairs.components.any():
            break
    return pairs


def _usable(network: Topology, members: Ints, ends: Ints) -> _Pairs:
    first, link = DeviceRoutes(network).find(members[ends[0]], members[ends[1]])
    pairs = _Pairs(len(members), ends[0], ends[1], first, link)
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
    is_taken = np.zeros(network.num_links, np.bool_)
    chosen = []
    for pair in np.lexsort((pairs.src, offset, pairs.hops)).tolist():
        links = pairs.link[pairs.first[pair] : pairs.first[pair + 1]]
        if not is_taken[links].any():
            is_taken[links] = True
            chosen.append(pair)
    chosen_pairs = pairs.some(np.array(sorted(chosen), np.int64))
    return None if chosen_pairs.components.any() else _of_pairs(network, chosen_pairs, network.link_bandwidth_gibps)


def _of_pairs(network: Topology, pairs: _Pairs, bandwidth_gibps: Floats) -> Topology:
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
    latency_ns = np.add.reduceat(network.link_latency_ns[pairs.link], pairs.first[:-1])
    number = np.unique(area[entered[within]], return_inverse=True)[1] + pairs.num_members
    ups = _ports(network, pairs.src[within], number, up[within], network.link_latency_ns[up[within]])
    downs = _ports(network, pairs.dst[within], number, down[within], (latency_ns - network.link_latency_ns[up])[within])
    columns = [
        np.concatenate(parts)
        for parts in zip(
            ups,
            (downs[1], downs[0], downs[2], downs[3]),
            (pairs.src[direct], pairs.dst[direct], network.link_bandwidth_gibps[up[direct]], latency_ns[direct]),
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


def _ports(network: Topology, npu: Ints, switch: Ints, link: Ints, latency_ns: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """NPU, switch, bandwidth and latency of each port, in one direction, given those of each pair and the link that it uses."""
    ports, which = np.unique(np.stack((npu, switch)), axis=1, return_inverse=True)
    of_pair = which.ravel()
    used = np.unique(np.stack((of_pair, link)), axis=1)
    bandwidth = np.bincount(used[0], network.link_bandwidth_gibps[used[1]], ports.shape[1])
    mean = np.bincount(of_pair, latency_ns, ports.shape[1]) / np.bincount(of_pair, minlength=ports.shape[1])
    return ports[0], ports[1], bandwidth.astype(np.float64), np.round(mean)


_VIEWS: Mapping[str, Callable[[Topology, _Pairs], Topology | None]] = {
    "shared": _shared,
    "apart": _apart,
    "crossbars": _crossbars,
}
