"""Lower bounds on collective time; `BOUNDS` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.cut import cut
from astra_tacos.bounds.distance import diameter
from astra_tacos.bounds.partition import partition
from astra_tacos.bounds.port import egress, ingress, volume
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology

BOUNDS: dict[str, Callable[[Topology, Collective, Timing], Bound]] = {
    "ingress": ingress,
    "egress": egress,
    "volume": volume,
    "diameter": diameter,
    "cut": cut,
    "partition": partition,
}
"""Functions of (topology, collective, timing) that give a lower bound of the time, by name."""


def lower_bound(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The largest of all bounds: no schedule of these chunks under this timing model is faster.

    It is assumed that in a collective that only reduces every send reduces. A copy that brings a partial sum back to a NPU that
    is part of it could save that NPU the reduction, which is not what a synthesizer does.
    """
    return largest(all_bounds(topology, collective, timing))


def all_bounds(topology: Topology, collective: Collective, timing: Timing) -> tuple[Bound, ...]:
    """Every bound, in the order of `BOUNDS`."""
    return tuple(bound(topology, collective, timing) for bound in BOUNDS.values())


def largest(bounds: tuple[Bound, ...]) -> Bound:
    """The largest bound; of equal ones the first, which is the simplest."""
    return max(bounds, key=lambda bound: bound.time_ns)
