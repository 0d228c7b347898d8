"""A network that stock ASTRA-sim runs."""

from __future__ import annotations

from dataclasses import replace

from astra_tacos.network.network_config import Dimension
from astra_tacos.run.backend import BACKENDS
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.reading import network_of


@mend("network", "N01")
def mend_network(draft: Draft, log: Log) -> None:
    """Replace a dimension at which the congestion-aware backend aborts by the one that has the same links.

    It makes the links of a ring of two NPUs twice. Other networks that stock ASTRA-sim does not run are refused.
    """
    fault = draft.backend.aborted_by(draft.network)
    if fault is not None and len(draft.backend.refusals(draft.network)) == 1:
        _substitute(draft, log, fault)
    refusals = draft.backend.refusals(draft.network)
    if refusals:
        others = [other.name for other in BACKENDS.values() if not other.refusals(draft.network)]
        hint = f" (--backend {others[0]} does)" if others else ""
        raise ConfigError(f"{draft.network.source}: stock ASTRA-sim does not run this network: {refusals[0]}{hint}")


def _substitute(draft: Draft, log: Log, fault: Dimension) -> None:
    other = fault.building_block.aware_substitute(fault.size)
    dims = [replace(dim, block=other) if dim is fault and other else dim for dim in draft.network.dimensions]
    columns: dict[str, list[object]] = {
        "topology": [dim.block for dim in dims],
        "npus_count": [dim.size for dim in dims],
        "bandwidth": [dim.bandwidth_gibps for dim in dims],
        "latency": [dim.latency_ns for dim in dims],
    }
    draft.network_text = "".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in columns.items())
    draft.network = replace(network_of(draft.network_text), source=draft.network.source)
    reason = f"ASTRA-sim's {draft.backend} backend makes its links twice, and aborts"
    log.add(f"{fault.block} of {fault.size} became {other}", reason)
