"""Small problems for the optimizer, and naive twins of its models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from astra_tacos.study.optimizer.libra_files import CostModel
from astra_tacos.study.optimizer.model import Demand, Job, Profile, Shape

SHAPE = Shape("small.yml", ("Ring", "FullyConnected", "Switch"), (4, 2, 4), (500.0, 500.0, 500.0), ("A", "B", "C"))
COSTS = CostModel("cost.yml", {"A": {"Link": 2.0}, "B": {"Link": 4.0}, "C": {"Link": 4.0, "Switch": 13.0}}, None)
TENSOR = Demand("all-reduce", 8 << 20, (4, 1, 1), (1, 1, 1))
DATA = Demand("all-reduce", 32 << 20, (1, 2, 4), (1, 1, 1))
EXPERTS = Demand("all-to-all", 4 << 20, (4, 2, 1), (1, 1, 1))
PARAMETERS = Demand("all-gather", 1 << 20, (4, 2, 4), (1, 1, 1))


def job(*demands: Demand, profiles: tuple[tuple[float, tuple[int, ...]], ...] | None = None) -> Job:
    """A job of ranks that differ, or of one profile with each demand once and 1 ms of compute."""
    profiles = profiles or ((1e6, (1,) * len(demands)),)
    ranks = tuple(Profile(rank, 1, compute, counts) for rank, (compute, counts) in enumerate(profiles))
    return Job("job.txt", demands, ranks)


def naive_traffic(demand: Demand) -> list[float]:
    """Bytes per dimension as the paper's text has them, one formula per pattern."""
    moved = []
    for dimension, members in enumerate(demand.members):
        before = float(np.prod(demand.members[:dimension]))
        after = float(np.prod(demand.members[dimension + 1 :]))
        size = demand.size_bytes
        moved.append(
            {
                "all-reduce": 2 * size / before * (members - 1) / members,
                "reduce-scatter": size / before * (members - 1) / members,
                "all-gather": size * after * (members - 1),
                "all-to-all": size * (members - 1) / members,
            }[demand.pattern]
        )
    return moved


def naive_time_ns(job: Job, split: NDArray[np.float64]) -> float:
    """Time of the slowest profile, in plain loops."""
    times = [max(m / b for m, b in zip(naive_traffic(demand), split, strict=True)) for demand in job.demands]
    return max(
        profile.compute_ns + sum(count * time for count, time in zip(profile.counts, times, strict=True))
        for profile in job.profiles
    )


def grid(total: float, num_dimensions: int, steps: int) -> Iterator[NDArray[np.float64]]:
    """Every way to split a total into multiples of total / steps, none of them 0."""
    for chosen in itertools.combinations(range(1, steps), num_dimensions - 1):
        yield np.diff([0, *chosen, steps]) * (total / steps)
