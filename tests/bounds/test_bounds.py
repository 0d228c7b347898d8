"""Bounds: below every schedule, and exact where the optimum is known."""

from __future__ import annotations

from itertools import product

import networkx
import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import ALL, ends_of, graph, topologies, topology
from helpers.schedules import check, root_of, schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import CHUNKED_BOUNDS, chunked_lower_bound
from astra_tacos.bounds import delivery as distance
from astra_tacos.bounds.cut import chosen_sides
from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective import COLLECTIVES, PERSONALISED, make_collective
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing

GIB = 1 << 30


@examples(20)
@given(data=st.data())
def test_nor_on_one_way_links(data):
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
        root_of(data, collective, range(npus)),
        link_model=data.draw(st.sampled_from(("blocking", "pipelined"))),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 1.0))),
        seed=data.draw(st.integers(0, 100)),
    )
    check(of)


@pytest.mark.parametrize("name", CHUNKED_BOUNDS)
@given(network=topologies())
def test_bounds_are_positive_and_say_where(name, network):
    for make in COLLECTIVES.values():
        collective = make(network.num_npus, 1 << 20, 2)
        bound = CHUNKED_BOUNDS[name](Problem(network, collective, compute_timing(network, collective, "pipelined")))
        assert bound.time_ns > 0
        assert bound.name == name
        assert bound.where


def hand(dimensions, collective, model, size):
    network = topology(dimensions)
    what = COLLECTIVES[collective](network.num_npus, size, 1)
    return chunked_lower_bound(Problem(network, what, compute_timing(network, what, model))).time_ns


def test_by_hand():
    """Ring of 8 at 1 GiB/s and 100 ns: a chunk of 2,000 bytes takes int(1862.6) ns of a link and int(1962.6) to arrive."""
    ring = "Ring 8 1 100"
    assert hand(ring, "all-gather", "blocking", 2000) == 4 * 1962  # 7 chunks through two links
    # Pipelined, the links alone would do in 1962 + 3 * 1862; but the farthest NPU is 4 hops away.
    assert hand(ring, "all-gather", "pipelined", 2000) == 4 * 1962
    assert hand(ring, "reduce-scatter", "blocking", 16000) == 4 * 1962 + 4
    # 14 messages a chunk, 8 chunks, over 16 links: seven each.
    assert hand(ring, "all-reduce", "blocking", 16000) == 7 * 1962
    switch = "Switch 4 1 100"
    assert hand(switch, "all-gather", "blocking", 2000) == 3 * 2062
    assert hand(switch, "all-gather", "pipelined", 2000) == 2 * 1962 + 2 * 1862
    # The corner of a mesh with links of 50 and 75 GiB/s: the smallest T by which both bring the 24 chunks it misses.
    assert hand("Mesh 5, Mesh 5 75", "all-gather", "blocking", GIB // 25) == pytest.approx(8005e3, rel=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_diameter_is_the_longest_of_the_shortest_ways(name, monkeypatch):
    network = topology(*ALL[name])
    what = COLLECTIVES["all-gather"](network.num_npus, 1 << 20, 1)
    timing = compute_timing(network, what, "blocking")
    graph = networkx.DiGraph()
    for channel in range(network.num_channels):
        ends = int(network.channel_src[channel]), int(network.channel_dst[channel])
        graph.add_edge(*ends, weight=int(timing.channel_delay_ns[channel, 0]))
    ways = dict(networkx.all_pairs_dijkstra_path_length(graph))
    longest = max(max(lengths.values()) for lengths in ways.values())
    assert CHUNKED_BOUNDS["diameter"](Problem(network, what, timing)).time_ns == longest
    monkeypatch.setattr(distance, "_ALL_SOURCES_UP_TO", 1)
    assert 0 < CHUNKED_BOUNDS["diameter"](Problem(network, what, timing)).time_ns <= longest


def test_the_hierarchies_bind_at_their_slow_switches():
    network = topology("Switch 8 300 0, Switch 4 25 0")
    what = make_collective("all-gather", 32, GIB // 32, 16)
    bound = chunked_lower_bound(Problem(network, what, compute_timing(network, what, "pipelined")))
    assert (bound.name, bound.where) == ("cut", "8 NPUs behind 8 links, 200 GiB/s")
    assert bound.npus == tuple(range(8))
    assert all(network.link_src[link] >= 32 and network.link_dst[link] < 8 for link in bound.links)


def test_every_link_waits_for_its_first_arrival():
    """The torus of 64 with 64 KiB per NPU: 63 messages of 1,220 ns and 500 ns through four links.

    With one chunk per NPU a link has sent it after 1,220 ns, and the next one is there after 1,720.
    """
    network = topology("Ring 8, Ring 8")
    for chunks, time in ((1, 500 + 16 * 1220 + 500), (2, 500 + 32 * 610)):
        for name, end in (("all-gather", 0), ("reduce-scatter", 2 if chunks == 1 else 1)):
            what = make_collective(name, 64, (1 << 16) * (64 if end else 1), chunks)
            assert chunked_lower_bound(Problem(network, what, compute_timing(network, what, "pipelined"))).time_ns == time + end


@examples(20)
@given(network=topologies(8), data=st.data())
def test_the_cut_is_no_more_than_what_must_cross_it(network, data):
    """In the fluid limit: its time is that of its chunks over the narrowest border of its set, with switches on either side."""
    name = data.draw(st.sampled_from(sorted(PERSONALISED)))
    root = root_of(data, name, range(network.num_npus))
    what = make_collective(name, network.num_npus, GIB, data.draw(st.integers(1, 3)), root)
    timing = compute_timing(network, what, "pipelined")
    found = CHUNKED_BOUNDS["cut"](Problem(network, what, timing))
    inside = np.isin(np.arange(network.num_npus), found.npus)
    crossing = sum(bool(~inside[a] & inside[b]) for a, b in zip(what.chunk_owner, what.chunk_target, strict=True))
    narrowest = np.inf
    for switches in product((False, True), repeat=network.num_switches):
        side = np.concatenate((inside, np.array(switches, bool)))
        into = side[network.link_dst] & ~side[network.link_src]
        narrowest = min(narrowest, network.link_bandwidth_gibps[into].sum())
        if np.isclose(network.link_bandwidth_gibps[list(found.links)].sum(), network.link_bandwidth_gibps[into].sum()):
            break
    assert np.isclose(network.link_bandwidth_gibps[list(found.links)].sum(), narrowest) or network.num_switches
    size = float(what.chunk_size_bytes.max())
    fluid = crossing * size / narrowest / (1 << 30) * 1e9
    latency = 2 * network.link_latency_ns.max() + 2 * size / network.link_bandwidth_gibps.min() / (1 << 30) * 1e9
    assert found.time_ns <= fluid + latency + 1


@examples(20)
@given(network=topologies(10), data=st.data())
def test_crossings_are_shortest_ways(network, data):
    name = data.draw(st.sampled_from(sorted(PERSONALISED)))
    what = make_collective(name, network.num_npus, GIB, 2)
    graph = networkx.DiGraph(ends_of(network))
    ends = zip(what.chunk_owner.tolist(), what.chunk_target.tolist(), strict=True)
    assert fewest_crossings(network, what) == sum(networkx.shortest_path_length(graph, *pair) for pair in ends)


def test_sides_come_with_their_complements():
    for network in (topology("Ring 5, Switch 4 25"), topology("Mesh 3")):
        sides = chosen_sides(network)
        assert 0 < sides.sum(axis=1).min() <= sides.sum(axis=1).max() < network.num_npus
        assert {side.tobytes() for side in sides} == {(~side).tobytes() for side in sides}


def test_a_slow_dimension_binds():
    """Links of 50 GiB/s along x and 25 along y: those along y alone take 40 ms, all together less."""
    network = topology("Ring 8 50 0, Ring 8 25 0")
    what = make_collective("all-to-all", 64, GIB)
    bound = CHUNKED_BOUNDS["volume"](Problem(network, what, compute_timing(network, what, "pipelined")))
    assert bound.time_ns == pytest.approx(40e6, rel=1e-4)
    assert bound.where == "all links of dimension 1" and len(bound.links) == 128
