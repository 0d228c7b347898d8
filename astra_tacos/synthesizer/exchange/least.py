"""The least time of all plans by the bytes that NPUs receive, so that no plan is made where none can win."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astra_tacos.network.topology import Topology
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.exchange.cost import list_plans
from astra_tacos.synthesizer.exchange.level import dimension_levels
from astra_tacos.synthesizer.exchange.plan import Form, Plan


@lru_cache(maxsize=4)
def least_ns(topology: Topology, size_bytes: int) -> float:
    """A time that no plan beats on a network of dimensions, in which all NPUs receive equally fast; 0 on others.

    What a level exchanges comes in over the links of its dimension. With all NPUs as one group, it comes in over all links.

    Parameters
    ----------
    topology
        The network.
    size_bytes
        Of the buffer.
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
    plan, size_bytes
        What is exchanged.
    rate
        By level, bytes per ns into all NPUs.
    """
    received = [0.0] * len(plan.levels)
    for turn in range(plan.turns):
        held = size_bytes / plan.turns
        for number in (*plan.scattered(turn), *plan.exchanged(turn)):
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
