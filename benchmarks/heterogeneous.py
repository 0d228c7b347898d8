"""From a network of 512 unlike NPUs to traces on disk: prints tables and rewrites results/heterogeneous.md.

    python benchmarks/heterogeneous.py [--no-record]

All-Reduce of 64 MiB on Ring 8 x FullyConnected 8 x Switch 8 at 200/100/50 GiB/s, 500 ns, through the command line, as a user
runs it: `astra-tacos synthesize --output`, with verification and replay. Wall-clock time of the whole process, the least of a few
runs, kernels compiled before. Then how fast traces are written: the encoder alone, and
`export_chakra` from the schedule's columns to files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from results_page import machine, main

from astra_tacos import Schedule, export_chakra, load_schedule
from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.export.chakra import nodes_of, order_of_traces
from astra_tacos.run.trace.writer import encode_trace

NETWORK = """topology: [ Ring, FullyConnected, Switch ]
npus_count: [ 8, 8, 8 ]
bandwidth: [ 200.0, 100.0, 50.0 ]
latency: [ 500.0, 500.0, 500.0 ]
"""
RUNS = 5
PAPER = "6.09 min"
ONE_TRIAL = ("--synthesizer", "tacos", "--chunks-per-npu", "1", "--trials", "1")


def synthesize(directory: Path, *options: str) -> tuple[float, Schedule]:
    """Seconds of one run of the command line, and its schedule."""
    network = directory / "network.yml"
    network.write_text(NETWORK)
    command = [sys.executable, "-c", "from astra_tacos.cli.main import main; main()", "synthesize", "--network", str(network)]
    command += ["--collective", "all-reduce", "--size", "64MiB", "--output", str(directory / "run"), *options]
    cache = {"NUMBA_CACHE_DIR": str(directory / "cache")}
    begin = time.perf_counter()
    subprocess.run(command, env=os.environ | cache, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin, load_schedule(directory / "run" / "schedule.npz")


def least(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def table() -> str:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        searched, found = synthesize(directory)
        schedule = synthesize(directory, *ONE_TRIAL)[1]
        warm = min(synthesize(directory, *ONE_TRIAL)[0] for _ in range(RUNS))
        laid_out = nodes_of(schedule, order_of_traces(schedule)[0])
        nodes, npu_first = laid_out.table(), laid_out.npu_first
        parts = [(int(npu_first[npu]), int(npu_first[npu + 1])) for npu in range(schedule.topology.num_npus)]
        prefix = directory / "run" / "collective" / "all_reduce"
        export_chakra(schedule, prefix)
        encode = least(lambda: [encode_trace(nodes, *part) for part in parts])
        export = least(lambda: export_chakra(schedule, prefix))
        written = sum(path.stat().st_size for path in prefix.parent.glob("*.et"))
    count = len(nodes.node_id)
    lines = [
        f"Machine: {machine()}.",
        "",
        f"TACOS's paper says {PAPER} for synthesis alone.",
        "",
        "| All-Reduce, 512 NPUs: options | sends | all in all (s) | time (us) | of the bound |",
        "|---|---|---|---|---|",
        _row(f"`{' '.join(ONE_TRIAL)}`", schedule, warm),
        _row("none: `auto`, with its budget", found, searched),
        "",
        "| writing its traces | nodes | bytes | seconds | M nodes a second |",
        "|---|---|---|---|---|",
    ]
    for name, seconds in (("encoder, one thread, in memory", encode), ("`export_chakra`, columns to files", export)):
        lines.append(f"| {name} | {count:,} | {written:,} | {seconds:.2f} | {count / seconds / 1e6:.2f} |")
    return "\n".join(lines)


def _row(options: str, schedule: Schedule, seconds: float) -> str:
    time_ns = schedule.collective_time_ns
    share = chunked_lower_bound(schedule.problem).time_ns / time_ns
    return f"| {options} | {schedule.num_sends:,} | {seconds:.2f} | {time_ns / 1e3:.2f} | {share:.3f} |"


if __name__ == "__main__":
    main(__doc__, "heterogeneous", table)
