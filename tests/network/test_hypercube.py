"""Hypercube against what is known of binary cubes."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from helpers.networks import topology
from helpers.schedules import schedule

from astra_tacos.network.blocks.hypercube import HYPERCUBE
from astra_tacos.synthesizer.parts.rings import find_rings


@pytest.mark.parametrize("bits", [2, 3, 6])
def test_it_is_the_cube(bits: int) -> None:
    links = HYPERCUBE.links(1 << bits)
    own = networkx.DiGraph(zip(links.src.tolist(), links.dst.tolist(), strict=True))
    cube = networkx.relabel_nodes(networkx.hypercube_graph(bits), lambda at: sum(bit << i for i, bit in enumerate(at)))
    assert set(own.edges) == set(cube.to_directed().edges)


def test_routes_correct_the_lowest_bit_first() -> None:
    src, dst = np.indices((64, 64)).reshape(2, -1)
    wrong = src ^ dst
    assert np.array_equal(HYPERCUBE.next_member(64, src, dst), src ^ (wrong & -wrong))
    assert HYPERCUBE.num_crossed(64, src, dst).tolist() == [int(bits).bit_count() for bits in wrong]


@pytest.mark.parametrize(("bits", "pairs"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3)])
def test_it_has_a_disjoint_cycle_for_every_two_bits(bits: int, pairs: int) -> None:
    network = topology(("Hypercube", 1 << bits, 50.0, 500.0))
    rings = find_rings(network)
    used = network.channel_of(rings, np.roll(rings, -1, axis=1))
    assert len(rings) == 2 * pairs and used.min() >= 0
    assert len(np.unique(used)) == used.size


@pytest.mark.parametrize("name", ["hierarchical", "halving-doubling"])
def test_recursive_doubling_takes_a_step_for_every_bit(name: str) -> None:
    """A shard of 1 KiB, a latency of 1 ms."""
    network = topology("Hypercube 16 50 1e+06")
    found = schedule(network, "all-gather", 1024, 1, synthesizer=name, link_model="pipelined").collective_time_ns
    assert found == pytest.approx(4e6, rel=1e-3)
