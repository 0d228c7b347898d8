"""Maximum concurrent flow: against closed forms, networkx, and the linear programme without symmetry."""

from __future__ import annotations

import sys
from random import Random

import networkx
import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import ALL, ends_of, graph, topologies, topology
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from astra_tacos.bounds import BOUNDS, lower_bound
from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import make_collective
from astra_tacos.network.network_config import LinkSpec
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.solve import synthesize

MODULE = sys.modules["astra_tacos.bounds.any_algorithm.flow"]  # the package has a function of that name

GIB = 1 << 30


def fluid_ms(network, collective, size=GIB, **options):
    what = make_collective(collective, network.num_npus, size, **options)
    return BOUNDS["flow"](Problem(network, what, compute_timing(network, what, "pipelined"))).time_ns / 1e6


def random_regular(npus, degree, seed, latency=0.0):
    edges = networkx.random_regular_graph(degree, npus, seed=seed).edges
    return graph(*((a, b, 50.0, latency) for x, y in edges for a, b in ((x, y), (y, x))))


def naive_optimum_ms(network, size):
    """All-to-All with an unknown for every pair and link, in scipy's dense form."""
    npus, links = network.num_npus, network.num_links
    pairs = [(a, b) for a in range(npus) for b in range(npus) if a != b]
    count = len(pairs) * links + 1
    equal, supply = [], []
    for number, (a, b) in enumerate(pairs):
        for device in range(network.num_devices):
            row = np.zeros(count)
            mine = row[number * links : (number + 1) * links]
            mine[network.link_dst == device] += 1
            mine[network.link_src == device] -= 1
            equal.append(row)
            supply.append(float(device == b) - float(device == a))
    most = np.zeros((links, count))
    for link in range(links):
        most[link, link : count - 1 : links] = 1
        most[link, -1] = -network.link_bandwidth_gibps[link]
    objective = np.zeros(count)
    objective[-1] = 1
    best = linprog(objective, most, np.zeros(links), np.array(equal), np.array(supply))
    return float(best.fun) * size / npus / GIB * 1e3


@given(network=topologies(most_npus=5))
def test_it_is_the_optimum_of_all_flows(network):
    if network.num_npus * (network.num_npus - 1) * network.num_links > 400:
        return
    size = GIB * network.num_npus
    latency = 2 * network.link_latency_ns.max() / 1e6
    assert naive_optimum_ms(network, size) <= fluid_ms(network, "all-to-all", size) + 1e-5
    assert fluid_ms(network, "all-to-all", size) <= naive_optimum_ms(network, size) * (1 + 1e-6) + latency


@pytest.mark.parametrize("name", ALL)
def test_symmetry_changes_nothing(name, monkeypatch):
    """One source's flow for all, where all NPUs are alike."""
    size = GIB // 1000 * 1000 // 840 * 840
    first = fluid_ms(topology(*ALL[name]), "all-to-all", size)
    monkeypatch.setattr(MODULE, "is_transitive", lambda _: False)
    assert fluid_ms(topology(*ALL[name]), "all-to-all", size) == pytest.approx(first, rel=1e-6)


@examples(20)
@given(network=topologies(most_npus=10), data=st.data())
def test_gather_and_scatter_are_maximum_flows(network, data):
    name = data.draw(st.sampled_from(("gather", "scatter")))
    root = data.draw(st.integers(0, network.num_npus - 1))
    shard = 1 << 30
    size = shard if name == "gather" else shard * network.num_npus
    low, high = 0.0, 1e6
    ends = (network.link_src, network.link_dst) if name == "scatter" else (network.link_dst, network.link_src)
    for _ in range(60):
        middle = (low + high) / 2
        flows = networkx.DiGraph()
        for a, b, rate in zip(*(end.tolist() for end in ends), network.link_bandwidth_gibps.tolist(), strict=True):
            flows.add_edge(a, b, capacity=rate * middle)
        for npu in set(range(network.num_npus)) - {root}:
            flows.add_edge(npu, "out", capacity=1.0)
        low, high = (
            (low, middle) if networkx.maximum_flow_value(flows, root, "out") > network.num_npus - 1 - 1e-9 else (middle, high)
        )
    latency = 2 * network.link_latency_ns.max() / 1e6
    found = fluid_ms(network, name, size, root=root)
    assert high * 1e3 * (1 - 1e-6) <= found + 1e-5 and found <= high * 1e3 * (1 + 1e-6) + latency


def test_lengths_that_are_not_the_best_still_bound(monkeypatch):
    """A solver that answers anything at all cannot make the bound wrong: only weaker."""
    network = topology("Ring 4 50 0, Ring 3 25 0")
    right = fluid_ms(network, "all-to-all")
    monkeypatch.setattr(MODULE, "link_sets", lambda _: [])
    random = Random(7)
    for _ in range(20):
        length = np.array([random.choice((0.0, random.random())) for _ in range(network.num_links)]) + 1e-3
        monkeypatch.setattr(MODULE, "best_lengths", lambda *_, length=length: length)
        monkeypatch.setattr(MODULE, "is_transitive", lambda _: False)
        assert 0 < fluid_ms(network, "all-to-all") <= right * (1 + 1e-9)


def test_too_many_unknowns_leave_the_simple_lengths(monkeypatch):
    network = topology("Mesh 4 50 0, Mesh 4 50 0")
    monkeypatch.setattr(MODULE, "MOST_UNKNOWNS", 10)
    what = make_collective("all-to-all", 16, GIB)
    timing = compute_timing(network, what, "pipelined")
    assert "concurrent" not in BOUNDS["flow"](Problem(network, what, timing)).where
    assert lower_bound(Problem(network, what, timing)).time_ns == pytest.approx(20e6, rel=1e-6)  # by a cut


def test_what_is_at_the_optimum_is_certified():
    """On a random graph, and on a torus of links of four speeds, where ports, cuts and volumes are loose."""
    torus = "Ring 4, Ring 4"
    whole, random = topology(torus), Random(1)
    ends = random.sample(ends_of(whole), 32)
    speeds = tuple(LinkSpec(*link, random.choice((12.5, 25.0, 100.0, 200.0)), None) for link in ends)
    for network in (random_regular(16, 3, 1, 500.0), topology(torus, link_overrides=speeds)):
        what = make_collective("all-to-all", 16, GIB, 16)
        result = certify(synthesize(network, what, synthesizer="routed", trials=1))
        assert result["bound"] == "flow" and result["efficiency"] > 0.97
        others = [time for name, time in result["bounds_ns"].items() if name != "flow"]
        assert max(others) < 0.9 * result["bound_ns"]
