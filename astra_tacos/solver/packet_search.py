"""Searches for a network model: on the network itself, or where messages are packets on links that take what messages take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import replace

from astra_tacos.collective.collective import Collective
from astra_tacos.export.chakra import order_of_traces, schedule_trace
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.packet_time import on_links_of, packet_time_ns, packet_view
from astra_tacos.schedule.schedule import LinkOrder
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.solver.packet_level import MOST_PACKETS
from astra_tacos.solver.robust import rivals
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import FASTEST, SearchOptions
from astra_tacos.synthesizer.work import AUTO_BUDGET

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
    if not is_packet_level(backend) or options.link_model != backend.link_model:
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
    link_order: LinkOrder | None = None,
    *,
    work_after: float = 0.0,
) -> tuple[SearchResult, LinkOrder | None]:
    """`search_on`; for the packet level, what its replay ends first of several results, and the order of sends in its traces.

    Link-serialised schedules take what is predicted unless packets of several NPUs meet in a port of a switch, which traces
    cannot keep them from. Then those of other synthesizers are replayed, too. Messages that are short beside a round trip are
    faster if several are on their way: so are schedules that hold links while they serialise, in several orders. The order is
    None for that of the schedule's link model.

    Parameters
    ----------
    backend, network
        The network model, None for an analytical one, and the network as its file has it.
    topology, collective, options, on_progress
        As for `search`, which says what is raised.
    link_order
        How traces keep the order of sends on a link; None for the fastest way.
    work_after
        As for `search`, on analytical models.
    """
    if not is_packet_level(backend):
        return search(topology, collective, options, on_progress, work_after=work_after), link_order
    is_open = options.link_model == FASTEST
    options = replace(options, link_model=backend.link_model) if is_open else options
    found = search_on(backend, network.ns3, topology, collective, options, on_progress)
    contest = _Contest(network, backend, link_order)
    kept = contest.enter(found)
    share = replace(options, budget=max((options.budget or AUTO_BUDGET) // (_MOST_OTHERS + 1), 1))
    left_out: set[str] = set()
    while not kept and options.link_model == backend.link_model and len(left_out) < _MOST_OTHERS:
        left_out.add(found.schedule.synthesizer)
        if left_out.issuperset(options.synthesizers):
            break
        try:
            found = search_on(backend, network.ns3, topology, collective, share, without=left_out)
        except SynthesisError:
            break  # no other synthesizer does it
        kept = contest.enter(found)
    if is_open:
        with contextlib.suppress(ConfigError, SynthesisError):  # less than a byte, or than 1 ns
            contest.enter(search(topology, collective, replace(share, link_model="pipelined")))
        for rival in rivals(topology, collective, share, "pipelined"):
            contest.enter(replace(found, schedule=rival.schedule, exact_ns=rival.exact_ns))
    return contest.best, contest.order


class _Contest:
    """Schedules and orders of sends that are replayed packet by packet; the first to end is the best, and of equals the first."""

    def __init__(self, network: NetworkConfig, backend: Backend, link_order: LinkOrder | None) -> None:
        self._network, self._backend, self._asked = network, backend, link_order
        self._best: tuple[int, SearchResult, LinkOrder | None] | None = None
        self._first: SearchResult | None = None

    @property
    def best(self) -> SearchResult:
        """The best result, or if none could be replayed the first."""
        found = self._best[1] if self._best else self._first
        assert found is not None
        return found

    @property
    def order(self) -> LinkOrder | None:
        """The order of sends in its traces."""
        return self._best[2] if self._best else self._asked

    def enter(self, found: SearchResult) -> bool:
        """Replay a result in all orders that come into question; returns whether it needs no rival of its link model."""
        self._first = self._first or found
        schedule, ns3 = found.schedule, self._network.ns3
        if ns3.num_packets(float(schedule.message_bytes.sum())) > MOST_PACKETS:
            return True
        own = order_of_traces(schedule)[0]
        forwards = bool(schedule.topology.forwarding)  # stand-in runs of such schedules have no choice of the order
        several: tuple[LinkOrder, ...] = (own,) if schedule.timing.is_blocking or forwards else (own, "tokens", "none")
        orders = (self._asked,) if self._asked else several
        kept = False
        for order in orders:
            try:
                trace = schedule_trace(between_npus(schedule), schedule.collective.name, order)
                time_ns = replay_trace(trace, self._network, self._backend).collective_time_ns
                kept |= order == own == "serial" and time_ns <= _KEPT * packet_time_ns(schedule, ns3)
            except AstraTacosError:
                continue
            if self._best is None or time_ns < self._best[0]:
                self._best = time_ns, found, self._asked if forwards else order
        return kept
