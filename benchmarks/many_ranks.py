"""Training steps of many ranks, as compact runs: CPU seconds and memory of whole commands; rewrites results/many_ranks.md.

    python benchmarks/many_ranks.py [--no-record] [--sweep]

--sweep also runs a sweep of 1,000 plans, which takes about ten minutes on 2 cores.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from results_page import machine, main

STEP = "--layers 96 --hidden 12288 --heads 96 --sequence 2048 --vocab 51200 --micro-batches 8 --order tp,pp,dp"
SMALL = STEP.replace("--layers 96", "--layers 32").replace("12288 --heads 96", "4096 --heads 32")
AXES = ((4, 4, 4), (8, 8, 8), (8, 8, 64), (8, 8, 256), (8, 8, 1024))
"""Ranks along tensors, stages and data of the runs that are swept."""
SWEEP = """
point:
  workload: "= run"
  effort: quick
  network:
    topology: [ FullyConnected, Ring, Switch ]
    npus_count: [ "= tp", "= pp", "= dp" ]
    bandwidth: [ "= b0", 50, "= b2" ]
    latency: [ 100, 200, 500 ]
axes:
  - zip: { run: RUNS, tp: TP, pp: PP, dp: DP }
  - grid:
      b0: [ 50, 100, 150, 200, 250, 300, 350, 400, 450, 500 ]
      b2: [ 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 110 ]
"""


def write_network(path: Path, sizes: Sequence[int]) -> Path:
    shape = f"topology: [ FullyConnected, Ring, Switch ]\nnpus_count: {list(sizes)}\n"
    path.write_text(f"{shape}bandwidth: [ 100.0, 50.0, 25.0 ]\nlatency: [ 100, 200, 500 ]\n")
    return path


def astra_tacos(folder: Path, arguments: str) -> tuple[float, float, float]:
    """CPU seconds, GiB at most, and seconds that a command takes."""
    command = [Path(sys.executable).parent / "astra-tacos", *arguments.split()]
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    code += "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_maxrss)"
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, check=True, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stdout) / 2**20, time.perf_counter() - begin


def generated(folder: Path, name: str, axes: Sequence[int], step: str) -> str:
    """The options with which commands find a run and its network."""
    network = write_network(folder / f"{name}.yml", axes)
    tp, pp, dp = axes
    astra_tacos(folder, f"generate --output {name} --network {network} --tp {tp} --pp {pp} --dp {dp} {step} --compact")
    return f"{name} --network {network}"


def tables() -> str:
    lines = ["| ranks | command | CPU s | GiB |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for data in (16, 1_600, 16_000):
            run, ranks = generated(folder, f"run{data}", (8, 8, data), STEP), 64 * data
            commands = {
                "`replay`": f"replay {run}",
                "`replay --backend congestion-unaware`": f"replay {run} --backend congestion-unaware",
                "`plan`": f"plan {run} --output plan{data}",
                "`optimize --refine replays`": f"optimize --workload {run} --refine replays",
            }
            for name, command in commands.items():
                seconds, memory, _ = min(astra_tacos(folder, command) for _ in range(1 if "plan" in command else 2))
                lines.append(f"| {ranks:,} | {name} | {seconds:.1f} | {memory:.2f} |")
                print(lines[-1], file=sys.stderr, flush=True)
        lines += ["", *swept(folder)] if IS_SWEPT else []
    return "\n".join([*lines, "", machine()])


def swept(folder: Path) -> list[str]:
    """A sweep of 1,000 plans."""
    names = [f"r{tp * pp * dp}" for tp, pp, dp in AXES]
    for name, axes in zip(names, AXES, strict=True):
        generated(folder, name, axes, SMALL)
    tp, pp, dp = (str(list(column)) for column in zip(*AXES, strict=True))
    listed = f"[ {', '.join(names)} ]"
    text = SWEEP.replace("RUNS", listed).replace("TP", tp).replace("PP", pp).replace("DP", dp)
    (folder / "sweep.yml").write_text(text)
    seconds, _, wall = astra_tacos(folder, "sweep sweep.yml --output swept")
    return [f"A sweep of 1,000 plans of 64 to 65,536 ranks (`effort: quick`): {wall / 60:.1f} minutes, {seconds:,.0f} CPU s."]


IS_SWEPT = "--sweep" in sys.argv
"""Whether the sweep is run, too."""

if __name__ == "__main__":
    sys.argv = [each for each in sys.argv if each != "--sweep"]
    main(__doc__ or "", "many_ranks", tables)
