"""The figures of a time on the clock: bandwidths, the share of the bound, and what ASTRA-sim's programs print."""

from __future__ import annotations

from typing import Any

from astra_tacos.bounds import largest
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import figures_on_clock
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import Backend


def figures_on(
    clock: Backend, bounds: tuple[Bound, ...], topology: Topology, collective: Collective, time_ns: float
) -> dict[str, Any]:
    """The keys of a certificate that follow from a time on a clock.

    Parameters
    ----------
    clock, bounds
        The network model, and what any algorithm needs there (`bounds_on`).
    """
    bound = largest(bounds) if bounds else None
    figures = figures_on_clock(time_ns, bound, collective.buffer_bytes, topology.describe_link)
    return {
        "backend": clock.name,
        **figures,
        "bus_bandwidth_gbps": figures["algorithm_bandwidth_gbps"] * collective.bus_factor,
        "bounds_ns": {bound.name: bound.time_ns for bound in bounds},
    }
