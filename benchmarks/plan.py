"""How long it takes to plan a training run, and what it gains: prints a table and rewrites results/plan.md.

    python benchmarks/plan.py [--no-record]

A transformer step of 1,024 ranks with about 200 collective nodes on each is generated, then planned on several networks without a
cache: read, matched, synthesized, verified, rewritten, and replayed before (native rings) and after. Kernels are compiled before.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from click.testing import CliRunner
from results_page import machine, main

from astra_tacos.cli.generate import generate
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.run.run import RunInputs
from astra_tacos.support.units import format_size, format_time

LARGE = "--dp 32 --tp 8 --pp 4 --layers 32 --hidden 4096 --heads 32 --sequence 1024 --vocab 32000 --micro-batches 6"
SMALL = "--dp 2 --tp 2 --pp 2 --layers 4 --hidden 512 --heads 8 --sequence 256 --vocab 4096 --micro-batches 2"
NETWORKS = {
    "Ring 8 x Ring 8 x Ring 16": (("Ring", 8, 100, 250), ("Ring", 8, 50, 500), ("Ring", 16, 50, 500)),
    "FullyConnected 8 x Ring 8 x Switch 16": (("FullyConnected", 8, 100, 250), ("Ring", 8, 50, 500), ("Switch", 16, 50, 500)),
}
WARM_UP = (("Ring", 2, 100, 250), ("Ring", 2, 50, 500), ("Switch", 2, 50, 500))


def write_network(path: Path, dimensions: tuple[tuple[str, int, int, int], ...]) -> Path:
    columns = zip(("topology", "npus_count", "bandwidth", "latency"), zip(*dimensions, strict=True), strict=True)
    path.write_text("".join(f"{key}: [{', '.join(map(str, values))}]\n" for key, values in columns))
    return path


def generated(folder: Path, options: str) -> Path:
    """A workload, generated into a folder."""
    result = CliRunner().invoke(generate, ["--output", str(folder), *options.split()], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


def planned(run: Path, network: Path, output: Path) -> tuple[PlanResult, float]:
    """A plan, and how many seconds it took."""
    groups = run / "comm_group.json"
    inputs = RunInputs(run / "workload" / "w", run / "system.json", network, groups, None, run)
    begin = time.perf_counter()
    result = plan(PlanRequest(inputs, baseline="ring"), output).result
    return result, time.perf_counter() - begin


def tables() -> str:
    lines = [
        f"{machine()}. 1,024 ranks, `astra-tacos generate {LARGE}`, planned without a cache; before: native rings.",
        "",
        "| network | collective nodes | distinct | seconds | before | after | speed-up |",
        "|---|---|---|---|---|---|---|",
    ]
    cases: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        planned(generated(folder / "small", SMALL), write_network(folder / "warm.yml", WARM_UP), folder / "warm")
        run = generated(folder / "large", LARGE)
        for name, dimensions in NETWORKS.items():
            result, seconds = planned(run, write_network(folder / "network.yml", dimensions), folder / "plan")
            assert result.before_ns is not None
            lines.append(
                f"| {name} | {result.num_nodes:,} | {len(result.cases)} | {seconds:.1f} | {format_time(result.before_ns)} | "
                f"{format_time(result.time_ns)} | {result.speed_up:.2f} |"
            )
            for case in result.cases:
                cases.append(
                    f"| {name} | {case.collective} {format_size(case.size_bytes)} of {case.members} | {case.count:,} | "
                    f"{case.algorithm} | {case.native_ns:,} | {case.predicted_ns:,} | {case.bound_ns:,} |"
                )
    header = [
        "",
        "| network | collective | count | algorithm | native ring ns | planned ns | bound ns |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *header, *cases])


if __name__ == "__main__":
    main(__doc__ or "", "plan", tables)
