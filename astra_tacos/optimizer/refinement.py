"""Refinement of the best split of a problem: its starting points, and its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astra_tacos.optimizer.measure import Measure, Synthesis
from astra_tacos.optimizer.model import Floats
from astra_tacos.optimizer.problem import Problem
from astra_tacos.optimizer.refine import Step, refine
from astra_tacos.optimizer.result import BEST, EQUAL, INPUT, gains, named_splits, split_result
from astra_tacos.optimizer.subnetwork import subnetwork_model

REFINED = "refined"
BEST_OF_MODEL, BEST_OF_GROUPS = "best by bytes", "best by bytes, of groups"
"""Names of two starts of a refinement: the best split of LIBRA's model, and of that with the bandwidth that groups have."""


def refine_problem(
    problem: Problem, split: Floats, measure: Measure, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> tuple[Step, ...]:
    """Run `refine` from four starts: the best splits of the two models, equal shares, and the split of the input.

    Parameters
    ----------
    problem
        The problem.
    split
        The best split by the model.
    measure
        Measures the times of demands at a split.
    num_steps
        Largest number of improvement steps.
    on_step
        Called with the number of steps done, and `num_steps`.
    """
    named = named_splits(problem, split)
    groups = problem.solve(subnetwork_model(problem.job, problem.shape), problem.space).split
    starts = {BEST_OF_MODEL: named.pop(BEST), BEST_OF_GROUPS: groups} | named

    def best_split(model, space):  # type: ignore[no-untyped-def]
        return problem.solve(model, space).split

    return refine(measure, problem.space, starts, best_split, problem.value, num_steps, on_step)


def refine_result(problem: Problem, measure: Measure, steps: tuple[Step, ...]) -> dict[str, Any]:
    """The result by schedules: measured times of the starts and of the refined split."""
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


def refined(
    problem: Problem, split: Floats, synthesis: Synthesis, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Refine the best split of a problem's model, and return the result of `refine_result`.

    Parameters
    ----------
    problem
        The problem.
    split
        The best split by the model.
    synthesis
        Synthesizes and times demands.
    num_steps
        Largest number of improvement steps.
    on_step
        Called with the number of steps done, and `num_steps`.
    """
    measure = Measure(problem.job, problem.shape, synthesis)
    return refine_result(problem, measure, refine_problem(problem, split, measure, num_steps, on_step))
