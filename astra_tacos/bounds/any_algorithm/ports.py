"""Links into and out of single NPUs: what must cross them, and how far it has come or has to go.

All that an NPU needs from NPUs at a distance of d ns or more can only arrive after d: its links carry nothing of it before.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.bounds.any_algorithm.carrying import (
    first_arrival_ns,
    rate_bytes_per_ns,
    smallest_times_ns,
    whole_ns,
)
from astra_tacos.bounds.any_algorithm.latency import MOST_STEPS, distances_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.partition import is_transitive
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Floats, Ints

_FEW = 16
"""NPUs that are examined with distances where the network is too large for all: those whose links take longest."""


def ingress(problem: Problem) -> Bound:
    """Time that the links into the worst NPU need for what must enter it."""
    topology, collective = problem.topology, problem.collective
    return _worst(topology, collective, inward=True)


def egress(problem: Problem) -> Bound:
    """Time that the links out of the worst NPU need for what must leave it."""
    topology, collective = problem.topology, problem.collective
    return _worst(topology, collective, inward=False)


def _worst(topology: Topology, collective: Collective, *, inward: bool) -> Bound:
    name, way = ("ingress", "into") if inward else ("egress", "out of")
    ends = topology.link_dst if inward else topology.link_src
    links = np.flatnonzero(ends < topology.num_npus)
    rate, arrival = rate_bytes_per_ns(topology, links), first_arrival_ns(topology)[links]
    rate = np.where(np.isfinite(arrival), rate, 0.0)
    times = smallest_times_ns(ends[links], rate, arrival, bytes_of(collective).at_npus(inward=inward))
    worst = int(times.argmax())
    time, where = float(times[worst]), f"links {way} NPU {worst}"
    total = np.bincount(ends[links], rate, topology.num_npus)
    npus = _examined(topology, collective, times)
    amount, adds_up = _amounts(collective, npus, inward=inward)
    distance = distances_ns(topology, npus, towards=inward)[:, : topology.num_npus]
    distance = np.where(amount > 0, distance, -1.0)
    if adds_up:
        order = np.argsort(-distance, axis=1, kind="stable")
        distance = np.take_along_axis(distance, order, axis=1)
        amount = np.cumsum(np.take_along_axis(amount, order, axis=1), axis=1)
    reached = np.where(distance >= 0, distance + amount / total[npus, None], 0.0)
    row, column = np.unravel_index(int(reached.argmax()), reached.shape)
    if reached[row, column] > time:
        worst, time = int(npus[row]), float(reached[row, column])
        away = f"what comes {distance[row, column]:g} ns" if inward else f"what goes {distance[row, column]:g} ns"
        where = f"links {way} NPU {worst}, for {away} or farther"
    return Bound(name, whole_ns(time), where, (worst,), tuple(np.flatnonzero(ends == worst).tolist()))


def _examined(topology: Topology, collective: Collective, times: Floats) -> Ints:
    """NPUs whose distances count: one where all are alike, all where that is affordable, else those whose links take longest."""
    if collective.root is None and collective.members is None and is_transitive(topology):
        return np.array([int(times.argmax())])
    members = collective.member_npus
    if len(members) * topology.num_links <= MOST_STEPS:
        return members
    return np.sort(members[np.argsort(-times[members], kind="stable")[:_FEW]])


def _amounts(collective: Collective, npus: Ints, *, inward: bool) -> tuple[Floats, bool]:
    """What has to come to each of some NPUs from every other (or go there), and whether that adds up over the others.

    It does if these are different bytes, and not if one byte can stand for all of them: a sum, or something that is sent on.
    Returns float64[len(npus), num_npus], 0 for an NPU itself.
    """
    num_npus = collective.num_npus
    is_member = np.isin(np.arange(num_npus), collective.member_npus)
    data = bytes_of(collective)
    if collective.is_personalised:
        amount, adds_up = (data.pairs[:, npus].T if inward else data.pairs[npus]).copy(), True
    elif collective.num_phases == 2:
        amount, adds_up = np.where(is_member[npus, None] & is_member, data.whole, 0.0), False
    elif inward == collective.gathers:
        amount, adds_up = np.where(is_member[npus, None], data.owned, 0.0), True
    else:
        amount, adds_up = np.where(is_member, data.owned[npus, None], 0.0), False
    amount[np.arange(len(npus)), npus] = 0.0
    return amount, adds_up
