"""Lower bounds over all algorithms and all chunkings; `ANY_ALGORITHM` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.bounds.any_algorithm.cuts import cut, partition
from astra_tacos.bounds.any_algorithm.flow import flow
from astra_tacos.bounds.any_algorithm.latency import rounds
from astra_tacos.bounds.any_algorithm.ports import egress, ingress
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

ANY_ALGORITHM: dict[str, Callable[[Topology, Collective, Timing], Bound]] = {
    "ingress": ingress,
    "egress": egress,
    "cut": cut,
    "partition": partition,
    "flow": flow,
    "rounds": rounds,
}
