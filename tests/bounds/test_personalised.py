"""Bounds of personalised collectives: every cut, every set of links, and the optimum of the fluid limit where it is known."""

from __future__ import annotations

from itertools import product

import networkx
import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import topologies, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import CHUNKED_BOUNDS
from astra_tacos.bounds.cut import chosen_sides
from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective import PERSONALISED, ROOTED, make_collective
from astra_tacos.schedule.timing import compute_timing

GIB = 1 << 30


@examples(20)
@given(network=topologies(8), data=st.data())
def test_the_cut_is_no_more_than_what_must_cross_it(network, data: st.DataObject) -> None:
    """In the fluid limit: its time is that of its chunks over the narrowest border of its set, with switches on either side."""
    name = data.draw(st.sampled_from(sorted(PERSONALISED)))
    root = data.draw(st.integers(0, network.num_npus - 1)) if name in ROOTED else None
    what = make_collective(name, network.num_npus, GIB, data.draw(st.integers(1, 3)), root)
    timing = compute_timing(network, what, "pipelined")
    found = CHUNKED_BOUNDS["cut"](network, what, timing)
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
def test_crossings_are_shortest_ways(network, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PERSONALISED)))
    what = make_collective(name, network.num_npus, GIB, 2)
    graph = networkx.DiGraph(list(zip(network.link_src.tolist(), network.link_dst.tolist(), strict=True)))
    ends = zip(what.chunk_owner.tolist(), what.chunk_target.tolist(), strict=True)
    assert fewest_crossings(network, what) == sum(networkx.shortest_path_length(graph, *pair) for pair in ends)


def test_sides_come_with_their_complements() -> None:
    for network in (topology("Ring 5, Switch 4 25"), topology("Mesh 3")):
        sides = chosen_sides(network)
        assert 0 < sides.sum(axis=1).min() <= sides.sum(axis=1).max() < network.num_npus
        assert {side.tobytes() for side in sides} == {(~side).tobytes() for side in sides}


def test_a_slow_dimension_binds() -> None:
    """Links of 50 GiB/s along x and 25 along y: those along y alone take 40 ms, all together less."""
    network = topology("Ring 8 50 0, Ring 8 25 0")
    what = make_collective("all-to-all", 64, GIB)
    bound = CHUNKED_BOUNDS["volume"](network, what, compute_timing(network, what, "pipelined"))
    assert bound.time_ns == pytest.approx(40e6, rel=1e-4)
    assert bound.where == "all links of dimension 1" and len(bound.links) == 128
