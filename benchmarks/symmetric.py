"""Symmetric schedules: the command on large networks, and the search on small ones. Rewrites results/symmetric.md.

    python benchmarks/symmetric.py [--no-record]

Commands are processes of their own, from start to verified certificate; seconds are CPU seconds (user and system) of the second
run, as kernels are compiled in the first one, and memory is the peak of the process. `auto` runs in this process, warm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results_page import machine, main

from astra_tacos.schedule.problem import Problem

COMMANDS = (
    ("torus 200x200", ("Ring",) * 2, (200, 200), (50, 50), "all-gather", "1MiB", ("--chunks-per-npu", "1")),
    ("the same, links held", ("Ring",) * 2, (200, 200), (50, 50), "all-gather", "1MiB", ("--link-model", "blocking")),
    ("torus 100x100x100", ("Ring",) * 3, (100,) * 3, (50,) * 3, "all-reduce", "64GiB", ()),
    (
        "Ring 8 x FullyConnected 8 x Switch 64 x Switch 32",
        ("Ring", "FullyConnected", "Switch", "Switch"),
        (8, 8, 64, 32),
        (200, 100, 50, 25),
        "all-reduce",
        "1TiB",
        (),
    ),
    ("torus 16x32x32", ("Ring",) * 3, (16, 32, 32), (50,) * 3, "all-to-all", "16GiB", ()),
)
HIERARCHIES = (
    ("Ring 2 x FullyConnected 4 x Switch 8", (("Ring", 2, 200), ("FullyConnected", 4, 100), ("Switch", 8, 50))),
    ("Switch 8 x Switch 4", (("Switch", 8, 300), ("Switch", 4, 25))),
)
SMALL = (
    ("torus 4x4", (("Ring", 4, 50), ("Ring", 4, 50))),
    ("torus 8x8", (("Ring", 8, 50), ("Ring", 8, 50))),
    ("torus 16x16", (("Ring", 16, 50), ("Ring", 16, 50))),
    ("torus 32x32", (("Ring", 32, 50), ("Ring", 32, 50))),
    ("hypercube 64", (("Hypercube", 64, 50),)),
    ("FullyConnected 8", (("FullyConnected", 8, 50),)),
    ("Switch 16", (("Switch", 16, 50),)),
)
TORI = """
point:
  network:
    topology: [ Ring, Ring ]
    npus_count: [ "= a", "= b" ]
    bandwidth: [ "= bw", "= bw" ]
    latency: [ "= lat", "= lat" ]
  collective: all-reduce
  size: "= mib * 2**20"
  synthesizer: symmetric
axes:
  a: [ 8, 16, 32, 64 ]
  b: [ 8, 16, 32, 64 ]
  bw: [ 25, 50, 100, 200, 400 ]
  lat: [ 100, 250, 500, 700, 1000 ]
  mib: {mib}
"""
HIERARCHIES_OF_THREE = """
point:
  network:
    topology: [ Ring, FullyConnected, Switch ]
    npus_count: [ "= a", "= b", "= c" ]
    bandwidth: [ "= 4 * bw", "= 2 * bw", "= bw" ]
    latency: [ 100, 250, "= lat" ]
  collective: all-reduce
  size: "= mib * 2**20"
  synthesizer: symmetric
axes:
  a: [ 4, 8 ]
  b: [ 4, 8 ]
  c: [ 16, 64 ]
  bw: [ 50 ]
  lat: [ 500, 1000 ]
  mib: {mib}
"""
SWEEPS = (("tori, 16 shapes", TORI), ("Ring x FullyConnected x Switch at 200/100/50 GiB/s, 8 shapes", HIERARCHIES_OF_THREE))
SIZES = (1 << 16, 1 << 20, 1 << 26, 1 << 30)


def of_commands() -> list[str]:
    lines = ["| command | NPUs | sends | CPU seconds | memory | time over the bound for whole chunks | over any algorithm |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, blocks, sizes, bandwidths, collective, size, more in COMMANDS:
        with tempfile.TemporaryDirectory() as directory:
            network = Path(directory) / "network.yml"
            keys = {"topology": blocks, "npus_count": sizes, "bandwidth": bandwidths, "latency": (500,) * len(sizes)}
            network.write_text("".join(f"{key}: {json.dumps(list(values))}\n" for key, values in keys.items()))
            asked = ("--network", str(network), "--collective", collective, "--size", size, *more, "--json")
            for _ in range(2):
                code = "import sys; from astra_tacos.cli.main import main; sys.argv = ['astra-tacos', *sys.argv[1:]]; main()"
                run = subprocess.Popen([sys.executable, "-c", code, "synthesize", *asked], stdout=subprocess.PIPE)
                output = run.stdout.read() if run.stdout else b""
                _, status, used = os.wait4(run.pid, 0)
                run.returncode = os.waitstatus_to_exitcode(status)
                assert run.returncode == 0
        result = json.loads(output)
        assert result["verified"]
        over, over_any = (result["predicted_ns"] / result[key] for key in ("chunked_bound_ns", "bound_ns"))
        lines.append(
            f"| {collective} of {size}, {name} | {result['num_npus']:,} | {result['num_sends']:,} | "
            f"{used.ru_utime + used.ru_stime:.1f} | {used.ru_maxrss / (1 << 20):.2f} GiB | {over:.5f} | {over_any:.4f} |"
        )
    return lines


def of_search() -> list[str]:
    from astra_tacos import build_topology, lower_bound, make_collective
    from astra_tacos.network.network_config import Dimension, NetworkConfig
    from astra_tacos.synthesizer.search.search import SearchOptions, known_optimum
    from astra_tacos.synthesizer.symmetric.chunks import _best

    lines = [
        "| network | collective | share of the bound over all algorithms, 64 KiB, 1 MiB, 64 MiB, 1 GiB "
        "| CPU ms, all sends listed | CPU ms, made, proven and certified without a list |",
        "|---|---|---|---|---|",
    ]
    for name, dimensions in SMALL:
        product = tuple(Dimension(block, size, float(bandwidth), 500.0) for block, size, bandwidth in dimensions)
        topology = build_topology(NetworkConfig("benchmark.yml", product))
        for collective in ("all-gather", "all-reduce", "all-to-all"):
            shares, times, unlisted = [], [], []
            for size in SIZES:
                what = make_collective(collective, topology.num_npus, max(size, topology.num_npus))
                for _ in range(2):
                    _best.cache_clear()
                    begin = time.process_time()
                    found = known_optimum(topology, what, SearchOptions(chunks_per_npu="auto", effort="thorough"))
                    seconds = time.process_time() - begin
                if found is None:
                    shares.append("search")
                else:
                    bound = lower_bound(Problem(topology, found.schedule.collective, found.schedule.timing)).time_ns
                    shares.append(f"{min(bound / found.exact_ns, 1.0):.4f}")
                times.append(f"{1000 * seconds:.0f}")
                unlisted.append(f"{1000 * _unlisted_seconds(name, product, what):.0f}")
            lines.append(f"| {name} | {collective} | {', '.join(shares)} | {', '.join(times)} | {', '.join(unlisted)} |")
    return lines


def _unlisted_seconds(name, dimensions, collective) -> float:
    """CPU time of a symmetric schedule of the faster link model, its proof and its certificate; the second of two."""
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.schedule.symmetric_schedule import SymmetricTask
    from astra_tacos.synthesizer.symmetric.chunks import _best, fastest_symmetric
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    tasks = [
        SymmetricTask(name, dimensions, collective.name, collective.size_bytes, 1, model) for model in ("blocking", "pipelined")
    ]
    for _ in range(2):
        _best.cache_clear()
        begin = time.process_time()
        schedule = fastest_symmetric(tasks, None, True)
        check_symmetric(schedule)
        certify(schedule)
        seconds = time.process_time() - begin
    return seconds


def of_hierarchies() -> list[str]:
    from astra_tacos.bounds.symmetric import symmetric_bounds
    from astra_tacos.network.network_config import Dimension
    from astra_tacos.schedule.symmetric_schedule import SymmetricTask
    from astra_tacos.synthesizer.symmetric.chunks import _best, best_symmetric

    lines = ["| network, 1 GiB All-Gather | link model | chunks per NPU | share of the bound over all algorithms | CPU ms |"]
    lines.append("|---|---|---|---|---|")
    for name, dimensions in HIERARCHIES:
        product = tuple(Dimension(block, size, float(bandwidth), 500.0) for block, size, bandwidth in dimensions)
        npus = 1
        for dimension in product:
            npus *= dimension.size
        for model in ("blocking", "pipelined"):
            task = SymmetricTask(name, product, "all-gather", (1 << 30) // npus, 1, model)
            for _ in range(2):
                _best.cache_clear()
                begin = time.process_time()
                schedule = best_symmetric(task, 2_000_000)
                seconds = time.process_time() - begin
            bound = max(each.time_ns for each in symmetric_bounds(task))
            share = bound / schedule.collective_time_ns
            lines.append(f"| {name} | {model} | {schedule.task.chunks_per_npu} | {share:.4f} | {1000 * seconds:.0f} |")
    return lines


def of_sweep() -> list[str]:
    """CPU time of `astra-tacos sweep` with two workers, from start to table, and of all its processes."""
    header = (
        "| All-Reduce by `symmetric`, 64 to 4,096 NPUs | points | CPU s | CPU ms per point | with start | an hour on 2 cores |"
    )
    lines = [header, "|---|---|---|---|---|---|"]
    for name, text in SWEEPS:
        spent = []
        for few in (True, False):
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "sweep.yml"
                file.write_text(text.replace("{mib}", "[ 256, 2048 ]" if few else "{ from: 128, to: 3200, step: 128 }"))
                code = "import sys; from astra_tacos.cli.main import main; sys.argv = ['astra-tacos', *sys.argv[1:]]; main()"
                asked = ("sweep", str(file), "--workers", "2", "--output", str(Path(directory) / "out"), "--json")
                run = subprocess.Popen([sys.executable, "-c", code, *asked], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                output = run.stdout.read() if run.stdout else b""
                _, status, used = os.wait4(run.pid, 0)
                run.returncode = os.waitstatus_to_exitcode(status)
                assert run.returncode == 0
                result = json.loads(output)
                assert result["statuses"] == {"ok": result["points"]}, result
                spent.append((result["points"], used.ru_utime + used.ru_stime))
        (few_points, few_s), (points, seconds) = spent
        each, all_in = (seconds - few_s) / (points - few_points), seconds / points
        lines.append(
            f"| {name} | {points:,} | {seconds:.0f} | {1000 * each:.1f} | {1000 * all_in:.1f} | {2 * 3600 / all_in:,.0f} |"
        )
    return lines


def tables() -> str:
    parts = [
        *of_commands(),
        "",
        *of_hierarchies(),
        "",
        *of_search(),
        "",
        *of_sweep(),
        "",
        f"{machine()}.",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    main(__doc__ or "", "symmetric", tables)
