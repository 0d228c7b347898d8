"""Synthesizers for networks of NPUs, made to take graphs with devices that forward: they run on the network of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, Timing
from astra_tacos.synthesizer.chunk_counts import advise_for_trips
from astra_tacos.synthesizer.parts.pairs import network_of_pairs, num_pairs, over_devices
from astra_tacos.synthesizer.synthesizer import Synthesizer

_MOST_PAIRS = 1 << 18
_MOST_SENDS = 1 << 22
_ADVISED_SENDS = 100_000
"""Of the number of chunks that is tried beside the fewest: for long pipelines there is column generation."""
_LINKS_OF_TRIP = 4


def on_fabrics(
    entry: Synthesizer, on_pairs: Callable[[Topology, Topology, Collective, Timing, int], Schedule] | None = None
) -> Synthesizer:
    """A synthesizer for networks of NPUs that also takes graphs with devices that forward.

    Parameters
    ----------
    entry
        What it does on networks of NPUs, and still does there.
    on_pairs
        What makes the schedule on the network of pairs, of the fabric and the arguments of `entry.make`; None for that itself.
    """

    def make(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
        if not topology.forwarding:
            return entry.make(topology, collective, timing, seed)
        pairs, of_npus = _seen_by_npus(topology, collective)
        own = timing.of(pairs, of_npus)
        made = entry.make(pairs, of_npus, own, seed) if on_pairs is None else on_pairs(topology, pairs, of_npus, own, seed)
        return over_devices(topology, collective, timing, made)

    def refusal(topology: Topology, collective: Collective) -> str | None:
        if not topology.forwarding:
            return entry.refusal(topology, collective)
        if num_pairs(topology) > _MOST_PAIRS:
            return f"takes at most {_MOST_PAIRS:,} pairs of NPUs on such graphs, these are {num_pairs(topology):,}"
        if collective.least_sends > _MOST_SENDS:
            return f"schedules at most {_MOST_SENDS:,} sends on such graphs, these are {collective.least_sends:,}"
        return entry.refusal(*_seen_by_npus(topology, collective))

    def work(topology: Topology, collective: Collective) -> int:
        if not topology.forwarding:
            return entry.work(topology, collective)
        return entry.work(*_seen_by_npus(topology, collective)) + _LINKS_OF_TRIP * collective.least_sends

    def advise(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
        if topology.forwarding:
            return advise_for_trips(topology, name, size_bytes, link_model, min(max_sends, _ADVISED_SENDS))
        return 0 if entry.advise is None else entry.advise(topology, name, size_bytes, link_model, max_sends)

    return replace(entry, make=make, refusal=refusal, work=work, advise=advise, does_forwarding=True)


def _seen_by_npus(topology: Topology, collective: Collective) -> tuple[Topology, Collective]:
    """The network of pairs, and the collective on it."""
    members = collective.members if collective.num_members < topology.num_endpoints else None
    return network_of_pairs(topology), replace(collective, num_npus=topology.num_endpoints, members=members)
