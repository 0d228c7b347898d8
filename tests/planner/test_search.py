"""What the search judges with: one rank for all that are alike, synthesized collectives, and iterations in steady state."""

from __future__ import annotations

import ast
import inspect
import json

import numpy as np
import pytest
from helpers.generated import small_model, write_network
from helpers.plans import candidates_of, generated_run, schedule_run, timed_layer, write_candidate

import astra_tacos.planner.retime.task_reader as reading
from astra_tacos import (
    ConfigError,
    Device,
    LayeredModel,
    LayeredStep,
    Parallelism,
    PlanRequest,
    Step,
    read_run,
    replay_run,
)
from astra_tacos.planner.retime import search as retime_search
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.planner.retime.programs import programs_of
from astra_tacos.planner.retime.request import default_request, parse_schedule
from astra_tacos.planner.retime.search import search
from astra_tacos.planner.retime.steps import steps_of
from astra_tacos.planner.retime.tasks import Programs
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload


def inputs_of(folder, parallelism, steps=2):
    network = write_network(folder / "n.yml", ("FullyConnected", 2), ("Ring", 2), bandwidth=5)
    step = Step(small_model(hidden=256, ffn=1024, layers=2), parallelism, 2, batch=8, steps=steps)
    return generated_run(folder, step, network)


def each_its_own(workload):
    every = np.arange(workload.run.workload.num_ranks)
    number_of = np.full(workload.run.workload.num_nodes, -1)
    number_of[workload.instances.nodes.row] = workload.instances.instance
    return Programs(every, every, number_of)


@pytest.mark.parametrize("parallelism", [Parallelism(dp=4), Parallelism(dp=2, tp=2), Parallelism(dp=2, pp=2)], ids=str)
def test_one_rank_stands_for_all_that_are_alike(parallelism, tmp_path, monkeypatch):
    inputs = inputs_of(tmp_path, parallelism)
    alike = candidates_of(inputs)
    assert len(programs_of(alike.workload).first_rank) == parallelism.pp
    monkeypatch.setattr(reading, "programs_of", each_its_own)
    apart = candidates_of(inputs)
    for schedule in ("fifo", "split:partition=100KB,of=both,priority:credit=300KB", "reorder,decouple", "fuse"):
        requests = parse_schedule(schedule)
        assert alike.make(requests).end_ns == apart.make(requests).end_ns, schedule
        write_candidate(alike, schedule, inputs, tmp_path / schedule)


def test_policies_are_judged_with_synthesized_collectives(tmp_path):
    inputs = inputs_of(tmp_path, Parallelism(dp=2, tp=2))
    (tmp_path / "out").mkdir()
    request = PlanRequest(inputs, schedule="split:partition=200KB,priority")
    result = schedule_run(request, tmp_path / "out", SynthesisCache(None))
    assert not any("DEFECT" in note for note in result.notes), result.notes
    assert result.collectives == "synthesized"
    native = replay_run(find_workload(read_run(inputs)).run)
    assert result.after_ns <= result.as_is_ns < native.end_ns


def test_an_iteration_is_the_period_of_a_long_loop(tmp_path):
    """Three layers of 1 forward, 2 backward, All-Reduces of 1, 2 and 6: FIFO takes 14 a step, an order by need 13."""
    unit_us, unit_bytes = 1000, 4_000_000
    gibps = unit_bytes / (unit_us * 1e-6) / (1 << 30)
    network = write_network(tmp_path / "n.yml", ("FullyConnected", 2), bandwidth=gibps, latency=0.0)
    layers = tuple(timed_layer(size * unit_bytes // 4, unit_us, unit_us, unit_us) for size in (1, 2, 6))
    step = LayeredStep(LayeredModel("loop", layers), Parallelism(dp=2), steps=3)
    inputs = generated_run(tmp_path, step, network, Device(1e6, 1e9, writes_durations=True))
    candidates = candidates_of(inputs, per_iteration=True)
    assert candidates.cost_as_is_ns == pytest.approx(14 * unit_us * 1000, rel=1e-4)
    assert candidates.make(parse_schedule("priority")).cost_ns == pytest.approx(13 * unit_us * 1000, rel=1e-4)
    found = search(candidates, 10, lambda done, total: None)
    assert found.best.cost_ns == pytest.approx(12 * unit_us * 1000, rel=1e-2)
    in_time = [one for one in found.tried if one.cost_ns and (one.end_ns or 0) <= candidates.before.end_ns]
    assert found.best.cost_ns <= min(one.cost_ns for one in in_time)


def test_steps_that_names_do_not_tell_are_refused(tmp_path):
    workload = find_workload(read_run(inputs_of(tmp_path, Parallelism(dp=4), steps=1)))
    with pytest.raises(ConfigError, match="expected names of nodes that begin with step0_"):
        steps_of(workload.run)


@pytest.mark.parametrize("name", POLICIES)
def test_variants_are_values_of_options(name, tmp_path):
    graph, _ = candidates_of(inputs_of(tmp_path, Parallelism(dp=4))).rewritten(())
    variants = [dict(values) for values in POLICIES[name].variants(graph)]
    for values in variants:
        request = default_request(name, **values)
        assert parse_schedule(str(request)) == (request,)
    assert len({json.dumps(values, sort_keys=True) for values in variants}) == len(variants)


UNIT_US = 1000
UNIT_BYTES = 4_000_000
GIBPS = UNIT_BYTES / (UNIT_US * 1e-6) / (1 << 30)
"""An All-Reduce of two ranks sends as many bytes as it has: a unit of bytes takes a unit of time."""

SOLVED = ("fuse:cap=900MB", "fifo", "priority", "split:partition=4000000,priority", "decouple")
EXAMPLES = [
    ((1, 1, 1), (2, 2, 2), (1, 2, 6), (18, 14, 13, 12, 12)),
    ((2, 1, 1), (4, 2, 2), (1, 1, 8), (22, 16, 15, 13, 14.5)),
    ((1,) * 8, (2,) * 8, (3,) * 8, (48, 34, 29, 27, 30.5)),
    ((1, 1, 1), (2, 2, 2), (6, 2, 1), (18, 15, 15, 15, 15)),
]


def training_loop(folder, forward, backward, size, steps):
    """A loop whose layers take these times, with All-Reduces that take these."""
    folder.mkdir(parents=True)
    network = write_network(folder / "n.yml", ("FullyConnected", 2), bandwidth=GIBPS, latency=0.0)
    layers = tuple(
        timed_layer(own * UNIT_BYTES // 4, ahead * UNIT_US, back * UNIT_US / 2, back * UNIT_US / 2)
        for ahead, back, own in zip(forward, backward, size, strict=True)
    )
    step = LayeredStep(LayeredModel("loop", layers), Parallelism(dp=2), steps=steps)
    return generated_run(folder, step, network, Device(1e6, 1e9, writes_durations=True))


@pytest.mark.parametrize(("forward", "backward", "size", "periods"), EXAMPLES)
def test_every_policy_has_its_period(forward, backward, size, periods, tmp_path):
    found = []
    for place, policy in enumerate(SOLVED):
        ends = []
        for steps in (3, 4):
            folder = tmp_path / f"{place}_{steps}"
            inputs = training_loop(folder, forward, backward, size, steps)
            (folder / "new").mkdir()
            result = schedule_run(PlanRequest(inputs, schedule=policy), folder / "new")
            ends.append(result.after_ns)
            if result.is_as_is:  # what is slower than the run as it is, if only by the latency of pieces, is not written
                ends[-1] = next(one.end_ns for one in result.tried if one.end_ns)
            else:
                assert replay_run(read_run(planned_inputs(folder / "new", inputs))).end_ns == result.after_ns
        found.append((ends[1] - ends[0]) / (UNIT_US * 1000))
    assert found == pytest.approx(periods, abs=0.001)


def test_the_search_knows_no_policy_by_name():
    texts = {node.value for node in ast.walk(ast.parse(inspect.getsource(retime_search))) if isinstance(node, ast.Constant)}
    assert not texts & POLICIES.keys()
