"""Plans of real and of random workloads: lint has nothing to say, they replay to the end, and are no slower than before."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import INPUTS_VARIABLE
from helpers.command import read_json
from helpers.examples import examples, some_of
from helpers.generated import small_model
from helpers.lint_runs import RunFiles
from helpers.plans import (
    QUICK,
    attributes,
    contents,
    generated_run,
    golden_inputs,
    lint_plan,
    messages,
    planned,
    same_or_faster,
    written,
)
from helpers.runs import ONE_DIMENSION, SEVERAL_DIMENSIONS, Tastes, random_run, write_run
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tacos import ConfigError, NodeType, Parallelism, SearchOptions, Step, read_run, replay_run
from astra_tacos.planner.request import PLAN_OPTIONS
from astra_tacos.replayer.run_replay import try_replay
from astra_tacos.run.backend import CONGESTION_AWARE

NETWORKS = {
    "torus": (("Ring", 4), ("Ring", 4)),
    "switch": (("Switch", 16),),
}
FEW = replace(PLAN_OPTIONS, max_sends=5_000, trials=1)
"""Smaller searches; their plans are of the same kind."""
AWARE, UNAWARE = "congestion-aware", "congestion-unaware"


@pytest.fixture(scope="module")
def stage():
    folder = Path(os.environ.get(INPUTS_VARIABLE, "")) / "stage_dense16"
    if INPUTS_VARIABLE not in os.environ or not folder.is_dir():
        pytest.skip(f"NOT TESTED on a STAGE workload: set {INPUTS_VARIABLE} to a directory that has stage_dense16")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What one test has synthesized, another need not."""
    return tmp_path_factory.mktemp("cache")


def stage_inputs(stage, folder, dimensions):
    """A dense transformer, data, tensor and pipeline parallel, whose compute nodes need the roofline."""
    blocks, sizes = zip(*dimensions, strict=True)
    system = {"scheduling-policy": "LIFO", "roofline-enabled": 1, "peak-perf": 900, "local-mem-bw": 1600}
    inputs = written(folder, RunFiles([[]], system=system, topology=blocks, npus=sizes))
    return replace(inputs, workload=stage / "workload", groups=stage / "workload.json")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_gets_faster_and_its_compute_stays(stage, cache, tmp_path, name):
    inputs = stage_inputs(stage, tmp_path, NETWORKS[name])
    result, after = planned(inputs, tmp_path / "plan", options=replace(FEW, threads=2), cache=cache, most_messages=1 << 20)
    assert result.time_ns < result.before_ns
    assert [(case.collective, case.algorithm) for case in result.cases if case.algorithm == "native" or case.was_cut_off] == []
    assert sum(case.count for case in result.cases) == result.num_collectives
    report = lint_plan(after)
    assert (report.errors, report.warnings) == ({}, {})
    outcome = replay_run(read_run(after), AWARE)
    assert outcome.end_ns == result.time_ns
    assert not outcome.approximate  # nothing native is left
    assert outcome.replaced.size == 0
    assert outcome.compute_ns.tolist() == [168076] * 8 + [169384] * 8
    for old_rank, new_rank in zip(messages(inputs), messages(after), strict=True):
        new_id = {old.id: new.id for old, new in zip(old_rank, new_rank, strict=True)}
        assert len(set(new_id.values())) == len(new_id)
        for old, new in zip(old_rank, new_rank, strict=True):
            deps = [new_id[dep] for dep in old.ctrl_deps]
            assert list(new.data_deps) == [new_id[dep] for dep in old.data_deps]
            if old.type == NodeType.COMM_COLL:
                assert list(new.ctrl_deps)[: len(deps)] == deps
                assert all(dep in new_id.values() for dep in new.ctrl_deps)
                same = {name: value for name, value in attributes(old).items() if name != "pg_name"}
                kept = {name: value for name, value in attributes(new).items() if name not in ("pg_name", "astra_tacos_group")}
                assert same == kept
            else:
                assert new.id == old.id
                assert list(new.ctrl_deps) == deps
                for node in (old, new):
                    del node.data_deps[:], node.ctrl_deps[:]
                assert old.SerializeToString() == new.SerializeToString()


def test_a_planned_training_step_stays_as_it_is(stage, cache, tmp_path):
    inputs = stage_inputs(stage, tmp_path, NETWORKS["torus"])
    first, after = planned(inputs, tmp_path / "plan", options=FEW, cache=cache)
    second, _ = planned(after, tmp_path / "again", options=FEW, cache=cache)
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")
    assert second.before_ns == second.time_ns == first.time_ns
    assert all(case.from_cache for case in second.cases)


@pytest.mark.golden_cases("e2e_*")
def test_plans_are_no_slower_than_what_was_made_by_hand(golden, golden_case, tmp_path):
    result, after = planned(golden_inputs(golden / golden_case), tmp_path / "plan")
    expected = read_json(golden / golden_case / "expected.json")
    assert result.before_ns == max(expected["finish_ns"])
    assert result.time_ns <= result.before_ns
    assert not lint_plan(after).errors


SPLITS = (("[ Ring, Ring ]", (4, 2)), ("[ Mesh, Mesh ]", (8,)))


@pytest.mark.parametrize(
    ("topology", "split", "backend"),
    some_of([(*split, name) for split in SPLITS for name in ("congestion-unaware", "congestion-aware")], 2),
)
def test_a_generated_run_on_a_network_with_failed_links(tmp_path, topology, split, backend):
    """What is planned is proven, ends as the replay of the written files says, and no later than the run before."""
    network = tmp_path / "n.yml"
    network.write_text(
        "topology: [ Ring, Ring ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 500, 500 ]\n"
        f"astra_tacos: {{ topology: {topology}, failed_links: [ [1, 2], [2, 1] ] }}\n"
    )
    step = Step(small_model(layers=1, hidden=128), Parallelism(*split, order=("dp", "tp", "pp", "ep")))
    inputs = generated_run(tmp_path, step, network)
    plan, after = planned(inputs, tmp_path / "plan", backend=backend, options=QUICK)
    stored = read_json(tmp_path / "plan" / "plan.json")
    assert stored["verified"] and not stored["unchecked"]
    assert replay_run(read_run(after), plan.clock).end_ns == plan.time_ns
    assert plan.before_ns is None or plan.time_ns <= plan.before_ns
    assert stored["bound_ns"] <= plan.time_ns
    assert str(tmp_path) not in " ".join(plan.notes)


TASTES = Tastes(lost=0, empty=0, replay_only=0, same_tag=0, broadcast=0, invalid=0, roofline=0, cycle=0, instant=0)
"""Nothing that would make ASTRA-sim itself stall, whatever its collectives, and no Broadcast, in which it only waits."""
ONE_TRIAL = SearchOptions("tacos", trials=1)
REFUSED = ("where ASTRA-sim stops",)
"""What the run before does as well."""


@given(st.integers(0, 1 << 32))
@example(seed=147)  # a native collective of all ranks, before which ranks begin unequal numbers of others
@examples(10)
def test_a_plan_of_a_random_run(seed):
    rng = random.Random(seed)
    dimensions = rng.choice((*ONE_DIMENSION, *SEVERAL_DIMENSIONS))
    files = random_run(rng, dimensions, rng.randint(2, 14), TASTES).files
    files.system = {key: value for key, value in files.system.items() if "custom" not in key}
    files.per_node, files.collectives = None, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_run(folder, files, dimensions)
        inputs = golden_inputs(folder)
        try:
            result, after = planned(inputs, folder / "plan", options=ONE_TRIAL)
        except ConfigError as error:
            assert any(text in str(error) for text in REFUSED), error
            return
        # What was only a warning in a run that never gets there is an error in one that ends.
        assert set(lint_plan(after).errors) <= {finding.code for finding in lint_plan(inputs).findings}
        if result.before_ns is not None:
            assert result.time_ns <= result.before_ns
        same_or_faster(result, after, folder, ONE_TRIAL)
        # Nothing beats the bound where messages queue, but for delays that ASTRA-sim truncates.
        for run in (read_run(inputs), read_run(after)):
            end_ns = try_replay(run, CONGESTION_AWARE).end_ns
            assert end_ns is None or end_ns >= result.bound_ns
