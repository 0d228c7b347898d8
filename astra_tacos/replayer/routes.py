"""Routes of messages on ASTRA-sim's analytical networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.network import Dimension, NetworkConfig
from astra_tacos.errors import ConfigError
from astra_tacos.topology.composition import build_topology
from astra_tacos.topology.topology import NO_LINK, Topology
from astra_tacos.units import bytes_per_ns


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Entries `first[i] .. end[i]` of `link` are what message i crosses; with no links at all, it takes `direct_ns[i]`."""

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    link: NDArray[np.int64]
    direct_ns: NDArray[np.int64]
    latency_ns: NDArray[np.float64]
    bytes_per_ns: NDArray[np.float64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]


def direct_delays(
    network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> Routes:
    if not network.dimensions or network.link_overrides:
        key = "link_overrides" if network.dimensions else "links"
        raise ConfigError(f"{network.source}: astra_tacos.{key} is beyond the congestion-unaware backend, expected dimensions")
    delay_ns = np.full(len(src), -1.0)
    stride = 1
    for dimension in network.dimensions:
        here, there = (src // stride) % dimension.size, (dst // stride) % dimension.size
        first = (here != there) & (delay_ns < 0)
        hops = 2 if dimension.block == "Switch" else np.abs(_steps(dimension, here, there))
        rate = bytes_per_ns(np.float64(dimension.bandwidth_gibps))  # type: ignore[arg-type]
        delay_ns = np.where(first, hops * dimension.latency_ns + size_bytes / rate, delay_ns)
        stride *= dimension.size
    no_links, no_ends = np.empty(0), np.empty(0, np.int32)
    no_hops = np.zeros(len(src), np.int64)
    return Routes(no_hops, no_hops, np.empty(0, np.int64), delay_ns.astype(np.int64), no_links, no_links, no_ends, no_ends.copy())


def links_crossed(
    network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64], size_bytes: NDArray[np.int64]
) -> Routes:
    topology = build_topology(network)
    num_npus = topology.num_npus
    pairs, pair = np.unique(src * num_npus + dst, return_inverse=True)
    owner, channel = _channels_crossed(topology, network, *np.divmod(pairs, num_npus))
    links = np.stack((topology.channel_link[channel], topology.channel_down_link[channel]), axis=1)
    used = links != NO_LINK
    link = links[used].astype(np.int64)
    pair_first = np.searchsorted(np.repeat(owner, used.sum(axis=1)), np.arange(len(pairs) + 1))
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    direct_ns = np.zeros(len(src), np.int64)
    latency_ns = topology.link_latency_ns.copy()  # a read-only array would make numba compile the kernel twice
    return Routes(
        pair_first[pair],
        pair_first[pair + 1],
        link,
        direct_ns,
        latency_ns,
        rate,
        topology.link_src,
        topology.link_dst,
    )


def _channels_crossed(
    topology: Topology, network: NetworkConfig, src: NDArray[np.int64], dst: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Channels on the route of each pair of NPUs: the pair's number and the channel, in order of pair, then of travel."""
    owners, sources, targets = [], [], []
    if not network.dimensions:
        owners, sources, targets = [np.arange(len(src))], [src], [dst]
    at, stride = src.copy(), 1
    for dimension in network.dimensions:
        here, there = (at // stride) % dimension.size, (dst // stride) % dimension.size
        left = _steps(dimension, here, there)
        hopping = dimension.block in ("Ring", "Mesh")
        while (moving := np.flatnonzero(left)).size:
            to = (here[moving] + np.sign(left[moving])) % dimension.size if hopping else there[moving]
            target = at[moving] + (to - here[moving]) * stride
            owners.append(moving)
            sources.append(at[moving])
            targets.append(target)
            at[moving], here[moving] = target, to
            left[moving] -= np.sign(left[moving])
        stride *= dimension.size
    if not owners:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owner, source, target = (np.concatenate(column) for column in (owners, sources, targets))
    order = np.argsort(owner, kind="stable")
    channel = topology.channel_of(source, target)
    if channel.size and channel.min() < 0:
        bad = int(np.argmin(channel))
        route = f"from rank {src[owner[bad]]} to rank {dst[owner[bad]]}"
        raise ConfigError(
            f"{network.source}: the route {route} needs the link {source[bad]} -> {target[bad]}, which is not there"
        )
    return owner[order], channel[order]


def _steps(dimension: Dimension, here: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hops from one coordinate to another, negative towards lower ones; a ring's tie goes upwards (`Ring.cpp`)."""
    if dimension.block == "Ring":
        up = (there - here) % dimension.size
        return np.where(dimension.size - up < up, up - dimension.size, up)
    return there - here if dimension.block == "Mesh" else (there != here).astype(np.int64)
