"""Frontiers of steps and rounds (SCCL) on a DGX-1 and a ring of 8, and how long their proofs take.

python benchmarks/pareto.py [--no-record]
"""

from __future__ import annotations

import time

from quality import dgx1
from results_page import machine, main

from astra_tacos import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.synthesizer.parts.frontier import Task, frontier
from astra_tacos.synthesizer.parts.rounds import lanes_of

SECONDS = 30.0
CASES = (
    ("DGX-1", "all-gather", None, 6, 4),
    ("DGX-1", "reduce-scatter", None, 6, 4),
    ("DGX-1", "gather", 0, 6, 3),
    ("DGX-1", "scatter", 0, 6, 3),
    ("DGX-1", "broadcast", 0, 7, 3),
    ("DGX-1", "all-to-all", None, 3, 2),
    ("ring 8", "all-gather", None, 4, 7),
    ("ring 8", "all-to-all", None, 1, 4),
)


def tables() -> str:
    ring = build_topology(NetworkConfig("ring", (Dimension("Ring", 8, 25.0, 500.0),)))
    networks = {"DGX-1": lanes_of(dgx1()), "ring 8": lanes_of(ring)}
    lines = [
        "| network | collective | chunks, steps, rounds | rounds per chunk at least | proven | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    for network, name, root, chunks, steps in CASES:
        begin = time.process_time()
        for point in frontier(Task(networks[network], name, root, SECONDS), chunks, steps):
            seconds = time.process_time() - begin
            proven = "yes" if point.is_proven else f"up to {chunks} chunks" if not point.undecided else "no"
            instance = f"({point.chunks}, {point.steps}, {point.rounds})"
            lines.append(f"| {network} | {name} | {instance} | {point.least} | {proven} | {seconds:.1f} |")
            begin = time.process_time()
    return "\n".join([*lines, "", machine()])


if __name__ == "__main__":
    main(__doc__ or "", "pareto", tables)
