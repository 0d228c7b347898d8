"""Links of ASTRA-sim's ns-3 backend: full duplex, in whole bits and nanoseconds, with windows and the buffers of switches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.ns3 import CONTROLS, Ns3Config
from astra_tacos.errors import ConfigError
from astra_tacos.topology.topology import NO_LINK, Topology
from astra_tacos.units import BYTES_PER_GIB, NS_PER_S

_BITS = 8
_RATE_STEP = 1000
"""Rates are whole kbit/s: network files have bandwidths with too few digits for whole bits."""
_FRACTION = 64
"""Bits of a time in ns-3 after the binary point, before it is rounded to ns (`int64x64_t`)."""
_MOST_DELAY_NS = 1 << 20
_PORT_SHIFT = 3
_HEADROOM = 3
"""A port's headroom in a switch, in products of bandwidth and delay (`common.h`)."""
_WITHOUT_SWITCHES = (1, 3, 8)
"""Values of CC_MODE that change rates only by what switches write into packets."""


class PacketLinks:
    """The links of a topology as ns-3 has them.

    Parameters
    ----------
    source
        What error messages call the network.
    topology, ns3
        The network, and how ns-3 is configured.

    Raises
    ------
    ConfigError
        If a link has no reverse like it, a latency is too long, or devices only forward.
    """

    def __init__(self, source: str, topology: Topology, ns3: Ns3Config) -> None:
        self.topology, self.ns3, self._source = topology, ns3, source
        if topology.forwarding:
            raise ConfigError(f"{source}: has devices that only forward, where messages are not timed packet by packet")
        self.bits_per_s: NDArray[np.int64] = whole_rates(topology.link_bandwidth_gibps)
        self.delay_ns: NDArray[np.int64] = np.round(topology.link_latency_ns).astype(np.int64)
        self._check_links()

    def _check_links(self) -> None:
        """Every link of ns-3 is two of one rate and delay, one in each direction."""
        src, dst = self.topology.link_src, self.topology.link_dst
        back = np.empty(len(src), np.int64)
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
        switches = range(topology.num_npus, topology.num_devices)
        lines = [f"{topology.num_devices} {topology.num_switches} {len(pairs)}", " ".join(map(str, switches))]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        lines += [f"{here} {there} {rate}bps {delay}ns 0" for here, there, rate, delay in rows]
        return "\n".join(lines) + "\n"

    def windows(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[num_pairs], bytes that a queue pair may have on their way: bandwidth times round trip (`common.h`)."""
        if not self.ns3.has_window:
            return np.zeros(len(src), np.int64)
        topology = self.topology
        channel = np.arange(topology.num_channels) if self.ns3.global_window else topology.channel_of(src, dst)
        up, down = topology.channel_link[channel], topology.channel_down_link[channel]
        through = down != NO_LINK
        rate, delay = self.bits_per_s[up], self.delay_ns[up].copy()
        payload = self.ns3.payload_bytes * NS_PER_S * _BITS
        taken = payload // rate
        delay[through] += self.delay_ns[down[through]]
        taken[through] += payload // self.bits_per_s[down[through]]
        rate[through] = np.minimum(rate[through], self.bits_per_s[down[through]])
        columns = zip(delay.tolist(), taken.tolist(), rate.tolist(), strict=True)  # products go beyond 64 bits
        window = np.array([(2 * far + sent) * bits // NS_PER_S // _BITS for far, sent, bits in columns], np.int64)
        return np.full(len(src), window.max(initial=0), np.int64) if self.ns3.global_window else window

    def buffers(self, reserved_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64[num_switches], bytes that the ports of each switch share; int64[num_links], see `Packets.shift`.

        Parameters
        ----------
        reserved_bytes
            Buffer that a port has of its own.
        """
        topology = self.topology
        at = topology.link_dst.astype(np.int64) - topology.num_npus
        into = at >= 0
        headroom = self.bits_per_s * self.delay_ns // _BITS // NS_PER_S * _HEADROOM
        kept = np.zeros(topology.num_switches, np.int64)
        np.add.at(kept, at[into], headroom[into] + reserved_bytes)
        shift = np.full(topology.num_links, _PORT_SHIFT, np.int64)
        if into.any():
            rate, first = self.bits_per_s.copy(), self.bits_per_s[int(np.argmax(topology.link_src == 0))]
            for _ in range(_PORT_SHIFT):
                faster = rate > first
                shift[faster] -= 1
                rate[faster] //= 2
        return (self.ns3.buffer_mib << 20) - kept, shift


def whole_rates(bandwidth_gibps: NDArray[np.float64]) -> NDArray[np.int64]:
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

    def refuse(found: str, expected: str) -> None:
        raise ConfigError(f"{ns3.source}: {found}, which the packet backend does not time, expected {expected}")

    control = CONTROLS.get(ns3.cc_mode)
    if control is not None and (topology.has_switches or ns3.cc_mode not in _WITHOUT_SWITCHES):
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
