"""All-to-All of unequal parts (mixture of experts): how near to the bound, and how long plans take.

python benchmarks/unequal.py [--no-record]
"""

from __future__ import annotations

import time

import numpy as np
from results_page import machine, main

from astra_tacos import build_topology, make_collective
from astra_tacos.bounds import lower_bound
from astra_tacos.collective.all_to_allv import zipf_parts
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.schedule.problem import Problem
from astra_tacos.solver.solve import synthesize
from astra_tacos.synthesizer.algorithms.permutations import nodes_of, plan_exchange
from astra_tacos.verifier.schedule_oracle import verify

TOKEN = 7168
CASES = (
    (("Switch", 8), ("Switch", 4), 0.0, ("permutations", "direct")),
    (("Switch", 8), ("Switch", 4), 0.8, ("permutations", "direct")),
    (("Switch", 8), ("Switch", 4), 1.2, ("permutations", "direct")),
    (("FullyConnected", 4), ("FullyConnected", 4), 0.8, ("permutations", "routed", "direct")),
    (("Switch", 8), ("Switch", 40), 0.0, ("permutations",)),
    (("Switch", 8), ("Switch", 40), 0.8, ("permutations",)),
    (("Switch", 8), ("Switch", 40), 1.2, ("permutations",)),
)
PLANS = 9


def tables() -> str:
    lines = [
        "| network | skew | synthesizer | us | of the bound | sends | plan, ms | schedule, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for inner, outer, skew, names in CASES:
        dimensions = (Dimension(*inner, 419.1, 300.0), Dimension(*outer, 46.57, 2000.0))
        topology = build_topology(NetworkConfig("nodes", dimensions))
        parts = zipf_parts(topology.num_npus, 4096 * 8 * TOKEN, skew, TOKEN)
        what = make_collective("all-to-allv", topology.num_npus, 0, 1, part_bytes=parts)
        for name in names:
            begin = time.process_time()
            schedule = synthesize(topology, what, synthesizer=name, chunks_per_npu=1, link_model="pipelined", trials=1)
            seconds = time.process_time() - begin
            assert not verify(schedule)
            took = schedule.collective_time_ns
            share = lower_bound(Problem(topology, what, schedule.timing)).time_ns / took
            plan = f"{plan_ms(parts, nodes_of(topology).size):.1f}" if name == "permutations" else "-"
            network, sends = f"{inner[0]} {inner[1]} x {outer[0]} {outer[1]}", f"{schedule.num_sends:,}"
            lines.append(
                f"| {network} | {skew:g} | {name} | {took / 1e3:,.0f} | {share:.1%} | {sends} | {plan} | {seconds:.1f} |"
            )
    return "\n".join([*lines, "", machine()])


def plan_ms(parts: np.ndarray, size: int) -> float:
    """CPU time of a plan, the median of several, without compilation."""
    times = []
    for _ in range(PLANS):
        begin = time.process_time()
        plan_exchange(parts, size)
        times.append(time.process_time() - begin)
    return 1e3 * float(np.median(times))


if __name__ == "__main__":
    main(__doc__ or "", "unequal", tables)
