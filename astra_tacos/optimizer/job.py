"""A workload as the optimizer models it: the compute and the communication of every kind of rank, without overlap."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tacos.optimizer.demand import Demand


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of rank: the sum of its compute times, and the number of times that it has each demand.

    `counts` has one entry per demand of the job; `num_ranks` ranks are alike, and `rank` is the first of them.
    """

    rank: int
    num_ranks: int
    compute_ns: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """The distinct demands of a workload, and the profiles of its ranks. A step takes the time of the slowest profile.

    `notes` are remarks for readers of the results.
    """

    source: str
    demands: tuple[Demand, ...]
    profiles: tuple[Profile, ...]
    notes: tuple[str, ...] = field(default=())
