"""Column generation: legal on every fabric, at the optimum with many chunks, and cheapest arborescences."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.fabrics import FABRICS, TWO_LEVELS
from helpers.peers import peers
from helpers.schedules import bound_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.solve import synthesize
from astra_tacos.synthesizer.algorithms.column_generation import column_generation
from astra_tacos.synthesizer.columns.demand import cheapest_arborescence
from astra_tacos.verifier.schedule_oracle import verify


def on(topology, name, size, chunks):
    collective = make_collective(name, topology.num_npus, size, chunks, None, topology.endpoints)
    return column_generation(Problem(topology, collective, compute_timing(topology, collective, "pipelined", 50.0)), 0)


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_many_chunks_reach_the_bound(name):
    schedule = on(TWO_LEVELS, name, 64 << 20, 512)
    assert certify(schedule)["efficiency"] > 0.98


@pytest.mark.parametrize("network", FABRICS)
def test_an_all_reduce_takes_no_longer_than_its_halves(network):
    """Trees of both phases at once have much to do in the end on some fabrics; the phases one after the other are tried, too."""
    topology, chunks = FABRICS[network], 64
    whole = on(topology, "all-reduce", 64 << 20, chunks)
    halves = (
        on(topology, "reduce-scatter", 64 << 20, chunks),
        on(topology, "all-gather", (64 << 20) // topology.num_endpoints, chunks),
    )
    assert whole.collective_time_ns <= 1.005 * sum(half.collective_time_ns for half in halves)


@pytest.mark.parametrize("file, num_npus, gbps", [("a100x2", 16, 346.67), ("mi250x2", 32, 354.13)], ids=["a100x2", "mi250x2"])
def test_programme_reaches_forestcolls_optimum(file, num_npus, gbps):
    """The rate of the linear programme, without the chunks of a schedule, which `make bench-fabrics` measures."""
    from astra_tacos.network.devices import read_link_table
    from astra_tacos.synthesizer.columns.demand import Demands
    from astra_tacos.synthesizer.columns.programme import solve

    found, missing = peers(f"forestcoll/{file}.csv")
    if not found:
        pytest.skip(missing)
    rows = [row for _, row in read_link_table(found[0])]
    links = tuple(LinkSpec(int(src), int(dst), float(speed), float(ns)) for src, dst, speed, ns in rows)
    devices = 1 + max(max(link.src, link.dst) for link in links)
    network = NetworkConfig(file, links=links, forwarding=(ForwardingDevice(),) * (devices - num_npus))
    topology = build_topology(network, may_forward=True)
    collective = make_collective("all-gather", devices, 1 << 30, 1, members=topology.endpoints)
    solution = solve(Demands(topology, collective, 0))
    assert collective.buffer_bytes / solution.time_ns == pytest.approx(gbps, rel=1e-3)
    assert solution.bound_ns <= solution.time_ns * (1 + 1e-9)
    bound = bound_of(topology, collective)
    assert collective.buffer_bytes / bound.time_ns == pytest.approx(gbps, rel=1e-3)


@examples(20)
@given(st.integers(2, 8), st.integers(0, 1 << 30), st.booleans())
def test_arborescences_cost_what_networkx_finds(count, seed, has_ties):
    random = np.random.default_rng(seed)
    cost = random.integers(1, 4, (count, count)).astype(float) if has_ties else random.random((count, count))
    cost[random.random((count, count)) < 0.3] = np.inf
    cost[np.arange(count - 1), np.arange(1, count)] = 2.0  # all can be reached
    parent = cheapest_arborescence(cost, 0)
    graph = networkx.DiGraph()
    rows = [(a, b) for a in range(count) for b in range(1, count) if a != b and np.isfinite(cost[a, b])]
    graph.add_weighted_edges_from((a, b, cost[a, b]) for a, b in rows)
    least = networkx.minimum_spanning_arborescence(graph).size("weight")
    assert sum(cost[parent[node], node] for node in range(1, count)) == pytest.approx(least)
    for node in range(count):
        for _ in range(count):
            node = int(parent[node])
        assert node == 0


def test_of_equally_cheap_edges_an_arborescence_has_the_first():
    assert cheapest_arborescence(np.ones((5, 5)), 0).tolist() == [0, 0, 0, 0, 0]
    assert cheapest_arborescence(np.ones((5, 5)), 2).tolist() == [2, 0, 2, 0, 0]


def test_no_device_that_forwards_is_taken_for_an_npu():
    collective = make_collective("all-gather", TWO_LEVELS.num_npus, 1 << 20)
    with refused("devices 4 to 6 only forward"):
        compute_timing(TWO_LEVELS, collective, "pipelined")
    links = tuple(LinkSpec(*map(int, ends), 1.0, 0.0) for ends in zip(TWO_LEVELS.link_src, TWO_LEVELS.link_dst, strict=True))
    with refused("3 devices after the 4 NPUs only forward"):
        build_topology(NetworkConfig("x", links=links, forwarding=TWO_LEVELS.forwarding))


def test_the_search_takes_it_and_says_why_not_others():
    collective = make_collective("broadcast", TWO_LEVELS.num_npus, 1 << 20, 1, members=TWO_LEVELS.endpoints)
    schedule = synthesize(TWO_LEVELS, collective, chunks_per_npu="auto", max_sends=2000)
    assert schedule.synthesizer == "column-generation"
    assert schedule.collective.num_chunks > 1
    assert verify(schedule) == ()


@pytest.mark.parametrize("name", COLLECTIVES)
def test_groups_leave_other_npus_alone(name):
    collective = make_collective(name, 7, 1 << 16, 2, members=[0, 3])
    of = column_generation(Problem(TWO_LEVELS, collective, compute_timing(TWO_LEVELS, collective, "pipelined")), 0)
    assert verify(of) == ()
    assert not set(of.dst.tolist()) & {1, 2}
