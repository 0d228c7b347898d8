"""The best of many plans: estimated all, scheduled the best few."""

from __future__ import annotations

from collections import Counter

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED, TRUNCATION_HANDICAP, Timing, compute_timing, least_bytes
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.exchange.cost import (
    MOST_CELLS,
    MOST_ROWS,
    Costs,
    estimate_ns,
    list_plans,
    num_rows,
    with_late_additions,
)
from astra_tacos.synthesizer.exchange.level import Level, dimension_levels, whole_level
from astra_tacos.synthesizer.exchange.plan import Plan, send_graph_of

_MOST_SCHEDULED = 6
_MOST_ROWS = 100_000
"""Sends of all plans together that are scheduled after the first."""
_MOST_ALIKE = 2
"""Plans that differ in nothing but their pieces."""
_WORTH_A_TRY = 1.3
_BUILD = 4.0
"""Sends examined that building one send of a plan and its values counts as."""
_ESTIMATE = 10
"""Sends examined that an estimate counts as."""


def best_plan(topology: Topology, size_bytes: int, timing: Timing, synthesizer: str, seed: int) -> Schedule:
    """The fastest All-Reduce of the plans with the least estimated times.

    Parameters
    ----------
    topology
        The network.
    size_bytes
        Of the buffer.
    timing
        The link model and reduce bandwidth.
    synthesizer, seed
        What the schedule records.

    Raises
    ------
    SynthesisError
        If all plans have too many values.
    """
    best: tuple[float, Schedule] | None = None
    left = _MOST_ROWS
    for plan in _promising(topology, size_bytes, timing):
        rows, _ = num_rows(plan, topology.num_npus)
        if best is not None and rows > left:
            continue
        left -= rows
        collective = plan.collective(topology.num_npus, size_bytes)
        try:
            exact = compute_timing(topology, collective, timing.link_model, timing.reduce_bandwidth_gbps)
            sends = send_graph_of(plan, topology, exact, topology.num_npus)
            schedule = dispatch(topology, collective, exact, sends, synthesizer, seed)
            count_work(_BUILD * len(sends.chunk))
        except SynthesisError:
            continue
        time = _counted_ns(schedule)
        if best is None or time < best[0]:
            best = time, schedule
    if best is None:
        raise SynthesisError(f"{topology.name}: {size_bytes} bytes have too many values, expected fewer NPUs")
    return best[1]


def _counted_ns(schedule: Schedule) -> float:
    """The exact time, longer where truncation makes ASTRA-sim's too short: the search prefers others then, too."""
    exact_ns = exact_time_ns(schedule)
    is_truncated = schedule.collective_time_ns < (1 - MOST_TRUNCATED) * exact_ns
    return exact_ns * TRUNCATION_HANDICAP if is_truncated else exact_ns


def _promising(topology: Topology, size_bytes: int, timing: Timing) -> list[Plan]:
    """The plans to schedule, the one of the least estimate first."""
    costs = Costs(topology, timing.link_model)
    least = 1 if timing.is_blocking else min(int(least_bytes(topology).max()), size_bytes)
    estimated: list[tuple[float, int, Plan]] = []
    for levels in _level_choices(topology):
        plans = list_plans(levels, least, size_bytes)
        late = (each for plan in plans for each in (plan, *with_late_additions(plan, size_bytes, least, costs)))
        for plan in (costs.in_whole_ns(plan, size_bytes, least) for plan in late):
            rows, values = num_rows(plan, topology.num_npus)
            if rows > MOST_ROWS or values * topology.num_npus > MOST_CELLS:
                continue
            estimate = estimate_ns(plan, size_bytes, costs)
            if estimate is not None:
                estimated.append((estimate, len(estimated), plan))
    count_work(_ESTIMATE * len(estimated))
    estimated.sort(key=lambda entry: entry[:2])
    chosen: list[Plan] = []
    alike: Counter[object] = Counter()
    seen: set[object] = set()
    for estimate, _, plan in estimated:
        kind = id(plan.levels), plan.forms, plan.order, plan.turns
        # Mirror images on a symmetric network take equally long.
        image = round(estimate, 3), plan.num_chunks, plan.pieces, plan.turns
        if image in seen:
            continue
        seen.add(image)
        if estimate <= _WORTH_A_TRY * estimated[0][0] and len(chosen) < _MOST_SCHEDULED and alike[kind] < _MOST_ALIKE:
            alike[kind] += 1
            chosen.append(plan)
    return chosen


def _level_choices(topology: Topology) -> list[tuple[Level, ...]]:
    """All NPUs as one group, and where there are several dimensions, a level for each."""
    choices = [dimension_levels(topology)] if topology.dimensions else []
    if len(topology.dimensions) != 1:
        choices.append((whole_level(topology),))
    return choices
