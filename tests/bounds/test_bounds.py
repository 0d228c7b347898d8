"""Bounds: below every schedule, and exact where the optimum is known."""

from __future__ import annotations

import networkx
import pytest
from helpers.examples import examples
from helpers.networks import ALL, graph, topologies, topology
from helpers.schedules import goes_by_chunk, schedule, schedules
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import CHUNKED_BOUNDS, chunked_lower_bound
from astra_tacos.bounds import delivery as distance
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import compute_timing


@examples(20)
@given(schedules(most_npus=16))
def test_no_schedule_is_faster_than_any_bound(of) -> None:
    for bound in CHUNKED_BOUNDS.values() if goes_by_chunk(of) else ():
        assert bound(of.topology, of.collective, of.timing).time_ns <= of.collective_time_ns


@examples(20)
@given(data=st.data())
def test_nor_on_one_way_links(data: st.DataObject) -> None:
    npus = data.draw(st.integers(2, 7))
    ends = [(npu, (npu + 1) % npus) for npu in range(npus)]
    others = sorted({(a, b) for a in range(npus) for b in range(npus) if a != b} - set(ends))
    if others:
        ends += data.draw(st.lists(st.sampled_from(others), unique=True, max_size=10))
    speeds = st.sampled_from((5.0, 12.5, 50.0, 400.0))
    network = graph(*((a, b, data.draw(speeds), data.draw(st.sampled_from((0.0, 30.0, 936.25)))) for a, b in ends))
    collective = data.draw(st.sampled_from(sorted(COLLECTIVES)))
    of = schedule(
        network,
        collective,
        data.draw(st.sampled_from((1 << 20, 100_003))),
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(0, npus - 1)) if collective in ROOTED else None,
        link_model=data.draw(st.sampled_from(("blocking", "pipelined"))),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 1.0))),
        seed=data.draw(st.integers(0, 100)),
    )
    for bound in CHUNKED_BOUNDS.values() if goes_by_chunk(of) else ():
        assert bound(network, of.collective, of.timing).time_ns <= of.collective_time_ns


@pytest.mark.parametrize("name", CHUNKED_BOUNDS)
@examples(15)
@given(network=topologies())
def test_bounds_are_positive_and_say_where(name: str, network) -> None:
    for make in COLLECTIVES.values():
        collective = make(network.num_npus, 1 << 20, 2)
        bound = CHUNKED_BOUNDS[name](network, collective, compute_timing(network, collective, "pipelined"))
        assert bound.time_ns > 0
        assert bound.name == name
        assert bound.where


def hand(dimensions, collective: str, model: str, size: int, chunks: int = 1):
    network = topology(*dimensions)
    what = COLLECTIVES[collective](network.num_npus, size, chunks)
    return chunked_lower_bound(network, what, compute_timing(network, what, model))


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
    assert CHUNKED_BOUNDS["diameter"](network, what, timing).time_ns == longest
    monkeypatch.setattr(distance, "_ALL_SOURCES_UP_TO", 1)
    assert 0 < CHUNKED_BOUNDS["diameter"](network, what, timing).time_ns <= longest


GIB = 1 << 30
HALVED = (("Ring", 4, 50.0, 0.0), ("Ring", 4, 25.0, 0.0))
HALVED_8 = (("Ring", 8, 50.0, 0.0), ("Ring", 8, 25.0, 0.0))
THREE_LEVELS = (("Ring", 2, 200.0, 0.0), ("FullyConnected", 4, 100.0, 0.0), ("Switch", 8, 50.0, 0.0))
TWO_LEVELS = (("Switch", 8, 300.0, 0.0), ("Switch", 4, 25.0, 0.0))
EIGHT = (("Ring", 8, 200.0, 0.0), ("FullyConnected", 8, 100.0, 0.0), ("Switch", 8, 50.0, 0.0))


def square(block: str, side: int) -> tuple[tuple[str, int, float, float], ...]:
    return ((block, side, 50.0, 0.0),) * 2


def cube_mesh() -> Topology:
    """The DGX-1's links at 50 GiB/s, where doubled at 100."""
    pairs = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1}
    pairs |= {(4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2}
    return graph(*((a, b, 50.0 * n, 0.0) for (x, y), n in pairs.items() for a, b in ((x, y), (y, x))))


FLUID = [
    (cube_mesh(), "all-gather", 2916.7),
    (topology(*square("Ring", 4)), "all-gather", 4687.5),
    (topology(*square("Mesh", 4)), "all-gather", 9375),
    (topology(*HALVED), "all-gather", 6250),
    (topology(*square("Ring", 8)), "all-gather", 4921.9),
    (topology(*square("Mesh", 8)), "all-gather", 9843.8),
    (topology(*HALVED_8), "all-gather", 6562.5),
    (topology(*THREE_LEVELS), "all-gather", 2187.5),
    (topology(*TWO_LEVELS), "all-gather", 3750),
    (topology(*THREE_LEVELS), "reduce-scatter", 2187.5),
    (topology(*TWO_LEVELS), "reduce-scatter", 3750),
    (cube_mesh(), "all-reduce", 5833.3),
    (topology(*square("Ring", 4)), "all-reduce", 9375),
    (topology(*HALVED), "all-reduce", 12500),
    (topology(*square("Mesh", 4)), "all-reduce", 12500),
    (topology(*square("Ring", 8)), "all-reduce", 9843.8),
    (topology(*square("Mesh", 8)), "all-reduce", 11250),
    (topology(*HALVED_8), "all-reduce", 13125),
    (topology(*THREE_LEVELS), "all-reduce", 4375),
    (topology(*TWO_LEVELS), "all-reduce", 7500),
    (topology(*EIGHT), "all-reduce", 2 * 511 / 512 / 1150e-6),
    (topology(*square("Mesh", 4)), "broadcast", 10000),
    (topology(*TWO_LEVELS), "reduce", 5000),
]


@pytest.mark.parametrize(("network", "collective", "microseconds"), FLUID)
def test_optima_and_bounds_that_are_known(network: Topology, collective: str, microseconds: float) -> None:
    """Of 1 GiB (gathered) in many small chunks, without latency: within two chunks' time of the fluid limit."""
    chunks = 16384 if collective in ROOTED else 8192 // network.num_npus * 2
    size = GIB // network.num_npus if collective == "all-gather" else GIB
    what = make_collective(collective, network.num_npus, size, chunks)
    bound = chunked_lower_bound(network, what, compute_timing(network, what, "blocking"))
    assert bound.time_ns / 1000 == pytest.approx(microseconds, rel=3e-3)


def test_the_hierarchies_bind_at_their_slow_switches() -> None:
    network = topology(*TWO_LEVELS)
    what = make_collective("all-gather", 32, GIB // 32, 16)
    bound = chunked_lower_bound(network, what, compute_timing(network, what, "pipelined"))
    assert (bound.name, bound.where) == ("cut", "8 NPUs behind 8 links, 200 GiB/s")
    assert bound.npus == tuple(range(8))
    assert all(network.link_src[link] >= 32 and network.link_dst[link] < 8 for link in bound.links)


def test_every_link_waits_for_its_first_arrival() -> None:
    """The torus of 64 with 64 KiB per NPU: 63 messages of 1,220 ns and 500 ns through four links.

    With one chunk per NPU a link has sent it after 1,220 ns, and the next one is there after 1,720.
    """
    network = topology(("Ring", 8, 50.0, 500.0), ("Ring", 8, 50.0, 500.0))
    for chunks, time in ((1, 500 + 16 * 1220 + 500), (2, 500 + 32 * 610)):
        for name, end in (("all-gather", 0), ("reduce-scatter", 2 if chunks == 1 else 1)):
            what = make_collective(name, 64, (1 << 16) * (64 if end else 1), chunks)
            assert chunked_lower_bound(network, what, compute_timing(network, what, "pipelined")).time_ns == time + end
