"""The lengths of the branches of trees, in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing


@dataclass(frozen=True, slots=True)
class Branches:
    """Times of a chunk along trees without congestion; in trees that lead into their roots, against the links' direction.

    Parameters
    ----------
    away_ns
        int64[num_trees, num_npus], from the root to the NPU.
    ahead_ns
        int64[num_trees, num_npus], from the NPU to the last one behind it.
    entry_ns
        int64[num_trees, num_npus], over the channel that joins the NPU to the tree; 0 for the root.
    """

    away_ns: NDArray[np.int64]
    ahead_ns: NDArray[np.int64]
    entry_ns: NDArray[np.int64]


def measure(topology: Topology, timing: Timing, channel: NDArray[np.int32], inward: bool) -> Branches:
    """Measure trees.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    inward
        Whether trees lead into their roots.
    """
    from astra_tacos.synthesizer.packing._packing_kernels import Branches as Results
    from astra_tacos.synthesizer.packing._packing_kernels import walk

    channel_ns = timing.channel_delay_ns[:, -1] + (timing.reduction_ns[-1] if inward else 0)
    away_ns, ahead_ns = np.empty((2, *channel.shape), np.int64)
    walk(channel, inward, topology.channel_src, topology.channel_dst, channel_ns, Results(away_ns, ahead_ns))
    return Branches(away_ns, ahead_ns, np.where(channel >= 0, channel_ns[channel], 0))
