"""The packet level of a schedule's traces: their replay as on ASTRA-sim's ns-3 backend."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import PACKET
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.packet_time import packet_time_ns
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_time

MOST_PACKETS = 30_000_000
"""Packets of a replay; it takes about 0.2 us each, for every link."""
MOST_COARSE = 128
"""By so much larger packets may stand for those of ns-3."""
MOST_SENDS = 1 << 20
"""Sends of a schedule whose traces are replayed; a replay takes some microseconds each."""


@dataclass(frozen=True, slots=True)
class PacketLevel:
    """The packet level of a schedule's traces.

    Parameters
    ----------
    predicted_ns
        The same if no two messages share a link at a time (`packet_time_ns`).
    coarse
        How many packets of ns-3 each of them stands for; the times are approximate from 2 on.
    """

    time_ns: int
    predicted_ns: int
    num_packets: int
    coarse: int

    @property
    def ratio(self) -> float:
        """`time_ns` in units of the prediction."""
        return self.time_ns / max(self.predicted_ns, 1)

    def describe(self) -> str:
        """The figures in words."""
        stands = f", each for {self.coarse} of ns-3" if self.coarse > 1 else ""
        precision = "about " if self.coarse > 1 else ""
        replayed = f"{precision}{format_time(self.time_ns)} (replay of {self.num_packets:,} packets{stands})"
        return f"{replayed}, {self.ratio:.2f} of {format_time(self.predicted_ns)}, which it takes if no messages share a link"


def packet_level(
    schedule: Schedule,
    network: NetworkConfig,
    most_packets: int = MOST_PACKETS,
) -> PacketLevel:
    """Replay a schedule's traces packet by packet, with larger packets where there would be too many.

    Raises
    ------
    ConfigError, ReplayError
        If the packet level cannot have the network or the messages, or they are too many.
    """
    if schedule.num_sends > MOST_SENDS:
        raise ConfigError(f"not replayed: {schedule.num_sends:,} sends are more than {MOST_SENDS:,}")
    sent = between_npus(schedule)
    all_packets = network.ns3.num_packets(float(sent.message_bytes.sum()))
    coarse = max(math.ceil(all_packets / most_packets), 1)
    if coarse > MOST_COARSE:
        most = most_packets * MOST_COARSE
        raise ConfigError(f"not replayed: about {all_packets:,.0f} packets are more than {most:,}, expected a smaller size")
    ns3 = network.ns3 if coarse == 1 else replace(network.ns3, payload_bytes=network.ns3.payload_bytes * coarse)
    trace = schedule_trace(sent, schedule.collective.name)
    time_ns = replay_trace(trace, replace(network, ns3=ns3), PACKET).collective_time_ns
    return PacketLevel(time_ns, packet_time_ns(schedule, ns3), math.ceil(all_packets / coarse), coarse)
