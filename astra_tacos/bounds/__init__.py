"""Lower bounds on collective time; `BOUNDS` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.distance import diameter
from astra_tacos.bounds.port import egress, ingress, volume
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology

BOUNDS: dict[str, Callable[[Topology, Collective, Timing], Bound]] = {
    "ingress": ingress,
    "egress": egress,
    "volume": volume,
    "diameter": diameter,
}


def lower_bound(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The largest of all bounds: no schedule of these chunks under this timing model is faster."""
    return max((bound(topology, collective, timing) for bound in BOUNDS.values()), key=lambda bound: bound.time_ns)
