"""Fixed routes over devices that forward, and the links of ASTRA-sim's ns-3 backend, which messages cross along them.

The links are full duplex, in whole bits and nanoseconds, with windows and the buffers of switches. Routes are those of a network
with static routing. A route passes as few NPUs as possible, and of such routes it has the fewest links. Where several links lead
on equally well, the destination's number decides, digit by digit, so that the flows to different NPUs are spread over all of
them: destination-modulo routing, as InfiniBand's subnet managers route fat trees (Zahavi, "D-Mod-K routing providing non-blocking
traffic for shift permutations on real life fat trees", 2010).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.ns3 import CONTROLS, Ns3Config
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by, members_of
from astra_tacos.support.units import BYTES_PER_GIB, NS_PER_S

_ENTRIES_AT_A_TIME = 1 << 24
"""Routes times devices that are in memory at a time."""
_WIDEST = 1 << 40
"""Numbers of paths are counted up to it, so that products fit int64."""
_BITS = 8
"""Of a byte."""
_RATE_STEP = 1000
"""Rates are whole kbit/s: network files have bandwidths with too few digits for whole bits."""
_FRACTION = 64
"""Bits of a time in ns-3 after the binary point, before it is rounded to ns (`int64x64_t`)."""
_MOST_DELAY_NS = 1 << 20
"""Latency of a link: as `_MOST_PACKET_NS`."""
_MOST_PACKET_NS = 1 << 22
"""A replay keeps so many instants ahead in memory, and looks for the next event among them."""
_PORT_SHIFT = 3
"""A port pauses its sender at the free buffer shifted right by so much (`SwitchMmu::pfc_a_shift`)."""
_HEADROOM = 3
"""A port's headroom in a switch, in products of bandwidth and delay (`common.h`)."""
_MOST_PORTS = 1024
"""Of a switch (`SwitchMmu::pCnt` without port 0)."""


def hops_between_npus(topology: Topology) -> int:
    """The most links on a path with the fewest links from one NPU to another; paths pass switches and NPUs."""
    graph = topology.link_graph()
    npus = topology.num_endpoints
    return int(max(graph.from_nearest([npu])[:npus].max() for npu in range(npus)))


_RELAY = float(1 << 24)
"""What leaving an NPU counts, in links."""


class DeviceRoutes:
    """Finds routes on one topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        leaves_npu = topology.link_src < topology.num_endpoints
        self._length = np.where(leaves_npu, _RELAY + 1.0, 1.0)
        self._first, self._out = group_by(topology.link_src, np.arange(topology.num_links), topology.num_devices)

    def relays(self) -> Ints:
        """int64[num_endpoints, num_endpoints], how many NPUs a route passes between each NPU and each other; 0 to itself."""
        npus = self._topology.num_endpoints
        return np.maximum(self._distance(np.arange(npus))[:, :npus].T // _RELAY - 1, 0).astype(np.int64)

    def find(
        self, src: NDArray[np.integer], dst: NDArray[np.integer], choice: NDArray[np.integer] | None = None
    ) -> tuple[Ints, Ints]:
        """The links of the routes of some pairs of NPUs.

        Parameters
        ----------
        choice
            Numbers of 0 or more by which one of several equally good routes is chosen; by default the destinations.

        Returns
        -------
        first, link
            int64[len(src) + 1] and int64[...]: the route of pair p is `link[first[p]:first[p + 1]]`, in order.
        """
        here, there = src.astype(np.int64), dst.astype(np.int64)
        wanted = there if choice is None else choice.astype(np.int64)
        targets, which = np.unique(there, return_inverse=True)
        at_a_time = max(1, _ENTRIES_AT_A_TIME // self._topology.num_devices)
        owners, links = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for begin in range(0, len(targets), at_a_time):
            batch = np.flatnonzero((which >= begin) & (which < begin + at_a_time))
            distance = self._distance(targets[begin : begin + at_a_time])
            for owner, link in self._walk(here[batch], there[batch], wanted[batch], distance, which[batch] - begin):
                owners.append(batch[owner])
                links.append(link)
        owner, link = np.concatenate(owners), np.concatenate(links)
        order = np.argsort(owner, kind="stable")  # links of a route were found in order
        count = np.bincount(owner, minlength=len(src))
        return np.concatenate(([0], np.cumsum(count))).astype(np.int64), link[order]

    def _distance(self, targets: Ints) -> Floats:
        """float64[len(targets), num_devices], from each device to each target."""
        return self._topology.link_graph(self._length).turned.distances(targets)

    def _walk(
        self,
        src: Ints,
        dst: Ints,
        choice: Ints,
        distance: Floats,
        row: Ints,
    ) -> list[tuple[Ints, Ints]]:
        """Step by step, the pairs that are on their way, and the link that each takes."""
        steps = []
        pair, at, span = np.flatnonzero(src != dst), src.copy(), np.ones(len(src), np.int64)
        while len(pair):
            begin, place = members_of(self._first, at[pair])
            link = self._out[place]
            of = np.repeat(np.arange(len(pair)), np.diff(begin))
            head = self._topology.link_dst[link]
            here = row[pair][of]
            is_good = distance[here, head] + self._length[link] == distance[here, at[pair][of]]
            good, of = link[is_good], of[is_good]
            count = np.bincount(of, minlength=len(pair))
            links = good[np.cumsum(count) - count + (choice[pair] // span[pair]) % count]
            steps.append((pair, links))
            span[pair] = np.minimum(span[pair] * count, _WIDEST)
            at[pair] = self._topology.link_dst[links]
            pair = pair[at[pair] != dst[pair]]
        return steps


_WITHOUT_SWITCHES = (1, 3, 8)
"""Values of CC_MODE that change rates only by what switches write into packets."""


class PacketLinks:
    """The links of a topology as ns-3 has them: all devices but NPUs are its switches.

    A message takes a way with the fewest links that passes no NPU. Of several such ways ns-3 takes one by a hash of the message;
    here those of a pair of NPUs all take the fixed one of `DeviceRoutes`.

    Parameters
    ----------
    topology, ns3
        The network, and how ns-3 is configured.

    Raises
    ------
    ConfigError
        If a link has no reverse like it, links are parallel, a latency is too long, a switch has too many ports, or devices add,
        or a packet takes a link too long.
    """

    def __init__(self, source: str, topology: Topology, ns3: Ns3Config) -> None:
        self.topology, self.ns3, self._source = topology, ns3, source
        if topology.reducing:
            raise ConfigError(f"{source}: found devices that add (reducing), expected none: switches of ns-3 pass packets on")
        self.bits_per_s: Ints = whole_rates(topology.link_bandwidth_gibps)
        self.delay_ns: Ints = np.round(topology.link_latency_ns).astype(np.int64)
        self._check_links()

    def _check_links(self) -> None:
        """Every link of ns-3 is two of one rate and delay, one in each direction."""
        src, dst = self.topology.link_src, self.topology.link_dst
        self._check_ports()
        back = self.opposite = np.empty(len(src), np.int64)
        back[np.lexsort((dst, src))] = np.lexsort((src, dst))
        fits = (
            (src[back] == dst)
            & (dst[back] == src)
            & (self.bits_per_s[back] == self.bits_per_s)
            & (self.delay_ns[back] == self.delay_ns)
        )
        if not fits.all():
            link = self.topology.describe_link(int(np.argmin(fits)))
            raise ConfigError(
                f"{self._source}: the link {link} has no reverse of its bandwidth and latency, which a link of ns-3 has"
            )
        if len(fits) and self.delay_ns.max() > _MOST_DELAY_NS:
            latency = f"a latency of {self.delay_ns.max():,} ns"
            raise ConfigError(f"{self._source}: {latency}, expected at most {_MOST_DELAY_NS:,} for packets")
        size = self.ns3.payload_bytes + self.ns3.header_bytes
        slowest = int(self.bits_per_s.argmin()) if len(fits) else 0
        if len(fits) and (duration_ns := transmission_ns(size, int(self.bits_per_s[slowest]))) > _MOST_PACKET_NS:
            link = self.topology.describe_link(slowest)
            raise ConfigError(
                f"{self._source}: a packet of {size:,} bytes takes {duration_ns:,} ns of the link {link}, expected at most "
                f"{_MOST_PACKET_NS:,} for packets: use more bandwidth, or a backend without packets"
            )

    def _check_ports(self) -> None:
        """Two nodes of ns-3 have one link, and a switch has so many ports."""
        topology = self.topology
        ends = topology.link_src.astype(np.int64) * topology.num_devices + topology.link_dst
        order = np.argsort(ends, kind="stable")
        again = order[1:][ends[order[1:]] == ends[order[:-1]]]
        if len(again):
            link = topology.describe_link(int(again.min()))
            raise ConfigError(f"{self._source}: {link} are parallel links, expected one, of the summed bandwidth, for packets")
        ports = np.bincount(topology.link_src, minlength=topology.num_devices)[topology.num_endpoints :]
        if len(ports) and ports.max() > _MOST_PORTS:
            device = topology.describe_device(topology.num_endpoints + int(ports.argmax()))
            raise ConfigError(f"{self._source}: {device} has {ports.max():,} ports, expected at most {_MOST_PORTS:,} for packets")

    @property
    def rates(self) -> list[int]:
        """The rates of all links in bit/s, ascending."""
        return sorted(set(self.bits_per_s.tolist()))

    def describe(self) -> str:
        """The links as ns-3 reads them: the numbers of nodes, switches and links, the switches, and a line per pair of links."""
        topology = self.topology
        src, dst = topology.link_src, topology.link_dst
        pairs = np.flatnonzero(src < dst)
        columns = (src[pairs], dst[pairs], self.bits_per_s[pairs], self.delay_ns[pairs])
        switches = range(topology.num_endpoints, topology.num_devices)
        lines = [f"{topology.num_devices} {len(switches)} {len(pairs)}", " ".join(map(str, switches))]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        lines += [f"{here} {there} {rate}bps {delay}ns 0" for here, there, rate, delay in rows]
        return "\n".join(lines) + "\n"

    def windows(self, src: Ints, dst: Ints) -> Ints:
        """int64[num_pairs], bytes that a queue pair may have on their way: bandwidth times round trip (`common.h`)."""
        if not self.ns3.has_window:
            return np.zeros(len(src), np.int64)
        ends = self._all_pairs() if self.ns3.global_window else (src, dst)
        first, link = self.routes(*ends)
        begin = first[:-1]
        payload = self.ns3.payload_bytes * NS_PER_S * _BITS
        delay = np.add.reduceat(self.delay_ns[link], begin)
        duration_ns = np.add.reduceat(payload // self.bits_per_s[link], begin)
        rate = np.minimum.reduceat(self.bits_per_s[link], begin)
        columns = zip(delay.tolist(), duration_ns.tolist(), rate.tolist(), strict=True)  # products go beyond 64 bits
        window = np.array([(2 * far + sent) * bits // NS_PER_S // _BITS for far, sent, bits in columns], np.int64)
        return np.full(len(src), window.max(initial=0), np.int64) if self.ns3.global_window else window

    def _all_pairs(self) -> tuple[Ints, Ints]:
        """The ends of all pairs of NPUs that can exchange messages."""
        topology = self.topology
        if not topology.forwarding:
            return topology.channel_src.astype(np.int64), topology.channel_dst.astype(np.int64)
        relays = self._device_routes.relays()
        np.fill_diagonal(relays, 1)
        src, dst = np.nonzero(relays == 0)
        return src, dst

    def routes(self, src: Ints, dst: Ints) -> tuple[Ints, Ints]:
        """The links that messages of pairs of NPUs cross.

        Parameters
        ----------
        src, dst
            int64[num_pairs] each, the ends.

        Returns
        -------
        first, link
            int64[num_pairs + 1] and int64[...]: the route of pair p is `link[first[p]:first[p + 1]]`, in order.

        Raises
        ------
        ConfigError
            If two of them are no neighbours and no way between them passes switches only.
        """
        topology = self.topology
        if topology.forwarding:
            first, link = self._device_routes.find(src, dst)
            owner = np.repeat(np.arange(len(src)), np.diff(first))
            entered = np.bincount(owner, topology.link_dst[link] < topology.num_endpoints, len(src))
            missing = np.flatnonzero(entered != 1)
        else:
            channel = topology.channel_of(src, dst)
            missing = np.flatnonzero(channel < 0)
            count, link = topology.links_of(channel)
            first = np.concatenate(([0], np.cumsum(count)))
        if len(missing):
            ends = f"rank {src[missing[0]]} sends to rank {dst[missing[0]]}"
            raise ConfigError(
                f"{self._source}: {ends}, which is no neighbour of it and shares no switch with it: ns-3 relays at "
                "switches only, expected messages between such ranks"
            )
        return first, link

    @cached_property
    def _device_routes(self) -> DeviceRoutes:
        return DeviceRoutes(self.topology)

    def buffers(self, reserved_bytes: int) -> tuple[Ints, Ints]:
        """int64[num_switches], bytes that the ports of each switch share; int64[num_links], see `Packets.shift`."""
        topology = self.topology
        at = topology.link_dst.astype(np.int64) - topology.num_endpoints
        into = at >= 0
        headroom = self.bits_per_s * self.delay_ns // _BITS // NS_PER_S * _HEADROOM
        kept = np.zeros(topology.num_devices - topology.num_endpoints, np.int64)
        np.add.at(kept, at[into], headroom[into] + reserved_bytes)
        shift = np.full(topology.num_links, _PORT_SHIFT, np.int64)
        if into.any():
            rate, first = self.bits_per_s.copy(), self.bits_per_s[int(np.argmax(topology.link_src == 0))]
            for _ in range(_PORT_SHIFT):
                faster = rate > first
                shift[faster] -= 1
                rate[faster] //= 2
        return (self.ns3.buffer_mib << 20) - kept, shift


def whole_rates(bandwidth_gibps: Floats) -> Ints:
    """Rates in bit/s, whole kbit/s, of bandwidths in GiB/s."""
    steps = bandwidth_gibps * (BYTES_PER_GIB * _BITS / _RATE_STEP)
    return np.maximum(np.round(steps), 1).astype(np.int64) * _RATE_STEP


def transmission_ns(size: int, bits_per_s: int) -> int:
    """Time that a packet takes a port, in ns-3's arithmetic (`DataRate::CalculateBytesTxTime`)."""
    seconds = (size * _BITS << _FRACTION) // bits_per_s
    return (seconds * NS_PER_S + (1 << (_FRACTION - 1))) >> _FRACTION


def check_timed(source: str, topology: Topology, ns3: Ns3Config) -> None:
    """Check that a configuration asks for nothing on a network that the packet level does not time.

    Raises
    ------
    ConfigError
        If it does.
    """

    def refuse(setting: str, expected: str) -> None:
        raise ConfigError(f"{ns3.source}: {setting}, which the packet backend does not time, expected {expected}")

    control = CONTROLS.get(ns3.cc_mode)
    if control is not None and (topology.num_devices > topology.num_endpoints or ns3.cc_mode not in _WITHOUT_SWITCHES):
        where = f" with the switches of {source}" if ns3.cc_mode in _WITHOUT_SWITCHES else ""
        refuse(f"CC_MODE {ns3.cc_mode} ({control}){where} changes rates", "a mode without control, such as 12")
    if ns3.ack_interval != 1:
        refuse(f"L2_ACK_INTERVAL is {ns3.ack_interval}", "1, an acknowledgement for each packet")
    if ns3.error_rate > 0:
        refuse(f"ERROR_RATE_PER_LINK is {ns3.error_rate:g}", "0")
    if ns3.link_down_us > 0:
        refuse("LINK_DOWN takes a link down", "0 0 0")
    if ns3.nic_pauses > 0:
        refuse(f"NIC_TOTAL_PAUSE_TIME is {ns3.nic_pauses}", "0")
