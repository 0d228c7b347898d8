"""The time of a step as a function of the split of bandwidth: convex, and linear in each 1 / B.

A group of all NPUs of a dimension has all links of the dimension. A group of some of the NPUs has less than LIBRA's model
assumes: in a FullyConnected the links between its members; in a Ring a line or, if the members are not neighbours, a share of the
links between them, which they divide with the groups that fit in between. A Switch port belongs to one NPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks import building_block
from astra_tacos.network.network_config import Dimension
from astra_tacos.study.optimizer.shape import MESSAGE, Demand, Job, Shape, link_gibps, npu_gbps, stages, traffic
from astra_tacos.support.errors import ConfigError

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
    load = []
    for demand in job.demands:
        moved = np.array(traffic(demand, shape.links), np.float64)
        load.append(np.diag(moved)[moved > 0])
    return Model(np.zeros(len(job.demands)), tuple(load), *profile_arrays(job))


def profile_arrays(job: Job) -> tuple[Floats, Floats]:
    """`compute_ns` and `counts` of a job's profiles."""
    compute = np.array([profile.compute_ns for profile in job.profiles], np.float64)
    counts = np.array([profile.counts for profile in job.profiles], np.float64).reshape(len(job.profiles), len(job.demands))
    return compute, counts


def sub_dimension(shape: Shape, demand: Demand, dimension: int, gbps: float) -> Dimension:
    """The dimension that the members of a demand have to themselves, if every NPU has `gbps` GB/s in the whole dimension.

    Raises
    ------
    ConfigError
        If the building block does not know the links of such a part.
    """
    block, size, latency = shape.blocks[dimension], shape.sizes[dimension], shape.latency_ns[dimension]
    members, stride = demand.members[dimension], demand.strides[dimension]
    part = building_block(block).shared_part(size, np.arange(members) * stride)
    if part is None:
        raise ConfigError(
            f"{shape.source}: {members} members of a {block} {size} that are {stride} apart have no links that are known to be "
            f"theirs, expected all {size} of them"
        )
    return Dimension(part.block, members, link_gibps(block, size, gbps) * part.bandwidth, latency * part.latency)


def subnetwork(shape: Shape, demand: Demand, split: Sequence[float]) -> tuple[Dimension, ...]:
    """The dimensions that the members of a demand have to themselves, for a split in GB/s per NPU."""
    return tuple(sub_dimension(shape, demand, dimension, split[dimension]) for dimension in demand.involved)


def subnetwork_model(job: Job, shape: Shape) -> Model:
    """LIBRA's model with latencies, and with the bandwidth that each group has to itself: m_d / (share of B_d)."""
    fixed, load = [], []
    for demand in job.demands:
        rows = np.zeros((len(demand.involved), shape.num_dimensions))
        latency_ns = 0.0
        for row, stage in enumerate(stages(demand, shape.links)):
            share, latency = 1.0, shape.latency_ns[stage.dimension]
            if demand.pattern != MESSAGE:
                part = sub_dimension(shape, demand, stage.dimension, 1.0)
                share, latency = npu_gbps(part), part.latency_ns
            rows[row, stage.dimension] = stage.traffic_bytes / share
            latency_ns += latency
        load.append(rows)
        fixed.append(latency_ns)
    return Model(np.array(fixed, np.float64), tuple(load), *profile_arrays(job))
