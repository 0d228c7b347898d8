"""What packed trees reach: prints four tables and rewrites results/trees.md.

    python benchmarks/trees.py [--no-record]

Seed 0, one schedule a row, verified. Times and loads do not depend on the machine; the seconds do.
"""

from __future__ import annotations

import time

import numpy as np
from quality import HIERARCHIES
from results_page import main
from tacos_cases import GIB

from astra_tacos import build_topology, verify
from astra_tacos.collective import COLLECTIVES
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer import SYNTHESIZERS

Dimensions = tuple[tuple[str, int, float, float], ...]
DECIMAL_50 = 50e9 / GIB
PIPECOMM = {4: 73.4, 5: 73.1, 6: 73.0}


def network(dimensions: Dimensions, failed: tuple[tuple[int, int], ...] = ()) -> Topology:
    return build_topology(NetworkConfig("benchmark.yml", tuple(Dimension(*d) for d in dimensions), failed_links=failed))


def packed(topology: Topology, name: str, size: int, chunks: int, model: LinkModel = "pipelined") -> tuple[Schedule, float]:
    """A verified schedule and the seconds that it took, after a first run that compiles."""
    what = COLLECTIVES[name](topology.num_npus, size, chunks)
    timing = compute_timing(topology, what, model)
    began = time.perf_counter()
    schedule = SYNTHESIZERS["routed"].make(Problem(topology, what, timing), 0)
    seconds = time.perf_counter() - began
    assert verify(schedule) == (), "a schedule that is not legal"
    return schedule, seconds


def meshes() -> list[str]:
    lines = ["| All-Reduce, pipelined | chunks per NPU | time (us) | GB/s | bound | PipeComm | RS+AG bound over time | s |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    cases = [(side, 10**9, DECIMAL_50, chunks) for side, chunks in ((4, 128), (4, 256), (5, 64), (5, 128), (6, 64), (6, 128))]
    for side, size, bandwidth, chunks in (*cases, (8, GIB, 50.0, 32), (8, GIB, 50.0, 64)):
        schedule, seconds = packed(network((("Mesh", side, bandwidth, 500.0),) * 2), "all-reduce", size, chunks)
        ns, link = schedule.collective_time_ns, bandwidth * GIB / 1e9
        halves = 2 * size * (side * side - 1) / (side * side) / (2 * link)
        best, known = link * 2 * side / (side + 1), PIPECOMM.get(side, "-")
        name = f"mesh {side}x{side}, " + ("1 GB at 50 GB/s" if size == 10**9 else "1 GiB at 50 GiB/s")
        lines.append(
            f"| {name} | {chunks} | {ns / 1e3:.1f} | {size / ns:.1f} | {best:.1f} | {known} | {halves / ns:.2f} | {seconds:.1f} |"
        )
    return lines


def hierarchies() -> list[str]:
    lines = ["| All-Gather of 1 GiB | link model | chunks per NPU | cut bound (us) | time (us) | of the bound | s |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, (dimensions, bound_us, _) in HIERARCHIES.items():
        topology = network(dimensions)
        for model, counts in (("blocking", (6, 8, 16)), ("pipelined", (12, 16, 24, 64))):
            for chunks in counts:
                schedule, seconds = packed(topology, "all-gather", GIB // topology.num_npus, chunks, model)
                us = schedule.collective_time_ns / 1e3
                lines.append(f"| {name} | {model} | {chunks} | {bound_us} | {us:.1f} | {bound_us / us:.3f} | {seconds:.1f} |")
    return lines


def failures() -> list[str]:
    """Bounds: a port's, of any NPU; for All-Reduce also all links together."""
    lines = ["| torus 16x16 without | collective, 1 GiB | chunks per NPU | bound (us) | time (us) | of the bound | s |"]
    lines.append("|---|---|---|---|---|---|---|")
    dimensions = (("Ring", 16, 50.0, 500.0),) * 2
    for share in (0.01, 0.04, 0.1):
        topology = network(dimensions, failed_links(dimensions, share))
        rate, npus = 50.0 * GIB / 1e6, topology.num_npus
        into, out_of = np.bincount(topology.link_dst).min(), np.bincount(topology.link_src).min()
        part = GIB * (npus - 1) / npus / rate
        bounds = {"all-gather": part / into, "reduce-scatter": part / out_of}
        bounds["all-reduce"] = max(GIB / rate / min(into, out_of), 2 * part * npus / topology.num_links)
        for name, chunks in (("all-gather", 1), ("all-gather", 4), ("reduce-scatter", 4), ("all-reduce", 8)):
            schedule, seconds = packed(topology, name, GIB // npus if name == "all-gather" else GIB, chunks)
            us, bound_us = schedule.collective_time_ns / 1e3, bounds[name]
            lines.append(
                f"| {share:.0%} of links | {name} | {chunks} | {bound_us:.1f} | {us:.1f} | {bound_us / us:.3f} | {seconds:.1f} |"
            )
    return lines


def failed_links(dimensions: Dimensions, share: float) -> tuple[tuple[int, int], ...]:
    """A share of a network's links, at random (seeded), that leave it connected."""
    whole, random = network(dimensions), np.random.default_rng(1)
    while True:
        gone = random.permutation(whole.num_links)[: round(share * whole.num_links)]
        failed = tuple(zip(whole.link_src[gone].tolist(), whole.link_dst[gone].tolist(), strict=True))
        try:
            network(dimensions, failed)
        except ConfigError:
            continue
        return failed


def tori() -> list[str]:
    """Bounds: the optima of the facts that TACOS, SCCL and ForestColl are compared with."""
    lines = ["| 1 GiB, pipelined | collective | chunks per NPU | optimum (us) | time (us) | of the optimum | s |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, blocks, gather_us, reduce_us in (
        ("torus 4x4", (("Ring", 4, 50.0, 500.0), ("Ring", 4, 50.0, 500.0)), 4687.5, 9375.0),
        ("torus 4x4 at 50/25", (("Ring", 4, 50.0, 500.0), ("Ring", 4, 25.0, 500.0)), 6250.0, 12500.0),
        ("mesh 4x4", (("Mesh", 4, 50.0, 500.0), ("Mesh", 4, 50.0, 500.0)), 9375.0, 12500.0),
        ("torus 8x8", (("Ring", 8, 50.0, 500.0), ("Ring", 8, 50.0, 500.0)), 4921.875, 9843.75),
        ("torus 8x8 at 50/25", (("Ring", 8, 50.0, 500.0), ("Ring", 8, 25.0, 500.0)), 6562.5, 13125.0),
        ("mesh 8x8", (("Mesh", 8, 50.0, 500.0), ("Mesh", 8, 50.0, 500.0)), 9843.75, 11250.0),
    ):
        topology = network(blocks)
        for kind, optimum_us, counts in (("all-gather", gather_us, (4, 16)), ("all-reduce", reduce_us, (4, 16, 64))):
            for chunks in counts:
                size = GIB // topology.num_npus if kind == "all-gather" else GIB
                schedule, seconds = packed(topology, kind, size, chunks)
                us = schedule.collective_time_ns / 1e3
                lines.append(f"| {name} | {kind} | {chunks} | {optimum_us} | {us:.1f} | {optimum_us / us:.3f} | {seconds:.1f} |")
    return lines


def tables() -> str:
    packed(network((("Ring", 4, 50.0, 500.0), ("Switch", 2, 50.0, 500.0))), "all-reduce", GIB, 1)
    return "\n\n".join("\n".join(table()) for table in (meshes, hierarchies, failures, tori))


if __name__ == "__main__":
    main(__doc__, "trees", tables)
