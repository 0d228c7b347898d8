"""The solver against oracles that share nothing with it: grids, random splits, and problems with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.splits import COSTS, DATA, EXPERTS, PARAMETERS, SHAPE, TENSOR, grid, job, naive_time_ns, naive_traffic
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.study.optimizer.libra_files import CostModel
from astra_tacos.study.optimizer.model import Demand, Shape, traffic
from astra_tacos.study.optimizer.problem import Limits, make_problem

WORK = job(TENSOR, DATA, EXPERTS, PARAMETERS, profiles=((1e6, (6, 1, 2, 0)), (2e5, (2, 3, 0, 2))))
PRICES = np.array(COSTS.prices(SHAPE)) * SHAPE.num_npus


def asked(objective="time", *constraints, total=300.0, **options):
    return make_problem(
        SHAPE, WORK, Limits(objective=objective, cost_model=COSTS, total_bandwidth=total, constraints=constraints, **options)
    )


def value(objective, split):
    return naive_time_ns(WORK, split) * (float(PRICES @ split) if objective == "time-cost" else 1.0)


def test_traffic_is_the_papers():
    for demand in WORK.demands:
        assert traffic(demand, [2, 1, 1]) == pytest.approx(naive_traffic(demand))
    assert traffic(Demand("message", 1000, (2, 1, 2), (1, 1, 1)), [2, 3, 1]) == (2000, 0, 1000)


@pytest.mark.parametrize("objective", ["time", "time-cost"])
def test_no_split_of_a_grid_is_better(objective):
    problem = asked(objective)
    solution = problem.solve(problem.model, problem.space)
    best = min(value(objective, split) for split in grid(300.0, 3, 120))
    assert solution.objective == pytest.approx(value(objective, solution.split), rel=1e-9)
    assert solution.objective <= best * (1 + 1e-6) and best <= solution.objective * 1.01
    assert solution.bound <= solution.objective and solution.gap < 2e-6


@examples(20)
@given(st.integers(0, 2**32), st.sampled_from(["time", "time-cost"]))
def test_no_feasible_change_is_better(seed, objective):
    random = np.random.default_rng(seed)
    chosen = [("B0 <= 120",), ("B0 >= B1", "B1 + B2 <= 150"), ("B2 == 40",), ("2 * B1 <= B2 + 30", "B0 >= 20")]
    problem = asked(objective, *chosen[int(random.integers(len(chosen)))])
    solution = problem.solve(problem.model, problem.space)
    assert problem.space.holds(solution.split)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            change = random.normal(size=3)
            split = solution.split + (change - change.mean()) * scale * 50
            if problem.space.holds(split):
                assert value(objective, split) >= solution.objective * (1 - 3e-6)


@examples(20)
@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=5), st.floats(1.0, 1e4))
def test_one_collective_gets_bandwidth_by_traffic(traffic_gb, total):
    """With one demand per dimension, weights w: the best B_d is in proportion to sqrt(w_d) (Lagrange)."""
    shape = Shape("n.yml", ("Switch",) * len(traffic_gb), (2,) * len(traffic_gb), (0.0,) * len(traffic_gb))
    one = np.eye(len(traffic_gb), dtype=int)
    demands = [
        Demand("reduce-scatter", int(size), tuple((one[d] + 1).tolist()), (1,) * len(traffic_gb))
        for d, size in enumerate(np.array(traffic_gb) * 1000)
    ]
    problem = make_problem(shape, job(*demands), Limits(total_bandwidth=total, min_bandwidth=total * 1e-7))
    solution = problem.solve(problem.model, problem.space)
    weights = np.sqrt([demand.size_bytes for demand in demands])
    assert solution.split == pytest.approx(total * weights / weights.sum(), rel=1e-3)
    assert solution.objective == pytest.approx(1e6 + weights.sum() ** 2 / 2 / total, rel=1e-7)


def test_a_budget_instead_of_a_total():
    problem = asked(total=None, budget_cost=1e5)
    solution = problem.solve(problem.model, problem.space)
    assert float(PRICES @ solution.split) == pytest.approx(1e5, rel=1e-6)
    equal = problem.equal_shares()
    assert np.ptp(equal) < 1e-6 and float(PRICES @ equal) == pytest.approx(1e5, rel=1e-6)
    assert solution.objective <= naive_time_ns(WORK, equal)


def test_what_is_not_used_gets_the_least():
    problem = make_problem(SHAPE, job(TENSOR), Limits(total_bandwidth=300.0, min_bandwidth=2.0))
    assert problem.solve(problem.model, problem.space).split == pytest.approx([296, 2, 2])


@pytest.mark.parametrize(
    ("constraints", "total", "message"),
    [
        (("B0 >= 200", "B1 >= 200"), 300.0, "no split of at least 0.1 GB/s each satisfies total == 300.0; B0 >= 200; B1 >= 200"),
        (("B0 <= 0",), 300.0, "no split"),
        (("B0 <= 10",), None, "nothing limits B1"),
        (("B0 >= B1",), None, "nothing limits B0"),
        (("B0 <= 1e999",), None, "too large"),
    ],
)
def test_impossible_and_endless_problems(constraints, total, message):
    with pytest.raises(ConfigError, match=message):
        asked("time", *constraints, total=total)


def test_bad_numbers_and_missing_costs():
    free = CostModel("cost.yml", {tier: dict.fromkeys(parts, 0.0) for tier, parts in COSTS.tiers.items()}, None)
    for work, limits, message in (
        (WORK, Limits(cost_model=COSTS, total_bandwidth=-1.0), "expected"),
        (WORK, Limits(cost_model=COSTS, total_bandwidth=float("inf")), "expected"),
        (WORK, Limits(cost_model=COSTS, min_bandwidth=0.0), "expected"),
        (WORK, Limits(cost_model=COSTS, objective="speed"), "expected"),
        (WORK, Limits(total_bandwidth=5.0, objective="time-cost"), "no cost model"),
        (WORK, Limits(total_bandwidth=5.0, budget_cost=5.0), "no cost model"),
        (WORK, Limits(cost_model=free, total_bandwidth=5.0, objective="time-cost"), "every dimension is free"),
        (job(profiles=((1.0, ()),)), Limits(total_bandwidth=5.0), "no communication"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_problem(SHAPE, work, limits)
