"""From a network of 512 unlike NPUs to traces on disk: prints tables and rewrites its part of docs/results.md.

    python benchmarks/heterogeneous.py [--no-record]

All-Reduce of 64 MiB on Ring 8 x FullyConnected 8 x Switch 8 at 200/100/50 GiB/s, 500 ns, through the command line, as a user
runs it: `astra-tacos synthesize --output`, with verification and replay. Wall-clock time of the whole process, the least of a few
runs, kernels compiled before; `first use` is with an empty kernel cache. Then how fast traces are written: the encoder alone, and
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

NETWORK = """topology: [ Ring, FullyConnected, Switch ]
npus_count: [ 8, 8, 8 ]
bandwidth: [ 200.0, 100.0, 50.0 ]
latency: [ 500.0, 500.0, 500.0 ]
"""
RUNS = 5
PAPER = "6.09 min"


def synthesize(directory: Path, cache: Path) -> float:
    """Seconds of one run of the command line."""
    network = directory / "network.yml"
    network.write_text(NETWORK)
    command = [sys.executable, "-c", "from astra_tacos.cli.main import main; main()", "synthesize", "--network", str(network)]
    command += ["--collective", "all-reduce", "--size", "64MiB", "--output", str(directory / "run")]
    begin = time.perf_counter()
    subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)}, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def least(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def table() -> str:
    from astra_tacos import export_chakra, load_schedule
    from astra_tacos.bounds import lower_bound
    from astra_tacos.export.chakra import default_link_order, node_table
    from astra_tacos.trace.writer import encode_trace

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        first = synthesize(directory, directory / "cache")
        warm = min(synthesize(directory, directory / "cache") for _ in range(RUNS))
        schedule = load_schedule(directory / "run" / "schedule.npz")
        nodes, npu_first = node_table(schedule, default_link_order(schedule), 0)
        parts = [(int(npu_first[npu]), int(npu_first[npu + 1])) for npu in range(schedule.topology.num_npus)]
        prefix = directory / "run" / "collective" / "all_reduce"
        export_chakra(schedule, prefix)
        encode = least(lambda: [encode_trace(nodes, *part) for part in parts])
        export = least(lambda: export_chakra(schedule, prefix))
        written = sum(path.stat().st_size for path in prefix.parent.glob("*.et"))
    over = lower_bound(schedule.topology, schedule.collective, schedule.timing).time_ns / schedule.collective_time_ns
    count = len(nodes.node_id)
    whole = (f"{schedule.num_sends:,}", PAPER, f"{warm:.2f}", f"{first:.1f}", f"{over:.3f}")
    lines = [
        f"Machine: {machine()}.",
        "",
        "| All-Reduce, 512 NPUs | sends | TACOS, synthesis alone (paper) | all in all (s) | first use (s) | of the bound |",
        "|---|---|---|---|---|---|",
        f"| Ring 8 x FullyConnected 8 x Switch 8 | {' | '.join(whole)} |",
        "",
        "| writing its traces | nodes | bytes | seconds | M nodes a second |",
        "|---|---|---|---|---|",
    ]
    for name, seconds in (("encoder, one thread, in memory", encode), ("`export_chakra`, columns to files", export)):
        lines.append(f"| {name} | {count:,} | {written:,} | {seconds:.2f} | {count / seconds / 1e6:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "heterogeneous", table)
