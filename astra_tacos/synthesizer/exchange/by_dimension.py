"""Gathering, scattering and All-to-All dimension by dimension, in each of them straight or by doubling: the best of all mixes."""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.dimension_order.dimension_order import Ways, send_graph_over_dimensions
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.exchange.level import DOUBLING, SHORTEST, dimension_levels

MOST_MIXES = 16
_MOST_SENDS = 200_000
"""Of all mixes together, after the first."""


def num_mixes(topology: Topology, collective: Collective) -> int:
    """How many mixes `best_mix` schedules at most."""
    count = len(topology.dimensions)
    return int(min(MOST_MIXES, 2 ** (count + (count > 1)), max(1, _MOST_SENDS // collective.least_sends)))


def best_mix(topology: Topology, collective: Collective, timing: Timing, synthesizer: str, seed: int) -> Schedule:
    """The fastest schedule over ways and orders of dimensions: doubling everywhere first, then others as far as there is time.

    Parameters
    ----------
    topology, collective, timing
        What to synthesize; the collective gathers, reduces or is an All-to-All, and keeps its chunks.
    synthesizer, seed
        What the schedule records.

    Raises
    ------
    SynthesisError
        If there is nothing to try.
    """
    levels = dimension_levels(topology)
    numbers = list(range(len(levels)))
    orders = [numbers, numbers[::-1]][: len(levels)]
    best: tuple[float, Schedule] | None = None
    for names, order in islice(
        product(product((DOUBLING, SHORTEST), repeat=len(levels)), orders), num_mixes(topology, collective)
    ):
        spreads = tuple(level.ways[name] for level, name in zip(levels, names, strict=True))
        ways = Ways(spreads, tuple(name == DOUBLING for name in names))
        over = np.tile(np.array(order, np.int8), (collective.num_chunks, 1))
        sends = send_graph_over_dimensions(topology, collective, timing, over, ways)
        schedule = dispatch(topology, collective, timing, sends, synthesizer, seed)
        time = exact_time_ns(schedule)
        if best is None or time < best[0]:
            best = time, schedule
    if best is None:
        raise SynthesisError(f"{topology.name} has no dimensions, expected at least one")
    return best[1]
