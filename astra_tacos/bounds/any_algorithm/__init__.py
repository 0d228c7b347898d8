"""Lower bounds over all algorithms and all chunkings; `ANY_ALGORITHM` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.bounds.any_algorithm.cuts import cut, partition
from astra_tacos.bounds.any_algorithm.flow import flow
from astra_tacos.bounds.any_algorithm.latency import rounds
from astra_tacos.bounds.any_algorithm.ports import egress, ingress
from astra_tacos.bounds.bound import Bound
from astra_tacos.schedule.problem import Problem

ANY_ALGORITHM: dict[str, Callable[[Problem], Bound]] = {
    "ingress": ingress,
    "egress": egress,
    "cut": cut,
    "partition": partition,
    "flow": flow,
    "rounds": rounds,
}
