"""What an effort costs, and what it gives up: All-Reduces on 12 networks at three sizes, with `normal` and `thorough`.

CPU seconds are of a warm process, one thread. Times do not depend on the machine.
"""

from __future__ import annotations

import statistics
import sys
import time

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
    return "\n".join((f"Measured on {machine()}.", "", about, "", *lines))


def measured(network: NetworkConfig, size: int, effort: str) -> tuple[int, float]:
    """Predicted time in ns, and CPU seconds."""
    begin = time.process_time()
    request = Request(network, "all-reduce", size, options=SearchOptions(chunks_per_npu="auto", effort=effort, threads=1))
    solution = solve(request)
    return int(solution.to_json()["predicted_ns"]), time.process_time() - begin


if __name__ == "__main__":
    main(__doc__ or "", "effort", tables)
