"""Rough guesses at how long synthesizers take, by which a search decides what to try first. Measured on one core in 2026."""

from __future__ import annotations

from astra_tacos.bounds.way_volume import fewest_crossings
from astra_tacos.collective.collective import Collective
from astra_tacos.topology.topology import Topology

_OVERHEAD_S = 0.003
_DISPATCH_S = 2.5e-6
_MATCH_S = 0.6e-6
_PACK_S = 2e-6
_MOST_PRICES = 1 << 22
_LOOK_S = 1e-7
_MOST_LOOKS = 1 << 24


def dispatch_seconds(topology: Topology, collective: Collective) -> float:
    """Seconds to lay out a plan and dispatch it: proportional to the number of sends."""
    return _OVERHEAD_S + _DISPATCH_S * collective.least_sends


def match_seconds(topology: Topology, collective: Collective) -> float:
    """Seconds of the matcher."""
    return _OVERHEAD_S + _MATCH_S * collective.least_sends


def route_seconds(topology: Topology, collective: Collective) -> float:
    """Seconds to find paths or trees, for which bundles of chunks look at every link, and dispatch the sends along them."""
    looks = min(_MOST_LOOKS, collective.num_chunks * topology.num_links) * collective.num_phases
    if collective.is_personalised:
        return _OVERHEAD_S + _LOOK_S * looks + _DISPATCH_S * fewest_crossings(topology, collective)
    if topology.has_switches:  # trees start looking again whenever they have grown
        looks = min(_MOST_LOOKS, looks * collective.num_members)
    return _OVERHEAD_S + _LOOK_S * looks + 2 * dispatch_seconds(topology, collective)


def pack_seconds(topology: Topology, collective: Collective) -> float:
    """Seconds to pack trees, where every tree looks at every channel, and dispatch them."""
    prices = collective.num_phases * min(_MOST_PRICES, collective.num_chunks * topology.num_channels)
    return _PACK_S * prices + 2 * dispatch_seconds(topology, collective)
