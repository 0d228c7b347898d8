"""The part of a network that the members of a group have to themselves.

Where a group takes all NPUs of a dimension, it has the dimension's links. Where it takes a few, it has less than LIBRA's model
gives it: of a FullyConnected the links between its members, of a Ring a line, or, where members lie apart, a share of the links
between them, which as many groups use as fit in between. A Switch port is an NPU's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.config.network import Dimension
from astra_tacos.optimizer.demand import Demand, stages
from astra_tacos.optimizer.job import Job
from astra_tacos.optimizer.model import Model, profile_arrays
from astra_tacos.optimizer.shape import Shape, link_gibps, links_per_npu, npu_gbps


def sub_dimension(shape: Shape, demand: Demand, dimension: int, gbps: float) -> Dimension:
    """What the members of a demand have of a dimension, where every NPU has `gbps` in it."""
    block, size, latency = shape.blocks[dimension], shape.sizes[dimension], shape.latency_ns[dimension]
    members, stride = demand.members[dimension], demand.strides[dimension]
    bandwidth = link_gibps(block, size, gbps)
    if members == size or block in ("FullyConnected", "Switch"):
        return Dimension(block, members, bandwidth, latency)
    bandwidth, latency = bandwidth / stride, latency * stride
    if block == "Mesh" or members * stride != size:
        return Dimension("Mesh", members, bandwidth, latency)
    both_ways = 2 if members == 2 else 1  # a ring of two is one link each way; here either half of the ring leads there
    return Dimension("Ring", members, bandwidth * both_ways, latency)


def subnetwork(shape: Shape, demand: Demand, split: Sequence[float]) -> tuple[Dimension, ...]:
    """The dimensions that the members of a demand have to themselves."""
    return tuple(sub_dimension(shape, demand, dimension, split[dimension]) for dimension in demand.involved)


def subnetwork_model(job: Job, shape: Shape) -> Model:
    """LIBRA's model with the bandwidth that groups have: m_d / (share of B_d), and latencies."""
    links = [links_per_npu(block, size) for block, size in zip(shape.blocks, shape.sizes, strict=True)]
    fixed, load = [], []
    for demand in job.demands:
        rows = np.zeros((len(demand.involved), shape.num_dimensions))
        for row, stage in enumerate(stages(demand, links)):
            part = sub_dimension(shape, demand, stage.dimension, 1.0)
            share = 1.0 if demand.pattern == "message" else npu_gbps(part)
            rows[row, stage.dimension] = stage.traffic_bytes / share
        load.append(rows)
        fixed.append(sum(shape.latency_ns[dimension] * demand.strides[dimension] for dimension in demand.involved))
    return Model(np.array(fixed, np.float64), tuple(load), *profile_arrays(job))
