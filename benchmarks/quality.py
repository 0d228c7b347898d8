"""How good the matcher's schedules are: prints tables and rewrites results/quality.md.

    python benchmarks/quality.py [--no-record]

Links are held until arrival (`blocking`), as in TACOS, unless a table says otherwise. The figures do not depend on the machine.
"""

from __future__ import annotations

from random import Random

from results_page import main
from tacos_cases import CASES, GIB

from astra_tacos import all_gather, build_topology, synthesize
from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.collective import COLLECTIVES
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.schedule_oracle import verify

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


def network(*dimensions: tuple[str, int, float, float], **options: object) -> Topology:
    return build_topology(NetworkConfig("benchmark.yml", tuple(Dimension(*dimension) for dimension in dimensions), **options))


def graph(links: list[tuple[int, int, float]]) -> Topology:
    return build_topology(NetworkConfig("benchmark.yml", (), tuple(LinkSpec(*link, 500.0) for link in links)))


def grid(block: str, *sizes: int) -> Topology:
    return network(*((block, size, 50.0, 500.0) for size in sizes))


def dgx1() -> Topology:
    single = ((0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7))
    double = ((0, 3), (1, 2), (2, 3), (4, 7), (5, 6), (6, 7), (0, 4), (1, 5))
    return graph([(*pair, 25.0 * n) for n, ends in ((1, single), (2, double)) for a, b in ends for pair in ((a, b), (b, a))])


ONE_CHUNK = {
    "torus 4x4": grid("Ring", 4, 4),
    "torus 8x8": grid("Ring", 8, 8),
    "torus 16x16": grid("Ring", 16, 16),
    "mesh 4x4": grid("Mesh", 4, 4),
    "mesh 5x5": grid("Mesh", 5, 5),
    "mesh 8x8": grid("Mesh", 8, 8),
    "hypercube 2^6": graph([(npu, npu ^ 1 << bit, 50.0) for npu in range(64) for bit in range(6)]),
    "six rings of 2": grid("Ring", *(2,) * 6),
    "DGX-1 (NVLinks of 25 GiB/s)": dgx1(),
}


def broken_torus(share: float, seed: int) -> Topology:
    """A 16x16 torus without that share of its 1024 directed links, drawn again until it is strongly connected."""
    whole = grid("Ring", 16, 16)
    links = list(zip(whole.link_src.tolist(), whole.link_dst.tolist(), strict=True))
    random = Random(seed)
    while True:
        failed = tuple(random.sample(links, round(share * len(links))))
        try:
            return network(("Ring", 16, 50.0, 500.0), ("Ring", 16, 50.0, 500.0), failed_links=failed)
        except ConfigError:
            continue


def found(
    topology: Topology, name: str, size: int, chunks: int, link_model: LinkModel = "blocking", trials: int | None = None
) -> Schedule:
    collective = COLLECTIVES[name](topology.num_npus, size, chunks)
    return synthesize(topology, collective, synthesizer="tacos", link_model=link_model, trials=trials)


def bound_of(schedule: Schedule) -> int:
    return chunked_lower_bound(schedule.problem).time_ns


def gathered_us(dimensions: tuple[tuple[str, int, float, float], ...], chunks: int, size: int, trials: int = 20) -> float:
    topology = network(*dimensions)
    collective = all_gather(topology.num_npus, size // topology.num_npus, chunks)
    return synthesize(topology, collective, synthesizer="tacos", link_model="blocking", trials=trials).collective_time_ns / 1e3


def of_small_messages() -> list[str]:
    lines = [
        "| 64 KiB per NPU on a torus 8x8, `pipelined`: chunks per NPU | bound (ns) | best of 10 seeds (ns) |",
        "|---|---|---|",
    ]
    for chunks in (1, 2, 4, 8):
        schedule = found(grid("Ring", 8, 8), "all-gather", 1 << 16, chunks, "pipelined", 10)
        lines.append(f"| {chunks} | {bound_of(schedule):,} | {schedule.collective_time_ns:,} |")
    return lines


def of_hierarchies() -> list[str]:
    lines = [
        "| hierarchy | chunks per NPU | link model | cut bound (us) | found (us) | of the bound |",
        "|---|---|---|---|---|---|",
    ]
    for name, (dimensions, bound, _) in HIERARCHIES.items():
        for link_model in LINK_MODELS:
            for chunks in (4, 7, 16, 32) if link_model == "blocking" else (16, 32, 64, 128):
                topology = network(*dimensions)
                trials = 20 if link_model == "blocking" else 2
                schedule = found(topology, "all-gather", GIB // topology.num_npus, chunks, link_model, trials)
                time = schedule.collective_time_ns / 1e3
                lines.append(f"| {name} | {chunks} | {link_model} | {bound} | {time:.1f} | {bound / time:.3f} |")
    return lines


def of_one_chunk() -> list[str]:
    lines = [
        "| one chunk per NPU, default number of seeds | All-Gather, of the quantised bound | Reduce-Scatter |",
        "|---|---|---|",
    ]
    for name, topology in ONE_CHUNK.items():
        gathered = found(topology, "all-gather", GIB // topology.num_npus, 1)
        scattered = found(topology, "reduce-scatter", GIB, 1)
        shares = [f"{bound_of(schedule) / schedule.collective_time_ns:.4f}" for schedule in (gathered, scattered)]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return lines


def of_failed_links() -> list[str]:
    lines = ["| links failed of a torus 16x16 | collective | chunks per NPU | bound (us) | found (us) | of the bound |"]
    lines.append("|---|---|---|---|---|---|")
    for share in (0.01, 0.04, 0.1):
        for name, chunks in (("all-gather", 1), ("all-reduce", 4), ("all-reduce", 16)):
            topology = broken_torus(share, seed=1)
            size = GIB // topology.num_npus if name == "all-gather" else GIB
            schedule = found(topology, name, size, chunks, trials=1)
            if verify(schedule):
                raise SystemExit(f"{share:.0%} of links failed: {name} is wrong")
            bound, time = bound_of(schedule) / 1e3, schedule.collective_time_ns / 1e3
            lines.append(f"| {share:.0%} | {name} | {chunks} | {bound:.1f} | {time:.1f} | {bound / time:.3f} |")
    return lines


def of_meshes() -> list[str]:
    lines = ["| All-Reduce of 1 GiB on a mesh | chunks per NPU | volume bound (us) | found (us) | of the bound | RS + AG (us) |"]
    lines.append("|---|---|---|---|---|---|")
    for side in (4, 5, 6, 8):
        schedule = found(grid("Mesh", side, side), "all-reduce", GIB, 64, trials=2)
        bound, time = bound_of(schedule) / 1e3, schedule.collective_time_ns / 1e3
        apart = 2 * (1 - 1 / side**2) * 1e6 / 100
        lines.append(f"| {side}x{side} | 64 | {bound:.1f} | {time:.1f} | {bound / time:.3f} | {apart:.1f} |")
    return lines


def tables() -> str:
    lines = ["| case | chunks per NPU | TACOS expects (us) | best of 20 seeds (us) | over |", "|---|---|---|---|---|"]
    for name, (dimensions, chunks, size, expected) in CASES.items():
        time = gathered_us(dimensions, chunks, size)
        lines.append(f"| {name} | {chunks} | {expected:.2f} | {time:.2f} | {max(time / expected - 1, 0):.2%} |")
    lines += ["", "| hierarchy | chunks per NPU | cut bound (us) | TACOS 1.3.0 (us) | best of 20 seeds (us) | of the bound |"]
    lines.append("|---|---|---|---|---|---|")
    for name, (dimensions, bound, published) in HIERARCHIES.items():
        for chunks, theirs in published.items():
            time = gathered_us(dimensions, chunks, GIB)
            lines.append(f"| {name} | {chunks} | {bound} | {theirs} | {time:.1f} | {bound / time:.3f} |")
    for table in (of_small_messages, of_hierarchies, of_one_chunk, of_failed_links, of_meshes):
        lines += ["", *table()]
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "quality", tables)
