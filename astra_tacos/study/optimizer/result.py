"""Splits and their times, and what `optimize` says of them.

The best split for real schedules is found by sequential convex programming around the solver. Each iteration measures every
demand at the best split so far, and with each bandwidth somewhat higher and lower. The slopes give a convex model that is
accurate nearby, fixed + sum of load_d / B_d. The iteration then measures the model's best split within a trust region. A better
split becomes the next centre and widens the region, a worse one narrows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.solver.first_use import Progress
from astra_tacos.study.optimizer.measure import Timer
from astra_tacos.study.optimizer.model import Model, Shape, profile_arrays, subnetwork_model
from astra_tacos.study.optimizer.problem import TIME, Problem
from astra_tacos.study.optimizer.solve import Solution
from astra_tacos.support.arrays import Floats
from astra_tacos.support.rows import Figure, Importance, Result, Row, Table, Value, detail, notes_of, size_figure, time_figure
from astra_tacos.support.units import format_time

BEST, EQUAL, INPUT = "best", "equal shares", "input"
_FIRST_REGION = 2.0
"""Factor by which the first steps may move a bandwidth."""
_WIDEST_REGION = 4.0
"""Factor by which any step may move a bandwidth."""
_MOVED = 0.01
"""Relative step below which the search ends."""
_WORTHWHILE = 1e-4
"""The search ends when the model predicts a smaller relative gain than this."""


def _model_result(problem: Problem, solution: Solution) -> dict[str, Any]:
    """The result by LIBRA's model: the best split, equal shares and the split of the input, with their times."""
    model, split = problem.model, solution.split
    splits = {
        name: _split_result(problem, candidate, model.time_ns(candidate))
        for name, candidate in _named_splits(problem, split).items()
    }
    demand_ns = model.demand_ns(split)
    slowest = int(np.argmax(model.compute_ns + model.counts @ demand_ns))
    demands = []
    for number, demand in enumerate(problem.job.demands):
        moved = model.load[number].max(axis=0)
        demands.append(
            {
                "pattern": demand.pattern,
                "size_bytes": demand.size_bytes,
                "members": list(demand.members),
                "count": int(model.counts[slowest, number]),
                "traffic_bytes": moved.tolist(),
                "time_ns": float(demand_ns[number]),
                "slowest_dimension": int(np.argmax(moved / split)),
            }
        )
    profile = problem.job.profiles[slowest]
    return {
        "network": problem.shape.source,
        "shape": problem.shape.describe(),
        "num_npus": problem.shape.num_npus,
        "workload": problem.job.source,
        "objective": problem.objective,
        "constraints": list(dict.fromkeys(constraint.text for constraint in problem.space.constraints)),
        "dollars_per_gbps": None if problem.prices is None else (problem.prices / problem.shape.num_npus).tolist(),
        "splits": splits,
        "gain": gains(splits, BEST),
        "gap": solution.gap,
        "slowest_rank": profile.rank,
        "profiles": len(problem.job.profiles),
        "compute_ns": profile.compute_ns,
        "demands": demands,
        "notes": list(problem.job.notes),
    }


def _split_result(problem: Problem, split: Floats, time_ns: float) -> dict[str, Any]:
    """A split, its time, cost and objective."""
    cost = None if problem.prices is None else float(problem.prices @ split)
    return {
        "bandwidth_gbps": split.tolist(),
        "total_gbps": float(split.sum()),
        "time_ns": time_ns,
        "cost": cost,
        "time_cost": None if cost is None else time_ns * cost,
        "objective": problem.value(split, time_ns),
        "feasible": problem.space.holds(split),
    }


def gains(splits: dict[str, dict[str, Any]], best: str) -> dict[str, float]:
    """For each split, its objective divided by that of the best one."""
    return {
        name: split["objective"] / splits[best]["objective"]
        for name, split in splits.items()
        if name != best and splits[best]["objective"] > 0
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Optimum(Result):
    """The best split of bandwidth, as `optimize` prints it.

    Parameters
    ----------
    figures
        The object that `optimize --json` prints.
    shape
        The network without its bandwidths.

    Examples
    --------
    >>> from astra_tacos import optimize
    >>> optimum = optimize("configs/workload/transformer_16", "configs/network/torus_4x4.yml")
    >>> optimum.write("best.yml").name
    'best.yml'
    """

    figures: dict[str, Any]
    shape: Shape

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return self.figures

    def write(self, path: str | Path) -> Path:
        """Write the network with the best split, as ASTRA-sim reads it, and return the path of its file."""
        self.shape.write(self.best["bandwidth_gbps"], Path(path))
        return Path(path)

    @property
    def best(self) -> dict[str, Any]:
        """The best split with its time, by the best measure that was asked for."""
        judged: dict[str, Any] = self._judged["splits"][self._name]
        return judged

    @property
    def _judged(self) -> dict[str, Any]:
        judged: dict[str, Any] = self.figures.get("refine", self.figures)
        return judged

    @property
    def _name(self) -> str:
        return REFINED if "refine" in self.figures else BEST

    def title(self) -> str:
        """The workload and the network."""
        of = self.figures
        return f"{of['workload']} on {of['network']}: {of['shape']}, {of['num_npus']:,} NPUs"

    def rows(self) -> list[Row]:
        """The best split, its time, what it gains over others, and what is proven of it."""
        of = self.figures
        shares = ", ".join(f"B{dimension} {value:,.2f}" for dimension, value in enumerate(self.best["bandwidth_gbps"]))
        slowest = f" (rank {of['slowest_rank']}, the slowest of {of['profiles']} kinds)" if of["profiles"] > 1 else ""
        objective = "time" if of["objective"] == TIME else "time x cost"
        by_bytes = "by bytes: " if "refine" in of else ""
        proof = f"{by_bytes}no split is better by more than {max(of['gap'], 1e-9):.1e} of the {objective}"
        return [
            Row("best split", note=f"{shares} GB/s"),
            Row("time", format_time(self.best["time_ns"]), note=f"{format_time(of['compute_ns'])} of compute{slowest}"),
            *(Row(f"gain over {name}", f"{gain:.3f} x") for name, gain in self._judged["gain"].items()),
            Row("proof", note=proof),
            detail("constraints", note="; ".join(of["constraints"])),
            *notes_of(of["notes"]),
        ]

    def tables(self) -> list[Table]:
        """The splits by the best measure and by bytes over bandwidth, and the communication at the best split."""
        of, by_bytes = self.figures, "Splits by bytes over bandwidth"
        communication = _demand_table(of["demands"])
        if "refine" not in of:
            return [_split_table(by_bytes, of["splits"]), communication]
        timed = of["refine"]
        if "num_replays" in timed:
            measure = f"{timed['num_replays']} replays of the step, {timed['backend']}"
        else:
            measure = f"{timed['num_schedules']} schedules of {', '.join(timed['synthesizers'])}"
        splits = _split_table(by_bytes, of["splits"], Importance.DETAIL)
        return [_split_table(f"Splits by {measure}", timed["splits"]), splits, communication]


def optimized(problem: Problem, timer: Timer | None, steps: int, progress: Progress) -> Optimum:
    """The best split.

    Parameters
    ----------
    timer
        What refines the split; None to go by bytes over bandwidth alone.
    """
    with progress("solving"):
        solution = problem.solve(problem.model, problem.space)
    result = _model_result(problem, solution)
    if timer is not None:
        with progress("refining") as advance:
            result["refine"] = refined(problem, solution.split, timer, steps, advance)
    return Optimum(result, problem.shape)


def _split_table(title: str, splits: dict[str, dict[str, Any]], importance: Importance = Importance.ANSWER) -> Table:
    """A row for each split."""
    count = len(next(iter(splits.values()))["bandwidth_gbps"])
    costs = ("cost", "time x cost") if any(split["cost"] is not None for split in splits.values()) else ()
    header = ("split", *(f"B{dimension}" for dimension in range(count)), "GB/s per NPU", "time", *costs)
    rows = []
    for name, split in splits.items():
        cost: tuple[Value, ...] = ("",) * len(costs)
        if split["cost"] is not None:
            dollars, dollar_s = split["cost"], split["time_cost"] / 1e9
            cost = (Figure(dollars, f"${dollars:,.0f}", "$"), Figure(dollar_s, f"{dollar_s:,.0f} $s", "$s"))
        label = name if split["feasible"] else f"{name} (breaks a constraint)"
        values = (Figure(value, f"{value:.2f}") for value in (*split["bandwidth_gbps"], split["total_gbps"]))
        rows.append((label, *values, time_figure(split["time_ns"]), *cost))
    return Table(title, header, rows, importance)


def _demand_table(demands: list[dict[str, Any]]) -> Table:
    """A row for each collective at the best split."""
    rows: list[tuple[Value, ...]] = []
    for demand in demands:
        members = " x ".join(str(size) if size > 1 else "-" for size in demand["members"])
        size, time = size_figure(demand["size_bytes"]), time_figure(demand["time_ns"])
        count = Figure(demand["count"], str(demand["count"]))
        rows.append((demand["pattern"], size, members, count, time, f"B{demand['slowest_dimension']}"))
    header = ("collective", "size", "members", "times", "each takes", "limited by")
    return Table("Communication at the best split", header, rows, Importance.DETAIL)


def _named_splits(problem: Problem, split: Floats) -> dict[str, Floats]:
    """The best split, and the splits that it is compared with, by name."""
    equal = problem.equal_shares()
    named = {BEST: split, EQUAL: equal, INPUT: problem.current}
    return {name: candidate for name, candidate in named.items() if candidate is not None}


REFINED = "refined"
BEST_OF_MODEL, BEST_OF_GROUPS = "best by bytes", "best by bytes, of groups"
"""Names of two starts of a refinement: the best split of LIBRA's model, and of that with the bandwidth that groups have."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A measured split, its origin, its time, and whether it was the best so far."""

    origin: str
    split: Floats
    time_ns: float
    is_best: bool


def refine(
    problem: Problem, split: Floats, timer: Timer, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> tuple[Step, ...]:
    """Measure the best splits of both models, equal shares and the split of the input, then search for better splits.

    The result is the last step that was the best so far. The search does not begin at splits outside the space.

    Parameters
    ----------
    on_step
        Called with the number of steps done, and `num_steps`.
    """
    space = problem.space
    steps: list[Step] = []
    best, centre = math.inf, split

    def attempt(origin: str, split: Floats) -> bool:
        nonlocal best, centre
        time_ns = timer.time_ns(split.tolist())
        value = problem.value(split, time_ns)
        is_best = value < best and space.holds(split)
        steps.append(Step(origin, split, time_ns, is_best))
        if is_best:
            best, centre = value, split
        return is_best

    named = _named_splits(problem, split)
    attempt(BEST_OF_MODEL, named.pop(BEST))
    attempt(BEST_OF_GROUPS, problem.solve(subnetwork_model(problem.job, problem.shape), space).split)
    for origin, start in named.items():
        attempt(origin, start)
    region = _FIRST_REGION
    model: Model | None = None
    for number in range(num_steps):
        if on_step is not None:
            on_step(number, num_steps)
        model = model or _local_model(timer, centre)
        split = problem.solve(model, space.around(centre, region)).split
        moved = float(np.abs(np.log(split / centre)).max())
        if moved < _MOVED or problem.value(split, model.time_ns(split)) > best * (1 - _WORTHWHILE):
            break
        if attempt(f"step {number + 1}", split):
            region, model = min(region * 1.3, _WIDEST_REGION), None
        else:
            region = math.exp(moved / 2)
    return tuple(steps)


def _local_model(timer: Timer, split: Floats) -> Model:
    """A model that agrees with the measured times of all demands at a split, and with their slopes by each bandwidth."""
    load, fixed = zip(*(timer.nearby(number, split) for number in range(len(timer.job.demands))), strict=True)
    return Model(np.array(fixed, np.float64), load, *profile_arrays(timer.job))


def refined(
    problem: Problem, split: Floats, timer: Timer, num_steps: int, on_step: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """The result of `refine`: measured times of the starts and of the refined split."""
    steps = refine(problem, split, timer, num_steps, on_step)
    by_origin = {step.origin: step for step in steps}
    chosen = {name: by_origin[name] for name in (BEST_OF_MODEL, EQUAL, INPUT) if name in by_origin}
    chosen[REFINED] = next(step for step in reversed(steps) if step.is_best)
    splits = {name: _split_result(problem, step.split, step.time_ns) for name, step in chosen.items()}
    return timer.to_json() | {
        "splits": splits,
        "gain": gains(splits, REFINED),
        "steps": [
            {"origin": s.origin, "bandwidth_gbps": s.split.tolist(), "time_ns": s.time_ns, "is_best": s.is_best} for s in steps
        ],
    }
