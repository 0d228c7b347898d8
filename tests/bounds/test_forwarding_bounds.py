"""Bounds on graphs with devices that forward, against linear programmes that know nothing of trees, cuts or schedules."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.fabrics import FABRICS, TWO_LEVELS, both_ways, fabric, fabrics
from helpers.schedules import bound_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from astra_tacos.bounds import all_bounds, chunked_lower_bound
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import solve


def gathering_ns(topology, size):
    """The least time in which a flow of every NPU's shard to every other fits the links, where flows of one shard may overlap.

    Unknowns: by shard and NPU the flow on each link; by shard what each link carries, at least that of every flow; the time.
    """
    npus, links = topology.num_endpoints, topology.num_links
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    pairs = [(root, target) for root in range(npus) for target in range(npus) if root != target]
    unknowns = (len(pairs) + npus) * links + 1
    most, equal, amount = [], [], []
    for number, (root, target) in enumerate(pairs):
        for device in range(topology.num_devices):
            if device == root:
                continue
            row = np.zeros(unknowns)
            for link in range(links):
                row[number * links + link] += float(topology.link_dst[link] == device) - float(topology.link_src[link] == device)
            equal.append(row)
            amount.append(float(device == target))
        for link in range(links):
            row = np.zeros(unknowns)
            row[number * links + link], row[(len(pairs) + root) * links + link] = 1.0, -1.0
            most.append(row)
    for link in range(links):
        row = np.zeros(unknowns)
        row[[(len(pairs) + root) * links + link for root in range(npus)]] = 1.0
        row[-1] = -rate[link] / rate.max()
        most.append(row)
    objective = np.zeros(unknowns)
    objective[-1] = 1.0
    best = linprog(objective, np.array(most), np.zeros(len(most)), np.array(equal), np.array(amount))
    return float(best.fun) * size / rate.max()


@examples(5)
@given(fabrics(3, latency_ns=0.0))
def test_an_all_gathers_bound_is_the_optimum_of_flows(network):
    """Where devices take in what they give out, trees of sends reach it; where they do not, they may not."""
    size = 1 << 30
    what = make_collective("all-gather", network.num_npus, size, 1, members=network.endpoints)
    optimum = gathering_ns(network, size)
    bound = bound_of(network, what).time_ns
    assert bound <= optimum * (1 + 1e-6) + 1
    assert bound >= optimum * (1 - 1e-6) - 1
    solution = solve(Demands(network, what, 0))
    assert solution.time_ns >= optimum * (1 - 1e-6)
    assert solution.bound_ns <= solution.time_ns * (1 + 1e-9)


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce"])
@examples(8)
@given(topology=st.sampled_from(sorted(FABRICS)).map(FABRICS.get) | fabrics(4))
def test_no_programme_beats_the_bound(topology, name):
    what = make_collective(name, topology.num_npus, 1 << 40, 1, members=topology.endpoints)
    bound = bound_of(topology, what).time_ns
    solution = solve(Demands(topology, what, 0))
    assert bound <= solution.time_ns * (1 + 1e-9) + float(topology.link_latency_ns.sum())


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_two_levels_by_hand(name):
    """Two pairs of NPUs, 100 GiB/s each, 50 GiB/s between the pairs. Gathered: half of everything comes over the slow link."""
    what = make_collective(name, 7, 1 << (38 if name == "all-gather" else 40), 1, members=[0, 1, 2, 3])
    expected = 1024 / 50 / (2 if name in ("all-gather", "reduce-scatter") else 1)
    bound = bound_of(TWO_LEVELS, what)
    assert bound.time_ns == pytest.approx(expected * 1e9, rel=1e-6)
    assert solve(Demands(TWO_LEVELS, what, 0)).time_ns == pytest.approx(expected * 1e9, rel=1e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", COLLECTIVES)
def test_switches_that_nothing_reaches_change_no_bound(name):
    """One switch has no links, another one only links to NPUs, over which nothing comes."""
    links = both_ways(*((npu, 3, 25.0, 100.0) for npu in range(3)))
    found = []
    for topology in (fabric(1, *links), fabric(3, *links, (5, 0, 50.0, 1.0), (5, 2, 50.0, 1.0))):
        collective = make_collective(name, topology.num_npus, 300_001, 4, 0 if name in ROOTED else None, topology.endpoints)
        for model in ("pipelined", "blocking"):
            timing = compute_timing(topology, collective, model)
            found.append(chunked_lower_bound(Problem(topology, collective, timing)).time_ns)
            assert all(bound.time_ns >= 0 for bound in all_bounds(Problem(topology, collective, timing)))
    assert found[:2] == found[2:]
