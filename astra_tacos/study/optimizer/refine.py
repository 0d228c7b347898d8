"""The best split for real schedules: sequential convex programming around the solver.

Each iteration measures every demand at the best split so far, and with each bandwidth somewhat higher and lower. The slopes give
a convex model that is accurate nearby, fixed + sum of load_d / B_d. The iteration then measures the model's best split within a
trust region. A better split becomes the next centre and widens the region, a worse one narrows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.study.optimizer.measure import BY_DIMENSION, MODEL, Measure, Synthesis
from astra_tacos.study.optimizer.model import Floats, Model, profile_arrays, subnetwork_model
from astra_tacos.study.optimizer.problem import Problem
from astra_tacos.study.optimizer.result import BEST, EQUAL, INPUT, gains, named_splits, split_result

REFINED = "refined"
BEST_OF_MODEL, BEST_OF_GROUPS = "best by bytes", "best by bytes, of groups"
"""Names of two starts of a refinement: the best split of LIBRA's model, and of that with the bandwidth that groups have."""
_NUDGE = 1.1
_FIRST_REGION = 2.0
_WIDEST_REGION = 4.0
_MOVED = 0.01
_WORTHWHILE = 1e-4
"""The search ends when the model predicts a smaller relative gain than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A measured split, its origin, its time, and whether it was the best so far."""

    origin: str
    split: Floats
    time_ns: float
    is_best: bool


def refine(
    problem: Problem, split: Floats, measure: Measure, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> tuple[Step, ...]:
    """Measure the best splits of both models, equal shares and the split of the input, then search for better splits.

    The result is the last step that was the best so far. The search does not begin at splits outside the space.

    Parameters
    ----------
    problem
        The problem.
    split
        The best split by LIBRA's model.
    measure
        Measures the times of demands at a split.
    num_steps
        Largest number of improvement steps.
    on_step
        Called with the number of steps done, and `num_steps`.
    """
    space = problem.space
    steps: list[Step] = []
    best, centre = math.inf, split

    def attempt(origin: str, split: Floats) -> bool:
        nonlocal best, centre
        time_ns = measure.time_ns(split.tolist())
        value = problem.value(split, time_ns)
        is_best = value < best and space.holds(split)
        steps.append(Step(origin, split, time_ns, is_best))
        if is_best:
            best, centre = value, split
        return is_best

    named = named_splits(problem, split)
    attempt(BEST_OF_MODEL, named.pop(BEST))
    attempt(BEST_OF_GROUPS, problem.solve(subnetwork_model(problem.job, problem.shape), space).split)
    for origin, start in named.items():
        attempt(origin, start)
    region = _FIRST_REGION
    model: Model | None = None
    for number in range(num_steps):
        if on_step is not None:
            on_step(number, num_steps)
        model = model or local_model(measure, centre)
        split = problem.solve(model, space.around(centre, region)).split
        moved = float(np.abs(np.log(split / centre)).max())
        if moved < _MOVED or problem.value(split, model.time_ns(split)) > best * (1 - _WORTHWHILE):
            break
        if attempt(f"step {number + 1}", split):
            region, model = min(region * 1.3, _WIDEST_REGION), None
        else:
            region = math.exp(moved / 2)
    return tuple(steps)


def local_model(measure: Measure, split: Floats) -> Model:
    """A model that agrees with the measured times of all demands at a split, and with their slopes by each bandwidth."""
    fixed: list[float] = []
    load: list[Floats] = []
    for number, demand in enumerate(measure.job.demands):
        how = measure.how(demand)
        if how == MODEL:
            rows, fixed_ns = measure.model.load[number], float(measure.model.fixed_ns[number])
        elif how == BY_DIMENSION:
            rows, fixed_ns = np.zeros((len(demand.involved), len(split))), 0.0
            for row, (dimension, time_ns) in enumerate(measure.stages_ns(number, split.tolist()).items()):
                rows[row, dimension] = time_ns * split[dimension]
        else:
            rows = np.array([[_slope(measure, number, split, d) * split[d] for d in range(len(split))]])
            fixed_ns = measure.demand_ns(number, split.tolist()) - float(rows[0] @ (1 / split))
        load.append(rows)
        fixed.append(fixed_ns)
    return Model(np.array(fixed, np.float64), tuple(load), *profile_arrays(measure.job))


def _slope(measure: Measure, number: int, split: Floats, dimension: int) -> float:
    """Derivative of a demand's time by B0 / B of a dimension, in ns, 0 or more; B0 is the dimension's bandwidth in `split`."""
    if dimension not in measure.job.demands[number].involved:
        return 0.0
    times = []
    for factor in (_NUDGE, 1 / _NUDGE):
        nudged = split.copy()
        nudged[dimension] *= factor
        times.append(measure.demand_ns(number, nudged.tolist()))
    return max(0.0, (times[1] - times[0]) / (_NUDGE - 1 / _NUDGE))


def refined(
    problem: Problem, split: Floats, synthesis: Synthesis, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """The result of `refine` by schedules of a synthesis: measured times of the starts and of the refined split."""
    measure = Measure(problem.job, problem.shape, synthesis)
    steps = refine(problem, split, measure, num_steps, on_step)
    by_origin = {step.origin: step for step in steps}
    chosen = {name: by_origin[name] for name in (BEST_OF_MODEL, EQUAL, INPUT) if name in by_origin}
    chosen[REFINED] = next(step for step in reversed(steps) if step.is_best)
    splits = {name: split_result(problem, step.split, step.time_ns) for name, step in chosen.items()}
    return {
        "synthesizers": list(measure.synthesis.synthesizers),
        "num_schedules": measure.num_schedules,
        "timed_by": [measure.how(demand) for demand in problem.job.demands],
        "splits": splits,
        "gain": gains(splits, REFINED),
        "steps": [
            {"origin": s.origin, "bandwidth_gbps": s.split.tolist(), "time_ns": s.time_ns, "is_best": s.is_best} for s in steps
        ],
    }
