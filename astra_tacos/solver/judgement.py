"""How long a schedule takes on each judge, and what the schedule of another backend takes there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from astra_tacos.export.astra_sim_network import astra_sim_network, backend_of
from astra_tacos.export.chakra import keeps_timing, schedule_trace
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import BACKENDS, PACKET, Backend
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.link_use import busiest_link_ns
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.solver.judges import (
    FIGURES,
    MOST_PACKETS,
    MOST_PACKETS_BESIDE,
    MOST_SENDS,
    Judge,
    PacketLevel,
    differ,
    judges_of_collective,
    packet_level,
)
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.units import format_time
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

_SHARE_OF_BUDGET = 4
"""The other schedule gets one part in so many of the budget."""
_OTHER_SENDS = 100_000
"""Its sends; more chunks would make it a little faster, and the comparison much slower."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The times of one schedule on the judges of its network.

    Parameters
    ----------
    judges
        The judges.
    backend
        The network model that the schedule was made for.
    times_ns
        By figure of a judge, when the last NPU has finished; None where that judge was not asked or stops.
    exact_ns
        What the schedule takes where messages wait for one another on links and no delay is truncated.
    level
        Its replay on the packet level, perhaps with larger packets; None where that was not asked for.
    packet_text
        The packet level in words, or why nothing is known of it; "" where that was not asked for.
    notes
        Why a time is missing or impossible, and where the schedule of another backend is faster.
    """

    judges: tuple[Judge, ...]
    backend: Backend
    times_ns: Mapping[str, int | None]
    exact_ns: float
    level: PacketLevel | None = None
    packet_text: str = ""
    notes: tuple[str, ...] = ()

    @property
    def own_time_ns(self) -> int | None:
        """The time on the backend that the schedule was made for; None if no judge that runs that has one."""
        own = [self.times_ns[judge.figure] for judge in self.judges if judge.backend == self.backend]
        return own[-1] if own else None

    @property
    def possible_ns(self) -> int | None:
        """`own_time_ns`, or if that is less than links can do, `exact_ns`: what native algorithms are compared with.

        A time that truncation alone makes up to half a percent shorter counts as it is.
        """
        own = self.own_time_ns
        return own if own is None or own >= (1 - MOST_TRUNCATED) * self.exact_ns else math.ceil(self.exact_ns)

    def to_json(self) -> dict[str, Any]:
        """The backend, a time in ns by judge (`stock_ns`, `congested_ns`, `packets_ns`), and what is known of the last one."""
        times = dict.fromkeys(FIGURES) | dict(self.times_ns)
        packets: dict[str, Any] = {"packets_are_exact": None, "packets_ratio": None}
        if self.level is not None:
            packets = {"packets_are_exact": self.level.coarse == 1, "packets_ratio": round(self.level.ratio, 6)}
            times[PACKET.figure] = self.level.time_ns
        return {"backend": self.backend.name, **times, **packets, "levels": [list(row) for row in self.rows()]}

    def rows(self) -> list[tuple[str, str]]:
        """The times as labels and values, of the analytical judges where they may differ, and of the packet level."""
        rows = []
        judges = tuple(judge for judge in self.judges if judge.backend.is_analytical)
        for judge in judges if differ(self.judges) else judges[-1:] if self.packet_text else ():
            time_ns = self.times_ns[judge.figure]
            rows.append((judge.label, f"{'-' if time_ns is None else format_time(time_ns)} ({judge.program})"))
        return [*rows, ("packet level", self.packet_text)] if self.packet_text else rows


def judge_schedule(
    schedule: Schedule,
    network: NetworkConfig,
    backend: Backend | None = None,
    link_order: LinkOrder | None = None,
    *,
    beside: bool = False,
    level: PacketLevel | None = None,
) -> Judgement:
    """The times of a schedule's traces on the judges of its network.

    Where the judges do not differ and ASTRA-sim represents the network exactly, the time is the predicted one; otherwise it is
    that of a replay of the traces.

    Parameters
    ----------
    schedule
        The schedule.
    network
        Its network, as the file has it.
    backend
        The model that it was made for; None for the one for which schedules are timed so.
    link_order
        How its traces keep the order of sends on a link (`export_chakra`); the default is the schedule's own.
    beside
        Whether to replay its traces on the packet level, too, though it was made for an analytical model: for less than a
        second, coarsely if there are many packets.
    level
        What that replay says, if the caller knows.
    """
    judgement = _judged(schedule, network, backend, link_order)
    if not beside and judgement.backend.is_analytical:
        return judgement
    most = MOST_PACKETS_BESIDE if judgement.backend.is_analytical else MOST_PACKETS
    try:
        level = level or packet_level(schedule, network, link_order, most)
    except AstraTacosError as error:
        notes = () if judgement.backend.is_analytical else (f"packet level: {error}",)
        return replace(judgement, packet_text=f"- ({error})", notes=(*judgement.notes, *notes))
    figures = {} if level.coarse > 1 else {PACKET.figure: level.time_ns}
    return replace(
        judgement,
        times_ns={**judgement.times_ns, **figures},
        level=level,
        packet_text=level.describe(),
    )


def _judged(
    schedule: Schedule,
    network: NetworkConfig,
    backend: Backend | None,
    link_order: LinkOrder | None,
) -> Judgement:
    """The times on the analytical judges."""
    timing, exact_ns = schedule.timing, exact_time_ns(schedule)
    chosen = backend_of(schedule, backend)
    try:
        judges = judges_of_collective(schedule.topology, network, timing.link_model, chosen)
    except ConfigError as error:  # no version of ASTRA-sim runs this network
        return Judgement((), chosen, dict.fromkeys(FIGURES), exact_ns, notes=(f"not judged: {error}",))
    if schedule.topology.forwarding:
        # The replay of the schedule, hop by hop, is what this model does; traces of NPUs cannot say over which devices to go.
        own_ns = None if timing.is_blocking else schedule.collective_time_ns
        held = ("not judged: links are held until chunks arrive, which no backend models here",) if timing.is_blocking else ()
        return Judgement(judges, judges[0].backend, {judge.figure: own_ns for judge in judges}, exact_ns, notes=held)
    is_exact = not differ(judges) and astra_sim_network(schedule.topology, timing.link_model, chosen).is_exact
    figures = [judge.figure for judge in judges]
    if is_exact and not stops_queues(schedule) and keeps_timing(schedule, link_order, None):
        return Judgement(judges, chosen, dict.fromkeys(figures, schedule.collective_time_ns), exact_ns)
    if schedule.num_sends > MOST_SENDS:
        note = f"not judged by replay: {schedule.num_sends:,} sends are more than {MOST_SENDS:,}"
        return Judgement(judges, chosen, dict.fromkeys(figures), exact_ns, notes=(note,))
    trace = schedule_trace(schedule, schedule.collective.name, link_order)
    times: dict[str, int | None] = dict.fromkeys(figures)
    notes = []
    least_ns = int(busiest_link_ns(schedule))
    is_truncated = schedule.collective_time_ns < (1 - MOST_TRUNCATED) * least_ns
    told: set[Backend] = set()
    for judge in judges:
        if not judge.backend.is_analytical:
            continue
        try:
            time_ns = times[judge.figure] = replay_trace(trace, judge.network, judge.backend).collective_time_ns
        except AstraTacosError as error:
            notes.append(f"{judge.describe()}: {error}")
            continue
        # Truncated delays may be a little short.
        if time_ns < (1 - MOST_TRUNCATED) * least_ns and judge.backend not in told:
            told.add(judge.backend)
            why = "it truncates the time of such small chunks" if is_truncated else "it lets sends overlap on a link"
            notes.append(f"{judge.describe()} prints less than the busiest link needs, {format_time(least_ns)}: {why}")
    return Judgement(judges, chosen, times, exact_ns, notes=tuple(notes))


def with_other_choices(judgement: Judgement, schedule: Schedule, network: NetworkConfig, options: SearchOptions) -> Judgement:
    """The judgement, with a note for each judge on which the schedule of another backend is faster.

    The other schedule is made by the same synthesizer with part of the budget, so a full search for that backend may find one
    that is faster still. Nothing is made where the judges do not differ: there is no other choice then. A judge without queues
    is asked only of schedules that are made for it: those whose sends wait in queues overlap there.

    Parameters
    ----------
    judgement
        Times of the schedule.
    schedule
        The schedule.
    network
        Its network, as the file has it.
    options
        What the search for it was asked for.
    """
    if not differ(judgement.judges) or schedule.num_sends > MOST_SENDS:
        return judgement
    notes: list[str] = []
    for backend in BACKENDS.values():
        other = None if backend == judgement.backend else _other_schedule(schedule, backend, options)
        if other is None:
            continue
        judged = judge_schedule(other, network, backend)
        for judge in judgement.judges:
            ours, theirs = judgement.times_ns[judge.figure], judged.times_ns.get(judge.figure)
            is_fair = judge.backend.models_congestion or (judge.backend == backend and judge in judged.judges)
            if is_fair and theirs is not None and (ours is None or theirs < ours):
                instead = "" if ours is None else f" instead of {format_time(ours)}"
                text = f"on {judge.describe()} a {other.timing.link_model} schedule takes {format_time(theirs)}{instead}"
                notes.append(f"{text}: --backend {backend} makes such")
    return replace(judgement, notes=(*judgement.notes, *notes))


def _other_schedule(schedule: Schedule, backend: Backend, options: SearchOptions) -> Schedule | None:
    """What the schedule's synthesizer makes for another backend; None if that is timed alike, or cannot be made."""
    if schedule.synthesizer not in SYNTHESIZERS:
        return None
    options = replace(options.part_of_budget(_SHARE_OF_BUDGET, schedule.topology), synthesizer=schedule.synthesizer)
    model = backend.link_model
    if model == schedule.timing.link_model:
        return None
    most = min(options.max_sends, _OTHER_SENDS)
    asked = replace(options, link_model=model, max_sends=most, trials=1)
    try:
        return search(schedule.topology, schedule.collective, asked).schedule
    except SynthesisError:
        return None
