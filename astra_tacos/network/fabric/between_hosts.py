"""What joins hosts whose files end at the host: a switch with a port for each network card."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tacos.network.fabric.host_levels import BANDWIDTH_UNITS, BANDWIDTHS_GBPS, LATENCY_UNITS
from astra_tacos.network.network_config import MAX_LATENCY_NS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import parse_decimal
from astra_tacos.support.formats.values import describe

EXAMPLE = "Switch 50 GB/s 2 us"
_FORM = re.compile(rf"Switch +(\S+?) *({'|'.join(BANDWIDTH_UNITS)}) +(\S+?) *({'|'.join(LATENCY_UNITS)})")


@dataclass(frozen=True, slots=True)
class BetweenHosts:
    """A switch, whose ports have this bandwidth (decimal GB/s in each direction) and latency (ns of the link)."""

    bandwidth_gbps: float
    latency_ns: float

    @classmethod
    def parse(cls, text: str) -> BetweenHosts:
        """The switch of a text such as `EXAMPLE`.

        Raises
        ------
        ConfigError
            If the text has another form, or a number is out of range.
        """
        match = _FORM.fullmatch(text.strip())
        bandwidth, latency = (parse_decimal(match[1]), parse_decimal(match[3])) if match else (None, None)
        if match is None or bandwidth is None or latency is None:
            raise ConfigError(
                f"--between: found {describe(text)}, expected the bandwidth and the latency of a switch's ports, as '{EXAMPLE}'"
            )
        gbps, latency_ns = bandwidth * BANDWIDTH_UNITS[match[2]], latency * LATENCY_UNITS[match[4]]
        least, most = BANDWIDTHS_GBPS
        if not least <= gbps <= most or not 0 <= latency_ns <= MAX_LATENCY_NS:
            raise ConfigError(
                f"--between: found {describe(text)}, expected {least:.2g} to {most:.2g} GB/s and 0 to {MAX_LATENCY_NS:g} ns"
            )
        return cls(gbps, latency_ns)
