"""Models of ASTRA-sim's analytical networks: their links, and the routes of messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig, check_block_sizes
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import Topology
from astra_tacos.replayer._packet_kernels import advance, no_packets
from astra_tacos.replayer._run_table_kernels import Code, Progress
from astra_tacos.run.backend import CONGESTION_UNAWARE
from astra_tacos.support.arrays import Floats, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import bytes_per_ns

if TYPE_CHECKING:
    from astra_tacos.replayer.compilation import Compiled

END = -1
"""Ends a route."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Message p crosses the links `link[first_hop[p]]`, `link[first_hop[p] + 1]`, ... until an entry of -1.

    In a model without links, a message p of b bytes takes int(`direct_latency_ns[p]` + b / `direct_bytes_per_ns[p]`) ns instead.
    """

    first_hop: Ints
    link: Ints32
    direct_latency_ns: Floats
    direct_bytes_per_ns: Floats


class Engine(Protocol):
    """What carries out the events of a replay."""

    def __call__(self, code: Code, state: Progress, max_events: int, /) -> int:
        """Replay up to about `max_events` events, and return how that ended, as the kernel `advance` does."""


class NetworkModel(Protocol):
    """Routes and rates of messages. Arrays have an entry per link: ends (switches after the NPUs), latency, bandwidth."""

    link_src: Ints32
    link_dst: Ints32
    link_latency_ns: Floats
    link_bytes_per_ns: Floats
    hands_over: bool
    """As in `Code`."""

    def routes(self, src: Ints, dst: Ints) -> Routes:
        """Routes of messages between pairs of NPUs."""

    def engine(self, compiled: Compiled) -> Engine:
        """What replays a run on this network."""


def _advance_messages(code: Code, state: Progress, max_events: int, /) -> int:
    """The engine of networks on which a message is one thing."""
    status: int = advance(code, state, no_packets(), max_events)
    return status


class WholeMessages:
    """What network models have in common on which a message is one thing."""

    hands_over: bool = False

    def engine(self, compiled: Compiled) -> Engine:
        """See `NetworkModel.engine`."""
        return _advance_messages


class TopologyLinks:
    """The links of models that have those of the network's topology."""

    def __init__(self, network: NetworkConfig) -> None:
        self._network, self._topology = network, topology_of(network)
        self.link_src, self.link_dst = self._topology.link_src, self._topology.link_dst
        self.link_dimension = self._topology.link_dimension
        self.link_latency_ns = self._topology.link_latency_ns.copy()
        self.link_bytes_per_ns = bytes_per_ns(self._topology.link_bandwidth_gibps)


class CongestionUnaware(WholeMessages):
    """No queues: a message takes int(hops * latency + size / bandwidth) ns in the first dimension in which its ends differ.

    Source: `congestion_unaware/MultiDimTopology.cpp`, `BasicTopology.cpp`. Link failures have no effect.

    Raises
    ------
    ConfigError
        If the network is a graph without dimensions or overrides links, or if this model lacks a dimension's building block.
    """

    def __init__(self, network: NetworkConfig) -> None:
        if not network.dimensions or network.link_overrides:
            key = "link_overrides" if network.dimensions else "links"
            raise ConfigError(
                f"{network.source}: astra_tacos.{key} is beyond the {CONGESTION_UNAWARE} backend, expected dimensions"
            )
        check_block_sizes(network.source, network.dimensions)
        self._dimensions = network.dimensions
        self.link_src, self.link_dst = np.empty((2, 0), np.int32)
        self.link_latency_ns, self.link_bytes_per_ns = np.empty((2, 0))

    def routes(self, src: Ints, dst: Ints) -> Routes:
        """See `NetworkModel.routes`."""
        latency_ns, rate = np.full(len(src), -1.0), np.ones(len(src))
        stride = 1
        for dimension in self._dimensions:
            here, there = (src // stride) % dimension.size, (dst // stride) % dimension.size
            first = (here != there) & (latency_ns < 0)
            hops = dimension.building_block.num_crossed(dimension.size, here[first], there[first])
            latency_ns[first] = hops * dimension.latency_ns
            rate[first] = bytes_per_ns(np.array([dimension.bandwidth_gibps]))[0]
            stride *= dimension.size
        return Routes(np.zeros(len(src), np.int64), np.empty(0, np.int32), latency_ns, rate)


class CongestionAware(TopologyLinks, WholeMessages):
    """Links are FIFO queues; a hop takes int(latency + size / bandwidth) ns and holds its link for int(size / bandwidth) ns.

    Source: `congestion_aware/Link.cpp`, `Ring.cpp`, `Switch.cpp`. This model goes beyond ASTRA-sim's, which takes one dimension
    and fewer building blocks: each dimension has its own links, and routes cross the dimensions in order, lowest first; link
    overrides and failures count, and a route that needs a failed link is a shortest one around it; in a graph without dimensions
    only neighbours exchange messages, unless it has devices that forward: then messages take the fixed routes of `DeviceRoutes`,
    over these devices and where need be over other NPUs.
    """

    def routes(self, src: Ints, dst: Ints) -> Routes:
        """See `NetworkModel.routes`.

        Raises
        ------
        ConfigError
            If a route needs a link that does not exist.
        """
        topology = self._topology
        if topology.forwarding:
            return listed_routes(*DeviceRoutes(topology).find(src, dst))
        owner, source, target = crossed_pairs(self._network, src, dst)
        channel = topology.channel_of(source, target)
        if channel.size and channel.min() < 0:
            bad = int(np.argmin(channel))
            route = f"from rank {src[owner[bad]]} to rank {dst[owner[bad]]}"
            raise ConfigError(
                f"{self._network.source}: the route {route} needs the link {source[bad]} -> {target[bad]}, which does not exist"
            )
        count, link = topology.links_of(channel)
        num_hops = np.bincount(owner, count, minlength=len(src)).astype(np.int64)
        return listed_routes(np.concatenate(([0], np.cumsum(num_hops))), link)


def listed_routes(first: Ints, hops: NDArray[np.integer]) -> Routes:
    """Routes of the links that belong to each message (CSR)."""
    num_hops = np.diff(first)
    first_hop = first[:-1] + np.arange(len(num_hops))
    link = np.full(int(first[-1]) + len(num_hops), END, np.int32)
    is_link = np.ones(len(link), np.bool_)
    is_link[first_hop + num_hops] = False
    link[is_link] = hops
    return Routes(first_hop.astype(np.int64), link, np.empty(0), np.empty(0))


@lru_cache(maxsize=8)
def topology_of(network: NetworkConfig) -> Topology:
    """The topology of a network, cached, as many runs are replayed on one network."""
    return build_topology(network, may_forward=True)


def crossed_pairs(network: NetworkConfig, src: Ints, dst: Ints) -> tuple[Ints, Ints, Ints]:
    """The hops between NPUs on the route of each pair: number of the pair, source and target of the hop.

    The three int64 arrays are sorted by pair, then along the route. A pair whose route needs a failed link takes one over as few
    NPUs as possible instead, as `DeviceRoutes` chooses it.
    """
    owners, sources, targets = [], [], []
    if not network.dimensions:
        owners, sources, targets = [np.arange(len(src))], [src], [dst]
    at, stride = src.copy(), 1
    for dimension in network.dimensions:
        here, there = (at // stride) % dimension.size, (dst // stride) % dimension.size
        while (moving := np.flatnonzero(here != there)).size:
            to = dimension.building_block.next_member(dimension.size, here[moving], there[moving])
            target = at[moving] + (to - here[moving]) * stride
            owners.append(moving)
            sources.append(at[moving])
            targets.append(target)
            at[moving], here[moving] = target, to
        stride *= dimension.size
    if not owners:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    owner, source, target = (np.concatenate(column) for column in (owners, sources, targets))
    if network.failed_links and network.dimensions:
        owner, source, target = _around_failures(topology_of(network), src, dst, owner, source, target)
    order = np.argsort(owner, kind="stable")
    return owner[order], source[order], target[order]


def _around_failures(
    topology: Topology,
    src: Ints,
    dst: Ints,
    owner: Ints,
    source: Ints,
    target: Ints,
) -> tuple[Ints, Ints, Ints]:
    """The hops of `crossed_pairs`, each pair's along its route, with other routes where a link does not exist."""
    broken = np.unique(owner[topology.channel_of(source, target) < 0])
    if not len(broken):
        return owner, source, target
    first, link = DeviceRoutes(topology).find(src[broken], dst[broken])
    of_link = np.repeat(broken, np.diff(first))
    ends = topology.link_dst[link].astype(np.int64)
    at_npu = ends < topology.num_npus  # a switch is no hop of its own
    reached, of_hop = ends[at_npu], of_link[at_npu]
    begins = np.roll(reached, 1)
    is_first = np.diff(of_hop, prepend=-1) != 0
    begins[is_first] = src[of_hop[is_first]]
    kept = ~np.isin(owner, broken)
    joined = ((owner, of_hop), (source, begins), (target, reached))
    of_pair, begin, end = (np.concatenate((old[kept], new)) for old, new in joined)
    return of_pair, begin, end
