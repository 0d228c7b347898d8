"""The network as the members of a group see it: members are its NPUs, in ascending order of their ranks.

Links between members stay, switches between them too. Where those do not connect all members, a route through other NPUs becomes
one link, of the sum of its latencies and of its smallest bandwidth: a message between any two NPUs is legal in ASTRA-sim. Times
over such links are estimates, as others may use the NPUs on the way, and each of them stores and forwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import NetworkConfig
from astra_tacos.errors import ConfigError
from astra_tacos.replayer.routes import crossed_pairs
from astra_tacos.topology.composition import build_topology
from astra_tacos.topology.topology import NO_DIMENSION, NO_LINK, Topology

Reach = Literal["needed", "disjoint", "all"]
REACHES: tuple[Reach, ...] = ("needed", "disjoint", "all")
_ALL_PAIRS_UP_TO = 16
_SEARCHED_UP_TO = 256


@dataclass(frozen=True, slots=True, eq=False)
class GroupTopology:
    """A group's network.

    Parameters
    ----------
    topology
        Its NPUs are positions in the group.
    num_routed
        How many of its links are routes through other NPUs.
    """

    topology: Topology
    num_routed: int


def group_topology(network: Topology, config: NetworkConfig, members: tuple[int, ...], reach: Reach = "needed") -> GroupTopology:
    """The network of a group, whose members ascend.

    Parameters
    ----------
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
    whole = _regular(config, members, reach)
    if whole is not None:
        return GroupTopology(whole, 0)
    chosen = np.array(members, np.int64)
    kept, device = _induced_links(network, chosen)
    num_switches = int(device.max()) + 1 - len(members) if device.max() >= len(members) else 0
    own = Topology(
        f"{network.name}[{len(members)}]",
        len(members),
        num_switches,
        device[network.link_src[kept]].astype(np.int32),
        device[network.link_dst[kept]].astype(np.int32),
        network.link_bandwidth_gibps[kept],
        network.link_latency_ns[kept],
        np.full(len(kept), NO_DIMENSION, np.int16),
    )
    if len(np.unique(_components(len(members), own.channel_src, own.channel_dst))) == 1 and reach == "needed":
        return GroupTopology(own, 0)
    routes = _choose_routes(network, config, chosen, kept, own, reach)
    if not routes:
        if len(np.unique(_components(len(members), own.channel_src, own.channel_dst))) > 1:
            raise ConfigError(f"{network.name}: the ranks {', '.join(map(str, members[:6]))}, ... cannot reach one another")
        return GroupTopology(own, 0)
    src, dst, bandwidth, latency = (np.array(column) for column in zip(*routes, strict=True))
    whole = replace(
        own,
        link_src=np.concatenate((own.link_src, src)).astype(np.int32),
        link_dst=np.concatenate((own.link_dst, dst)).astype(np.int32),
        link_bandwidth_gibps=np.concatenate((own.link_bandwidth_gibps, bandwidth)),
        link_latency_ns=np.concatenate((own.link_latency_ns, latency)),
        link_dimension=np.full(own.num_links + len(src), NO_DIMENSION, np.int16),
    )
    return GroupTopology(whole, len(src))


def _regular(config: NetworkConfig, members: tuple[int, ...], reach: Reach) -> Topology | None:
    """The topology of a group that is a part of every dimension of a regular network, else None.

    A part of a ring is a line, and so is that of a line; of the other building blocks any part is one of their kind.
    """
    if not config.dimensions or config.link_overrides or config.failed_links:
        return None
    left, dimensions, most = np.array(members, np.int64), [], 1
    for dimension in config.dimensions:
        present = np.unique(left % dimension.size)
        left, most = left // dimension.size, most * len(present)
        if len(present) == 1:
            continue
        part = replace(dimension, size=len(present))
        if len(present) < dimension.size and dimension.block in ("Ring", "Mesh"):
            if reach != "needed" or present[-1] - present[0] >= len(present):
                return None
            part = replace(part, block="Mesh")
        dimensions.append(part)
    return build_topology(NetworkConfig(config.source, tuple(dimensions))) if most == len(members) else None


def _induced_links(network: Topology, members: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links among members and through switches that several of them have, and the new number of each device (-1: none)."""
    device = np.full(network.num_devices, -1, np.int64)
    device[members] = np.arange(len(members))
    inside = np.zeros(network.num_devices, np.bool_)
    inside[members] = True
    ups = np.flatnonzero(inside[network.link_src] & (network.link_dst >= network.num_npus))
    downs = np.flatnonzero(inside[network.link_dst] & (network.link_src >= network.num_npus))
    num_ups = np.bincount(network.link_dst[ups], minlength=network.num_devices)
    num_downs = np.bincount(network.link_src[downs], minlength=network.num_devices)
    switches = np.flatnonzero((num_ups > 0) & (num_downs > 0) & (num_ups + num_downs > 2))
    device[switches] = len(members) + np.arange(len(switches))
    kept = np.flatnonzero((device[network.link_src] >= 0) & (device[network.link_dst] >= 0))
    return kept, device


def _choose_routes(
    network: Topology, config: NetworkConfig, members: NDArray[np.int64], kept: NDArray[np.int64], own: Topology, reach: Reach
) -> list[tuple[int, int, float, float]]:
    """Routes that become links: (source, destination, bandwidth, latency); short ones first, links used once if possible."""
    num = len(members)
    if num > _SEARCHED_UP_TO:
        pairs = _near_pairs(num)
    else:
        grid = np.indices((num, num)).reshape(2, -1)
        pairs = grid[:, grid[0] != grid[1]]
    pairs = pairs[:, own.channel_of(pairs[0], pairs[1]) < 0]
    owner, source, target = crossed_pairs(config, members[pairs[0]], members[pairs[1]])
    channel = network.channel_of(source, target)
    is_member = np.zeros(network.num_npus, np.bool_)
    is_member[members] = True
    # A route ends at the first member that it comes to.
    into_member = np.bincount(owner[is_member[target]], minlength=pairs.shape[1])
    missing = np.bincount(owner[channel < 0], minlength=pairs.shape[1])
    length = np.bincount(owner, minlength=pairs.shape[1])
    first = np.concatenate(([0], np.cumsum(length)))
    usable = np.flatnonzero((into_member == 1) & (missing == 0))
    usable = usable[np.lexsort((pairs[1, usable], pairs[0, usable], length[usable]))]
    taken = np.zeros(network.num_links, np.bool_)
    taken[kept] = True
    component = _components(num, own.channel_src, own.channel_dst)
    edges = [list(own.channel_src), list(own.channel_dst)]
    routes: list[tuple[int, int, float, float]] = []
    left: list[int] = []

    def links_of(pair: int) -> NDArray[np.int64]:
        crossed = channel[first[pair] : first[pair + 1]]
        both = np.concatenate((network.channel_link[crossed], network.channel_down_link[crossed]))
        links: NDArray[np.int64] = both[both != NO_LINK].astype(np.int64)
        return links

    def take(pair: int) -> None:
        links = links_of(pair)
        taken[links] = True
        src, dst = int(pairs[0, pair]), int(pairs[1, pair])
        bandwidth, latency = network.link_bandwidth_gibps[links].min(), network.link_latency_ns[links].sum()
        routes.append((src, dst, float(bandwidth), float(latency)))
        edges[0].append(src)
        edges[1].append(dst)

    for pair in usable.tolist():
        apart = component[pairs[0, pair]] != component[pairs[1, pair]]
        everything = reach == "all" and num <= _ALL_PAIRS_UP_TO
        if everything or (not taken[links_of(pair)].any() and (apart or reach == "disjoint")):
            take(pair)
        else:
            left.append(pair)
    component = _components(num, np.array(edges[0], np.int64), np.array(edges[1], np.int64))
    for pair in left:
        if len(np.unique(component)) == 1:
            break
        if component[pairs[0, pair]] != component[pairs[1, pair]]:
            take(pair)
            component = _components(num, np.array(edges[0], np.int64), np.array(edges[1], np.int64))
    return routes


def _near_pairs(num: int) -> NDArray[np.int64]:
    """Of a large group, pairs whose positions are powers of two apart, both ways: too many pairs to look at all."""
    steps = 1 << np.arange((num - 1).bit_length())
    src = np.repeat(np.arange(num), len(steps))
    dst = (src + np.tile(steps, num)) % num
    pairs = np.stack((np.concatenate((src, dst)), np.concatenate((dst, src))))
    return np.unique(pairs, axis=1)


def _components(num: int, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int32]:
    """Strongly connected component of each position."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(src), np.int8), (src, dst)), shape=(num, num))
    labels: NDArray[np.int32] = connected_components(graph, connection="strong")[1]
    return labels
