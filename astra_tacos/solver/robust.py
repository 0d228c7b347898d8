"""Schedules for an analytical model whose traces keep their promise on the packet level, too.

Where messages in flight on a link share it, traces that keep the schedule's time on an analytical model may take twice their
prediction. Orders of sends that keep that time are tried first, then orders and schedules that are a little slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from astra_tacos.collective.collective import Collective
from astra_tacos.export.chakra import order_of_traces, timed_orders
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import Backend
from astra_tacos.schedule.schedule import LINK_ORDERS, LinkOrder, Schedule
from astra_tacos.schedule.timing import MOST_TRUNCATED, LinkModel
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.packet_level import PacketLevel, packet_level
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.work import AUTO_BUDGET

MOST_LONGER = 1.3
"""Traces keep their promise if the packet level takes at most so much of its prediction."""
MOST_LOSS = 1.05
"""For that they may take so much of the time of the fastest schedule on analytical models."""
_ENOUGH = 1.02
"""No other order is looked for then."""
_RIVALS = (
    ("direct", (1, 4, 16)),
    ("symmetric", (24, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)),
    ("routed", (24, 12, 6)),
    ("trees", (12,)),
)
"""Synthesizers, and numbers of chunks, whose schedules are few long messages, alike on all links, or load links evenly."""
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
    budget = max((options.budget or AUTO_BUDGET) // _SHARE_OF_BUDGET, 1)
    for name, counts in _RIVALS:
        for count in counts if name in options.synthesizers else ():
            asked = replace(options, synthesizer=name, chunks_per_npu=count, link_model=link_model, budget=budget, trials=1)
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
    if schedule.topology.forwarding:  # its run is a stand-in, which has no choice of the order
        return None, None
    return _fastest_order(schedule, network, timed_orders(schedule))


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
    schedule = found.schedule
    order, level = robust_order(schedule, network)
    if level is None or level.ratio <= MOST_LONGER:
        return Robust(found, order, level)
    first = Robust(found, order, level)
    judged = judge_schedule(schedule, network, backend)
    base = judged.times_ns

    def loss(other: Schedule, its_order: LinkOrder | None) -> float | None:
        """By how much another trace is slower on analytical models; None if it does not run there."""
        times = judge_schedule(other, network, backend, its_order).times_ns
        ratios = [_ratio(times.get(figure), base_ns) for figure, base_ns in base.items() if base_ns is not None]
        return None if not ratios or None in ratios else max(each for each in ratios if each is not None)

    best, best_loss = first, 1.0
    for result in _others(found, topology, collective, options):
        other = result.schedule
        is_truncated = other.collective_time_ns < (1 - MOST_TRUNCATED) * result.exact_ns
        if result.exact_ns > MOST_LOSS * found.exact_ns or (is_truncated and other is not schedule):
            continue
        keeping = timed_orders(other)
        for orders in (keeping, tuple(each for each in LINK_ORDERS if each not in keeping)):
            order, level = _fastest_order(other, network, orders)
            if level is None or best.level is None or level.time_ns >= best.level.time_ns:
                continue
            lost = loss(other, order)
            if lost is not None and lost <= MOST_LOSS:
                best, best_loss = Robust(result, order, level), lost
        if best.level is not None and best.level.ratio <= MOST_LONGER:
            break
    return replace(best, note=_note(first, best, best_loss, judged.backend))


def _others(found: SearchResult, topology: Topology, collective: Collective, options: SearchOptions) -> Iterator[SearchResult]:
    yield found
    for rival in rivals(topology, collective, options, found.schedule.timing.link_model):
        yield replace(found, schedule=rival.schedule, exact_ns=rival.exact_ns)


def _fastest_order(
    schedule: Schedule, network: NetworkConfig, orders: tuple[LinkOrder, ...]
) -> tuple[LinkOrder | None, PacketLevel | None]:
    """Of some orders of sends, the one that the packet level ends first; the first of equals."""
    best: tuple[LinkOrder, PacketLevel] | None = None
    for order in orders:
        try:
            level = packet_level(schedule, network, order)
        except AstraTacosError:
            continue
        if best is None or level.time_ns < best[1].time_ns:
            best = order, level
        if level.ratio <= _ENOUGH:
            break
    if best is None:
        return None, None
    return (None if best[0] == order_of_traces(schedule)[0] else best[0]), best[1]


def _ratio(time_ns: int | None, base_ns: int) -> float | None:
    return None if time_ns is None else time_ns / max(base_ns, 1)


def _note(first: Robust, best: Robust, loss: float, backend: Backend) -> str:
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
        text = f"{text}; {more}" if text else f"{more} (--backend packet makes schedules for it)"
    return text
