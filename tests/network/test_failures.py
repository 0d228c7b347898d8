"""Links that fail at random: the right number of them, the same for the same seed, and the network stays connected."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import networkx
import numpy as np
import pytest
from helpers import networks
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.failures import draw_failures
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError

TORUS_8X8 = networks.topology("Ring 8, Ring 8")


def links(topology: Topology) -> set[tuple[int, int]]:
    return set(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))


def pairs(topology: Topology) -> set[tuple[int, int]]:
    there = links(topology)
    return {(src, dst) for src, dst in there if src < dst and (dst, src) in there}


def naive_failures(topology: Topology, count: int, seed: int) -> set[tuple[int, int]] | None:
    """One pair after the other in the order of the seed, if all devices can still reach one another without it."""
    graph = networkx.DiGraph(sorted(links(topology)))
    ordered = sorted(pairs(topology))
    words = np.random.PCG64(seed).random_raw(len(ordered)).tolist()
    failed: set[tuple[int, int]] = set()
    for _, (src, dst) in sorted(zip(words, ordered, strict=True)):
        if len(failed) == 2 * count:
            break
        graph.remove_edges_from([(src, dst), (dst, src)])
        if networkx.is_strongly_connected(graph):
            failed |= {(src, dst), (dst, src)}
        else:
            graph.add_edges_from([(src, dst), (dst, src)])
    return failed if len(failed) == 2 * count else None


@settings(deadline=None)
@given(networks.topologies(), st.floats(0, 1), st.integers(0, 1 << 40))
def test_they_are_those_of_one_after_the_other(topology: Topology, fraction: float, seed: int) -> None:
    wanted = int(fraction * len(pairs(topology)) + 0.5)
    expected = naive_failures(topology, wanted, seed)
    try:
        failed = draw_failures(topology, fraction, seed)
    except ConfigError as error:
        assert "falls apart" in str(error)
        assert expected is None
        return
    assert set(failed) == expected
    assert list(failed) == sorted(set(failed))


@settings(deadline=None)
@given(st.integers(0, 1 << 62), st.floats(0, 0.45), st.floats(0, 0.45))
def test_a_smaller_fraction_is_a_part_of_a_larger_one(seed: int, one: float, other: float) -> None:
    less, more = (set(draw_failures(TORUS_8X8, fraction, seed)) for fraction in sorted((one, other)))
    assert less <= more


@settings(deadline=None)
@given(st.integers(0, 1 << 20), st.floats(0.01, 0.5))
def test_networks_of_what_is_left_can_be_built(seed: int, fraction: float) -> None:
    config = networks.config("Ring 4, Mesh 3 20 30, Switch 2 10 5")
    whole = build_topology(config)
    try:
        failed = draw_failures(whole, fraction, seed)
    except ConfigError:
        assume(False)
    left = build_topology(replace(config, failed_links=failed))
    assert left.num_links == whole.num_links - len(failed)
    assert len(failed) == 2 * int(fraction * whole.num_links / 2 + 0.5)


@settings(deadline=None)
@given(st.integers(0, 1 << 30), st.floats(0, 1))
def test_links_of_one_direction_stay_and_the_network_stays_strongly_connected(seed: int, fraction: float) -> None:
    random = Random(seed)
    size = random.randrange(4, 9)
    ends = {(npu, (npu + 1) % size) for npu in range(size)}  # a ring of one direction: connected whatever fails
    if random.random() < 0.5:
        ends.remove((0, 1))
        ends |= {(0, 1), (1, 0)}
    for _ in range(random.randrange(2, 10)):
        src, dst = random.sample(range(size), 2)
        ends |= {(src, dst), (dst, src)} if random.random() < 0.7 else {(src, dst)}
    config = NetworkConfig("graph.yml", (), tuple(LinkSpec(src, dst, 50.0, 500.0) for src, dst in sorted(ends)))
    topology = build_topology(config)
    try:
        failed = draw_failures(topology, fraction, seed)
    except ConfigError:
        return
    assert set(failed) <= links(topology)
    assert all((dst, src) in failed for src, dst in failed)
    build_topology(replace(config, failed_links=failed))  # raises if it is disconnected


def test_other_seeds_give_other_links() -> None:
    assert len({draw_failures(TORUS_8X8, 0.1, seed) for seed in range(20)}) == 20
    assert draw_failures(TORUS_8X8, 0.05, 1) == draw_failures(TORUS_8X8, 0.05, 1)
    assert len(draw_failures(TORUS_8X8, 0.05, 1)) == 2 * 6  # 6.4 of 128


def test_the_draw_is_what_it_was() -> None:
    # Rows of a sweep name a fraction and a seed: another draw in a later version would be another network.
    ring = networks.topology("Ring 4, Ring 4")
    assert draw_failures(ring, 0.1, 3) == ((0, 1), (1, 0), (8, 9), (9, 8), (12, 13), (13, 12))


def test_bandwidths_do_not_matter() -> None:
    slower = networks.topology("Ring 8 1 7, Ring 8 2 9")
    assert draw_failures(slower, 0.2, 9) == draw_failures(TORUS_8X8, 0.2, 9)


@pytest.mark.parametrize(
    ("fraction", "seed", "message"),
    [
        (1.5, 0, "failed links: found the fraction 1.5, expected 0 to 1"),
        (float("nan"), 0, "failed links: found the fraction nan, expected 0 to 1"),
        (0.1, -1, "failed links: found the seed -1, expected 0 or more"),
        (
            0.6,
            0,
            "failed links: found the fraction 0.6, 77 of 128 pairs of links, expected at most 65: "
            "with more the network falls apart",
        ),
    ],
)
def test_what_cannot_be_is_refused(fraction: float, seed: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        draw_failures(TORUS_8X8, fraction, seed)
    assert str(caught.value) == message


def test_a_single_switch_has_no_link_to_spare() -> None:
    with pytest.raises(ConfigError, match="expected at most 0"):
        draw_failures(networks.topology(*networks.SWITCH), 0.2, 0)
