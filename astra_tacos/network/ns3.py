"""The configuration of ASTRA-sim's ns-3 backend: packets, windows, congestion control, and the buffers of switches.

Format: `astra-network-ns3`, `scratch/common.h` (`ReadConf`): keys and their values, divided by white space; unknown keys are
skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import parse_decimal
from astra_tacos.support.input_file import read_bounded
from astra_tacos.support.quoted import quoted

HOST_HEADER_BYTES = 36
"""PPP 2, IPv4 20, UDP 8, sequence number and priority group 6 (`RdmaHw::GetNxtPacket`)."""
_ACK_HEADER_BYTES = 12
"""`qbbHeader::GetBaseSize`."""
_SHORTEST_ACK = 26
"""Bytes of an acknowledgement without the headers of PPP and IPv4, at least (`RdmaHw::ReceiveUdp`)."""
_ACK_NETWORK_BYTES = 22
"""PPP 2, IPv4 20."""
CONTROLS = {1: "DCQCN", 3: "HPCC", 7: "TIMELY", 8: "DCTCP", 10: "HPCC-PINT"}
"""Values of CC_MODE that change rates; with any other, queue pairs send at the rate of their port (`RdmaHw::ReceiveAck`)."""
_TELEMETRY_BYTES = {3: 42, 7: 8, 10: 2}
"""`IntHeader::GetStaticSize`, by CC_MODE."""
_MOST_BYTES = 1 << 20
"""Of a configuration file."""
MOST_PAYLOAD_BYTES = 9000
"""Of a jumbo frame."""
_MOST = 2**31 - 1
"""ns-3 reads most numbers as `int`."""


@dataclass(frozen=True, slots=True)
class Ns3Config:
    """What decides when packets are sent. The defaults are those of the repository's configuration.

    Parameters
    ----------
    has_window
        Whether the bytes of a queue pair that are on their way are bounded by its bandwidth times its round trip (HAS_WIN).
    ack_interval
        Bytes from one acknowledgement to the next (L2_ACK_INTERVAL).
    buffer_mib
        Buffer of a switch in MiB (BUFFER_SIZE).
    link_down_us
        When a link goes down, 0 for never (LINK_DOWN).
    """

    source: str = "ns-3's default configuration"
    payload_bytes: int = 1000
    cc_mode: int = 12
    has_window: int = 1
    global_window: int = 0
    ack_interval: int = 1
    buffer_mib: int = 32
    error_rate: float = 0.0
    link_down_us: int = 0
    nic_pauses: int = 0

    @property
    def header_bytes(self) -> int:
        """Bytes of a packet besides its payload."""
        return HOST_HEADER_BYTES + _TELEMETRY_BYTES.get(self.cc_mode, 0)

    def num_packets(self, message_bytes: float) -> float:
        """About how many packets so many bytes of messages take."""
        return message_bytes / self.payload_bytes

    @property
    def ack_bytes(self) -> int:
        """Bytes of an acknowledgement."""
        return max(_SHORTEST_ACK, _ACK_HEADER_BYTES + _TELEMETRY_BYTES.get(self.cc_mode, 0)) + _ACK_NETWORK_BYTES


DEFAULT_NS3 = Ns3Config()
"""The configuration of the backend's repository."""
_KEYS = {
    "PACKET_PAYLOAD_SIZE": "payload_bytes",
    "CC_MODE": "cc_mode",
    "HAS_WIN": "has_window",
    "GLOBAL_T": "global_window",
    "L2_ACK_INTERVAL": "ack_interval",
    "BUFFER_SIZE": "buffer_mib",
    "ERROR_RATE_PER_LINK": "error_rate",
    "LINK_DOWN": "link_down_us",
    "NIC_TOTAL_PAUSE_TIME": "nic_pauses",
}
_RANGES = {"payload_bytes": (1, MOST_PAYLOAD_BYTES), "buffer_mib": (1, 2047)}


def read_ns3_config(path: str | Path) -> Ns3Config:
    """Read a configuration of the ns-3 backend.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    path = Path(path)
    words = read_bounded(path, _MOST_BYTES, "a configuration of the ns-3 backend").decode(errors="replace").split()
    kinds = {field.name: field.type for field in fields(Ns3Config)}
    settings: dict[str, int | float] = {}
    for place, word in enumerate(words):
        if word not in _KEYS:
            continue
        name = _KEYS[word]
        text = words[place + 1] if place + 1 < len(words) else ""
        is_whole = kinds[name] == "int"
        low, high = _RANGES.get(name, (0, _MOST))
        value = parse_decimal(text)
        if value is None or not low <= value <= high or (is_whole and value != int(value)):
            kind = "a whole number" if is_whole else "a number"
            raise ConfigError(f"{path}: {word} is {quoted(text)}, expected {kind} from {low} to {high:,}")
        settings[name] = int(value) if is_whole else value
    if not settings:
        raise ConfigError(f"{path}: no key of a configuration of the ns-3 backend, expected {', '.join(_KEYS)}")
    return Ns3Config(source=str(path), **settings)  # type: ignore[arg-type]


def ns3_text(ns3: Ns3Config) -> str:
    """What `read_ns3_config` reads as a configuration, but for its source: a key and its value a line."""
    return "".join(f"{key} {getattr(ns3, name):g}\n" for key, name in _KEYS.items())
