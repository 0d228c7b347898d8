"""Bounds: below every schedule, and exact where the optimum is known."""

from __future__ import annotations

import networkx
import pytest
from hypothesis import given, settings
from networks import ALL, topologies, topology
from schedules import schedules

from astra_tacos.bounds import BOUNDS, distance, lower_bound
from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.timing import compute_timing


@settings(max_examples=80, deadline=None)
@given(schedules(most_npus=16))
def test_no_schedule_is_faster_than_any_bound(of) -> None:
    for bound in BOUNDS.values():
        assert bound(of.topology, of.collective, of.timing).time_ns <= of.collective_time_ns


@pytest.mark.parametrize("name", BOUNDS)
@settings(max_examples=15, deadline=None)
@given(network=topologies())
def test_bounds_are_positive_and_say_where(name: str, network) -> None:
    for make in COLLECTIVES.values():
        collective = make(network.num_npus, 1 << 20, 2)
        bound = BOUNDS[name](network, collective, compute_timing(network, collective, "pipelined"))
        assert bound.time_ns > 0
        assert bound.name == name
        assert bound.where


def hand(dimensions, collective: str, model: str, size: int, chunks: int = 1):
    network = topology(*dimensions)
    what = COLLECTIVES[collective](network.num_npus, size, chunks)
    return lower_bound(network, what, compute_timing(network, what, model))


def test_by_hand() -> None:
    """Ring of 8 at 1 GiB/s and 100 ns: a chunk of 2,000 bytes takes int(1862.6) ns of a link and int(1962.6) to arrive."""
    ring = (("Ring", 8, 1.0, 100.0),)
    assert hand(ring, "all-gather", "blocking", 2000).time_ns == 4 * 1962  # 7 chunks through two links
    # Pipelined, the links alone would do in 1962 + 3 * 1862; but the farthest NPU is 4 hops away.
    assert hand(ring, "all-gather", "pipelined", 2000).time_ns == 4 * 1962
    assert hand(ring, "reduce-scatter", "blocking", 16000).time_ns == 4 * 1962 + 4
    # 14 messages a chunk, 8 chunks, over 16 links: seven each.
    assert hand(ring, "all-reduce", "blocking", 16000).time_ns == 7 * 1962
    switch = (("Switch", 4, 1.0, 100.0),)
    assert hand(switch, "all-gather", "blocking", 2000).time_ns == 3 * 2062
    assert hand(switch, "all-gather", "pipelined", 2000).time_ns == 2 * 1962 + 2 * 1862


def test_unequal_links_share_the_chunks() -> None:
    """The corner of a mesh with links of 50 and 75 GiB/s: the smallest T by which both bring the 24 chunks it misses."""
    mesh = (("Mesh", 5, 50.0, 500.0), ("Mesh", 5, 75.0, 500.0))
    assert hand(mesh, "all-gather", "blocking", (1 << 30) // 25).time_ns == pytest.approx(8005e3, rel=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_diameter_is_the_longest_of_the_shortest_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = topology(*ALL[name])
    what = COLLECTIVES["all-gather"](network.num_npus, 1 << 20, 1)
    timing = compute_timing(network, what, "blocking")
    graph = networkx.DiGraph()
    for channel in range(network.num_channels):
        ends = int(network.channel_src[channel]), int(network.channel_dst[channel])
        graph.add_edge(*ends, weight=int(timing.channel_delay_ns[channel, 0]))
    ways = dict(networkx.all_pairs_dijkstra_path_length(graph))
    longest = max(max(lengths.values()) for lengths in ways.values())
    assert BOUNDS["diameter"](network, what, timing).time_ns == longest
    monkeypatch.setattr(distance, "_ALL_SOURCES_UP_TO", 1)
    assert 0 < BOUNDS["diameter"](network, what, timing).time_ns <= longest
