"""LIBRA's traffic against schedules that visit the dimensions one after the other: bytes counted send by send."""

from __future__ import annotations

import numpy as np
import pytest

from astra_tacos import Dimension, NetworkConfig, Schedule, build_topology, make_collective, synthesize
from astra_tacos.study.optimizer.shape import Demand, traffic


def sent_per_dimension(schedule: Schedule) -> list[float]:
    """Bytes that an NPU sends into each dimension, on average."""
    topology = schedule.topology
    first_link = topology.channel_link[schedule.channel]
    sizes = schedule.collective.chunk_size_bytes[schedule.chunk].astype(np.float64)
    return (np.bincount(topology.link_dimension[first_link], sizes) / topology.num_npus).tolist()


@pytest.mark.parametrize("pattern", ["all-reduce", "reduce-scatter", "all-gather"])
def test_bytes_of_hierarchical_schedules(pattern: str) -> None:
    sizes = (4, 2, 3)
    blocks = ("FullyConnected", "Ring", "FullyConnected")
    network = NetworkConfig("n.yml", tuple(Dimension(block, size, 50.0, 10.0) for block, size in zip(blocks, sizes, strict=True)))
    topology = build_topology(network)
    collective = make_collective(pattern, topology.num_npus, 24 << 10)
    schedule = synthesize(topology, collective, synthesizer="hierarchical")
    demand = Demand(pattern, collective.size_bytes, sizes, (1, 1, 1))
    assert sent_per_dimension(schedule) == pytest.approx(traffic(demand, (3, 1, 2)))
