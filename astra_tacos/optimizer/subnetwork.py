"""The part of a network that belongs to one group alone.

A group of all NPUs of a dimension has all links of the dimension. A group of some of the NPUs has less than LIBRA's model
assumes: in a FullyConnected the links between its members; in a Ring a line or, if the members are not neighbours, a share of the
links between them, which they divide with the groups that fit in between. A Switch port belongs to one NPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.blocks import building_block
from astra_tacos.config.network import Dimension
from astra_tacos.errors import ConfigError
from astra_tacos.optimizer.demand import MESSAGE, Demand, stages
from astra_tacos.optimizer.job import Job
from astra_tacos.optimizer.model import Model, profile_arrays
from astra_tacos.optimizer.shape import Shape, link_gibps, links_per_npu, npu_gbps


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
    links = [links_per_npu(block, size) for block, size in zip(shape.blocks, shape.sizes, strict=True)]
    fixed, load = [], []
    for demand in job.demands:
        rows = np.zeros((len(demand.involved), shape.num_dimensions))
        latency_ns = 0.0
        for row, stage in enumerate(stages(demand, links)):
            share, latency = 1.0, shape.latency_ns[stage.dimension]
            if demand.pattern != MESSAGE:
                part = sub_dimension(shape, demand, stage.dimension, 1.0)
                share, latency = npu_gbps(part), part.latency_ns
            rows[row, stage.dimension] = stage.traffic_bytes / share
            latency_ns += latency
        load.append(rows)
        fixed.append(latency_ns)
    return Model(np.array(fixed, np.float64), tuple(load), *profile_arrays(job))
