"""Topology: devices, directed links between them, and the channels that sends use."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from astra_tacos.network.devices import ForwardingDevice, ReducingDevice
from astra_tacos.network.network_config import Dimension, describe_dimensions
from astra_tacos.support.arrays import Bools, Floats, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.graph import Graph
from astra_tacos.support.records import freeze

MAX_CHANNELS = 20_000_000
"""Between NPUs: tables of them take hundreds of megabytes."""
NO_LINK = -1
"""Of a channel without a switch."""
NO_DIMENSION = -1
"""Of a link of an arbitrary graph."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Topology:
    """A network as frozen arrays.

    Devices are NPUs `0 .. num_npus - 1`, then switches. A *channel* is what one send uses from one NPU to the next: a direct
    link, or an up-link into a switch and a down-link out of it. Two NPUs share at most one channel. Channels are sorted by
    (source, destination).

    A graph may have *forwarding devices* (switches, NICs, ...) at which schedules stop on their way: they count among
    `num_npus`, are the last of these, and take chunks in and give them out over channels of their own, a hop at a time. They
    begin with nothing, need nothing, add nothing and make no copies, so the members of a collective are the *endpoints* before
    them. Some of them may be *reducing devices*, which schedules may also use as they use an NPU that is no member: they add what
    comes to them and send what they have to several others. `build_topology` makes such a graph only for callers that ask for
    it. There, channels may be parallel.

    Parameters
    ----------
    name
        What to call it in print.
    num_npus, num_switches
        Number of devices of each kind.
    link_src, link_dst
        int32[num_links], devices at the ends of each directed link.
    link_bandwidth_gibps, link_latency_ns
        float64[num_links].
    link_dimension
        int16[num_links], dimension the link belongs to, `NO_DIMENSION` in an arbitrary graph.
    dimensions
        The dimensions it was composed of; empty for an arbitrary graph.
    forwarding
        The kinds and names of the forwarding devices.
    reducing
        Those of them that add and copy, by id, and their limits.

    Examples
    --------
    >>> from astra_tacos import build_topology, read_network
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> topology.num_npus, topology.link_src.shape
    (16, (64,))
    >>> topology.to_networkx().number_of_edges()
    64
    """

    name: str
    num_npus: int
    num_switches: int
    link_src: Ints32
    link_dst: Ints32
    link_bandwidth_gibps: Floats
    link_latency_ns: Floats
    link_dimension: NDArray[np.int16]
    dimensions: tuple[Dimension, ...] = ()
    forwarding: tuple[ForwardingDevice, ...] = ()
    reducing: tuple[ReducingDevice, ...] = ()
    holds: Bools = field(init=False)
    """bool[num_npus], who can have chunks, add to them and send them to several: NPUs and reducing devices."""
    channel_src: Ints32 = field(init=False)
    channel_dst: Ints32 = field(init=False)
    channel_link: Ints32 = field(init=False)
    """int32[num_channels], the direct link, or the up-link into the switch."""
    channel_down_link: Ints32 = field(init=False)
    """int32[num_channels], the down-link out of the switch, `NO_LINK` for a direct link."""

    def __post_init__(self) -> None:
        channels = _channels(self.num_npus, self.num_devices, self.link_src, self.link_dst)
        names = ("channel_src", "channel_dst", "channel_link", "channel_down_link")
        for name, column in zip(names, channels, strict=True):
            object.__setattr__(self, name, column)
        holds = np.arange(self.num_npus) < self.num_endpoints
        holds[[device.device for device in self.reducing]] = True
        object.__setattr__(self, "holds", holds)
        links = ("link_src", "link_dst", "link_bandwidth_gibps", "link_latency_ns", "link_dimension")
        freeze(self, *links, *names, "holds")

    def __repr__(self) -> str:
        return f"<Topology: {self.name}, {self.describe_shape()}, {self.num_endpoints:,} NPUs, {self.num_links:,} links>"

    @property
    def num_devices(self) -> int:
        """Number of NPUs and switches."""
        return self.num_npus + self.num_switches

    @property
    def num_endpoints(self) -> int:
        """Number of NPUs without forwarding devices."""
        return self.num_npus - len(self.forwarding)

    @property
    def endpoints(self) -> list[int] | None:
        """The NPUs that collectives are of, as `make_collective` takes them: None for all."""
        return list(range(self.num_endpoints)) if self.forwarding else None

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.link_src)

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return len(self.channel_src)

    @property
    def has_switches(self) -> bool:
        """Whether any device is a switch."""
        return self.num_switches > 0

    @property
    def is_uniform(self) -> bool:
        """Whether all links have one bandwidth and one latency."""
        return bool(np.ptp(self.link_bandwidth_gibps) == 0 and np.ptp(self.link_latency_ns) == 0)

    @property
    def is_regular(self) -> bool:
        """Whether every link has the bandwidth and latency of its dimension."""
        return bool(self.dimensions) and bool(
            np.all(self.link_bandwidth_gibps == np.array([d.bandwidth_gibps for d in self.dimensions])[self.link_dimension])
            and np.all(self.link_latency_ns == np.array([d.latency_ns for d in self.dimensions])[self.link_dimension])
        )

    def channel_of(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Ints:
        """Channel from `src[i]` to `dst[i]`, -1 where there is none."""
        keys = self.channel_src.astype(np.int64) * self.num_npus + self.channel_dst
        wanted = np.asarray(src, np.int64) * self.num_npus + np.asarray(dst, np.int64)
        if not len(keys):
            return np.full(wanted.shape, -1, np.int64)
        position = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[position] == wanted, position, -1)

    def links_of(self, channel: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """int64[len(channel)], how many links each channel has; and these links, in order."""
        hops = np.stack((self.channel_link[channel], self.channel_down_link[channel]), axis=1).astype(np.int64)
        used = hops != NO_LINK
        return used.sum(axis=1), hops[used]

    def channel_of_link(self) -> Ints:
        """int64[num_links], the channel that begins with each link; -1 for links that begin none (out of a switch).

        An up-link into a switch begins several channels, of which the last counts.
        """
        channel = np.full(self.num_links, -1, np.int64)
        channel[self.channel_link] = np.arange(self.num_channels)
        return channel

    def describe_link(self, link: int) -> str:
        """`3 -> 7`, with switches as `switch 16`."""
        return f"{self.describe_device(int(self.link_src[link]))} -> {self.describe_device(int(self.link_dst[link]))}"

    def describe_device(self, device: int) -> str:
        """`3` for an NPU, `switch 16` for a switch, `nic 20 (mlx5_0)` for another forwarding device with a name."""
        if device >= self.num_npus:
            return f"switch {device}"
        if device < self.num_endpoints:
            return str(device)
        forwarder = self.forwarding[device - self.num_endpoints]
        return f"{forwarder.kind} {device}{f' ({forwarder.name})' if forwarder.name else ''}"

    def describe_shape(self) -> str:
        """`Ring 2 x FullyConnected 4 x Switch 8`, or the number of links of an arbitrary graph."""
        adding = f" ({len(self.reducing)} of them reducing)" if self.reducing else ""
        devices_text = (
            f"{self.num_endpoints} NPUs, {len(self.forwarding)} forwarding devices{adding} and " if self.forwarding else ""
        )
        return describe_dimensions(self.dimensions) or f"graph of {devices_text}{self.num_links} links"

    def channel_graph(self, length: ArrayLike = 1.0) -> Graph:
        """The channels as edges between NPUs, with one length each, or one for all."""
        return Graph.of(self.num_npus, self.channel_src, self.channel_dst, length)

    def link_graph(self, length: ArrayLike = 1.0) -> Graph:
        """The links as edges between devices, in the same way."""
        return Graph.of(self.num_devices, self.link_src, self.link_dst, length)

    def to_networkx(self):  # type: ignore[no-untyped-def]
        """The devices and links as a `networkx.DiGraph`; `NetworkConfig.from_networkx` is the way back.

        With forwarding devices it is a `MultiDiGraph`, as links may be parallel.

        Returns
        -------
        graph
            Nodes are ids, with the attribute `switch`, and forwarding devices with `kind` and `name`. Edges have `link`,
            `bandwidth_gibps` (2^30 bytes/s) and `latency_ns`.
        """
        import networkx

        graph = networkx.MultiDiGraph(name=self.name) if self.forwarding else networkx.DiGraph(name=self.name)
        graph.add_nodes_from((d, {"switch": d >= self.num_endpoints}) for d in range(self.num_devices))
        graph.add_nodes_from((self.num_endpoints + n, {"kind": d.kind, "name": d.name}) for n, d in enumerate(self.forwarding))
        columns = (self.link_src, self.link_dst, self.link_bandwidth_gibps, self.link_latency_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        graph.add_edges_from(
            (src, dst, {"link": link, "bandwidth_gibps": bandwidth, "latency_ns": latency})
            for link, (src, dst, bandwidth, latency) in enumerate(rows)
        )
        return graph


def _channels(num_npus: int, num_devices: int, link_src: Ints32, link_dst: Ints32) -> tuple[Ints32, Ints32, Ints32, Ints32]:
    direct = np.flatnonzero((link_src < num_npus) & (link_dst < num_npus))
    src, dst, link, down = [link_src[direct]], [link_dst[direct]], [direct], [np.full(len(direct), NO_LINK)]
    ups = np.flatnonzero(link_dst >= num_npus)
    downs = np.flatnonzero(link_src >= num_npus)
    ups = ups[np.argsort(link_dst[ups], kind="stable")]
    downs = downs[np.argsort(link_src[downs], kind="stable")]
    switches = np.arange(num_npus, num_devices + 1)
    up_bounds = np.searchsorted(link_dst[ups], switches)
    down_bounds = np.searchsorted(link_src[downs], switches)
    pairs = len(direct) + int(np.sum(np.diff(up_bounds).astype(np.int64) * np.diff(down_bounds)))
    if pairs > MAX_CHANNELS:
        raise ConfigError(f"the network has {pairs:,} channels between NPUs, expected at most {MAX_CHANNELS:,}")
    for switch in range(num_devices - num_npus):
        into = ups[up_bounds[switch] : up_bounds[switch + 1]]
        out_of = downs[down_bounds[switch] : down_bounds[switch + 1]]
        up, out = (grid.ravel() for grid in np.meshgrid(into, out_of, indexing="ij"))
        other = link_src[up] != link_dst[out]
        src.append(link_src[up[other]])
        dst.append(link_dst[out[other]])
        link.append(up[other])
        down.append(out[other])
    columns = [np.concatenate(column).astype(np.int32) for column in (src, dst, link, down)]
    order = np.lexsort((columns[1], columns[0]))
    return columns[0][order], columns[1][order], columns[2][order], columns[3][order]
