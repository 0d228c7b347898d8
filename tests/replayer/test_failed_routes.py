"""Routes of messages around failed links: they exist, are shortest, and leave all other messages where they were."""

from __future__ import annotations

import itertools
from dataclasses import replace

import networkx
import numpy as np
import pytest
from helpers.networks import config
from hypothesis import assume, given
from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.replayer.routes import CongestionAware, crossed_pairs
from astra_tacos.support.errors import ConfigError

SHAPES = (
    (("Ring", 6, 50.0, 500.0),),
    (("Ring", 4, 50.0, 500.0), ("Ring", 3, 25.0, 100.0)),
    (("Mesh", 3, 50.0, 500.0), ("Mesh", 3, 50.0, 500.0)),
    (("FullyConnected", 3, 50.0, 500.0), ("Switch", 4, 25.0, 100.0)),
)


def hops(owner, source, target):
    found: list[list[tuple[int, int]]] = [[] for _ in range(int(owner.max()) + 1)]
    for pair, begin, end in zip(owner.tolist(), source.tolist(), target.tolist(), strict=True):
        found[pair].append((begin, end))
    return found


@given(st.sampled_from(SHAPES), st.randoms(use_true_random=False), st.integers(1, 4))
def test_routes_around_failed_links(shape, random, count):
    whole = config(*shape)
    before = build_topology(whole)
    links = list(zip(before.link_src.tolist(), before.link_dst.tolist(), strict=True))
    failed = replace(whole, failed_links=tuple(random.sample(links, count)))
    try:
        topology = build_topology(failed)
    except ConfigError:
        assume(False)
    pairs = np.array([pair for pair in itertools.product(range(topology.num_npus), repeat=2) if pair[0] != pair[1]]).T
    old, new = (hops(*crossed_pairs(each, *pairs)) for each in (whole, failed))
    alive = networkx.DiGraph(zip(topology.channel_src.tolist(), topology.channel_dst.tolist(), strict=True))
    for (src, dst), was, now in zip(pairs.T.tolist(), old, new, strict=True):
        if all(alive.has_edge(*hop) for hop in was):
            assert now == was
            continue
        assert [src, *(end for _, end in now)] == [*(begin for begin, _ in now), dst]
        assert all(alive.has_edge(*hop) for hop in now)
        assert len(now) == networkx.shortest_path_length(alive, src, dst)
    routes = CongestionAware(failed).routes(*pairs)
    assert len(routes.first_hop) == pairs.shape[1]


def test_a_graph_has_no_routes_around_anything():
    """Only neighbours exchange messages there."""
    whole = config("Ring 4")
    topology = build_topology(whole)
    ends = zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True)
    graph = NetworkConfig("n.yml", (), tuple(LinkSpec(*each, 50.0, 500.0) for each in ends), ((0, 1),))
    with pytest.raises(ConfigError, match="needs the link 0 -> 1, which does not exist"):
        CongestionAware(graph).routes(np.array([0]), np.array([1]))
