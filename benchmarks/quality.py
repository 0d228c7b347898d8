"""How good the schedules are: prints two tables and rewrites their part of docs/results.md.

    python benchmarks/quality.py [--no-record]

Links are held until arrival (`blocking`), as in TACOS. The figures do not depend on the machine.
"""

from __future__ import annotations

from results_page import main
from tacos_cases import CASES, GIB

from astra_tacos import all_gather, build_topology, synthesize
from astra_tacos.config.network import Dimension, NetworkConfig

# All-Gather of 1 GiB: the bound of the best cut, and TACOS 1.3.0 (best of several runs, switches unwound at degree 1).
HIERARCHIES = {
    "Ring 2 x FullyConnected 4 x Switch 8 at 200/100/50": (
        (("Ring", 2, 200.0, 500.0), ("FullyConnected", 4, 100.0, 500.0), ("Switch", 8, 50.0, 500.0)),
        2187.5,
        {1: 4069, 4: 2831, 8: 2613, 16: 2520},
    ),
    "Switch 8 x Switch 4 at 300/25": (
        (("Switch", 8, 300.0, 500.0), ("Switch", 4, 25.0, 500.0)),
        3750.0,
        {1: 6567, 4: 4801, 8: 4573, 16: 4359},
    ),
}


def gathered_us(dimensions: tuple[tuple[str, int, float, float], ...], chunks: int, size: int, trials: int = 20) -> float:
    network = NetworkConfig("benchmark.yml", tuple(Dimension(*dimension) for dimension in dimensions))
    topology = build_topology(network)
    collective = all_gather(topology.num_npus, size // topology.num_npus, chunks)
    return synthesize(topology, collective, synthesizer="tacos", link_model="blocking", trials=trials).collective_time_ns / 1e3


def tables() -> str:
    lines = ["| case | chunks per NPU | TACOS expects (us) | best of 20 seeds (us) | over |", "|---|---|---|---|---|"]
    for name, (dimensions, chunks, size, expected) in CASES.items():
        found = gathered_us(dimensions, chunks, size)
        lines.append(f"| {name} | {chunks} | {expected:.2f} | {found:.2f} | {max(found / expected - 1, 0):.2%} |")
    lines += ["", "| hierarchy | chunks per NPU | cut bound (us) | TACOS 1.3.0 (us) | best of 20 seeds (us) | of the bound |"]
    lines.append("|---|---|---|---|---|---|")
    for name, (dimensions, bound, published) in HIERARCHIES.items():
        for chunks, theirs in published.items():
            found = gathered_us(dimensions, chunks, GIB)
            lines.append(f"| {name} | {chunks} | {bound} | {theirs} | {found:.1f} | {bound / found:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "quality", tables)
