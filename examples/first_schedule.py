"""From a network file to a verified schedule and a run directory for ASTRA-sim."""

from __future__ import annotations

import tempfile
from pathlib import Path

from astra_tacos import all_reduce, build_topology, read_network, replay, synthesize, verify, write_run_directory

NETWORK = Path(__file__).parents[1] / "configs" / "network" / "torus_4x4_degraded.yml"


def main() -> None:
    """Synthesize, check, replay, write."""
    topology = build_topology(read_network(NETWORK))
    schedule = synthesize(topology, all_reduce(topology.num_npus, 16 << 20, chunks_per_npu=4), seed=1)
    violations = verify(schedule)
    if violations:
        raise SystemExit(f"not a legal All-Reduce: {violations[0]}")
    assert replay(schedule).collective_time_ns == schedule.collective_time_ns
    print(f"{schedule.num_sends:,} sends by {schedule.synthesizer} take {schedule.collective_time_ns / 1000:.2f} us")
    with tempfile.TemporaryDirectory() as folder:
        write_run_directory(schedule, Path(folder) / "run")
        print("for ASTRA-sim:", *sorted(path.name for path in (Path(folder) / "run").iterdir()))


if __name__ == "__main__":
    main()
