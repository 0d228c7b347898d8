"""Refinement: measured times are those of real schedules, and the result is never worse than where it began."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.generated import small_model, write_network
from helpers.splits import DATA, EXPERTS, SHAPE, TENSOR, job

from astra_tacos import (
    ConfigError,
    NetworkConfig,
    Parallelism,
    SearchOptions,
    SynthesisError,
    build_topology,
    chunked_lower_bound,
    compute_timing,
    generate,
    make_collective,
)
from astra_tacos import Step as TrainingStep
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import choose_link_model
from astra_tacos.study.optimizer.measure import BY_DIMENSION, MODEL, SCHEDULE, Measure, Replays, Synthesis, check_synthesis
from astra_tacos.study.optimizer.model import Demand, subnetwork, subnetwork_model
from astra_tacos.study.optimizer.problem import Limits, ProblemFiles, make_problem
from astra_tacos.study.optimizer.result import REFINED, refine
from astra_tacos.study.optimizer.result import refined as refined_result

HALF = Demand("all-reduce", 16 << 20, (1, 1, 2), (1, 1, 2))


def problem(work, *constraints):
    return make_problem(SHAPE, work, Limits(total_bandwidth=300.0, constraints=constraints))


def refined(asked, synthesis, steps=4):
    measure = Measure(asked.job, asked.shape, synthesis)
    return measure, refine(asked, asked.solve(asked.model, asked.space).split, measure, steps)


def test_never_worse_and_repeatable():
    asked = problem(job(TENSOR, DATA, HALF), "B0 <= 250")
    synthesis = Synthesis(options=SearchOptions(chunks_per_npu=2, trials=1))
    _, steps = refined(asked, synthesis)
    best = [step for step in steps if step.is_best]
    assert best[-1].time_ns == min(step.time_ns for step in steps if asked.space.holds(step.split))
    assert all(asked.space.holds(step.split) for step in best)
    result = refined_result(asked, steps[0].split, Measure(asked.job, SHAPE, synthesis), 4)
    assert result["splits"][REFINED]["time_ns"] == best[-1].time_ns and all(gain >= 1 for gain in result["gain"].values())
    _, again = refined(asked, synthesis)
    assert [step.time_ns for step in steps] == [step.time_ns for step in again]


def test_times_are_those_of_schedules():
    measure = Measure(job(TENSOR, DATA), SHAPE, Synthesis(options=SearchOptions(chunks_per_npu=4, trials=1)))
    split = [100.0, 50.0, 25.0]
    for number, demand in enumerate(measure.job.demands):
        topology = build_topology(NetworkConfig("n.yml", subnetwork(SHAPE, demand, split)))
        collective = make_collective(demand.pattern, topology.num_npus, demand.size_bytes, 4)
        timing = compute_timing(topology, collective, choose_link_model(topology)[0])
        bound = chunked_lower_bound(Problem(topology, collective, timing)).time_ns
        assert bound <= measure.demand_ns(number, split) <= 2 * bound
    # One dimension at a time, LIBRA's time is within reach of a schedule: 2 (n - 1) / n of the bytes at full rate.
    assert measure.demand_ns(0, split) == pytest.approx(2 * TENSOR.size_bytes * 3 / 4 / 100.0, rel=0.01)
    made = measure.num_schedules
    measure.time_ns(split)
    assert measure.num_schedules == made  # remembered


def test_large_groups_are_timed_by_dimension():
    measure = Measure(job(TENSOR, DATA), SHAPE, Synthesis(max_npus=4))
    assert [measure.how(demand) for demand in measure.job.demands] == [SCHEDULE, BY_DIMENSION]
    split = [100.0, 50.0, 25.0]
    parts = measure.stages_ns(1, split)
    assert set(parts) == {1, 2} and measure.demand_ns(1, split) == max(parts.values())
    assert parts[2] == pytest.approx(2 * DATA.size_bytes / 2 * 3 / 4 / 25.0, rel=0.02)
    _, steps = refined(problem(job(TENSOR, DATA)), Synthesis(max_npus=4), 2)
    assert min(step.time_ns for step in steps) == next(step.time_ns for step in reversed(steps) if step.is_best)
    assert Measure(job(DATA), SHAPE, Synthesis(max_npus=2)).how(DATA) == MODEL


def test_what_cannot_be_synthesized_is_modelled():
    message = Demand("message", 1000, (2, 1, 2), (1, 1, 1))
    measure = Measure(job(message, EXPERTS), SHAPE, Synthesis(synthesizers=("themis",)))
    assert measure.how(message) == measure.how(EXPERTS) == MODEL
    assert measure.demand_ns(0, [100.0, 1.0, 25.0]) == 1000 + 1000 / 25
    assert measure.demand_ns(1, [100.0, 50.0, 25.0]) == pytest.approx(1000 + EXPERTS.size_bytes * max(0.75 / 100, 0.5 / 50))


def test_groups_of_a_part_of_a_dimension_get_a_part_of_it():
    part = Demand("all-reduce", 1 << 20, (2, 1, 1), (1, 1, 1))
    model = subnetwork_model(job(part), SHAPE)
    # A line of two in a ring of four: one link of the two.
    assert model.demand_ns(np.array([100.0, 1.0, 1.0])) == pytest.approx([500 + (1 << 20) / 50.0])


def test_bad_questions():
    with pytest.raises(ConfigError, match="synthesizer: found 'magic', expected symmetric"):
        check_synthesis(Synthesis(("tacos", "magic")))
    wide = Demand("all-reduce", 1 << 20, (3, 1, 1), (1, 1, 1))
    with pytest.raises(SynthesisError, match="halving-doubling"):
        Measure(job(wide), SHAPE, Synthesis(("halving-doubling",))).demand_ns(0, [1.0, 1.0, 1.0])


def test_no_split_of_a_grid_is_better_than_the_one_by_replays(tmp_path):
    write_network(tmp_path / "n.yml", ("FullyConnected", 2), ("Ring", 4), ("Switch", 4))
    step = TrainingStep(small_model(), Parallelism(4, 2, 4, order=("tp", "ep", "pp", "dp")), 4)
    generate(step, tmp_path / "run", network=tmp_path / "n.yml", compact=True)
    shape, work, current, run = ProblemFiles(tmp_path / "run", network=tmp_path / "n.yml").read()
    asked, timer = make_problem(shape, work, Limits(), current), Replays(run, shape, None)
    steps = refine(asked, asked.solve(asked.model, asked.space).split, timer, 10)
    best = next(step for step in reversed(steps) if step.is_best)
    parts = [(one, two, 12 - one - two) for one in range(1, 11) for two in range(1, 12 - one)]
    grid = min(timer.time_ns([sum(current) * part / 12 for part in each]) for each in parts)
    assert best.time_ns <= 1.005 * grid
