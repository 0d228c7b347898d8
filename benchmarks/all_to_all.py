"""All-to-All, and groups with relays: how long synthesis takes, and how good it is; rewrites results/all_to_all.md.

    python benchmarks/all_to_all.py [--no-record]

Links of 50 GiB/s (or as given) and 500 ns, held until arrival; one trial on one thread, warm, the best of three. All-to-All of
1 GiB per NPU. `direct` is shortest ways without regard to loads.
"""

from __future__ import annotations

import sys
import time

from results_page import machine, main

from astra_tacos import build_topology
from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.collective import make_collective
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS

GIB = 1 << 30


def network(*dimensions: tuple[str, int, float], failed: tuple[tuple[int, int], ...] = ()) -> Topology:
    parts = tuple(Dimension(block, size, speed, 500.0) for block, size, speed in dimensions)
    return build_topology(NetworkConfig("benchmark.yml", parts, failed_links=failed))


NETWORKS = {
    "torus 8x8x8": network(*[("Ring", 8, 50.0)] * 3),
    "torus 8x8": network(*[("Ring", 8, 50.0)] * 2),
    "torus 8x8, 8 links failed": network(
        *[("Ring", 8, 50.0)] * 2, failed=((0, 1), (9, 10), (18, 26), (27, 19), (36, 37), (45, 44), (54, 62), (63, 7))
    ),
    "mesh 8x8": network(*[("Mesh", 8, 50.0)] * 2),
    "torus 8x8, 50 and 25 GiB/s": network(("Ring", 8, 50.0), ("Ring", 8, 25.0)),
    "Switch 16": network(("Switch", 16, 50.0)),
    "Ring 2 x FullyConnected 4 x Switch 8 at 200/100/50": network(
        ("Ring", 2, 200.0), ("FullyConnected", 4, 100.0), ("Switch", 8, 50.0)
    ),
    "Switch 8 x Switch 4 at 300/25": network(("Switch", 8, 300.0), ("Switch", 4, 25.0)),
}
GROUPS = {
    "all 64": None,
    "a row of 8": tuple(range(8)),
    "every third, 22": tuple(range(0, 64, 3)),
    "a block of 4x4": tuple(x + 8 * y for y in range(4) for x in range(4)),
}


def measure(name: str, topology: Topology, collective: str, size: int, chunks: int, members: tuple[int, ...] | None = None):  # type: ignore[no-untyped-def]
    """Seconds, sends, collective time and bound (ms)."""
    what = make_collective(collective, topology.num_npus, size, chunks, None, members)
    timing = compute_timing(topology, what, "blocking")
    make = SYNTHESIZERS[name].make
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        schedule = make(topology, what, timing, 0)
        seconds.append(time.perf_counter() - begin)
    return (
        min(seconds),
        schedule.num_sends,
        schedule.collective_time_ns / 1e6,
        chunked_lower_bound(Problem(topology, what, timing)).time_ns / 1e6,
    )


def tables() -> str:
    lines = [
        f"Machine: {machine()}.",
        "",
        "| All-to-All on | chunks per pair | sends | synthesis (s) | time (ms) | bound (ms) | time / bound | `direct` / bound |",
        "|---|---|---|---|---|---|---|---|",
    ]
    measure("routed", NETWORKS["Switch 16"], "all-to-all", GIB, 1)
    for name, topology in NETWORKS.items():
        for chunks in (1,) if topology.num_npus > 64 else (1, 8):
            seconds, sends, time_ms, bound_ms = measure("routed", topology, "all-to-all", GIB, chunks)
            direct = measure("direct", topology, "all-to-all", GIB, chunks)[2] if topology.num_npus <= 64 else None
            ratios = f"{time_ms / bound_ms:.4f} | {'-' if direct is None else f'{direct / bound_ms:.3f}'}"
            lines.append(f"| {name} | {chunks} | {sends:,} | {seconds:.2f} | {time_ms:.3f} | {bound_ms:.3f} | {ratios} |")
            print(lines[-1], file=sys.stderr)
    lines += [
        "",
        "| group on a torus 8x8 | All-Gather | Reduce-Scatter | All-Reduce | Broadcast | All-to-All |",
        "|---|---|---|---|---|---|",
    ]
    topology = NETWORKS["torus 8x8"]
    for name, members in GROUPS.items():
        cells = []
        for collective in ("all-gather", "reduce-scatter", "all-reduce", "broadcast", "all-to-all"):
            count = topology.num_npus if members is None else len(members)
            size, chunks = GIB // count if collective == "all-gather" else GIB, 128 if collective == "broadcast" else 16
            _, _, time_ms, bound_ms = measure("routed", topology, collective, size, chunks, members)
            cells.append(f"{time_ms:.2f} ms ({time_ms / bound_ms:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join([*lines, "", "In brackets: over the lower bound, which is not always reachable for groups."])


if __name__ == "__main__":
    main(__doc__, "all_to_all", tables)
