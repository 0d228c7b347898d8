"""Ring: chunks go round rings of all NPUs, as NCCL lays them; several rings have no link in common.

Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009); NCCL's `Ring`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch import dispatch
from astra_tacos.synthesizer.hamiltonian_cycles import disjoint_cycles
from astra_tacos.synthesizer.hamiltonian_search import search_cycles
from astra_tacos.synthesizer.routing import Spread, make_plan
from astra_tacos.topology.topology import Topology


def ring(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Every chunk goes all the way round one ring, the rings taking turns; reductions go round it the same way."""
    rings = find_rings(topology)

    def spread_out(turned: bool) -> Spread:
        num_npus, num_chunks = topology.num_npus, collective.num_chunks
        place = np.empty_like(rings)
        np.put_along_axis(place, rings, np.arange(num_npus, dtype=np.int32)[None], axis=1)
        chunk = np.arange(num_chunks, dtype=np.int32)
        on = chunk % len(rings)
        step = np.arange(num_npus - 1, dtype=np.int32)
        start = place[on, collective.chunk_owner][:, None]
        one = np.int32(-1 if turned else 1)
        src, dst = (rings[on[:, None], (start + one * hops) % num_npus].ravel() for hops in (step, step + 1))
        return Spread(np.repeat(chunk, num_npus - 1), src, dst, np.tile(step, num_chunks))

    plan = make_plan(topology, collective, timing, spread_out)
    return dispatch(topology, collective, timing, plan, "ring", seed)


def find_rings(topology: Topology) -> NDArray[np.int32]:
    """int32[num_rings, num_npus], rings in the order in which they are gone round.

    Over dimensions, edge-disjoint cycles, each gone round both ways (one way where all are switches, whose ports one ring fills);
    in a graph, what a search finds. Rings with a missing link are left out, if at least as many are whole. Without a whole
    ring, there is one logical ring, through the dimensions to and fro or by id, whose missing links are routed around.
    """
    if topology.dimensions:
        cycles = disjoint_cycles(topology.dimensions) or [_to_and_fro(topology)]
        one_way = topology.num_npus == 2 or all(dimension.block == "Switch" for dimension in topology.dimensions)
    else:
        cycles = search_cycles(topology)
        one_way = bool(cycles)
        cycles = cycles or [np.arange(topology.num_npus, dtype=np.int32)]
    rings = np.stack(cycles if one_way else [way for cycle in cycles for way in (cycle, cycle[::-1])])
    whole = np.all(topology.channel_of(rings, np.roll(rings, -1, axis=1)) >= 0, axis=1)
    return rings[whole] if 2 * np.count_nonzero(whole) >= len(rings) else rings


def _to_and_fro(topology: Topology) -> NDArray[np.int32]:
    """All NPUs, each next to the one before it in one dimension."""
    order, stride = np.zeros(1, np.int32), 1
    for dimension in topology.dimensions:
        order = np.concatenate([(order[::-1] if place % 2 else order) + place * stride for place in range(dimension.size)])
        stride *= dimension.size
    return order.astype(np.int32)
