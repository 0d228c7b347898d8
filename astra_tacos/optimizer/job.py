"""A workload as the optimizer models it: the compute of every kind of rank, and the communication that it waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tacos.optimizer.demand import Demand


@dataclass(frozen=True, slots=True)
class Profile:
    """Ranks that do the same, one after the other: `compute_ns` in all, and each demand (by its place) so many times.

    `counts` has one entry per demand of the job; `num_ranks` ranks are like `rank`, the first of them.
    """

    rank: int
    num_ranks: int
    compute_ns: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """Distinct demands of a workload, and the profiles of its ranks; the slowest profile is the time of a step.

    `notes`: what a reader of the results should know.
    """

    source: str
    demands: tuple[Demand, ...]
    profiles: tuple[Profile, ...]
    notes: tuple[str, ...] = field(default=())
