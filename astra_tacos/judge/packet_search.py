"""Searches for a network model: on the network itself, or where messages are packets on links that take what messages take."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from astra_tacos.collective.collective import Collective
from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.ns3 import Ns3Config
from astra_tacos.errors import AstraTacosError, SynthesisError
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend
from astra_tacos.schedule.packet_time import on_links_of, packet_time_ns, packet_view
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.work import AUTO_BUDGET
from astra_tacos.topology.topology import Topology

MOST_PACKETS = 30_000_000
"""Packets of a schedule that is replayed to be compared; a replay takes about 0.2 us each, for every link."""
_KEPT = 1.02
"""A schedule keeps its prediction if the packet level takes at most this much longer; no other one is looked for then."""
_MOST_OTHERS = 3
"""Searches for another schedule, without the synthesizers of those before."""


def search_on(
    backend: Backend | None,
    ns3: Ns3Config,
    topology: Topology,
    collective: Collective,
    options: SearchOptions,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    without: Collection[str] = (),
) -> SearchResult:
    """`search`, by what a message takes on a network model.

    For the packet level, schedules that hold their links are made on links of the time that large messages take there
    (`packet_view`); the result is on the network itself. Its numbers of chunks are those that are best there.

    Parameters
    ----------
    backend, ns3
        The network model, None for an analytical one, and how ns-3 is configured.
    topology, collective, options, on_progress, without
        As for `search`, which says what is raised.
    """
    if backend is None or backend.is_analytical or options.link_model != backend.link_model:
        return search(topology, collective, options, on_progress, without=without)
    found = search(packet_view(topology, ns3), collective, options, on_progress, without=without)
    schedule = on_links_of(topology, found.schedule)
    return replace(found, schedule=schedule, exact_ns=exact_time_ns(schedule))


def search_and_replay(
    backend: Backend | None,
    network: NetworkConfig,
    topology: Topology,
    collective: Collective,
    options: SearchOptions,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> SearchResult:
    """`search_on`, and where messages of the result meet in ports, other results: the one that the packet level ends first.

    Schedules hold a switch's link out, but their traces cannot: if packets of several NPUs meet there, the schedule takes longer
    than predicted. Those of another synthesizer may meet less.

    Parameters
    ----------
    backend, network
        The network model, None for an analytical one, and the network as its file has it.
    topology, collective, options, on_progress
        As for `search`, which says what is raised.
    """
    found = search_on(backend, network.ns3, topology, collective, options, on_progress)
    if backend is None or backend.is_analytical:
        return found
    best, best_ns, kept = found, *_replayed(found, network, backend)
    left_out: set[str] = set()
    share = replace(options, budget=max((options.budget or AUTO_BUDGET) // (_MOST_OTHERS + 1), 1))
    while not kept and len(left_out) < _MOST_OTHERS:
        left_out.add(found.schedule.synthesizer)
        if left_out.issuperset(options.synthesizers):
            break
        try:
            found = search_on(backend, network.ns3, topology, collective, share, without=left_out)
        except SynthesisError:
            break  # no other synthesizer does it
        time_ns, kept = _replayed(found, network, backend)
        if time_ns is not None and (best_ns is None or time_ns < best_ns):
            best, best_ns = found, time_ns
    return best


def num_packets(collective_bytes: float, ns3: Ns3Config) -> float:
    """About how many packets so many bytes on links take."""
    return collective_bytes / ns3.payload_bytes


def _replayed(found: SearchResult, network: NetworkConfig, backend: Backend) -> tuple[int | None, bool]:
    """When the packet level ends a schedule, None if it does not; and whether to look no further."""
    schedule = found.schedule
    if num_packets(float(schedule.message_bytes.sum()), network.ns3) > MOST_PACKETS:
        return None, True
    try:
        predicted_ns = packet_time_ns(schedule, network.ns3)
        time_ns = replay_trace(schedule_trace(schedule, schedule.collective.name), network, backend).collective_time_ns
    except AstraTacosError:
        return None, False
    return time_ns, schedule.timing.is_blocking and time_ns <= _KEPT * predicted_ns
