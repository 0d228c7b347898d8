"""Plans of random generated runs: never slower than the best native run, by how much faster, and how near the bound.

    python benchmarks/runs.py [--no-record]

Runs of 8 to 64 ranks on networks of 1 to 3 dimensions are drawn with fixed seeds, generated, and planned without a cache. RUNS=12
plans the first twelve only. Each is planned on the clock with queues, and on the one without. The gain is that over the best
native run on the same clock; the bound is that of the whole run.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from pathlib import Path

from click.testing import CliRunner
from results_page import machine, main

from astra_tacos.cli.generate import generate
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.run.backend import BACKENDS
from astra_tacos.run.run import RunInputs

NUM_RUNS = 60
BLOCKS = ("Ring", "FullyConnected", "Switch")


def drawn(seed: int) -> tuple[tuple[tuple[str, int], ...], list[str], list[str]]:
    """Dimensions, their rows in a network file, and options of `generate`."""
    source = random.Random(seed)
    shape = source.choice(((8,), (16,), (4, 2), (2, 4), (4, 4), (8, 2), (2, 2, 2), (4, 2, 2), (8, 4), (4, 4, 4)))
    dimensions = tuple((source.choice(BLOCKS), size) for size in shape)
    ranks = 1
    for size in shape:
        ranks *= size
    bandwidths = [source.choice((25, 50, 100, 200)) for _ in shape]
    rows = [
        f"topology: [ {', '.join(block for block, _ in dimensions)} ]",
        f"npus_count: [ {', '.join(map(str, shape))} ]",
        f"bandwidth: [ {', '.join(map(str, bandwidths))} ]",
        f"latency: [ {', '.join(str(source.choice((100, 500, 1000))) for _ in shape)} ]",
    ]
    tp = source.choice([size for size in (1, 2, 4) if ranks % size == 0])
    pp = source.choice([size for size in (1, 2) if ranks // tp % size == 0])
    dp = ranks // tp // pp
    hidden = source.choice((256, 512, 1024))
    options = ["--dp", dp, "--tp", tp, "--pp", pp, "--layers", 2 * pp, "--hidden", hidden, "--heads", 8, "--vocab", 4096]
    options += ["--sequence", source.choice((128, 512)), "--micro-batches", source.choice((1, 2)) * pp]
    if dp % 2 == 0 and source.random() < 0.5:
        options += ["--ep", 2, "--experts", 4, "--top-k", 2]
    if tp > 1 and source.random() < 0.5:
        options.append("--sequence-parallel")
    if source.random() < 0.3:
        options.append("--optimizer-sharding")
    return dimensions, rows, [str(option) for option in options]


def planned(seed: int, folder: Path) -> tuple[str, list[PlanResult]]:
    """One of the runs, and its plans."""
    dimensions, rows, options = drawn(seed)
    network = folder / "network.yml"
    network.write_text("\n".join(rows) + "\n")
    result = CliRunner().invoke(
        generate, ["--output", str(folder / "run"), "--network", str(network), *options], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    run = folder / "run"
    groups = run / "comm_group.json"
    inputs = RunInputs(run / "workload" / "w", run / "system.json", network, groups if groups.is_file() else None, None, run)
    name = " x ".join(f"{block} {size}" for block, size in dimensions)
    return name, [plan(PlanRequest(inputs, backend), folder / backend.name).result for backend in BACKENDS.values()]


def row(seed: int, name: str, result: PlanResult) -> str:
    """A line of the table."""
    gained = "-" if result.speed_up_over_best_native is None else f"{result.speed_up_over_best_native:.3f}"
    in_step = "-" if result.bound.in_step_ns is None else f"{result.bound.in_step_ns / result.time_ns:.1%}"
    native = "-" if result.best_native_ns is None else f"{result.best_native_ns:,}"
    share = f"{result.efficiency:.1%}"
    figures = f"{native} | {result.time_ns:,} | {gained} | {len(result.joint)} | {share} | {in_step}"
    return f"| {seed} | {name} | {result.clock.name} | {figures} |"


def summary(clock: str, results: list[PlanResult]) -> str:
    """A line on all runs on a clock."""
    gains = [each.speed_up_over_best_native for each in results if each.speed_up_over_best_native is not None]
    slower = sum(each.best_native_ns is not None and each.best_native_ns < each.time_ns for each in results)
    efficiencies = [each.efficiency for each in results]
    return (
        f"| {clock} | {len(results)} | {len(gains)} | {statistics.median(gains):.3f} | {min(gains):.3f} | {max(gains):.3f} | "
        f"{slower} | {statistics.median(efficiencies):.1%} | {min(efficiencies):.1%} |"
    )


def tables() -> str:
    runs = int(os.environ.get("RUNS", NUM_RUNS))
    lines = ["| seed | network | clock | best native ns | planned ns | gain | joint | efficiency | in step |", "|---" * 9 + "|"]
    by_clock: dict[str, list[PlanResult]] = {}
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as scratch:
            name, results = planned(seed, Path(scratch))
        for result in results:
            by_clock.setdefault(result.clock.name, []).append(result)
            lines.append(row(seed, name, result))
            print(lines[-1], flush=True)
    head = [
        f"{machine()}. {runs} runs, `make bench-runs`, planned without a cache. A `-` stands where no native run moves "
        "its data. Gain over the best native run on the same clock; efficiency against the bound of the run, which is compute "
        "and latencies where messages do not queue.",
        "",
        "| clock | runs | with a native run | median gain | worst | best | slower | median efficiency | worst |",
        "|---" * 9 + "|",
        *(summary(clock, results) for clock, results in by_clock.items()),
        "",
    ]
    return "\n".join(head + lines)


if __name__ == "__main__":
    main(__doc__ or "", "runs", tables)
