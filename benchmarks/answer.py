"""How long one waits for an answer: CPU seconds of whole commands, and what `--effort normal` gives up on cases drawn at random.

The first table is of processes, warm but for the last row, the second of warm processes with one thread. Times of schedules do
not depend on the machine. Nothing is tuned on the drawn cases: another `SEED` gives others of the same kinds.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from plan import LARGE, write_network
from plan import NETWORKS as PLANNED
from results_page import machine, main

from astra_tacos import Request, build_topology, solve
from astra_tacos.collective import ROOTED
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.network.failures import draw_failures
from astra_tacos.network.network_config import Dimension, NetworkConfig, describe_dimensions
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size, format_time
from astra_tacos.synthesizer.search.search_options import SearchOptions

SEED, CASES = 49, 200
BLOCKS = ("Ring", "Mesh", "Mesh", "FullyConnected", "Switch")
SPEEDS, LATENCIES = (25, 50, 50, 100, 200, 400), (50, 500, 500, 2000)
SIZES = tuple(1 << power for power in (12, 16, 20, 22, 24, 26, 27, 30))
COLLECTIVES = (
    *("all-reduce",) * 5,
    *("all-gather", "reduce-scatter") * 2,
    *("all-to-all", "broadcast", "reduce"),
)
FABRICS = ("leaf-spine", "fat-tree", "rails", "dragonfly", "hxmesh", "dgx-a100", "dgx-h100")
NPUS = range(4, 81)
OF_GRAPHS, OF_FAILURES, FAILED = 0.1, 0.15, 0.08
"""Shares of cases on graphs with switches, and on networks without a share of their links."""
EFFORTS = ("normal", "thorough")
ROOT = Path(__file__).parents[1]
RING_4_SWITCH_8 = (("Ring", 4, 100, 500), ("Switch", 8, 25, 500))
TRANSFORMER = (
    "plan --workload configs/workload/transformer_16/workload/w --system configs/workload/transformer_16/system.json "
    "--comm-group configs/workload/transformer_16/comm_group.json --network configs/network/hetero_3d_16npus.yml"
)
REPEATS = 3


def commands(folder: Path) -> dict[str, str]:
    """The commands that are measured, by name; files that they need are written into a folder."""
    write_network(folder / "ring_switch.yml", RING_4_SWITCH_8)
    rows = {
        f"`synthesize`, {name}, {size}": f"synthesize --network configs/network/{name}.yml --size {size}"
        for name, size in (
            ("mesh_4x4", "16MiB"),
            ("hetero_3d_64npus", "64KiB"),
            ("hetero_3d_64npus", "16MiB"),
            ("hetero_3d_64npus", "1GiB"),
        )
    }
    network = f"--network {folder}/ring_switch.yml"
    rows["`synthesize`, Ring 4 x Switch 8, 16MiB, `--output`"] = f"synthesize {network} --size 16MiB --output {folder}/run"
    rows["`compare`, Ring 4 x Switch 8, 1KiB,1MiB,64MiB"] = f"compare {network} --sizes 1KiB,1MiB,64MiB"
    rows["`plan`, transformer_16"] = f"{TRANSFORMER} --output {folder}/planned --no-cache"
    rows["`plan --schedule`, transformer_16"] = f"{TRANSFORMER} --schedule --output {folder}/scheduled --no-cache"
    large = folder / "large"
    astra_tacos(f"generate --output {large} {LARGE}")
    inputs = f"--workload {large}/workload/w --system {large}/system.json --comm-group {large}/comm_group.json"
    for number, (name, dimensions) in enumerate(PLANNED.items()):
        path = write_network(folder / f"large_{number}.yml", dimensions)
        rows[f"`plan`, 1,024 ranks, {name}"] = (
            f"plan {inputs} --network {path} --baseline ring --output {folder}/large_{number} --no-cache"
        )
    rows["`replay`, transformer_16"] = TRANSFORMER.replace("plan", "replay", 1)
    return rows


def astra_tacos(arguments: str, **environment: str) -> float:
    """CPU seconds of a command."""
    command = [Path(sys.executable).parent / "astra-tacos", *arguments.split()]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # users' bytecode is kept
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=own | environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def waiting() -> list[str]:
    """A row for each command: the least of a few repetitions."""
    lines = ["| command | CPU s |", "|---|---|"]
    with tempfile.TemporaryDirectory() as scratch:
        for name, arguments in commands(Path(scratch)).items():
            took = min(astra_tacos(arguments) for _ in range(REPEATS))
            lines.append(f"| {name} | {took:.1f} |")
            print(lines[-1], file=sys.stderr, flush=True)
        first = "synthesize --network configs/network/torus_8x8.yml --size 4MiB"
        took = astra_tacos(first, NUMBA_CACHE_DIR=f"{scratch}/kernels")
        lines.append(f"| the first command after installation: torus 8x8, 4 MiB | {took:.1f} |")
    return lines


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked for."""

    network: NetworkConfig
    about: str
    collective: str
    size: int


def drawn(seed: int, count: int) -> list[Case]:
    """Cases of 4 to 80 NPUs, of all patterns and of sizes from 4 KiB to 1 GiB."""
    source, cases = Random(seed), list[Case]()
    while len(cases) < count:
        kind = source.random()
        if kind < OF_GRAPHS:
            name = source.choice(FABRICS)
            network, about = make_fabric(name), name
        else:
            number = source.choice((1, 2, 2, 2, 3))
            dimensions = tuple(
                Dimension(
                    source.choice(BLOCKS), source.randint(2, 12 if number < 3 else 5), *map(source.choice, (SPEEDS, LATENCIES))
                )
                for _ in range(number)
            )
            network = NetworkConfig("drawn.yml", dimensions)
            if network.num_npus not in NPUS:
                continue
            speeds = "/".join(f"{each.bandwidth_gibps:g}" for each in dimensions)
            about = f"{describe_dimensions(dimensions)} at {speeds}"
            if kind < OF_GRAPHS + OF_FAILURES:
                try:
                    failed = draw_failures(build_topology(network), FAILED, source.randrange(1 << 30))
                except ConfigError:
                    continue
                network, about = replace(network, failed_links=failed), f"{about}, {len(failed)} links failed"
        size, collective = source.choice(SIZES), source.choice(COLLECTIVES)
        least = 1 if collective in ROOTED else network.num_npus
        cases.append(Case(network, about, collective, max(size, least)))
    return cases


def tables() -> str:
    """A row for each case."""
    lines = ["| network | collective | size | normal | CPU s | thorough | CPU s | normal / thorough | thorough / bound |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    seconds: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    ratios = []
    with ProcessPoolExecutor(initializer=warm_up) as pool:
        for case, found in pool.map(measured_by_efforts, drawn(SEED, CASES)):
            for effort, (_, took, _) in zip(EFFORTS, found, strict=True):
                seconds[effort].append(took)
            ratios.append(found[0][0] / found[1][0])
            cells = (part for time_ns, took, _ in found for part in (format_time(time_ns), f"{took:.1f}"))
            about = f"| {case.about} | {case.collective} | {format_size(case.size)} | {' | '.join(cells)} |"
            lines.append(f"{about} {ratios[-1]:.4f} | {found[1][0] / found[1][2]:.3f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    medians = {effort: f"median {statistics.median(took):.1f}, worst {max(took):.1f}" for effort, took in seconds.items()}
    about = f"{CASES} cases drawn with seed {SEED}. CPU seconds: normal {medians['normal']}; thorough {medians['thorough']}. "
    about += f"Times of normal by those of thorough: mean {statistics.mean(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}."
    return "\n".join((f"Measured on {machine()}.", "", *waiting(), "", about, "", *lines))


def warm_up() -> None:
    """Load kernels."""
    solve(Request(NetworkConfig("drawn.yml", (Dimension("Ring", 4, 50.0, 500.0),)), "all-reduce", 1 << 10))


def measured_by_efforts(case: Case) -> tuple[Case, list[tuple[float, float, float]]]:
    """Of each effort: the time on the clock in ns, CPU seconds, and the bound in ns."""
    return case, [measured(case, effort) for effort in EFFORTS]


def measured(case: Case, effort: str) -> tuple[float, float, float]:
    begin = time.process_time()
    options = SearchOptions(chunks_per_npu="auto", effort=effort, threads=1)
    found = solve(Request(case.network, case.collective, case.size, options=options)).to_json()
    return float(found["time_ns"]), time.process_time() - begin, float(found["bound_ns"])


if __name__ == "__main__":
    main(__doc__ or "", "answer", tables)
