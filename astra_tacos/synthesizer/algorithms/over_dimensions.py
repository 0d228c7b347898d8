"""Hierarchical: reduce-scatter dimension by dimension, then all-gather in reverse order (BlueConnect).

Source: Cho, Finkler, Kung, Hunter, "BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous Network Hierarchy"
(2019); ASTRA-sim's hierarchical collectives.

Themis: hierarchical, where each chunk visits the dimensions in an order of its own, so that all dimensions are equally busy.

Source: Rashidi, Won, Srinivasan, Sridharan, Krishna, "Themis: A Network Bandwidth-Aware Collective Scheduling Policy for
Distributed Training of DL Models" (ISCA 2022), section 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import Dimension
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.synthesizer.parts.dimension_order import along_dimensions


def hierarchical(problem: Problem, seed: int) -> Schedule:
    """Reduce through the dimensions from the first to the last, gather from the last to the first.

    Parameters
    ----------
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """
    topology, collective = problem.topology, problem.collective
    orders = np.tile(np.arange(len(topology.dimensions), dtype=np.int8), (collective.num_chunks, 1))
    return along_dimensions(problem, orders, "hierarchical", seed)


def themis(problem: Problem, seed: int) -> Schedule:
    """Reduce each chunk through the dimensions in an order of its own, and gather it in the reverse order.

    Parameters
    ----------
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """
    topology, collective = problem.topology, problem.collective
    orders = balanced_orders(topology.dimensions, collective.num_chunks)
    # Chunks go one by one: of those that would leave together, some come later, in another order of dimensions.
    return along_dimensions(problem, orders, "themis", seed, one_by_one=True)


def balanced_orders(dimensions: tuple[Dimension, ...], num_chunks: int) -> NDArray[np.int8]:
    """int8[num_chunks, num_dimensions], the order in which each chunk is reduced.

    The first dimension carries most of a chunk, each later one a share of what is left. So each chunk goes through the least
    loaded dimension first, unless the busiest one would be less so after the plain order, first to last.
    """
    size = [dimension.size for dimension in dimensions]
    # Bandwidth at which an NPU receives along a dimension with its algorithm; in a mesh, that of an NPU at an end.
    rates = [dimension.bandwidth_gibps * dimension.building_block.links_per_npu(dimension.size) for dimension in dimensions]
    time = [(members - 1) / members / rate for members, rate in zip(size, rates, strict=True)]
    plain = list(range(len(dimensions)))
    load = [0.0] * len(dimensions)
    orders = np.empty((num_chunks, len(dimensions)), np.int8)
    for chunk in range(num_chunks):
        choices = []
        for order in (plain, sorted(plain, key=load.__getitem__)):
            after, share = load.copy(), 1.0
            for dimension in order:
                after[dimension] += share * time[dimension]
                share /= size[dimension]
            choices.append((max(after), after, order))
        _, load, orders[chunk] = min(choices, key=lambda choice: choice[0])
    return orders
