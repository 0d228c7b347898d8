"""A fabric while it is put together: devices and links, numbered once all are there."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tacos.network.devices import NPU_KIND, ForwardingDevice
from astra_tacos.network.network_config import MAX_NPUS, LinkSpec, NetworkConfig
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import GIB_PER_GB

_MOST_LINKS = 4_000_000
"""Of a network file: it has a line for each."""


@dataclass(slots=True)
class FabricDraft:
    """Devices, by the number that `add` gave them, and directed links.

    `kinds`: kind and name of each device. `links`: source, destination, GiB/s, ns.
    """

    source: str
    kinds: list[tuple[str, str]] = field(default_factory=list)
    links: list[tuple[int, int, float, float]] = field(default_factory=list)

    def add(self, kind: str, name: str = "") -> int:
        """A new device: `npu`, or one of `FORWARDING_KINDS`."""
        if len(self.kinds) >= MAX_NPUS:
            raise ConfigError(f"{self.source}: found more than {MAX_NPUS:,} devices, expected at most so many")
        self.kinds.append((kind, name))
        return len(self.kinds) - 1

    def add_many(self, count: int, kind: str, name: str = "") -> list[int]:
        """As many new devices, with a number behind their name."""
        return [self.add(kind, f"{name}{number}" if name else "") for number in range(count)]

    def connect(self, first: int, second: int, gbps: float, latency_ns: float) -> None:
        """A link in each direction, of decimal GB/s."""
        if len(self.links) >= _MOST_LINKS:
            raise ConfigError(f"{self.source}: found more than {_MOST_LINKS:,} links, expected at most so many")
        self.links.append((first, second, gbps * GIB_PER_GB, latency_ns))
        self.links.append((second, first, gbps * GIB_PER_GB, latency_ns))

    def to_network(self) -> NetworkConfig:
        """The network: NPUs first, then other devices, each in the order in which they were added.

        Raises
        ------
        ConfigError
            If there are fewer than two NPUs.
        """
        npus = [device for device, (kind, _) in enumerate(self.kinds) if kind == NPU_KIND]
        others = [device for device, (kind, _) in enumerate(self.kinds) if kind != NPU_KIND]
        if len(npus) < 2:
            raise ConfigError(f"{self.source}: found {len(npus)} NPUs, expected at least 2")
        used = {end for link in self.links for end in link[:2]}
        others = [device for device in others if device in used]
        lonely = next((npu for npu in npus if npu not in used), None)
        if lonely is not None:
            raise ConfigError(f"{self.source}: NPU {npus.index(lonely)} has no link, expected a connected network")
        number = {device: at for at, device in enumerate((*npus, *others))}
        links = tuple(LinkSpec(number[a], number[b], speed, latency) for a, b, speed, latency in self.links)
        return NetworkConfig(self.source, links=links, forwarding=tuple(ForwardingDevice(*self.kinds[d]) for d in others))
