"""From a network's description to its topology: composes dimensions, applies failures and overrides, checks connectivity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from astra_tacos.network.blocks.building_block import BlockLinks
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.network_config import Dimension, NetworkConfig, check_block_sizes, check_values, count_links_of
from astra_tacos.network.topology import MAX_CHANNELS, NO_DIMENSION, Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError


def build_topology(network: NetworkConfig, *, may_forward: bool = False) -> Topology:
    """Topology of a network, in which every NPU can reach every other.

    Parameters
    ----------
    network
        The network.
    may_forward
        Whether the caller tells devices that only forward from NPUs; they are refused otherwise.

    Raises
    ------
    ConfigError
        If a value is out of range, a building block is unknown or cannot have its size, a failed or overridden link does not
        exist, the network is disconnected (an unreachable pair is named), or it has more channels than can be handled.

    Examples
    --------
    >>> from astra_tacos import build_topology, read_network
    >>> build_topology(read_network("configs/network/torus_4x4.yml")).num_links
    64
    """
    check_values(network)
    if (network.forwarding or network.reducing) and not may_forward:
        raise ConfigError(
            f"{network.source}: {network.num_others} devices after the {network.num_npus} NPUs "
            f"{'add or forward' if network.reducing else 'only forward'}, expected a "
            "network of NPUs here: docs/fabrics.md says which commands take such graphs"
        )
    topology = _compose(network) if network.dimensions else _from_links(network)
    topology = _override(topology, network)
    topology = _remove(topology, network)
    topology = _let_reduce(topology, network)
    _check_channels(topology, network.source)
    _check_connected(topology, network.source)
    return topology


def _compose(network: NetworkConfig) -> Topology:
    check_dimensions(network)
    num_npus = network.num_npus
    blocks: list[tuple[BlockLinks, int, Dimension]] = []
    stride = 1
    for dimension in network.dimensions:
        blocks.append((dimension.building_block.links(dimension.size), stride, dimension))
        stride *= dimension.size
    src: list[Ints] = []
    dst: list[Ints] = []
    of_dimension: list[Ints] = []
    num_switches = 0
    for index, (block, stride, dimension) in enumerate(blocks):
        groups = _group_bases(num_npus, stride, dimension.size)
        members = np.arange(dimension.size) * stride
        switch_base = num_npus + num_switches
        for ends, column in ((block.src, src), (block.dst, dst)):
            is_switch = ends >= dimension.size
            npu_part = groups[:, None] + members[np.where(is_switch, 0, ends)]
            switch_part = switch_base + np.arange(len(groups))[:, None] * block.num_switches + (ends - dimension.size)
            column.append(np.where(is_switch, switch_part, npu_part).ravel())
        num_switches += len(groups) * block.num_switches
        of_dimension.append(np.full(len(src[-1]), index))
    link_dimension = np.concatenate(of_dimension)
    return Topology(
        network.name,
        num_npus,
        num_switches,
        np.concatenate(src).astype(np.int32),
        np.concatenate(dst).astype(np.int32),
        np.array([d.bandwidth_gibps for d in network.dimensions], np.float64)[link_dimension],
        np.array([d.latency_ns for d in network.dimensions], np.float64)[link_dimension],
        link_dimension.astype(np.int16),
        network.dimensions,
    )


def check_dimensions(network: NetworkConfig) -> None:
    """Check, before any array is made, that there are such building blocks of these sizes, and not too many channels.

    Raises
    ------
    ConfigError
        If not.
    """
    check_block_sizes(network.source, network.dimensions)
    total = 0
    for dimension in network.dimensions:
        total += dimension.building_block.estimated_channels(dimension.size) * (network.num_npus // dimension.size)
        if total > MAX_CHANNELS:
            raise ConfigError(
                f"{network.source}: {dimension.block} {dimension.size} among {network.num_npus:,} NPUs makes {total:,} channels, "
                f"expected at most {MAX_CHANNELS:,}"
            )


def count_links(network: NetworkConfig) -> int:
    """Number of links of a network without the failed ones, computed without building it."""
    return len(network.links) + count_links_of(network.dimensions) - len(network.failed_links)


def _group_bases(num_npus: int, stride: int, size: int) -> Ints:
    """Member 0 of every group of NPUs that differ only in the coordinate of this stride."""
    return np.flatnonzero((np.arange(num_npus) // stride) % size == 0)


def _from_links(network: NetworkConfig) -> Topology:
    return Topology(
        network.name,
        network.num_npus + len(network.forwarding),
        0,
        np.array([link.src for link in network.links], np.int32),
        np.array([link.dst for link in network.links], np.int32),
        np.array([link.bandwidth_gibps for link in network.links], np.float64),
        np.array([link.latency_ns for link in network.links], np.float64),
        np.full(len(network.links), NO_DIMENSION, np.int16),
        forwarding=network.forwarding,
    )


def _override(topology: Topology, network: NetworkConfig) -> Topology:
    if not network.link_overrides:
        return topology
    bandwidth, latency = topology.link_bandwidth_gibps.copy(), topology.link_latency_ns.copy()
    find = _link_finder(topology, network.source, "link_overrides")
    for override in network.link_overrides:
        link = find(override.src, override.dst)
        bandwidth[link] = bandwidth[link] if override.bandwidth_gibps is None else override.bandwidth_gibps
        latency[link] = latency[link] if override.latency_ns is None else override.latency_ns
    return _with_links(topology, np.arange(topology.num_links), bandwidth, latency)


def _remove(topology: Topology, network: NetworkConfig) -> Topology:
    if not network.failed_links:
        return topology
    find = _link_finder(topology, network.source, "failed_links")
    kept = np.ones(topology.num_links, bool)
    for src, dst in network.failed_links:
        kept[find(src, dst)] = False
    return _with_links(topology, np.flatnonzero(kept), topology.link_bandwidth_gibps, topology.link_latency_ns)


def with_failed_links(topology: Topology) -> Topology:
    """The topology with the links that its dimensions have and that it lacks, after its own: those that failed."""
    if not topology.dimensions:
        return topology
    complete = _compose(NetworkConfig(topology.name, topology.dimensions))
    if (complete.num_npus, complete.num_switches) != (topology.num_npus, topology.num_switches):
        return topology
    there = topology.link_src.astype(np.int64) * topology.num_devices + topology.link_dst
    failed = np.flatnonzero(~np.isin(complete.link_src.astype(np.int64) * complete.num_devices + complete.link_dst, there))
    of_links = ("link_src", "link_dst", "link_bandwidth_gibps", "link_latency_ns", "link_dimension")
    parts: dict[str, Any] = {
        name: np.concatenate((getattr(topology, name), getattr(complete, name)[failed])) for name in of_links
    }
    return replace(topology, **parts)


def _let_reduce(topology: Topology, network: NetworkConfig) -> Topology:
    """The topology with its reducing devices, of which switches of dimensions make it a graph with devices that forward."""
    if not network.reducing:
        return topology
    if topology.has_switches:
        topology = with_switches_forwarding(topology)
    return replace(topology, reducing=network.reducing)


def with_switches_forwarding(topology: Topology) -> Topology:
    """The graph in which the switches of dimensions are devices that forward, with the same ids."""
    return replace(
        topology,
        num_npus=topology.num_devices,
        num_switches=0,
        dimensions=(),
        link_dimension=np.full(topology.num_links, NO_DIMENSION, np.int16),
        forwarding=(ForwardingDevice(),) * topology.num_switches,
    )


def restricted(topology: Topology, kept: Ints, source: str) -> Topology:
    """The topology with some of its links only.

    Parameters
    ----------
    kept
        int64[n], ascending, the links that it keeps.

    Raises
    ------
    ConfigError
        If NPUs cannot reach one another any more.
    """
    part = _with_links(topology, kept, topology.link_bandwidth_gibps, topology.link_latency_ns)
    _check_connected(part, source)
    return part


def first_npus(topology: Topology, count: int) -> Topology:
    """A graph with devices that forward without all but its first NPUs; devices get ids that follow theirs.

    Raises
    ------
    ConfigError
        If these NPUs are not connected without the others.
    """
    removed = topology.num_endpoints - count
    kept = np.ones(topology.num_npus, np.bool_)
    kept[count : topology.num_endpoints] = False
    number = np.arange(topology.num_npus) - np.where(np.arange(topology.num_npus) < count, 0, removed)
    left = _with_links(
        topology,
        np.flatnonzero(kept[topology.link_src] & kept[topology.link_dst]),
        topology.link_bandwidth_gibps,
        topology.link_latency_ns,
    )
    smaller = replace(
        left,
        num_npus=topology.num_npus - removed,
        link_src=number[left.link_src].astype(np.int32),
        link_dst=number[left.link_dst].astype(np.int32),
        reducing=tuple(replace(device, device=device.device - removed) for device in topology.reducing),
    )
    _check_connected(smaller, f"{topology.name}, its first {count} NPUs alone")
    return smaller


def _with_links(topology: Topology, kept: Ints, bandwidth: Floats, latency: Floats) -> Topology:
    return replace(
        topology,
        link_src=topology.link_src[kept],
        link_dst=topology.link_dst[kept],
        link_bandwidth_gibps=bandwidth[kept],
        link_latency_ns=latency[kept],
        link_dimension=topology.link_dimension[kept],
    )


def _link_finder(topology: Topology, source: str, key: str) -> Callable[[int, int], int]:
    ends = list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    links = {pair: link for link, pair in enumerate(ends)}
    parallel = {pair for pair, count in Counter(ends).items() if count > 1} if topology.forwarding else set()

    def find(src: int, dst: int) -> int:
        link = links.get((src, dst))
        if (src, dst) in parallel:
            raise ConfigError(
                f"{source}: astra_tacos.{key} names {src} -> {dst}, which are parallel links, expected a single one"
            )
        if link is not None:
            return link
        hint = ""
        if max(src, dst) < topology.num_npus and src != dst:
            channel = int(topology.channel_of(np.array([src]), np.array([dst]))[0])
            if channel >= 0:
                switch_id = int(topology.link_dst[topology.channel_link[channel]])
                hint = f"; they meet in switch {switch_id}, whose ports are [{src}, {switch_id}] and [{switch_id}, {dst}]"
        raise ConfigError(f"{source}: astra_tacos.{key} names {src} -> {dst}, expected a link of the network{hint}")

    return find


def _check_channels(topology: Topology, source: str) -> None:
    """Refuse links that do not make channels: a switch would be taken for an NPU, or one of two channels for both."""
    num_npus = topology.num_npus
    between = np.flatnonzero((topology.link_src >= num_npus) & (topology.link_dst >= num_npus))
    if len(between):
        raise ConfigError(
            f"{source}: {topology.describe_link(int(between[0]))} is a link, expected an NPU at one end of every link"
        )
    if topology.forwarding:
        return
    again = np.flatnonzero((np.diff(topology.channel_src) == 0) & (np.diff(topology.channel_dst) == 0))
    if len(again):
        src, dst = topology.channel_src[again[0]], topology.channel_dst[again[0]]
        raise ConfigError(f"{source}: two ways lead from NPU {src} to NPU {dst} without others between, expected one")


def _check_connected(topology: Topology, source: str) -> None:
    graph = topology.link_graph()
    for reverse in (False, True):
        distance = (graph.turned if reverse else graph).from_nearest([0])
        missed = np.flatnonzero(np.isinf(distance[: topology.num_endpoints]))
        if len(missed):
            src, dst = (int(missed[0]), 0) if reverse else (0, int(missed[0]))
            raise ConfigError(f"{source}: NPU {src} cannot reach NPU {dst}, expected a connected network")
