"""How long synthesis takes, and how good it is: prints a table and rewrites results/synthesis.md.

    python benchmarks/synthesis.py [--no-record]

All-Gather of 1 GiB in all, one chunk per NPU, links of 50 GiB/s and 500 ns held for latency + serialisation. Every figure is the
median of warm runs of one trial on one thread; kernels are compiled before.

TACOS runs in turn with each case where TACOS_BIN names a program around its library, of an optimized build:

    TACOS_BIN=... make bench-synthesis

The program is called as `PROGRAM BYTES LATENCY_US BLOCK:SIZE:GIBPS ...` (`1073741824 0.5 Ring:8:50 Ring:8:50`). It makes one
All-Gather in one trial and prints `Time to solve: N ms`, as TACOS's own main does.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from results_page import machine, main

from astra_tacos import all_gather, build_topology
from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.algorithms.tacos import tacos

GIB = 1 << 30


def grid(block: str, *sizes: int, bandwidths: tuple[float, ...] = ()) -> NetworkConfig:
    speeds = bandwidths or (50.0,) * len(sizes)
    return NetworkConfig("benchmark.yml", tuple(Dimension(block, n, b, 500.0) for n, b in zip(sizes, speeds, strict=True)))


CASES = {
    "torus 8x8": grid("Ring", 8, 8),
    "torus 16x16": grid("Ring", 16, 16),
    "torus 32x32": grid("Ring", 32, 32),
    "torus 64x64": grid("Ring", 64, 64),
    "mesh 16x16": grid("Mesh", 16, 16),
    "mesh 16x16, 50 and 25 GiB/s": grid("Mesh", 16, 16, bandwidths=(50.0, 25.0)),
    "torus 8x8x8": grid("Ring", 8, 8, 8),
}
MOST_NPUS_OF_TACOS = 1024
"""More take it hours."""


def tacos_seconds(network: NetworkConfig) -> float | None:
    """Seconds of TACOS's own program for one trial; None without `TACOS_BIN`, or of networks that take it hours."""
    program = os.environ.get("TACOS_BIN")
    if program is None or network.num_npus > MOST_NPUS_OF_TACOS:
        return None
    dimensions = [f"{each.block}:{each.size}:{each.bandwidth_gibps:g}" for each in network.dimensions]
    latency_us = network.dimensions[0].latency_ns / 1000
    said = subprocess.run([program, str(GIB), f"{latency_us:g}", *dimensions], check=True, capture_output=True, text=True).stdout
    found = re.search(r"Time to solve: ([\d.]+) ms", said)
    if found is None:
        raise SystemExit(f"TACOS_BIN: found {said[:80]!r}, expected a line 'Time to solve: N ms'")
    return float(found[1]) / 1000


def measure(network: NetworkConfig, runs: int) -> tuple[list[float], int, int, int]:
    """Seconds of each run, sends, best collective time and bound (ns)."""
    topology = build_topology(network)
    collective = all_gather(topology.num_npus, GIB // topology.num_npus)
    timing = compute_timing(topology, collective, "blocking")
    tacos(Problem(topology, collective, timing), 0)
    seconds, times = [], []
    for seed in range(runs):
        begin = time.perf_counter()
        schedule = tacos(Problem(topology, collective, timing), seed)
        seconds.append(time.perf_counter() - begin)
        times.append(schedule.collective_time_ns)
    return seconds, schedule.num_sends, min(times), chunked_lower_bound(Problem(topology, collective, timing)).time_ns


def first_use_seconds() -> float:
    """Seconds of a first synthesize, verify and replay with an empty kernel cache, in a fresh process."""
    code = (
        "from astra_tacos import *\n"
        "from astra_tacos.network.network_config import Dimension, NetworkConfig\n"
        "t = build_topology(NetworkConfig('x.yml', (Dimension('Ring', 4, 50.0, 500.0),)))\n"
        "s = synthesize(t, all_reduce(4, 1 << 20)); verify(s); replay(s); write_run_directory(s, 'run')\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {"NUMBA_CACHE_DIR": directory}
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=directory, check=True)
        return time.perf_counter() - begin


def table() -> str:
    lines = [
        f"Machine: {machine()}. First use, all kernels compiled: {first_use_seconds():.1f} s.",
        "",
        "| network | NPUs | sends | synthesis (s): median, least to most | sends/s | TACOS (s) | TACOS / here | time / bound |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, network in CASES.items():
        runs = 3 if network.num_npus > 1024 else 7
        theirs = tacos_seconds(network)
        seconds, sends, best, bound = measure(network, runs)
        median = statistics.median(seconds)
        spread = f"{median:.4f} ({min(seconds):.4f} to {max(seconds):.4f})"
        beside = ("-", "-") if theirs is None else (f"{theirs:.3g}", f"{theirs / median:,.0f}")
        row = (name, f"{network.num_npus:,}", f"{sends:,}", spread, f"{sends / median / 1e6:.1f} M", *beside)
        lines.append(f"| {' | '.join(map(str, row))} | {best / bound:.4f} |")
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "synthesis", table)
