"""Schedules beside those that TE-CCL published, on its two graphs and on its terms; rewrites results/teccl.md.

    ASTRA_TACOS_PEERS=DIR python benchmarks/teccl.py [--no-record]

The times of TE-CCL (SIGCOMM 2024) are of its model: switches copy, and a way through a switch pays the wire once. So each
schedule is timed here again with the order of its sends: a switch passes on what arrives as soon as it begins to arrive. Searches
are made on the graph with switches that forward only, and on the same with switches that copy. On these terms more chunks cost
less than on our own model, so the algorithms that were found also make twice and four times as many; the fastest counts.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from results_page import machine, main

from astra_tacos.network.network_config import read_network
from astra_tacos.schedule.dependencies import data_dependencies
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.solution import Request
from astra_tacos.solver.solve import solve
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.search.search_options import SearchOptions

NUM_GPUS = 32
MOST_CHUNKS = 32
GRAPHS = {"NDv2": ("ndv2x4.csv", 1), "DGX2": ("dgx2x2.csv", 2)}


def cut_through_ns(schedule: Schedule) -> float:
    """The time of a schedule if devices pass on what arrives as soon as it begins to arrive, without rounding."""
    topology = schedule.topology
    link = topology.channel_link[schedule.channel]
    wire = schedule.size_bytes / bytes_per_ns(topology.link_bandwidth_gibps)[link]
    latency = topology.link_latency_ns[link]
    first, brought_by = data_dependencies(schedule)
    free = np.zeros(topology.num_links)
    head, tail = np.zeros((2, schedule.num_sends))
    for row in np.argsort(schedule.start_ns, kind="stable").tolist():
        before = brought_by[first[row] : first[row + 1]]
        forwards = schedule.src[row] >= topology.num_endpoints
        ready = (head if forwards else tail)[before].max(initial=0.0)
        begin = max(ready, free[link[row]])
        done = max(begin + wire[row], tail[before].max(initial=0.0) if forwards else 0.0)
        free[link[row]] = done
        head[row], tail[row] = begin + latency[row], done + latency[row]
    return float(tail.max())


def tables() -> str:
    folder = Path(os.environ.get("ASTRA_TACOS_PEERS", "")) / "teccl"
    if not (folder / "results.csv").is_file():
        sys.exit(f"{folder}: has no results, expected $ASTRA_TACOS_PEERS/teccl/results.csv")
    theirs: dict[tuple[str, str, int], tuple[float, float]] = {}
    with (folder / "results.csv").open() as file:
        for row in csv.DictReader(file):
            key = row["machine"], row["collective"].replace("_", "-"), int(row["size_bytes"])
            theirs[key] = min(theirs.get(key, (np.inf, 0.0)), (float(row["time_us"]), float(row["solver_s"])))
    lines = ["| graph | collective | bytes | TE-CCL, us | here, us | ratio | solver, s | here, s | algorithm |", "|---" * 9 + "|"]
    ratios, speeds = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for (name, collective, size), (time_us, solver_s) in sorted(theirs.items(), key=str):
            table, switches = GRAPHS[name]
            (Path(scratch) / table).write_bytes((folder / table).read_bytes())
            begin, found = time.process_time(), []
            for reducing in ("", ", reducing: all"):
                network = Path(scratch) / "n.yml"
                network.write_text(f"astra_tacos: {{ links: {table}, switches: {switches}{reducing} }}\n")
                asked = size // NUM_GPUS if collective == "all-gather" else size
                request = Request(read_network(network), collective, asked, options=SearchOptions(chunks_per_npu="auto"))
                best = solve(request).schedule
                chunks = best.collective.chunks_per_npu
                more = (times * chunks for times in (2, 4) if collective == "all-gather" and times * chunks <= MOST_CHUNKS)
                algorithms = dict.fromkeys((best.synthesizer, "tacos"))
                options = [SearchOptions(synthesizer=each, chunks_per_npu=count) for count in more for each in algorithms]
                made = [best]
                for each in options:
                    with suppress(SynthesisError):  # chunks of less than 1 ns
                        made.append(solve(replace(request, options=each)).schedule)
                for schedule in made:
                    about = f"{schedule.synthesizer}, {schedule.collective.chunks_per_npu} chunks"
                    found.append((cut_through_ns(schedule) / 1e3, about))
                if collective != "all-gather":
                    break  # nothing is copied
            seconds, (ours_us, algorithm) = time.process_time() - begin, min(found)
            ratios.append(ours_us / time_us)
            speeds.append(solver_s / seconds)
            times = f"{time_us:,.2f} | {ours_us:,.2f} | {ratios[-1]:.3f} | {solver_s:,.0f} | {seconds:.1f}"
            lines.append(f"| {name} | {collective} | {size:,} | {times} | {algorithm} |")
    behind = sum(ratio > 1.01 for ratio in ratios)
    summary = (
        f"{len(ratios)} cases: the median ratio is {statistics.median(ratios):.3f}, the worst {max(ratios):.3f}; {behind} are "
        f"more than 1% behind. Solver time over CPU time here: median {statistics.median(speeds):,.0f}, least {min(speeds):,.0f}."
    )
    return "\n".join([summary, "", *lines, "", machine()])


if __name__ == "__main__":
    main(__doc__, "teccl", tables)
