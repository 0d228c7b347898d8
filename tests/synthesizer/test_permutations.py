"""All-to-All of unequal parts on networks of nodes and rails: plans, schedules, files."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest
from helpers.command import run
from helpers.examples import examples, refused
from helpers.networks import topology
from helpers.schedules import check
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import export_chakra
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.algorithms.permutations import plan_exchange
from astra_tacos.verifier.program import verify_trace, verify_trace_of
from astra_tacos.verifier.schedule_oracle import verify

NETWORKS = {
    "nodes": topology("Switch 2 100 50, Switch 3 25"),
    "full": topology("FullyConnected 3 50 20, FullyConnected 3 12.5 700"),
    "one-level": topology("Switch 5"),
}
OTHERS = {"ring": topology("Ring 5"), "mesh": topology("Mesh 2 50 5, Mesh 3 20 30")}


def exchange(parts):
    return make_collective("all-to-allv", len(parts), 0, 1, part_bytes=parts)


def parts_of(count, seed, unit=64):
    random = np.random.default_rng(seed)
    parts = random.integers(0, 1000, (count, count)) * (random.random((count, count)) < random.choice((0.3, 1.0))) * unit
    parts[0, 1] += unit
    return parts


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))
@examples(20)
def test_plans(size, nodes, seed):
    """Parts are whole; rails between two nodes carry as much; stages are permutations that the busiest node has time for."""
    if size * nodes < 2:
        return
    parts = parts_of(size * nodes, seed)
    plan = plan_exchange(parts, size)
    sent = parts - np.diag(np.diag(parts))
    found = np.zeros_like(parts)
    np.add.at(found, (plan.src, plan.dst), plan.chunk_bytes)
    assert np.array_equal(found, sent) and plan.chunk_bytes.min() >= 1
    assert np.array_equal(plan.rail < 0, plan.src // size == plan.dst // size)
    unit = np.gcd.reduce(sent, axis=None)
    carried: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * size)
    for src, dst, rail, amount in zip(plan.src // size, plan.dst // size, plan.rail, plan.chunk_bytes, strict=True):
        if rail >= 0:
            carried[src, dst][rail] += amount
    assert all(max(rails) - min(rails) <= unit for rails in carried.values())
    stages = plan.stages
    assert all(sorted(row) == list(range(nodes)) for row in stages.permutation.tolist())
    between = sent.reshape(nodes, size, nodes, size).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    assert stages.units.sum() * unit <= max(between.sum(axis=0).max(), between.sum(axis=1).max())
    planned = np.zeros_like(between)
    for permutation, units in zip(stages.permutation, stages.units, strict=True):
        planned[np.arange(nodes), permutation] += units * unit
    assert np.minimum(planned, between).sum() >= 0.9 * between.sum()


@pytest.mark.parametrize("model", LINK_MODELS)
@pytest.mark.parametrize("network", NETWORKS)
def test_schedules(network, model):
    on = NETWORKS[network]
    for seed in range(3):
        what = exchange(parts_of(on.num_npus, seed, 4096))
        for name in ("permutations", "routed", "direct"):
            check(synthesize(on, what, synthesizer=name, link_model=model, trials=1))


@pytest.mark.parametrize("model", LINK_MODELS)
def test_bounds_count_only_what_has_to_travel(model):
    """Neighbours alone exchange something: no bound may count the distance to others, nor news of them."""
    on = topology("Ring 8 50 5000")
    parts = np.zeros((8, 8), np.int64)
    parts[np.arange(8), (np.arange(8) + 1) % 8] = 4096
    check(synthesize(on, exchange(parts), synthesizer="direct", link_model=model))


@pytest.mark.parametrize("network", OTHERS)
def test_other_networks(network):
    on = OTHERS[network]
    what = exchange(parts_of(on.num_npus, 1, 4096))
    with refused("permutations: needs dimensions", SynthesisError):
        synthesize(on, what, synthesizer="permutations")
    check(synthesize(on, what, chunks_per_npu="auto", trials=1))


def test_routed_counts_bytes():
    """On a ring, a large part has one way to itself; counted as chunks, it would share it."""
    parts = np.zeros((4, 4), np.int64)
    parts[0, 2], parts[0, 1], parts[1, 2], parts[0, 3] = 1 << 24, 1 << 20, 1 << 20, 1 << 10
    on = topology("Ring 4")
    of = synthesize(on, exchange(parts), synthesizer="routed", trials=4)
    ways = {(int(src), int(dst)) for src, dst, size in zip(of.src, of.dst, of.size_bytes, strict=True) if size == 1 << 24}
    assert ways == {(0, 3), (3, 2)}


def test_files(tmp_path):
    on = NETWORKS["nodes"]
    what = exchange(parts_of(6, 7, 4096))
    of = synthesize(on, what)
    save_schedule(of, tmp_path / "s.npz")
    again = load_schedule(tmp_path / "s.npz")
    assert verify(again) == () and again.collective_time_ns == of.collective_time_ns
    assert np.array_equal(again.collective.part_bytes, what.part_bytes)
    export_chakra(of, tmp_path / "t")
    trace = read_trace(tmp_path / "t")
    assert verify_trace_of(trace, (of.collective,)).proven
    assert not verify_trace(trace).proven
    other = exchange(parts_of(6, 8, 4096))
    assert not verify_trace_of(trace, (other,)).proven


def test_traces_alone_do_not_tell_the_parts(tmp_path):
    """Four chunks are those of no collective of equal parts: no verdict, rather than a false one."""
    parts = np.array([[0, 4, 4], [4, 0, 0], [4, 0, 0]]) * 4096
    of = synthesize(NETWORKS["one-level"], exchange(np.pad(parts, (0, 2))), synthesizer="direct")
    export_chakra(of, tmp_path / "t")
    assert of.collective.num_chunks % 5
    verdict = verify_trace(read_trace(tmp_path / "t"))
    assert not verdict.proven and not verdict.violations and "told what the traces are for" in str(verdict.unchecked)


def test_command(tmp_path):
    network = tmp_path / "n.yml"
    network.write_text("topology: [ Switch, Switch ]\nnpus_count: [ 2, 3 ]\nbandwidth: [ 100, 25 ]\nlatency: [ 50, 500 ]\n")
    options = ("synthesize", "--network", "n.yml", "--collective", "all-to-allv")
    made = run(*options, "--matrix", "zipf:1.2", "--size", "1MiB", "--output", "out", "--json", cwd=tmp_path)
    result = json.loads(made.stdout)
    assert result["collective"] == "all-to-allv" and result["efficiency"] > 0.5 and result["chunked_bound_ns"] is None
    assert json.loads(run("verify out --json", cwd=tmp_path).stdout)["ok"]
    for more in ((), ("--matrix", "zipf"), ("--matrix", "n.yml", "--size", "1MiB"), ("--matrix", "none.csv")):
        wrong = run(*options, *more, cwd=tmp_path)
        assert wrong.returncode == 2 and "error" in wrong.stderr.lower() and not wrong.stdout
