"""How long one waits for an answer: CPU seconds of whole commands, and what `--effort normal` gives up on 36 All-Reduces.

The first table is of processes, warm but for the last row, the second of one warm process with one thread. Times of schedules do
not depend on the machine.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from plan import LARGE, write_network
from plan import NETWORKS as PLANNED
from results_page import machine, main
from small import KIB, MIB, NETWORKS

from astra_tacos import Request, solve
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.units import format_size, format_time
from astra_tacos.synthesizer.search.search_options import SearchOptions

NAMES = (
    "ring 8",
    "torus 4x4",
    "torus 8x8",
    "torus 4x4 at 50/25",
    "mesh 4x4",
    "hypercube 16",
    "fully connected 8",
    "switch 8 x switch 4",
    "fully connected 4 x switch 4",
    "ring 2 x fully connected 4 x switch 4",
    "DGX-1",
    "torus 4x4, a failed link",
)
SIZES = (64 * KIB, 16 * MIB, 1024 * MIB)
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


def tables() -> str:
    """A row for each network and size."""
    lines = ["| network | size | normal | CPU s | thorough | CPU s | normal / thorough |", "|---|---|---|---|---|---|---|"]
    seconds: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    ratios = []
    solve(Request(NETWORKS["ring 4"], "all-reduce", KIB))  # kernels are loaded
    for name in NAMES:
        for size in SIZES:
            found = [measured(NETWORKS[name], size, effort) for effort in EFFORTS]
            for effort, (_, took) in zip(EFFORTS, found, strict=True):
                seconds[effort].append(took)
            ratios.append(found[0][0] / found[1][0])
            cells = (part for time_ns, took in found for part in (format_time(time_ns), f"{took:.1f}"))
            lines.append(f"| {name} | {format_size(size)} | {' | '.join(cells)} | {ratios[-1]:.4f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    medians = {effort: f"median {statistics.median(took):.1f}, worst {max(took):.1f}" for effort, took in seconds.items()}
    about = f"CPU seconds: normal {medians['normal']}; thorough {medians['thorough']}. Times of normal by those of thorough: "
    about += f"{min(ratios):.4f} to {max(ratios):.4f}."
    return "\n".join((f"Measured on {machine()}.", "", *waiting(), "", about, "", *lines))


def measured(network: NetworkConfig, size: int, effort: str) -> tuple[float, float]:
    """Time on the clock in ns, and CPU seconds."""
    begin = time.process_time()
    request = Request(network, "all-reduce", size, options=SearchOptions(chunks_per_npu="auto", effort=effort, threads=1))
    solution = solve(request)
    return float(solution.to_json()["time_ns"]), time.process_time() - begin


if __name__ == "__main__":
    main(__doc__ or "", "answer", tables)
