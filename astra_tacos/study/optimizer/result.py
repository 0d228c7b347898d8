"""Splits and their times, as dictionaries and as rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tacos.study.optimizer.model import Floats
from astra_tacos.study.optimizer.problem import TIME, Problem
from astra_tacos.study.optimizer.solve import Solution
from astra_tacos.support.units import format_size, format_time

BEST, EQUAL, INPUT = "best", "equal shares", "input"


def model_result(problem: Problem, solution: Solution) -> dict[str, Any]:
    """The result by LIBRA's model: the best split, equal shares and the split of the input, with their times."""
    model, split = problem.model, solution.split
    splits = {
        name: split_result(problem, candidate, model.time_ns(candidate))
        for name, candidate in named_splits(problem, split).items()
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


def split_result(problem: Problem, split: Floats, time_ns: float) -> dict[str, Any]:
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


def summary_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) that summarise the problem."""
    of = f" of rank {result['slowest_rank']}, slowest of {result['profiles']} kinds" if result["profiles"] > 1 else ""
    rows = [
        ("network", f"{result['network']}: {result['shape']}, {result['num_npus']:,} NPUs"),
        ("workload", f"{result['workload']}: {format_time(result['compute_ns'])} of compute{of}"),
        ("objective", "time" if result["objective"] == TIME else "time x cost"),
        ("constraints", "; ".join(result["constraints"])),
    ]
    rows += [(f"gain over {name}", f"{gain:.3f} x") for name, gain in result["gain"].items()]
    rows.append(("proof", f"no split is better by more than {max(result['gap'], 1e-9):.1e} of the objective"))
    return rows + [("note", note) for note in result["notes"]]


def split_table(splits: dict[str, dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the table of splits."""
    count = len(next(iter(splits.values()))["bandwidth_gbps"])
    header = ("split", *(f"B{dimension}" for dimension in range(count)), "GB/s per NPU", "time", "cost", "time x cost")
    rows = []
    for name, split in splits.items():
        cost = ("", "") if split["cost"] is None else (f"${split['cost']:,.0f}", f"{split['time_cost'] / 1e9:,.0f} $s")
        label = name if split["feasible"] else f"{name} (breaks a constraint)"
        values = (f"{value:.2f}" for value in split["bandwidth_gbps"])
        rows.append((label, *values, f"{split['total_gbps']:.2f}", format_time(split["time_ns"]), *cost))
    return header, rows


def demand_table(result: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the table of communication at the best split."""
    rows: list[tuple[str, ...]] = []
    for demand in result["demands"]:
        members = " x ".join(str(count) if count > 1 else "-" for count in demand["members"])
        size, time = format_size(demand["size_bytes"]), format_time(demand["time_ns"])
        rows.append((demand["pattern"], size, members, str(demand["count"]), time, f"B{demand['slowest_dimension']}"))
    return ("collective", "size", "members", "times", "each takes", "limited by"), rows


def named_splits(problem: Problem, split: Floats) -> dict[str, Floats]:
    """The best split, and the splits that it is compared with, by name."""
    equal = problem.equal_shares()
    named = {BEST: split, EQUAL: equal, INPUT: problem.current}
    return {name: candidate for name, candidate in named.items() if candidate is not None}
