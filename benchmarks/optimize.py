"""LIBRA's question on its own inputs, by its model and by schedules: prints a table and rewrites results/optimize.md.

    ASTRA_TACOS_INPUTS=DIR python benchmarks/optimize.py [--no-record]

DIR/libra_inputs holds the network, communicator, cost_model and workload files of LIBRA's public code. It takes some minutes;
the figures do not depend on the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from results_page import main

from astra_tacos.study.optimizer.libra_files import (
    PHASES,
    read_communicator,
    read_cost_model,
    read_libra_network,
    read_libra_workload,
)
from astra_tacos.study.optimizer.measure import Synthesis
from astra_tacos.study.optimizer.problem import TIME_COST, Problem, make_problem
from astra_tacos.study.optimizer.result import BEST_OF_MODEL, EQUAL, REFINED, refined

TOTAL_GBPS = 500.0
COMMUNICATORS = {
    "GPT_3": "GPT_3_{}",
    "MSFT_1T": "MSFT_1T_{}",
    "Turing_NLG": "Turing_NLG_{}",
    "ResNet_50": "ResNet_50_{}",
    "DLRM": None,
}
"""DLRM comes without a communicator: all NPUs take part in everything."""


def problem(inputs: Path, workload: str, dimensions: str, objective: str) -> Problem:
    shape = read_libra_network(inputs / "network" / f"{dimensions}_network.yml", 500.0)
    cost_model = read_cost_model(inputs / "cost_model" / f"{dimensions}_cost_model.yml")
    pattern = COMMUNICATORS[workload]
    communicator = dict.fromkeys(PHASES, shape.sizes)
    if pattern is not None:
        suffix = dimensions.upper() if workload == "Turing_NLG" else dimensions
        communicator = read_communicator(inputs / "communicator" / f"{pattern.format(suffix)}.yml", shape)
    job = read_libra_workload(inputs / "workload" / f"{workload}.txt", shape, communicator)
    return make_problem(shape, job, objective=objective, cost_model=cost_model, total_bandwidth=TOTAL_GBPS)


def row(inputs: Path, workload: str, dimensions: str) -> str:
    asked = problem(inputs, workload, dimensions, "time")
    solved = asked.solve(asked.model, asked.space)
    equal = asked.equal_shares()
    assert equal is not None
    found = refined(asked, solved.split, Synthesis(), 10)["splits"]
    thrifty = problem(inputs, workload, dimensions, TIME_COST)
    product = thrifty.solve(thrifty.model, thrifty.space)
    assert thrifty.prices is not None
    over_equal = asked.model.time_ns(equal) * float(thrifty.prices @ equal) / product.objective
    cells = (
        f"{workload} {dimensions}",
        _split(solved.split.tolist()),
        f"{solved.objective / 1e6:.2f}",
        f"{asked.model.time_ns(equal) / 1e6:.2f}",
        f"{over_equal:.2f} x",
        *(f"{found[name]['time_ns'] / 1e6:.2f}" for name in (EQUAL, BEST_OF_MODEL, REFINED)),
        _split(found[REFINED]["bandwidth_gbps"]),
    )
    return f"| {' | '.join(cells)} |"


def _split(split: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in split)


def tables() -> str:
    folder = Path(os.environ.get("ASTRA_TACOS_INPUTS", "")) / "libra_inputs"
    if not folder.is_dir():
        sys.exit("set ASTRA_TACOS_INPUTS to a directory that has libra_inputs")
    lines = [
        "| workload | split by model (GB/s) | time (ms) | equal shares (ms) | time x cost over equal shares | "
        "schedules: equal shares (ms) | schedules: split by model (ms) | schedules: refined (ms) | refined split (GB/s) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in COMMUNICATORS:
        for dimensions in ("4d", "3d"):
            lines.append(row(folder, workload, dimensions))
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, "optimize", tables)
