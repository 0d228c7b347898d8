"""The network as the members of a group see it: members are its NPUs, in ascending order of their ranks.

Links and switches between members are kept. Where those do not connect all members, a route through other NPUs becomes one link,
with the sum of its latencies and its smallest bandwidth: ASTRA-sim allows a message between any two NPUs. Times over such links
are estimates, because others may use the NPUs on the way, and each of those stores and forwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import NO_DIMENSION, Topology
from astra_tacos.planner.group_routes import Reach, choose_routes, components
from astra_tacos.support.errors import ConfigError


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
    """The network of a group, given by its members in ascending order.

    Parameters
    ----------
    network
        The whole network.
    config
        Its description.
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
    if len(np.unique(components(len(members), own.channel_src, own.channel_dst))) == 1 and reach == "needed":
        return GroupTopology(own, 0)
    routes = choose_routes(network, config, chosen, kept, own, reach)
    if not routes:
        _check_connected(own, members, config)
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
    _check_connected(whole, members, config)
    return GroupTopology(whole, len(src))


def _check_connected(topology: Topology, members: tuple[int, ...], config: NetworkConfig) -> None:
    """Raise a `ConfigError` if there is no way from some member to another one."""
    if len(np.unique(components(len(members), topology.channel_src, topology.channel_dst))) > 1:
        ranks = ", ".join(map(str, members[:6])) + (", ..." if len(members) > 6 else "")
        raise ConfigError(
            f"{config.source}: the ranks of the group {ranks} cannot reach one another without other ranks between them: "
            "expected groups that links connect"
        )


def _regular(config: NetworkConfig, members: tuple[int, ...], reach: Reach) -> Topology | None:
    """The topology of a group that is a part of every dimension of a regular network, else None.

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
