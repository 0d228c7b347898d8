"""All algorithms on one network, with the lower bound of any algorithm."""

from __future__ import annotations

from pathlib import Path

from astra_tacos import SYNTHESIZERS, SynthesisError, all_reduce, build_topology, lower_bound, read_network, synthesize

NETWORK = Path(__file__).parents[1] / "configs" / "network" / "switch_2level_32npus.yml"


def main() -> None:
    """One line per synthesizer, the fastest first."""
    topology = build_topology(read_network(NETWORK))
    collective = all_reduce(topology.num_npus, 64 << 20, chunks_per_npu=2)
    rows = []
    for name in SYNTHESIZERS:
        try:
            schedule = synthesize(topology, collective, synthesizer=name, trials=1, seed=1)
        except SynthesisError as refusal:
            print(f"{name}: {refusal}")
            continue
        bound_ns = lower_bound(schedule.problem).time_ns
        rows.append((schedule.collective_time_ns, name, bound_ns))
    for time_ns, name, bound_ns in sorted(rows):
        print(f"{name:20} {time_ns / 1000:10.2f} us  {bound_ns / time_ns:6.1%} of the bound")


if __name__ == "__main__":
    main()
