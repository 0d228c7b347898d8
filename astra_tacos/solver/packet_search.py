"""Schedules and orders of sends for the packet level, where messages in flight on a link share it.

For an analytical clock one rule sets the order of sends in traces (`order_for_packets`). For `--backend packet`, replays decide
(`search_and_replay`). Searches are for a network model: on the network itself, or where messages are packets on links that take
what messages take.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.export.chakra import order_of_traces, schedule_trace, timed_orders
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.packet_time import packet_time_ns, packet_view
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.settle import exact_time_ns, settled_on
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.solver.packets import MOST_PACKETS
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import FASTEST, THOROUGH, SearchOptions

_RIVALS = (
    ("direct", (1, 4, 16)),
    ("symmetric", (24, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)),
    ("routed", (96, 24, 12, 6)),
)
"""Synthesizers, and numbers of chunks, whose schedules are few long messages, alike on all links, or load links evenly."""
_FEW_RIVALS = (("symmetric", (24, 12, 8, 5, 3)), ("direct", (4,)), ("routed", (24, 12)))
"""Those of a search that is not thorough."""
_LONG = 2.0
"""A message is long if a link takes so many times its latency to send it."""
_RIVAL_SENDS = 100_000
_SHARE_OF_BUDGET = 8


def rivals(topology: Topology, collective: Collective, options: SearchOptions, link_model: LinkModel) -> Iterator[SearchResult]:
    """Schedules that suit the packet level, of the synthesizers that are asked for, if the number of chunks is to be chosen."""
    if not options.chooses_chunks:
        return
    share = options.part_of_budget(_SHARE_OF_BUDGET, topology)
    listed = _RIVALS if options.effort == THOROUGH else _FEW_RIVALS
    for name, counts in listed:
        for count in counts if name in options.synthesizers else ():
            asked = replace(share, synthesizer=name, chunks_per_npu=count, link_model=link_model, trials=1)
            try:
                found = search(topology, collective, asked)
            except (ConfigError, SynthesisError):  # less than a byte, or than 1 ns
                continue
            if found.schedule.num_sends <= min(_RIVAL_SENDS, options.max_sends):
                yield found


def order_for_packets(schedule: Schedule) -> LinkOrder | None:
    """The order of sends in traces that keeps a schedule's time and suits packets; None for the default order.

    Tokens keep links busy with short messages, if all NPUs send equally many of them. A window keeps apart long messages, and
    those of NPUs that send unequally many.
    """
    orders = timed_orders(schedule)
    if len(orders) < 2 or schedule.topology.forwarding:  # stand-in runs have no choice of the order
        return None
    channel = schedule.channel[schedule.message_row]
    sent = np.bincount(schedule.topology.channel_src[channel], minlength=schedule.topology.num_npus)
    link = schedule.topology.channel_link[channel]
    wire_ns = schedule.message_bytes / bytes_per_ns(schedule.topology.link_bandwidth_gibps[link])
    is_short = np.median(wire_ns) <= _LONG * np.median(schedule.topology.link_latency_ns[link])
    likely = "tokens" if is_short and sent.min() == sent.max() else "window"
    order = min(orders, key=lambda order: order != likely)
    return None if order == order_of_traces(schedule)[0] else order


_KEPT = 1.02
"""A schedule keeps its prediction if the packet level takes at most this much longer; no other one is looked for then."""
_MOST_OTHERS = 3
"""Searches for another schedule, without the synthesizers of those before."""


def search_on(
    backend: Backend,
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
        The network model, and how ns-3 is configured.
    topology, collective, options, on_progress, without
        As for `search`, which says what is raised.
    """
    if not is_packet_level(backend) or options.link_model != backend.link_model:
        return search(topology, collective, options, on_progress, without=without)
    found = search(packet_view(topology, ns3), collective, options, on_progress, without=without)
    schedule = settled_on(topology, found.schedule.collective, found.schedule, found.schedule.sends)
    return replace(found, schedule=schedule, exact_ns=exact_time_ns(schedule))


def search_and_replay(
    backend: Backend,
    network: NetworkConfig,
    topology: Topology,
    collective: Collective,
    options: SearchOptions,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    link_order: LinkOrder | None = None,
) -> tuple[SearchResult, LinkOrder | None]:
    """`search_on`; for the packet level, what its replay ends first of several results, and the order of sends in its traces.

    Link-serialised schedules take what is predicted unless packets of several NPUs meet in a port of a switch, which traces
    cannot keep them from. Then those of other synthesizers are replayed, too. Messages that are short beside a round trip are
    faster if several are on their way: so are schedules that hold links while they serialise, in several orders. The order is
    None for that of the schedule's link model.

    Parameters
    ----------
    backend, network
        The network model, and the network as its file has it.
    topology, collective, options, on_progress
        As for `search`, which says what is raised.
    link_order
        How traces keep the order of sends on a link; None for the fastest way.
    """
    if not is_packet_level(backend):
        return search(topology, collective, options, on_progress), link_order
    is_open = options.link_model == FASTEST
    options = replace(options, link_model=backend.link_model) if is_open else options
    found = search_on(backend, network.ns3, topology, collective, options, on_progress)
    contest = _Contest(backend, network, link_order, found, link_order)
    kept = contest.enter(found)
    share = options.part_of_budget(_MOST_OTHERS + 1, topology)
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


@dataclass(slots=True)
class _Contest:
    """Schedules and orders of sends that are replayed packet by packet; the first to end is the best, and of equals the first.

    Parameters
    ----------
    backend, network, asked
        What replays the traces, and the order of sends that was asked for.
    best, order
        The best result, or the first as long as none could be replayed, and the order of sends in its traces.
    """

    backend: Backend
    network: NetworkConfig
    asked: LinkOrder | None
    best: SearchResult
    order: LinkOrder | None
    _least_ns: float = math.inf

    def enter(self, found: SearchResult) -> bool:
        """Replay a result in all orders that come into question; returns whether it needs no rival of its link model."""
        schedule = found.schedule
        if self.network.ns3.num_packets(float(schedule.message_bytes.sum())) > MOST_PACKETS:
            return True
        own = order_of_traces(schedule)[0]
        forwards = bool(schedule.topology.forwarding)  # stand-in runs of such schedules have no choice of the order
        several: tuple[LinkOrder, ...] = (own,) if schedule.timing.is_blocking or forwards else (own, "tokens", "none")
        orders = (self.asked,) if self.asked else several
        kept = False
        for order in orders:
            try:
                trace = schedule_trace(between_npus(schedule), schedule.collective.name, order)
                time_ns = replay_trace(trace, self.network, self.backend).collective_time_ns
                kept |= order == own == "serial" and time_ns <= _KEPT * packet_time_ns(schedule, self.network.ns3)
            except AstraTacosError:
                continue
            if time_ns < self._least_ns:
                self._least_ns, self.best, self.order = time_ns, found, self.asked if forwards else order
        return kept
