"""Schedules for an analytical model whose traces keep their promise on the packet level, too.

Where messages in flight on a link share it, traces that keep the schedule's time on an analytical model may take twice their
prediction. Orders of sends that keep that time are tried first, then orders and schedules that are a little slower.

Searches are for a network model: on the network itself, or where messages are packets on links that take what messages take.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.export.astra_sim_network import backend_of
from astra_tacos.export.chakra import keeps_timing, order_of_traces, schedule_trace, timed_orders
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.schedule.between_npus import between_npus
from astra_tacos.schedule.packet_time import packet_time_ns, packet_view
from astra_tacos.schedule.schedule import LINK_ORDERS, LinkOrder, Schedule
from astra_tacos.schedule.settle import exact_time_ns, settled_on
from astra_tacos.schedule.timing import MOST_TRUNCATED, LinkModel
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.judges import MOST_PACKETS, MOST_PACKETS_BESIDE, PacketLevel, packet_level
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import FASTEST, THOROUGH, SearchOptions

MOST_LONGER = 1.3
"""Traces keep their promise if the packet level takes at most so much of its prediction."""
MOST_LOSS = 1.05
"""For that they may take so much of the time of the fastest schedule on analytical models."""
_FREE = 1.005
"""And so much if they do not keep it either, but come closer."""
_ENOUGH = 1.02
"""No other order is looked for then."""
_RIVALS = (
    ("direct", (1, 4, 16)),
    ("symmetric", (24, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)),
    ("routed", (96, 24, 12, 6)),
)
"""Synthesizers, and numbers of chunks, whose schedules are few long messages, alike on all links, or load links evenly."""
_FEW_RIVALS = (("symmetric", (24, 12, 8, 5, 3)), ("direct", (4,)), ("routed", (24, 12)))
"""Those of a search that is not thorough."""
_QUICK_PACKETS, _QUICK_MESSAGES = 200_000, 100_000
"""Packets of each replay, and messages of all, that compare orders of sends where the search is not thorough."""
_COARSE_LONGER = 1.4
"""Larger packets, which stand for those of ns-3, take a little longer: so they keep their promise."""
_LONG = 2.0
"""A message is long if a link takes so many times its latency to send it."""
_RIVAL_SENDS = 100_000
_SHARE_OF_BUDGET = 8


@dataclass(frozen=True, slots=True)
class Robust:
    """A schedule for an analytical model, chosen with the packet level in mind.

    Parameters
    ----------
    found
        The result of the search, or what takes its place.
    link_order
        The order of sends in its traces; None for the default.
    level
        What its traces take on the packet level; None where that cannot be told.
    note
        What there is to say: what was given up, or that the packet level takes much longer than its prediction; "" if nothing.
    """

    found: SearchResult
    link_order: LinkOrder | None
    level: PacketLevel | None
    note: str = ""


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


def robust_order(schedule: Schedule, network: NetworkConfig) -> tuple[LinkOrder | None, PacketLevel | None]:
    """The order of sends, among those that keep a schedule's analytical time, which the packet level ends first.

    Parameters
    ----------
    schedule, network
        The schedule, and its network as the file has it.

    Returns
    -------
    link_order, level
        None for the default order; None where the packet level cannot be told.
    """
    return _Replays(network).fastest(schedule, timed_orders(schedule))


def likely_orders(schedule: Schedule) -> list[LinkOrder]:
    """The orders of sends that keep a schedule's analytical time, the one that is likely to be the fastest on packets first.

    Tokens keep links busy with short messages, if all NPUs send equally many of them. A window keeps apart long messages, and
    those of NPUs that send unequally many.
    """
    orders = timed_orders(schedule)
    channel = schedule.channel[schedule.message_row]
    sent = np.bincount(schedule.topology.channel_src[channel], minlength=schedule.topology.num_npus)
    link = schedule.topology.channel_link[channel]
    wire_ns = schedule.message_bytes / bytes_per_ns(schedule.topology.link_bandwidth_gibps[link])
    is_short = np.median(wire_ns) <= _LONG * np.median(schedule.topology.link_latency_ns[link])
    likely = "tokens" if is_short and sent.min() == sent.max() else "window"
    return sorted(orders, key=lambda order: order != likely)


def robust(
    network: NetworkConfig,
    topology: Topology,
    collective: Collective,
    options: SearchOptions,
    backend: Backend | None,
    found: SearchResult,
) -> Robust:
    """The fastest schedule of a search, or one that keeps its promise on the packet level and is at most 5% slower.

    Parameters
    ----------
    network, topology, collective
        The network, as its file has it and built, and the collective.
    options, backend
        What was asked of the search, and the analytical model that schedules are judged on; None for the one for which they
        are timed so.
    found
        Its result.
    """
    schedule, is_thorough = found.schedule, options.effort == THOROUGH
    if not is_thorough and len(timed_orders(schedule)) == 1:
        return Robust(found, None, None)  # each message waits for the one before: what is predicted is what packets take
    replays = _Replays(network) if is_thorough else _Replays(network, _QUICK_PACKETS, MOST_LONGER, _QUICK_MESSAGES)
    order, level = replays.fastest(schedule, timed_orders(schedule) if is_thorough else likely_orders(schedule))
    longest = MOST_LONGER if is_thorough or level is None or level.coarse == 1 else _COARSE_LONGER
    if level is None or level.ratio <= longest:
        return Robust(found, order, level)
    first = Robust(found, order, level)

    @cache
    def base() -> Mapping[str, int | None]:
        return judge_schedule(schedule, network, backend).times_ns

    def loss(other: Schedule, its_order: LinkOrder | None) -> float | None:
        """By how much another trace is slower on analytical models; None if it does not run there."""
        times, ratios = judge_schedule(other, network, backend, its_order).times_ns, []
        for figure, base_ns in base().items():
            if base_ns is not None:
                time_ns = times.get(figure)
                ratios.append(math.inf if time_ns is None else time_ns / max(base_ns, 1))
        return None if math.inf in ratios else max(ratios, default=None)

    best, best_loss = first, 1.0
    for result in _others(found, topology, collective, options):
        other = result.schedule
        is_truncated = other.collective_time_ns < (1 - MOST_TRUNCATED) * result.exact_ns
        if result.exact_ns > MOST_LOSS * found.exact_ns or (is_truncated and other is not schedule):
            continue
        keeping = timed_orders(other) if is_thorough else likely_orders(other)
        for orders in (keeping, tuple(each for each in LINK_ORDERS if each not in keeping)):
            order, level = replays.fastest(other, orders)
            if level is None or best.level is None or level.time_ns >= best.level.time_ns:
                continue
            is_timed = not is_thorough and keeps_timing(other, order, None)
            lost = result.exact_ns / found.exact_ns if is_timed else loss(other, order)
            pays = is_thorough or level.ratio <= longest
            if lost is not None and lost <= (MOST_LOSS if pays else _FREE):
                best, best_loss = Robust(result, order, level), lost
        if replays.are_over or (best.level is not None and best.level.ratio <= longest):
            break
    more = "" if is_thorough else "--effort thorough looks further, "
    return replace(best, note=_note(first, best, best_loss, backend_of(schedule, backend), more))


def _others(found: SearchResult, topology: Topology, collective: Collective, options: SearchOptions) -> Iterator[SearchResult]:
    yield found
    for rival in rivals(topology, collective, options, found.schedule.timing.link_model):
        yield replace(found, schedule=rival.schedule, exact_ns=rival.exact_ns)


@dataclass(slots=True)
class _Replays:
    """Replays packet by packet that compare schedules and orders of sends.

    Parameters
    ----------
    network
        The network, as its file has it.
    most_packets
        About how many packets a replay may have.
    enough
        No other order of a schedule is replayed where one takes at most so much of its prediction.
    left
        Messages that may still be replayed. The replay that uses them up is made, and none after it.
    """

    network: NetworkConfig
    most_packets: int = MOST_PACKETS_BESIDE
    enough: float = _ENOUGH
    left: float = math.inf

    @property
    def are_over(self) -> bool:
        """Whether no more are made."""
        return self.left <= 0

    def fastest(self, schedule: Schedule, orders: Sequence[LinkOrder]) -> tuple[LinkOrder | None, PacketLevel | None]:
        """Of some orders of sends, the one that the packet level ends first; the first of equals.

        None where the packet level cannot be told. Forwarding devices have a stand-in run, which has no choice of the order.
        """
        if schedule.topology.forwarding:
            return None, None
        best: tuple[LinkOrder, PacketLevel] | None = None
        for order in orders:
            if self.are_over:
                break
            self.left -= schedule.num_messages
            try:
                level = packet_level(schedule, self.network, order, most_packets=self.most_packets)
            except AstraTacosError:
                continue
            if best is None or level.time_ns < best[1].time_ns:
                best = order, level
            if level.ratio <= self.enough:
                break
        if best is None:
            return None, None
        return (None if best[0] == order_of_traces(schedule)[0] else best[0]), best[1]


def _note(first: Robust, best: Robust, loss: float, backend: Backend, hint: str) -> str:
    assert first.level is not None and best.level is not None
    text = ""
    if loss > 1 or best.found is not first.found:
        was = f"instead of {first.level.ratio:.2f}"
        text = (
            f"this schedule takes {loss:.3f} of the time of the fastest one on analytical models, so that the packet level takes "
            f"{best.level.ratio:.2f} of its prediction {was} (--backend {backend} makes the fastest one)"
        )
    if best.level.ratio > MOST_LONGER:
        kept = f"no schedule or order of sends was found that loses at most {MOST_LOSS - 1:.0%} on analytical models and keeps"
        more = f"the packet level takes {best.level.ratio:.2f} of its prediction: {kept} it within {MOST_LONGER}"
        text = f"{text}; {more}" if text else f"{more} ({hint}--backend packet makes schedules for it)"
    return text


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
    schedule = settled_on(topology, found.schedule.collective, found.schedule, found.schedule.sends)
    return replace(found, schedule=schedule, exact_ns=exact_time_ns(schedule))


def search_and_replay(
    backend: Backend | None,
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
        The network model, None for an analytical one, and the network as its file has it.
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
