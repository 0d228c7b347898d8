"""Collectives on graphs with switches, packet by packet: predicted and replayed, in the order of sends of their traces."""

from __future__ import annotations

import sys
import time

from results_page import machine, main

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.solver.clock import time_on
from astra_tacos.solver.packets import packet_level
from astra_tacos.solver.solve import synthesize

FABRICS: tuple[tuple[str, dict[str, float]], ...] = (
    ("leaf-spine", {}),
    ("leaf-spine", {"oversubscription": 2.0}),
    ("fat-tree", {}),
    ("rails", {}),
    ("dragonfly", {}),
    ("hxmesh", {}),
    ("dgx-a100", {}),
    ("dgx-h100", {}),
)
SIZES = {"all-gather": 1 << 20, "all-reduce": 1 << 20, "all-to-all": 1 << 20}
"""Of the whole buffer: an All-Gather's shards together."""
SYNTHESIZERS = ("ring", "direct")


def tables() -> str:
    """A row for each fabric, collective and synthesizer."""
    lines = [
        f"Measured on {machine()}.",
        "",
        "| fabric | NPUs | collective | synthesizer | congestion-aware us | order | predicted us | packets us | ratio | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, values in FABRICS:
        for collective, size in SIZES.items():
            for synthesizer in SYNTHESIZERS:
                if (collective, synthesizer) != ("all-to-all", "ring"):
                    lines.append(row(kind, values, collective, size, synthesizer))
                    print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def row(kind: str, values: dict[str, float], collective: str, size: int, synthesizer: str) -> str:
    """A line of the table."""
    began = time.process_time()
    network = make_fabric(kind, **values)
    topology = build_topology(network, may_forward=True)
    of_node = size // topology.num_endpoints if collective == "all-gather" else size
    what = make_collective(collective, topology.num_npus, of_node, 1, members=topology.endpoints)
    schedule = synthesize(topology, what, synthesizer=synthesizer)
    level = packet_level(schedule, network)
    name = kind + "".join(f", {key} {value:g}" for key, value in values.items())
    queued_ns = time_on(schedule, network, CONGESTION_AWARE).time_ns
    times = [f"{ns / 1000:,.2f}" for ns in (queued_ns, level.predicted_ns, level.time_ns)]
    cells = (
        name,
        topology.num_endpoints,
        collective,
        synthesizer,
        times[0],
        order_of_traces(schedule)[0],
        *times[1:],
        f"{level.ratio:.2f}",
    )
    return f"| {' | '.join(map(str, cells))} | {time.process_time() - began:.1f} |"


if __name__ == "__main__":
    main(__doc__ or "", "fabric_packets", tables)
