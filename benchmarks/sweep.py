"""What a sweep costs beyond its points: prints a table and rewrites results/sweep.md.

    python benchmarks/sweep.py [--no-record]

2,000 small points (All-Reduce in one chunk per NPU by `tacos` on 64 NPUs, a seed each) are computed in a plain loop in one
process, and by `astra-tacos sweep` with one and with two workers: start of the cluster and its processes, and table included.
"beyond the points" is seconds times workers without the points' own seconds. Kernels are compiled before.
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

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.study.sweep.evaluate import evaluate, warm_up
from astra_tacos.study.sweep.point import OK, CollectiveTask, Conditions, Point
from astra_tacos.study.sweep.run_sweep import SweepRun, open_client
from astra_tacos.study.sweep.store import TABLE_FILE, Store
from astra_tacos.study.sweep.table import read_sweep, table_columns, table_row, write_table

POINTS = 2_000
ROUNDS = 2
"""The least of so many runs is taken: other work on the machine only adds."""
NETWORK = NetworkConfig("benchmark.yml", (Dimension("Ring", 8, 50.0, 500.0), Dimension("Switch", 8, 25.0, 500.0)))


def points(count: int) -> list[Point]:
    return [_point(seed) for seed in range(count)]


def _point(seed: int) -> Point:
    task = CollectiveTask("all-reduce", None, 64 << 20, 1, 1 << 24, "tacos", 1, seed, None, "auto", 0.0)
    return Point(seed, {"seed": seed}, NETWORK, task, {"seed": seed})


def in_a_loop(count: int) -> None:
    """The points one after the other, in this process."""
    warm_up()
    begin = time.perf_counter()
    outcomes = [evaluate(point, Conditions()) for point in points(count)]
    assert all(outcome.status == OK for outcome in outcomes)
    print(time.perf_counter() - begin)


def loop_seconds(count: int) -> float:
    """Of `in_a_loop` in a fresh process, whose libraries use one thread as those of the sweep's do."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    code = f"import sweep; sweep.in_a_loop({count})"
    paths = os.pathsep.join(path for path in (str(Path(__file__).parent), *sys.path) if path)
    environment = os.environ | threads | {"PYTHONPATH": paths}
    return float(subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout)


def sweep_seconds(count: int, workers: int) -> tuple[float, float]:
    """Of a whole sweep, and the sum of those of its points."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "sweep")
        begin = time.perf_counter()
        asked = points(count)
        with store.opened(b""):
            run = SweepRun(asked, store, Conditions())
            with open_client(None, workers) as client:
                run.compute(client)
            rows = [table_row(point, outcome) for point, outcome in run.results()]
            write_table(store.directory / TABLE_FILE, "benchmark", ["seed"], table_columns(asked), rows)
        seconds = time.perf_counter() - begin
        columns = read_sweep(store.directory).columns
        assert columns["status"] == [OK] * count
        return seconds, sum(columns["seconds"])


def least(measure: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    return min(measure() for _ in range(ROUNDS))


def tables() -> str:
    alone = min(loop_seconds(POINTS) for _ in range(ROUNDS))
    lines = [
        f"{machine()}. {POINTS:,} points, All-Reduce on Ring 8 x Switch 8.",
        "",
        "| how | seconds | seconds in points | beyond the points, ms each | faster than one worker |",
        "|---|---|---|---|---|",
        f"| loop in one process | {alone:.1f} | {alone:.1f} | - | - |",
    ]
    first = 0.0
    for workers in (1, 2):
        seconds, own = least(lambda workers=workers: sweep_seconds(POINTS, workers))  # type: ignore[misc]
        first = first or seconds
        over = (seconds * workers - own) / POINTS * 1e3
        lines.append(
            f"| sweep, {workers} worker{'s'[: workers > 1]} | {seconds:.1f} | {own:.1f} | {over:.2f} | {first / seconds:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__ or "", "sweep", tables)
