"""Hierarchical: reduce-scatter dimension by dimension, then all-gather in reverse order (BlueConnect).

Source: Cho, Finkler, Kung, Hunter, "BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous Network Hierarchy"
(2019); ASTRA-sim's hierarchical collectives.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dimension_order import fastest_over_dimensions


def hierarchical(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Reduce through the dimensions from the first to the last, gather from the last to the first.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """
    orders = np.tile(np.arange(len(topology.dimensions), dtype=np.int8), (collective.num_chunks, 1))
    return fastest_over_dimensions(topology, collective, timing, orders, "hierarchical", seed)
