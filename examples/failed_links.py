"""How much time an All-Reduce loses when links of a torus fail, one pair of neighbours after another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from astra_tacos import all_reduce, build_topology, read_network, synthesize

NETWORK = Path(__file__).parents[1] / "configs" / "network" / "mesh_4x4.yml"
MOST_FAILURES = 4


def main() -> None:
    """A line per number of failures; a network that falls apart ends the list."""
    whole = read_network(NETWORK)
    topology = build_topology(whole)
    pairs = sorted({tuple(sorted(ends)) for ends in zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)})
    order = np.random.default_rng(7).permutation(len(pairs))
    for failures in range(MOST_FAILURES + 1):
        gone = [pairs[index] for index in order[:failures]]
        network = replace(whole, failed_links=tuple(ends for a, b in gone for ends in ((a, b), (b, a))))
        topology = build_topology(network)
        collective = all_reduce(topology.num_npus, 16 << 20, chunks_per_npu=4)
        schedule = synthesize(topology, collective, synthesizer="routed", trials=2, seed=1)
        print(f"{failures} failed: {schedule.collective_time_ns / 1000:8.2f} us")


if __name__ == "__main__":
    main()
