"""How synthesis grows with the network: prints a table and rewrites its part of docs/results.md.

    python benchmarks/scale.py [--no-record]

All-Gather of 1 MiB per NPU, one chunk per NPU, on tori with links of 50 GiB/s and 500 ns (pipelined), made in rounds by
`lockstep` on all cores, as `astra-tacos synthesize` does past 50 million sends. Each network is a process of its own, whose peak
memory counts everything: topology, bound, schedule, oracle. Kernels are compiled before. TACOS's figure is the paper's.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time

from results_page import machine, main

SIZES = (32, 64, 128, 200)
RUNS = {32: 7, 64: 5, 128: 2}
SMALLEST, LARGEST = 32, 128
PAPER = {200: "2.52 h"}


def measure(width: int) -> None:
    """Make and verify one torus, and print the figures."""
    from astra_tacos import all_gather, build_topology
    from astra_tacos.bounds import chunked_lower_bound
    from astra_tacos.config.network import Dimension, NetworkConfig
    from astra_tacos.schedule.timing import compute_timing
    from astra_tacos.synthesizer.matching.lockstep import lockstep_rounds
    from astra_tacos.verifier.lockstep_oracle import verify_lockstep

    def setting(width: int):
        ring = Dimension("Ring", width, 50.0, 500.0)
        topology = build_topology(NetworkConfig("benchmark.yml", (ring, ring)))
        collective = all_gather(topology.num_npus, 1 << 20)
        return topology, collective, compute_timing(topology, collective, "pipelined")

    verify_lockstep(lockstep_rounds(*setting(4), 0))
    arguments = setting(width)
    seconds = []
    for _ in range(RUNS.get(width, 1)):
        begin = time.perf_counter()
        schedule = lockstep_rounds(*arguments, 0)
        seconds.append(time.perf_counter() - begin)
    synthesis_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    begin = time.perf_counter()
    assert verify_lockstep(schedule) == ()
    verification = time.perf_counter() - begin
    print(
        json.dumps(
            {
                "sends": schedule.num_sends,
                "seconds": min(seconds),
                "verification": verification,
                "synthesis_gib": synthesis_gib,
                "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),
                "bytes": schedule.chunk.nbytes / schedule.num_sends,
                "over": schedule.collective_time_ns / chunked_lower_bound(*arguments).time_ns,
            }
        )
    )


def exponent(few: dict[str, float], many: dict[str, float]) -> float:
    """Of time against sends."""
    return math.log(many["seconds"] / few["seconds"]) / math.log(many["sends"] / few["sends"])


def table() -> str:
    lines = [
        f"Machine: {machine()}.",
        "",
        "| torus | NPUs | sends | synthesis (s) | M sends a second | TACOS | bytes a send | peak memory (GiB) | oracle (s) "
        "| with it (GiB) | time / bound |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    found = {}
    for width in SIZES:
        output = subprocess.run([sys.executable, __file__, "--measure", str(width)], capture_output=True, text=True, check=True)
        found[width] = figures = json.loads(output.stdout)
        rate = figures["sends"] / figures["seconds"] / 1e6
        row = (f"{width}x{width}", f"{width * width:,}", f"{figures['sends']:,}", f"{figures['seconds']:.3g}", f"{rate:.1f}")
        row += (PAPER.get(width, "-"), f"{figures['bytes']:.2f}", f"{figures['synthesis_gib']:.2f}")
        row += (f"{figures['verification']:.3g}", f"{figures['gib']:.2f}", f"{figures['over']:.4f}")
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], file=sys.stderr)
    grows = exponent(found[SMALLEST], found[LARGEST])
    lines += [
        "",
        f"From {SMALLEST}x{SMALLEST} to {LARGEST}x{LARGEST} time grows with the number of sends to the power of {grows:.3f}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        main(__doc__, "scale", table)
