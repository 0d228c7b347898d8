"""Symmetric schedules: the command on large networks, and the search on small ones. Rewrites its part of docs/results.md.

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
    from astra_tacos.config.network import Dimension, NetworkConfig
    from astra_tacos.synthesizer.search.search import SearchOptions, known_optimum

    lines = [
        "| network | collective | share of the bound over all algorithms, 64 KiB, 1 MiB, 64 MiB, 1 GiB | CPU ms |",
        "|---|---|---|---|",
    ]
    for name, dimensions in SMALL:
        product = tuple(Dimension(block, size, float(bandwidth), 500.0) for block, size, bandwidth in dimensions)
        topology = build_topology(NetworkConfig("benchmark.yml", product))
        for collective in ("all-gather", "all-reduce", "all-to-all"):
            shares, times = [], []
            for size in SIZES:
                what = make_collective(collective, topology.num_npus, max(size, topology.num_npus))
                for _ in range(2):
                    begin = time.process_time()
                    found = known_optimum(topology, what, SearchOptions(chunks_per_npu="auto"))
                    seconds = time.process_time() - begin
                if found is None:
                    shares.append("search")
                else:
                    bound = lower_bound(topology, found.schedule.collective, found.schedule.timing).time_ns
                    shares.append(f"{min(bound / found.exact_ns, 1.0):.4f}")
                times.append(f"{1000 * seconds:.0f}")
            lines.append(f"| {name} | {collective} | {', '.join(shares)} | {', '.join(times)} |")
    return lines


def of_hierarchies() -> list[str]:
    from astra_tacos.bounds.symmetric import symmetric_bounds
    from astra_tacos.config.network import Dimension
    from astra_tacos.schedule.symmetric_schedule import SymmetricTask
    from astra_tacos.synthesizer.symmetric.chunks import best_symmetric

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
                begin = time.process_time()
                schedule = best_symmetric(task, 2_000_000)
                seconds = time.process_time() - begin
            bound = max(each.time_ns for each in symmetric_bounds(task))
            share = bound / schedule.collective_time_ns
            lines.append(f"| {name} | {model} | {schedule.task.chunks_per_npu} | {share:.4f} | {1000 * seconds:.0f} |")
    return lines


def of_points() -> list[str]:
    """CPU time of points of a sweep, in this process: All-Reduce of 1 GiB by `symmetric`, 64 to 4,096 NPUs, all links alike."""
    from astra_tacos.config.network import Dimension, NetworkConfig
    from astra_tacos.sweep.evaluate import evaluate, warm_up
    from astra_tacos.sweep.outcome import OK, Conditions
    from astra_tacos.sweep.point import CollectiveTask, Point
    from astra_tacos.synthesizer.search.search_options import SearchOptions

    warm_up()
    lines = ["| chunks per NPU | points | CPU ms per point | the median |", "|---|---|---|---|"]
    shapes = [(a, b) for a in (8, 16, 32, 64) for b in (8, 16, 32, 64)]
    for chunks in ("auto", 1):
        seconds = []
        for latency in (100.0, 500.0):
            for shape in shapes:
                torus = NetworkConfig("benchmark.yml", tuple(Dimension("Ring", size, 50.0, latency) for size in shape))
                options = SearchOptions("symmetric", chunks_per_npu=chunks)
                begin = time.process_time()
                outcome = evaluate(Point(0, {}, torus, CollectiveTask("all-reduce", None, 1 << 30, options), {}), Conditions())
                seconds.append(time.process_time() - begin)
                assert outcome.status == OK
        middle = sorted(seconds)[len(seconds) // 2]
        lines.append(f"| {chunks} | {len(seconds)} | {1000 * sum(seconds) / len(seconds):.1f} | {1000 * middle:.1f} |")
    return lines


def tables() -> str:
    parts = [
        *of_commands(),
        "",
        *of_hierarchies(),
        "",
        *of_search(),
        "",
        *of_points(),
        "",
        f"{machine()}. Other programs ran on the machine.",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    main(__doc__ or "", "symmetric", tables)
