"""The best of many plans: estimated all, scheduled the best few.

The least time of all plans by the bytes that NPUs receive, so that no plan is made where none can win.

Gathering, scattering and All-to-All dimension by dimension, in each of them straight or by doubling: the best of all mixes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, product

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED, TRUNCATION_HANDICAP, Timing, least_bytes
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.exchange.cost import (
    MOST_CELLS,
    MOST_ROWS,
    Costs,
    estimate_ns,
    list_plans,
    num_rows,
)
from astra_tacos.synthesizer.exchange.level import DOUBLING, SHORTEST, dimension_levels, whole_level
from astra_tacos.synthesizer.exchange.plan import Form, Plan, send_graph_of
from astra_tacos.synthesizer.parts.dimension_order import Ways, send_graph_over_dimensions
from astra_tacos.synthesizer.parts.dispatch import dispatch


@lru_cache(maxsize=4)
def least_ns(topology: Topology, size_bytes: int) -> float:
    """A time that no plan beats on a network of dimensions, in which all NPUs receive equally fast; 0 on others.

    What a level exchanges comes in over the links of its dimension. With all NPUs as one group, it comes in over all links.
    """
    if not topology.dimensions or np.any(topology.link_dimension < 0):
        return 0.0
    into = topology.link_dst < topology.num_npus
    rate = np.zeros((len(topology.dimensions), topology.num_npus))
    np.add.at(rate, (topology.link_dimension[into], topology.link_dst[into]), bytes_per_ns(topology.link_bandwidth_gibps[into]))
    # Where links are missing, what goes along one dimension may take links of another.
    if np.any(np.ptp(rate, axis=1) > 0):
        return 0.0
    at_once = 2 * size_bytes * (topology.num_npus - 1) / float(rate.sum())
    if len(topology.dimensions) == 1:
        return at_once
    rates = rate.sum(axis=1).tolist()
    plans = (plan for plan in list_plans(dimension_levels(topology), 1, size_bytes) if plan.pieces == 1)
    return min(at_once, *(_slowest_level_ns(plan, size_bytes, rates) for plan in plans))


def _slowest_level_ns(plan: Plan, size_bytes: int, rate: list[float]) -> float:
    """The time that the links of the busiest level need.

    Parameters
    ----------
    rate
        By level, bytes per ns into all NPUs.
    """
    received, held = [0.0] * len(plan.levels), float(size_bytes)
    for number in (*plan.scattered, *plan.exchanged):
        level, form = plan.levels[number], plan.forms[number]
        received[number] += len(level.groups) * held * _buffers(form, level.size)
        held /= max(form.num_owners, 1)
    return max(amount / speed for amount, speed in zip(received, rate, strict=True))


def _buffers(form: Form, size: int) -> int:
    """How many times a buffer comes in at the NPUs of a group, at least: once over each edge of a tree, or in each round."""
    if form.num_owners:
        return 2 * (size - 1)
    if form.way is None:
        return (size.bit_length() - 1) << (size.bit_length() - 1)
    return size * (size - 1)


MOST_MIXES = 16
_MOST_SENDS = 200_000
"""Of all mixes together, after the first."""


def num_mixes(topology: Topology, collective: Collective) -> int:
    """How many mixes `best_mix` schedules at most."""
    count = len(topology.dimensions)
    return int(min(MOST_MIXES, 2 ** (count + (count > 1)), max(1, _MOST_SENDS // collective.least_sends)))


def promising_mixes(problem: Problem, synthesizer: str, seed: int) -> Iterator[Schedule]:
    """Schedules over ways and orders of dimensions: doubling everywhere first, then others as far as there is time.

    Parameters
    ----------
    problem
        What to synthesize; the network has dimensions, the collective gathers, reduces or is an All-to-All, and keeps its chunks.
    """
    topology, collective = problem.topology, problem.collective
    levels = dimension_levels(topology)
    numbers = list(range(len(levels)))
    orders = [numbers, numbers[::-1]][: len(levels)]

    def mix(names: tuple[str, ...], order: list[int]) -> Schedule:
        spreads = tuple(level.ways[name] for level, name in zip(levels, names, strict=True))
        ways = Ways(spreads, tuple(name == DOUBLING for name in names))
        over = np.tile(np.array(order, np.int8), (collective.num_chunks, 1))
        sends = send_graph_over_dimensions(problem, over, ways)
        return dispatch(problem, sends, synthesizer, seed)

    mixes = product(product((DOUBLING, SHORTEST), repeat=len(levels)), orders)
    yield from (mix(*arguments) for arguments in islice(mixes, num_mixes(topology, collective)))


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


def promising_plans(
    topology: Topology, crossed: Topology, size_bytes: int, timing: Timing, synthesizer: str, seed: int
) -> Iterator[Schedule]:
    """All-Reduces by the plans with the least estimated times.

    Parameters
    ----------
    crossed
        The network whose links chunks are large enough for: the same, or a fabric that it stands for.

    Raises
    ------
    SynthesisError
        If all plans have too many values.
    """
    has_any, left = False, _MOST_ROWS
    least = 1 if timing.is_blocking else min(int(least_bytes(crossed).max()), size_bytes)
    for plan in _promising(topology, size_bytes, timing, least):
        rows, _ = num_rows(plan, topology.num_npus)
        if has_any and rows > left:
            continue
        left -= rows
        collective = plan.collective(topology.num_npus, size_bytes)
        try:
            exact = timing.of(topology, collective)
            sends = send_graph_of(plan, topology, exact)
            schedule = dispatch(Problem(topology, collective, exact), sends, synthesizer, seed)
            count_work(_BUILD * len(sends.chunk))
        except SynthesisError:
            continue
        has_any = True
        yield schedule
    if not has_any:
        raise SynthesisError(f"{topology.name}: {size_bytes} bytes have too many values, expected fewer NPUs")


def counted_ns(schedule: Schedule) -> float:
    """The exact time, longer where truncation makes ASTRA-sim's too short: the search prefers others then, too."""
    exact_ns = exact_time_ns(schedule)
    is_truncated = schedule.collective_time_ns < (1 - MOST_TRUNCATED) * exact_ns
    return exact_ns * TRUNCATION_HANDICAP if is_truncated else exact_ns


def _promising(topology: Topology, size_bytes: int, timing: Timing, least: int) -> list[Plan]:
    """The plans to schedule, the one of the least estimate first; chunks have at least so many bytes."""
    costs = Costs(topology, timing.link_model)
    estimated: list[tuple[float, int, Plan]] = []
    # All NPUs as one group, and where there are several dimensions, a level for each.
    choices = [dimension_levels(topology)] if topology.dimensions else []
    if len(topology.dimensions) != 1:
        choices.append((whole_level(topology),))
    for levels in choices:
        for plan in list_plans(levels, least, size_bytes):
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
        kind = id(plan.levels), plan.forms, plan.order
        # Mirror images on a symmetric network take equally long.
        image = round(estimate, 3), plan.num_chunks, plan.pieces
        if image in seen:
            continue
        seen.add(image)
        if estimate <= _WORTH_A_TRY * estimated[0][0] and len(chosen) < _MOST_SCHEDULED and alike[kind] < _MOST_ALIKE:
            alike[kind] += 1
            chosen.append(plan)
    return chosen
