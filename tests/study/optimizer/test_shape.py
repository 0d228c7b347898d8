"""Shapes and demands: GB/s per NPU against links that are built, and traffic against schedules, counted send by send."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError, Dimension, NetworkConfig, build_topology, make_collective, read_network, synthesize
from astra_tacos.study.optimizer.model import Demand, Shape, network_shape, sub_dimension, traffic
from astra_tacos.support.units import bytes_per_ns

BLOCKS = st.tuples(st.sampled_from(["Ring", "FullyConnected", "Switch"]), st.integers(2, 5))


@examples(20)
@given(st.lists(BLOCKS, min_size=1, max_size=3), st.integers(0, 2**32))
def test_an_npu_has_its_share_in_links(blocks, seed):
    split = np.random.default_rng(seed).uniform(0.1, 1000, len(blocks))
    names, sizes = zip(*blocks, strict=True)
    shape = Shape("n.yml", names, sizes, (500.0,) * len(blocks))
    network = NetworkConfig("n.yml", shape.dimensions(split.tolist()))
    topology = build_topology(network)
    rates = bytes_per_ns(topology.link_bandwidth_gibps)
    for npu in (0, topology.num_npus - 1):
        for dimension, gbps in enumerate(split):
            mine = (topology.link_src == npu) & (topology.link_dimension == dimension)
            assert rates[mine].sum() == pytest.approx(gbps)  # 1 GB/s is a byte per ns
    again, current = network_shape(network)
    assert (again, current) == (shape, pytest.approx(split))


@pytest.mark.parametrize("blocks", [("Ring", "FullyConnected", "Switch"), ("Mesh", "Ring")])
def test_the_file_it_writes_is_read_back(tmp_path, blocks):
    shape = Shape(str(tmp_path / "n.yml"), blocks, (4,) * len(blocks), (10.0,) * len(blocks))
    split = [300.0, 33.3, 7.7][: len(blocks)]
    (tmp_path / "n.yml").write_text(shape.to_yaml(split))
    assert network_shape(read_network(tmp_path / "n.yml")) == (shape, pytest.approx(split))


def test_networks_without_equal_dimensions_are_refused(tmp_path):
    (tmp_path / "n.yml").write_text(
        Shape("", ("Ring",), (4,), (1.0,)).to_yaml([10.0]) + "astra_tacos: {failed_links: [[0, 1]]}\n"
    )
    with pytest.raises(ConfigError, match=r"n\.yml: astra_tacos\.failed_links has 1, expected"):
        network_shape(read_network(tmp_path / "n.yml"))


PARTS = """
Ring 8 1: Ring 8 0.5 7
Ring 4 1: Mesh 4 0.5 7
Ring 4 2: Ring 4 0.25 14
Ring 2 4: Ring 2 0.25 28
FullyConnected 4 2: FullyConnected 4 0.14285714 7
Switch 4 2: Switch 4 1 7
Mesh 4 1: Mesh 4 1 7
Mesh 4 2: Mesh 4 0.5 14
"""
"""Members of a group and how far apart they are: what the group sees, GB/s per link if an NPU has 1, and ns."""


@pytest.mark.parametrize("case", PARTS.strip().splitlines())
def test_what_groups_have_of_a_dimension_of_eight(case):
    block, members, stride, name, *figures = case.replace(":", "").split()
    shape = Shape("n.yml", (block,), (8,), (7.0,))
    part = sub_dimension(shape, Demand("all-reduce", 1, (int(members),), (int(stride),)), 0, 1.0)
    gbps = part.bandwidth_gibps * 2**30 / 1e9
    assert part.block == name and [part.size, gbps, part.latency_ns] == pytest.approx([*map(float, figures)], rel=1e-6)


def sent_per_dimension(schedule):
    """Bytes that an NPU sends into each dimension, on average."""
    topology = schedule.topology
    first_link = topology.channel_link[schedule.channel]
    sizes = schedule.collective.chunk_size_bytes[schedule.chunk].astype(np.float64)
    return (np.bincount(topology.link_dimension[first_link], sizes) / topology.num_npus).tolist()


@pytest.mark.parametrize("pattern", ["all-reduce", "reduce-scatter", "all-gather"])
def test_bytes_of_hierarchical_schedules(pattern):
    sizes = (4, 2, 3)
    blocks = ("FullyConnected", "Ring", "FullyConnected")
    network = NetworkConfig("n.yml", tuple(Dimension(block, size, 50.0, 10.0) for block, size in zip(blocks, sizes, strict=True)))
    topology = build_topology(network)
    collective = make_collective(pattern, topology.num_npus, 24 << 10)
    schedule = synthesize(topology, collective, synthesizer="hierarchical")
    demand = Demand(pattern, collective.size_bytes, sizes, (1, 1, 1))
    assert sent_per_dimension(schedule) == pytest.approx(traffic(demand, (3, 1, 2)))
