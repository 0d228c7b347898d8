"""The time of a step as a function of the split of bandwidth: convex, and linear in each 1 / B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.optimizer.demand import traffic
from astra_tacos.optimizer.job import Job
from astra_tacos.optimizer.shape import Shape, links_per_npu

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The time of a step in ns, as a function of a split B in GB/s per NPU (bytes per ns).

    A demand c takes demand[c] = fixed[c] + max over rows k of sum_d load[c][k, d] / B_d. A profile p takes
    compute[p] + sum_c counts[p, c] * demand[c]. The step takes the time of the slowest profile.

    Parameters
    ----------
    fixed_ns
        float64[num_demands], the part of each demand's time that no split changes.
    load
        For each demand float64[num_rows, num_dimensions], bytes, 0 or more.
    compute_ns
        float64[num_profiles], compute time of each profile.
    counts
        float64[num_profiles, num_demands], number of times that a profile has each demand.
    """

    fixed_ns: Floats
    load: tuple[Floats, ...]
    compute_ns: Floats
    counts: Floats

    def demand_ns(self, split: Floats) -> Floats:
        """float64[num_demands], time of each demand in ns."""
        rates = 1.0 / split
        slowest = [float((load @ rates).max(initial=0.0)) for load in self.load]
        return self.fixed_ns + np.array(slowest, np.float64)

    def time_ns(self, split: Floats) -> float:
        """Time of the step in ns."""
        return step_ns(self.compute_ns, self.counts, self.demand_ns(split))


def step_ns(compute_ns: Floats, counts: Floats, demand_ns: Floats) -> float:
    """Time of the slowest profile in ns, given the time of each demand."""
    return float((compute_ns + counts @ demand_ns).max())


def libra_model(job: Job, shape: Shape) -> Model:
    """LIBRA's model of a job: a demand takes max_d m_d / B_d, without latencies."""
    links = [links_per_npu(block, size) for block, size in zip(shape.blocks, shape.sizes, strict=True)]
    load = []
    for demand in job.demands:
        moved = np.array(traffic(demand, links), np.float64)
        load.append(np.diag(moved)[moved > 0])
    return Model(np.zeros(len(job.demands)), tuple(load), *profile_arrays(job))


def profile_arrays(job: Job) -> tuple[Floats, Floats]:
    """`compute_ns` and `counts` of a job's profiles."""
    compute = np.array([profile.compute_ns for profile in job.profiles], np.float64)
    counts = np.array([profile.counts for profile in job.profiles], np.float64).reshape(len(job.profiles), len(job.demands))
    return compute, counts


def as_array(split: Sequence[float]) -> Floats:
    """A split as float64[num_dimensions]."""
    return np.array(split, np.float64)
